"""Text that is HTML already, and how it is made: everything else is escaped on the way in."""

from html import escape
from typing import Protocol

VOID = frozenset({"meta", "br"})


class Markup(str):
    """HTML. Only this module makes it from other text."""

    __slots__ = ()


Attribute = str | int | float | bool | None


def tag(name: str, /, *children: str | None, **attributes: Attribute) -> Markup:
    """An element. Children that are not `Markup` are escaped; None is left out, of attributes False too.

    Attribute names as in HTML, with `_` for `-`, and `class_` for `class`.
    """
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}"
    if name in VOID:
        return Markup(f"{opened}>")
    return Markup(f"{opened}>{join(*children)}</{name}>")


def join(*children: str | None) -> Markup:
    """Elements and texts one after the other."""
    return Markup("".join(_text(child) for child in children if child is not None))


def verbatim(text: str) -> Markup:
    """The product's own style and script, which must not be escaped. Never for anything that was read."""
    if "</" in text:
        raise ValueError("a style or script that could end its element")
    return Markup(text)


def _text(child: str) -> str:
    return child if isinstance(child, Markup) else escape(_printable(child), quote=False)


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{escape(_printable(text))}"'


def _printable(text: str) -> str:
    """Without control characters, which HTML forbids."""
    return "".join(letter if letter >= " " or letter in "\n\t" else "�" for letter in text)


class Ids:
    """Names for the elements of one page, each given once."""

    def __init__(self) -> None:
        self._given = 0

    def new(self, kind: str) -> str:
        """A new name."""
        self._given += 1
        return f"{kind}-{self._given}"


class Block(Protocol):
    """A part of a page."""

    def html(self, ids: Ids) -> Markup:
        """The part as HTML."""
        ...
