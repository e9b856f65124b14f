"""What a replay found."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about one step (counted from 0)."""

    step: int
    pod: str
    text: str


@dataclass(slots=True)
class Tally:
    """How many steps of a kind agreed."""

    agreed: int = 0
    compared: int = 0

    def count(self, agrees: bool) -> bool:
        """Count one more."""
        self.compared += 1
        self.agreed += agrees
        return agrees


@dataclass(slots=True)
class Replay:
    """The result of one replay of a case. `broken`: rules that must hold and do not."""

    mode: str
    steps: int = 0
    outcomes: Tally = field(default_factory=Tally)
    exact: Tally = field(default_factory=Tally)
    shapes: Tally = field(default_factory=Tally)
    after: Tally = field(default_factory=Tally)
    served: Tally = field(default_factory=Tally)
    better: list[Finding] = field(default_factory=list)
    """Placed, where the recorded scheduler waits."""
    survived: list[Finding] = field(default_factory=list)
    """Answered, where the recorded scheduler crashes."""
    forced: list[Finding] = field(default_factory=list)
    """The recorded placement was adopted where ours was different, as is allowed."""
    broken: list[Finding] = field(default_factory=list)
    differing: list[Finding] = field(default_factory=list)
    """What should agree and does not."""

    def figures(self) -> dict[str, Any]:
        """In JSON types."""
        return asdict(self)
