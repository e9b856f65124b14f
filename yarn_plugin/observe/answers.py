"""The ResourceManager's JSON answers: their structure, and the lists in them in each of their forms."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from yarn_plugin.observe import fields
from yarn_plugin.observe.fields import UnreadableItemError, as_list
from yarn_plugin.observe.resource_manager import EXPECTED, NotAManagerError, unreadable

Json = Any
Item = TypeVar("Item")

MAX_DEPTH = 50
"""Of nested queues and activities."""


class ParsedItems(dict[str, Item], Generic[Item]):
    """The items of an answer by id.

    `unreadable`: the errors of unreadable items by id. `without_id`: the errors of items whose id is unreadable.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: dict[str, str] = {}
        self.without_id: list[str] = []


def not_an_answer(path: str, problem: str = "") -> NotAManagerError:
    """The error for an answer that no ResourceManager gives at this path; `problem`: what is wrong with it."""
    if problem:
        return NotAManagerError(unreadable(path, problem))
    return NotAManagerError(f"the answer to {path} is not a ResourceManager's; --rm {EXPECTED}")


def as_object(value: Json, path: str) -> dict[str, Json]:
    """A JSON object at a path.

    Raises:
        NotAManagerError: it is something else.
    """
    if not isinstance(value, dict):
        raise not_an_answer(path)
    return value


def unwrapped(answer: Json, outer: str) -> dict[str, Json]:
    """The object at answer[outer], or the answer itself if it is bare; empty if there is no object."""
    value = answer.get(outer, answer)
    return value if isinstance(value, dict) else {}


def items_at(answer: Json, outer: str, inner: str) -> list[Json]:
    """The list at answer[outer][inner] or answer[inner]; empty if answer[outer] is null or empty.

    Raises:
        NotAManagerError: there is no list.
    """
    path = f"/{outer}"
    if outer in answer:
        wrapped = answer[outer]
        if wrapped is None or wrapped == {}:
            return []
        found = as_object(wrapped, path)
        if inner not in found:
            others = ", ".join(fields.encodable(name)[:80] for name in list(found)[:3])
            raise not_an_answer(path, f"`{outer}` has no list `{inner}`, but {others}")
        return _items(found[inner], inner, path) if found[inner] is not None else []
    if inner not in answer:
        raise not_an_answer(path)
    return _items(answer[inner], inner, path)


def _items(value: Json, name: str, path: str) -> list[Json]:
    if not isinstance(value, list | dict):
        raise not_an_answer(path, f"`{name}` is {fields.shortened(value)}, not a list")
    return as_list(value)


class Remembered(Generic[Item]):
    """The items of the last answer, by id, with what they were parsed from: the same need not be parsed again.

    `read`: all that parsing reads of an item but its id, to be compared. An item without one of these fields is always
    parsed.
    """

    def __init__(self, read: Callable[[dict[str, Json]], Json]) -> None:
        self._read = read
        self._items: dict[str, tuple[Json, Item]] = {}
        self._next: dict[str, tuple[Json, Item]] = {}

    def begin(self) -> None:
        """A new answer follows."""
        self._items, self._next = self._next, {}

    def item(self, name: Json, content: dict[str, Json]) -> Item | None:
        """The item with this id, if it has not changed since the last answer."""
        known = self._items.get(name) if isinstance(name, str) else None
        try:
            if known is None or known[0] != self._read(content):
                return None
        except KeyError:
            return None
        self._next[name] = known
        return known[1]

    def note(self, name: str, content: dict[str, Json], item: Item) -> None:
        """An item that was parsed."""
        try:
            self._next[name] = self._read(content), item
        except KeyError:
            return


def parse_items(
    items: list[Json],
    id_field: str,
    parse: Callable[[dict[str, Json]], Item | None],
    remembered: Remembered[Item] | None = None,
) -> ParsedItems[Item]:
    """The readable items, except those for which `parse` returns None."""
    parsed = ParsedItems[Item]()
    if remembered is not None:
        remembered.begin()
    for raw in items:
        try:
            if not isinstance(raw, dict):
                raise UnreadableItemError(f"{fields.shortened(raw)} is not an object")
            if remembered is not None and (same := remembered.item(raw.get(id_field), raw)) is not None:
                parsed[raw[id_field]] = same
                continue
            name = fields.identifier(raw, id_field)
        except UnreadableItemError as problem:
            parsed.without_id.append(str(problem))
            continue
        try:
            item = parse(raw)
        except UnreadableItemError as problem:
            parsed.unreadable[name] = str(problem)
        else:
            if item is not None:
                parsed[name] = item
                if remembered is not None:
                    remembered.note(name, raw, item)
    return parsed
