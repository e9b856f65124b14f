"""Answers of the ResourceManager as a whole: what is one, and the lists in it, in each of their forms."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from yarn_plugin.observe import fields
from yarn_plugin.observe.fields import UnreadableItemError
from yarn_plugin.observe.resource_manager import EXPECTED, NotAManagerError

Json = Any
Item = TypeVar("Item")

MAX_DEPTH = 50
"""Of what lies in its like: queues in queues, activities in activities."""


class Reading(dict[str, Item], Generic[Item]):
    """The items of an answer by id.

    `unreadable`: why others could not be read, by their id. `nameless`: why those were not whose very id could not be.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: dict[str, str] = {}
        self.nameless: list[str] = []


def not_an_answer(path: str) -> NotAManagerError:
    """What to raise for something at a path that no ResourceManager says."""
    return NotAManagerError(f"the answer to {path} is not a ResourceManager's; {EXPECTED}")


def as_object(value: Json, path: str) -> dict[str, Json]:
    """An object of JSON, at a path.

    Raises:
        NotAManagerError: it is none.
    """
    if not isinstance(value, dict):
        raise not_an_answer(path)
    return value


def unwrapped(answer: Json, outer: str) -> dict[str, Json]:
    """The object at answer[outer], or the answer itself where it comes bare; empty where there is no object."""
    held = answer.get(outer, answer)
    return held if isinstance(held, dict) else {}


def each(value: Json) -> list[Json]:
    """A list; one item where the ResourceManager writes a list of one without brackets; empty where it is null."""
    return value if isinstance(value, list) else [] if value is None else [value]


def objects(value: Json) -> list[dict[str, Json]]:
    """The objects of a list (see `each`); other items are passed over."""
    return [one for one in each(value) if isinstance(one, dict)]


def listed(answer: Json, outer: str, inner: str) -> list[Json]:
    """The list at answer[outer][inner] or answer[inner]; empty where answer[outer] is null or has nothing in it.

    Raises:
        NotAManagerError: there is none.
    """
    path = f"/{outer}"
    if outer in answer:
        held = answer[outer]
        if held is None or held == {}:
            return []
        found = as_object(held, path)
        if inner not in found:
            raise not_an_answer(path)
        return _items(found[inner], path) if found[inner] is not None else []
    if inner not in answer:
        raise not_an_answer(path)
    return _items(answer[inner], path)


def _items(value: Json, path: str) -> list[Json]:
    if not isinstance(value, list | dict):
        raise not_an_answer(path)
    return each(value)


def read_items(items: list[Json], id_field: str, read: Callable[[dict[str, Json]], Item | None]) -> Reading[Item]:
    """Every item that can be read and counts (of others, `read` returns None)."""
    reading = Reading[Item]()
    for one in items:
        try:
            if not isinstance(one, dict):
                raise UnreadableItemError(f"{fields.shown(one)} is not an object")
            name = fields.identifier(one, id_field)
        except UnreadableItemError as problem:
            reading.nameless.append(str(problem))
            continue
        try:
            item = read(one)
        except UnreadableItemError as problem:
            reading.unreadable[name] = str(problem)
        else:
            if item is not None:
                reading[name] = item
    return reading
