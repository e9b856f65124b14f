"""A check: one attack, what was observed, and whether the required properties held."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.adversary.lab import Lab

Seen = tuple[bool, str]
"""Whether it holds, and what was seen, in one line."""


@dataclass(frozen=True)
class Check:
    """`text`: the symptom and what must hold."""

    name: str
    text: str
    run: Callable[[Lab], Seen]


CHECKS: dict[str, Check] = {}


def check(function: Callable[[Lab], Seen]) -> Callable[[Lab], Seen]:
    """Make a function one of the checks, under its name."""
    CHECKS[function.__name__] = Check(function.__name__, " ".join((function.__doc__ or "").split()), function)
    return function


def carry_out(found: Check, lab: Lab) -> Seen:
    """Run one check on a clean lab; an unexpected error on the way is a failure with that error."""
    try:
        with lab.clean():
            holds, seen = found.run(lab)
            return holds, " ".join(seen.split())[:600]
    except Exception as problem:  # noqa: BLE001 - whatever an attack brings down is what was seen
        return False, " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
