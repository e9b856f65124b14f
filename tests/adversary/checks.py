"""A check: one attack, what was observed, and whether the required properties held."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.adversary.lab import Lab

Result = tuple[bool, str]
"""Whether the check passed, and what was observed, in one line."""


@dataclass(frozen=True)
class Check:
    """`text`: the attack and the required behavior."""

    name: str
    text: str
    run: Callable[[Lab], Result]


CHECKS: dict[str, Check] = {}


def check(function: Callable[[Lab], Result]) -> Callable[[Lab], Result]:
    """Register a function as a check under its name."""
    CHECKS[function.__name__] = Check(function.__name__, " ".join((function.__doc__ or "").split()), function)
    return function


def run_check(check: Check, lab: Lab) -> Result:
    """Run a check on a clean lab; an unexpected error is a failure with that error."""
    try:
        with lab.clean():
            holds, observed = check.run(lab)
            return holds, " ".join(observed.split())[:600]
    except Exception as problem:  # noqa: BLE001 - whatever fails is what was observed
        return False, " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
