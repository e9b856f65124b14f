"""One line of `yarn-plugin doctor`."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["good", "limited", "stops"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked property of a ResourceManager.

    `verdict`: `stops` if the arbiter cannot run, `limited` if it runs with less. `follows`: the consequence and, unless
    the verdict is good, the remedy.
    """

    topic: str
    found: str
    verdict: Verdict
    follows: str
