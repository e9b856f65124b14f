"""Single observations on which nothing could be decided: not handed on again as long as they are the same."""

from collections.abc import Collection
from dataclasses import dataclass

AGAIN_AFTER = 60.0
"""Seconds until one that changed meanwhile is handed on again."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    value: object
    at: float


class Refusals:
    """Remembers what was refused, by kind ("apps") and id; the value is None for what is gone."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str], _Refusal] = {}

    def add(self, kind: str, name: str, value: object, now: float) -> bool:
        """Remember one. Returns whether it is the first time."""
        known = self._refused.get((kind, name))
        self._refused[kind, name] = _Refusal(value, now)
        return known is None

    def allows(self, kind: str, name: str, value: object, now: float) -> bool:
        """Whether an observation may be handed on."""
        refusal = self._refused.get((kind, name))
        if refusal is None:
            return True
        # What is gone stays the same for ever: that it was refused may have had another reason.
        return (refusal.value != value or value is None) and now >= refusal.at + AGAIN_AFTER

    def keep(self, kind: str, names: Collection[str]) -> None:
        """Forget what was refused of anything but these."""
        for key in [key for key in self._refused if key[0] == kind and key[1] not in names]:
            del self._refused[key]
