"""What `yarn-plugin doctor`, `qoop doctor` and `themis-agent doctor` say of each thing that they check."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["good", "limited", "stops"]
"""`stops`: what is checked for cannot run; `limited`: it runs with less."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked property of a ResourceManager or a machine. `follows`: the consequence and, unless the verdict is
    good, the remedy.
    """

    topic: str
    found: str
    verdict: Verdict
    follows: str = ""
