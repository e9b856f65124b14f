"""Dimensions of a search space for programs: what the file writes as `{ type = "float", low, high }`."""

from collections.abc import Mapping
from typing import Any

Dimension = dict[str, Any]


def uniform(low: float, high: float, *, when: Mapping[str, Any] | None = None) -> Dimension:
    """A number from `low` to `high`. `when`: only if these parameters have these values."""
    return _of({"type": "float", "low": low, "high": high}, when)


def log_uniform(low: float, high: float, *, when: Mapping[str, Any] | None = None) -> Dimension:
    """A number from `low` to `high`, drawn evenly on a logarithmic scale."""
    return _of({"type": "float", "low": low, "high": high, "log": True}, when)


def integer(low: int, high: int, *, log: bool = False, when: Mapping[str, Any] | None = None) -> Dimension:
    """An integer from `low` to `high`, both included."""
    return _of({"type": "int", "low": low, "high": high, "log": log}, when)


def choice(*choices: bool | int | float | str, when: Mapping[str, Any] | None = None) -> Dimension:
    """One of these values."""
    return _of({"type": "categorical", "choices": list(choices)}, when)


def _of(dimension: Dimension, when: Mapping[str, Any] | None) -> Dimension:
    return dimension if when is None else {**dimension, "when": dict(when)}
