"""HTML elements from text: everything that is not `Markup` already is escaped on the way in."""

from typing import Protocol

from markupsafe import Markup, escape

__all__ = ["Block", "Ids", "Markup", "join", "tag", "verbatim"]

VOID = frozenset({"meta", "br"})

Attribute = str | int | float | bool | None


def tag(name: str, /, *children: str | None, **attributes: Attribute) -> Markup:
    """An element. Children that are not `Markup` are escaped; None is left out, and False among the attributes.

    Attribute names are those of HTML, with `_` for `-`, and `class_` for `class`.
    """
    start = Markup(f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>")
    return start if name in VOID else start + join(*children) + Markup(f"</{name}>")


def join(*children: str | None) -> Markup:
    """Elements and texts one after the other."""
    return Markup("").join(_printable(child) for child in children if child is not None)


def verbatim(text: str) -> Markup:
    """The product's own style and script, which must not be escaped. Never for text from outside.

    Raises:
        ValueError: the text could end the element that holds it.
    """
    if "</" in text:
        raise ValueError("a style or script that could end its element")
    return Markup(text)


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{escape(_printable(text))}"'


def _printable(text: str) -> str:
    """Replace control characters, which HTML forbids."""
    if isinstance(text, Markup):
        return text
    return "".join(letter if letter >= " " or letter in "\n\t" else "�" for letter in text)


class Ids:
    """Element ids that are unique within one page."""

    def __init__(self) -> None:
        self._given = 0

    def new(self, kind: str) -> str:
        """The next unused id of this kind."""
        self._given += 1
        return f"{kind}-{self._given}"


class Block(Protocol):
    """A part of a page that renders itself."""

    def html(self, ids: Ids) -> Markup:
        """The part as HTML."""
        ...
