"""Cases of which `make test` runs a sample, and `make test-all` all."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def one_in(step: int, names: str | Sequence[str], cases: Iterable[object], **more: Any) -> pytest.MarkDecorator:
    """`pytest.mark.parametrize` with every `step`-th case in each test run, the others in the fault matrix only."""
    sampled = [case if place % step == 0 else _in_matrix(case) for place, case in enumerate(cases)]
    return pytest.mark.parametrize(names, sampled, **more)


def _in_matrix(case: object) -> object:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.matrix)
