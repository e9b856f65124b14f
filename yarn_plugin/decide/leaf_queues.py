"""The names of the queues that applications are given."""

import re

_OWN_LEAF = re.compile(r"_\d+_[0-9a-f]{8,}$")


def leaf_name(name: str, seq: int, at: float) -> str:
    """A queue name never used before: a weight written for a leaf outlives it and a namesake would inherit it."""
    slug = "".join(letter if letter.isalnum() else "-" for letter in name.lower())[:24].strip("-") or "app"
    return f"{slug}_{seq}_{int(at):x}"


def is_own_leaf(queue: str) -> bool:
    """Whether a queue's name is one that the arbiter gives (see `leaf_name`)."""
    return _OWN_LEAF.search(queue) is not None


def is_defined(queue: str, static: "frozenset[str] | tuple[str, ...] | None") -> bool:
    """Whether the configuration defines a queue; or may, as long as it was not shown, if the name is not our own."""
    return not is_own_leaf(queue) if static is None else queue in static
