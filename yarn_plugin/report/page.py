"""A page and its blocks, charts and tables aside: one HTML file that needs nothing else."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from yarn_plugin import files
from yarn_plugin.errors import ReportedError
from yarn_plugin.report.markup import Block, Ids, Markup, join, tag, verbatim
from yarn_plugin.report.table import Badge, Tone


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph. A "lead" says what matters most, a "warning" what limits it."""

    text: str
    kind: Literal["plain", "lead", "muted", "warning"] = "plain"

    def html(self, ids: Ids) -> Markup:
        """The paragraph as HTML."""
        return tag("p", self.text, class_=self.kind)


@dataclass(frozen=True, slots=True)
class Code:
    """Text in its own lines and spaces, such as a query."""

    text: str

    def html(self, ids: Ids) -> Markup:
        """The text as HTML."""
        return tag("pre", tag("code", self.text), tabindex="0")


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One figure that a reader looks for first, with its unit."""

    label: str
    value: str
    note: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """Key figures side by side."""

    figures: tuple[KeyFigure, ...]

    def html(self, ids: Ids) -> Markup:
        """The figures as HTML."""
        return tag("dl", *map(_key_figure, self.figures), class_="key-figures")


def _key_figure(figure: KeyFigure) -> Markup:
    return tag(
        "div",
        tag("dt", figure.label),
        tag("dd", figure.value, class_=f"value {figure.tone}"),
        tag("dd", figure.note, class_="muted") if figure.note else None,
    )


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that are shown when asked for."""

    summary: str
    blocks: tuple[Block, ...]
    open: bool = False

    def html(self, ids: Ids) -> Markup:
        """The blocks as HTML."""
        return tag("details", tag("summary", self.summary), *(block.html(ids) for block in self.blocks), open=self.open)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Blocks next to each other where the page is wide enough."""

    blocks: tuple[Block, ...]

    def html(self, ids: Ids) -> Markup:
        """The blocks as HTML."""
        return tag("div", *(block.html(ids) for block in self.blocks), class_="side-by-side")


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened: when, what, how it ended; more behind it."""

    when: str
    what: str
    badge: Badge
    aside: str = ""
    blocks: tuple[Block, ...] = ()
    open: bool = False


@dataclass(frozen=True, slots=True)
class Entries:
    """What happened, in order; each entry opens."""

    entries: tuple[Entry, ...]
    empty: str = "Nothing happened."

    def html(self, ids: Ids) -> Markup:
        """The entries as HTML."""
        if not self.entries:
            return tag("p", self.empty, class_="muted")
        return tag("ol", *(tag("li", _entry(entry, ids)) for entry in self.entries), class_="entries")


def _entry(entry: Entry, ids: Ids) -> Markup:
    line = join(
        tag("span", entry.when, class_="when"),
        tag("span", entry.what, class_="what"),
        tag("span", entry.aside, class_="aside"),
        entry.badge.html(),
    )
    if not entry.blocks:
        return tag("div", line, class_="entry")
    return tag(
        "details",
        tag("summary", line, class_="entry"),
        tag("div", *(block.html(ids) for block in entry.blocks), class_="more"),
        open=entry.open,
    )


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page under a heading; sections in it have smaller ones."""

    title: str
    blocks: tuple[Block, ...]

    def html(self, ids: Ids) -> Markup:
        """The section as HTML, under a heading of the second rank."""
        return self.under(ids, ids.new("section"), 2)

    def under(self, ids: Ids, name: str, rank: int) -> Markup:
        """The section as HTML, named and with a heading of this rank."""
        inside = (
            block.under(ids, ids.new("section"), min(rank + 1, 6)) if isinstance(block, Section) else block.html(ids)
            for block in self.blocks
        )
        title = ids.new("title")
        return tag("section", tag(f"h{rank}", self.title, id=title), *inside, id=name, aria_labelledby=title)


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
