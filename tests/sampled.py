"""Cases of which `make test` runs a sample, and `make test-all` all; and those that are run by one test."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def one_in(step: int, names: str | Sequence[str], cases: Iterable[object], **more: Any) -> pytest.MarkDecorator:
    """`pytest.mark.parametrize` with every `step`-th case in each test run, the others in the fault matrix only."""
    sampled = [case if place % step == 0 else _in_matrix(case) for place, case in enumerate(cases)]
    return pytest.mark.parametrize(names, sampled, **more)


def _in_matrix(case: object) -> object:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.matrix)


def all_in_one(
    name: str, cases: Sequence[object], more: Sequence[object] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with all cases, as one test: each of hundreds of cases takes less time than a test costs by itself.

    The first case that fails is named. `more`: cases of the fault matrix, as another test.
    """
    groups = [cases, *([pytest.param(more, marks=pytest.mark.matrix)] if more else [])]
    names = f"{name}s"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run_all(**given: Any) -> None:
            for case in given.pop(names):
                try:
                    test(**{name: case}, **given)
                except BaseException as problem:
                    problem.add_note(f"{name}: {case!r}")
                    raise

        signature = inspect.signature(test)
        asked = [one.replace(name=names) if one.name == name else one for one in signature.parameters.values()]
        run_all.__signature__ = signature.replace(parameters=asked)  # type: ignore[attr-defined]
        return pytest.mark.parametrize(names, groups, ids=["usual", "more"][: len(groups)])(run_all)

    return decorate
