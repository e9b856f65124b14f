"""Checks for every HTML page: well-formed, no external references, ids unique and present."""

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img", "input", "hr"}
REFERRING = ("aria-labelledby", "aria-describedby")


class Parsed(HTMLParser):
    """A page, taken apart."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.problems: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.problems.append(f"<{tag}> has an attribute twice: {names}")
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> ends what is not open")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.texts.append(data)

    @property
    def text(self) -> str:
        """What a person reads, with spaces as one."""
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        """The elements of a kind that have these attributes."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}.items()
        return [found for name, found in self.elements if name == tag and wanted <= found.items()]

    def classes(self) -> set[str]:
        """All style classes in use."""
        return {name for _, attributes in self.elements for name in (attributes.get("class") or "").split()}


def checked(html: str) -> Parsed:
    """The page, once the checks have passed."""
    parsed = Parsed()
    parsed.feed(html)
    parsed.close()
    assert parsed.problems == []
    assert parsed.open == []
    ids = [value for _, attributes in parsed.elements if (value := attributes.get("id"))]
    assert len(ids) == len(set(ids)), "an id is given twice"
    for tag, attributes in parsed.elements:
        for name in REFERRING:
            assert set((attributes.get(name) or "").split()) <= set(ids), (tag, attributes)
        assert not {"src", "srcset", "xlink:href", "action"} & attributes.keys(), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        if "href" in attributes:
            assert str(attributes["href"]).removeprefix("#") in ids
        for value in attributes.values():
            assert "nan" not in re.split(r"[\s,]", (value or "").lower()) or tag in ("g", "td", "th"), (tag, attributes)
    own = re.sub(r"<(td|th|text|title|desc|code|p|span)\b.*?</\1>", "", html, flags=re.S)
    assert not re.search(r"https?://|url\(|@import", own)
    style = html.partition("<style>")[2].partition("</style>")[0]
    assert {name for name in parsed.classes() if f".{name}" not in style} <= {"plain"}, "a class without a style"
    for drawing in parsed.all("svg", role="img"):
        assert drawing["aria-labelledby"]
        assert drawing["aria-describedby"]
    return parsed
