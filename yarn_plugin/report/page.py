"""A page as one HTML file, and its blocks other than charts and tables."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from yarn_plugin import files
from yarn_plugin.errors import ReportedError, os_reason
from yarn_plugin.report.markup import Block, Ids, Markup, join, tag, verbatim
from yarn_plugin.report.table import Badge, Tone


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph. "lead": the main result; "warning": a limitation of it."""

    text: str
    kind: Literal["plain", "lead", "muted", "warning"] = "plain"

    def html(self, ids: Ids) -> Markup:
        """The paragraph as HTML."""
        return tag("p", self.text, class_=self.kind)


@dataclass(frozen=True, slots=True)
class Code:
    """Preformatted text, such as a query."""

    text: str

    def html(self, ids: Ids) -> Markup:
        """The text as HTML."""
        return tag("pre", tag("code", self.text), tabindex="0")


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A figure that matters most to a reader, with its unit."""

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
    """Blocks that a reader can expand."""

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
    """An event: when, what, and its outcome; `blocks` can be expanded."""

    when: str
    what: str
    badge: Badge
    aside: str = ""
    blocks: tuple[Block, ...] = ()
    open: bool = False


@dataclass(frozen=True, slots=True)
class Entries:
    """Events in order, each of which can be expanded."""

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
    """A part of a page under a heading; nested sections have smaller headings."""

    title: str
    blocks: tuple[Block, ...]

    def html(self, ids: Ids) -> Markup:
        """The section as HTML, under a heading of level 2."""
        return self.under(ids, ids.new("section"), 2)

    def under(self, ids: Ids, name: str, level: int) -> Markup:
        """The section as HTML, with this id and a heading of this level."""
        inside = (
            block.under(ids, ids.new("section"), min(level + 1, 6)) if isinstance(block, Section) else block.html(ids)
            for block in self.blocks
        )
        title = ids.new("title")
        return tag("section", tag(f"h{level}", self.title, id=title), *inside, id=name, aria_labelledby=title)


POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""The content security policy of a page: a browser may load nothing."""


class ReportError(ReportedError):
    """A page cannot be made or written."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page: title, the most important blocks (`top`), and sections; `made`: when and by what it was made.

    `reload_s`: a browser loads the page again so often, while it is visible and its reader has expanded nothing.
    """

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    top: tuple[Block, ...] = ()
    made: str = ""
    reload_s: int | None = None


def render(page: Page) -> str:
    """The page as HTML."""
    ids = Ids()
    sections = [(section, ids.new("section")) for section in page.sections]
    header = tag("header", tag("h1", page.title), tag("p", page.subtitle, class_="subtitle"))
    body = tag(
        "body",
        tag("a", "Skip to content", href="#main", class_="skip"),
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
        data_reload_s=page.reload_s,
    )
    return f"<!DOCTYPE html>\n{tag('html', _head(page), body, lang='en')}\n"


def write(page: Page, path: Path, mode: int = 0o666) -> None:
    """Write the page to a file with these permissions, less the umask, atomically.

    Raises:
        ReportError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, render(page), mode)
    except OSError as problem:
        raise not_written(path, problem) from None


def not_written(path: Path, problem: OSError) -> ReportError:
    """The error of a page that could not be written."""
    return ReportError(f"report {str(path)!r}: cannot be written ({os_reason(problem)})")


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
