"""A page: one file, which needs nothing else, today or in ten years."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from yarn_plugin import files
from yarn_plugin.errors import ReportedError
from yarn_plugin.report.blocks import Section
from yarn_plugin.report.markup import Block, Ids, Markup, join, tag, verbatim

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""What a browser may load for a page: nothing."""


class ReportError(ReportedError):
    """A page cannot be made or written."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page: what it is about, what matters most (`top`), and its sections; `made`: when and by what, at its end."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    top: tuple[Block, ...] = ()
    made: str = ""


def render(page: Page) -> str:
    """The page as HTML."""
    ids = Ids()
    sections = [(section, ids.new("section")) for section in page.sections]
    header = tag("header", tag("h1", page.title), tag("p", page.subtitle, class_="subtitle"))
    body = tag(
        "body",
        tag("a", "To the content", href="#main", class_="skip"),
        header,
        _contents(sections),
        tag(
            "main",
            *(block.html(ids) for block in page.top),
            *(section.under(ids, name, 2) for section, name in sections),
            id="main",
        ),
        tag("footer", page.made) if page.made else None,
        tag("div", id="tip", role="status", hidden=True),
        tag("script", _own("script.js")),
    )
    return f"<!DOCTYPE html>\n{tag('html', _head(page), body, lang='en')}\n"


def write(page: Page, path: Path) -> None:
    """Write the page, whole or not at all.

    Raises:
        ReportError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, render(page))
    except OSError as problem:
        raise ReportError(f"report {str(path)!r}: {problem.strerror}") from None


def _head(page: Page) -> Markup:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", page.title),
        tag("style", _own("style.css")),
    )


def _contents(sections: list[tuple[Section, str]]) -> Markup | None:
    if len(sections) < 3:
        return None
    links = (tag("li", tag("a", section.title, href=f"#{name}")) for section, name in sections)
    return tag("nav", tag("ul", *links), aria_label="Contents")


def _own(name: str) -> Markup:
    return join("\n", verbatim(resources.files("yarn_plugin.report").joinpath(name).read_text(encoding="utf-8")))
