"""What has changed, by identity: values are never changed in place, so the same object is the same value."""

from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from typing import Any


def are_same(values: Sequence[object], others: Sequence[object]) -> bool:
    """Whether these are the same objects."""
    return len(values) == len(others) and all(map(is_, values, others))


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """The keys that are new, gone or have another object."""
    if before is after:
        return
    yield from [key for key, value in after.items() if before.get(key) is not value]
    yield from [key for key in before if key not in after]
