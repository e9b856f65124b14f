"""Single fields of the ResourceManager's JSON: what each must be, and what is wrong with one that is not."""

from typing import Any

Json = Any

MAX_AMOUNT = 10**15
"""Above any amount, time (ms) or count that a cluster can have."""

MAX_TEXT = 1000


class UnreadableItemError(ValueError):
    """One item of an answer cannot be read; names the field, and what it holds."""


def wrong(item: dict[str, Json], field: str) -> UnreadableItemError:
    """What to raise for a field that is not what it must be."""
    return UnreadableItemError(f"{field} is {shown(item[field])}" if field in item else f"{field} is missing")


def shown(value: Json) -> str:
    """A value as a message shows it: short, and never a whole list or object."""
    said = repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return cleaned(said[:80])


def identifier(item: dict[str, Json], field: str) -> str:
    """A name that things are known by: printable text of one line, not empty."""
    value = item.get(field)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT or not value.isprintable():
        raise wrong(item, field)
    return value


def text(item: dict[str, Json], field: str, missing: str | None = None) -> str:
    """Text that is shown; `missing` stands for one that is not there, if it need not be."""
    value = item.get(field)
    if value is None and missing is not None:
        return missing
    if not isinstance(value, str):
        raise wrong(item, field)
    return cleaned(value)[:MAX_TEXT]


def cleaned(text: str) -> str:
    """Text that can be written as UTF-8: JSON can hold half a character."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def whole(item: dict[str, Json], field: str) -> int:
    """A whole number, below 0 or above; 0 where it is missing."""
    value = item.get(field)
    if value is None:
        return 0
    if type(value) is not int or abs(value) > MAX_AMOUNT:
        raise wrong(item, field)
    return value


def amount(item: dict[str, Json], field: str, required: bool = False, clamped: bool = False) -> int:
    """A number of 0 or more; 0 where it is missing or -1, which is how YARN says that there is none yet.

    `clamped`: 0 for any number below 0.
    """
    given = item.get(field)
    if type(given) is int and 0 <= given <= MAX_AMOUNT:
        return given
    if required and given is None:
        raise wrong(item, field)
    value = whole(item, field)
    if value < -1 and not clamped:
        raise wrong(item, field)
    return max(value, 0)


def fraction(queue: dict[str, Json], field: str) -> float:
    """A percentage of the cluster, as a fraction."""
    value = queue.get(field, 100.0)
    if type(value) not in (int, float) or not 0 <= value <= MAX_AMOUNT:  # which a number that is none is not
        raise wrong(queue, field)
    return float(value) / 100.0
