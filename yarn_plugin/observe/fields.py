"""Values in the ResourceManager's JSON, each checked; the error names the field and its value."""

from typing import Any

from yarn_plugin.model.resources import MEMORY, VCORES, Resources

Json = Any

MAX_AMOUNT = 10**15
"""Above any amount, time (ms) or count of a real cluster."""

MAX_TEXT = 1000


class UnreadableItemError(ValueError):
    """One item of an answer is unreadable; names the field and its value."""


def invalid(item: dict[str, Json], field: str) -> UnreadableItemError:
    """The error for a field that is missing or invalid."""
    return UnreadableItemError(f"{field} is {shortened(item[field])}" if field in item else f"{field} is missing")


def shortened(value: Json) -> str:
    """A value for a message: its first characters, or the type of a list or an object."""
    text = repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return encodable(text[:80])


def encodable(text: str) -> str:
    """Text that can be encoded as UTF-8: lone surrogates, which JSON allows, are replaced."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def as_list(value: Json) -> list[Json]:
    """A list. The ResourceManager may write a list of one without brackets, and an empty one as null."""
    return value if isinstance(value, list) else [] if value is None else [value]


def objects_in(value: Json) -> list[dict[str, Json]]:
    """The objects of a list (see `as_list`), without other items."""
    return [one for one in as_list(value) if isinstance(one, dict)]


def identifier(item: dict[str, Json], field: str) -> str:
    """An id: a non-empty, printable line."""
    value = item.get(field)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT or not value.isprintable():
        raise invalid(item, field)
    return value


def text(item: dict[str, Json], field: str, missing: str | None = None) -> str:
    """Text to display; `missing`: the default of an optional field."""
    value = item.get(field)
    if value is None and missing is not None:
        return missing
    if not isinstance(value, str):
        raise invalid(item, field)
    return encodable(value)[:MAX_TEXT]


def integer(item: dict[str, Json], field: str) -> int:
    """An integer, possibly negative; 0 if it is missing."""
    value = item.get(field)
    if value is None:
        return 0
    if type(value) is not int or abs(value) > MAX_AMOUNT:
        raise invalid(item, field)
    return value


def amount(item: dict[str, Json], field: str, required: bool = False, clamped: bool = False) -> int:
    """A non-negative integer; 0 if it is missing or -1, YARN's value for "not known yet".

    `clamped`: 0 for any negative number.
    """
    given = item.get(field)
    if type(given) is int and 0 <= given <= MAX_AMOUNT:
        return given
    if required and given is None:
        raise invalid(item, field)
    value = integer(item, field)
    if value < -1 and not clamped:
        raise invalid(item, field)
    return max(value, 0)


def fraction(queue: dict[str, Json], field: str) -> float:
    """A percentage of the cluster, as a fraction."""
    value = queue.get(field, 100.0)
    if type(value) not in (int, float) or not 0 <= value <= MAX_AMOUNT:  # NaN fails this comparison, too
        raise invalid(queue, field)
    return float(value) / 100.0


def resources(value: Json, clamped: bool = False) -> Resources:
    """A resource vector: `resourceInformations` if present, else memory and vCores.

    `clamped`: negative amounts count as 0. YARN may briefly report a negative usage of a queue.

    Raises:
        UnreadableItemError: it is not a resource vector, or an amount is invalid.
    """
    if not isinstance(value, dict):
        raise UnreadableItemError(f"{shortened(value)} is not a resource vector")
    informations = value.get("resourceInformations")
    if not isinstance(informations, dict | None):
        raise invalid(value, "resourceInformations")
    entries = as_list((informations or {}).get("resourceInformation"))
    if entries:
        return named_resources(entries, "name", clamped)
    names = {MEMORY: "memory", VCORES: "vCores"}
    return Resources.of({name: amount(value, field, clamped=clamped) for name, field in names.items()})


def named_resources(entries: list[Json], key: str, clamped: bool = False) -> Resources:
    """A resource vector from a list of objects with a name, in field `key`, and a `value`.

    Raises:
        UnreadableItemError: it is not such a list, or an amount is invalid.
    """
    if not all(isinstance(entry, dict) for entry in entries):
        raise UnreadableItemError(f"{shortened(entries)} is not a list of resources")
    return Resources.of({identifier(entry, key): amount(entry, "value", True, clamped) for entry in entries})
