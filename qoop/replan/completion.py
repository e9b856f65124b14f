"""When a query is expected to finish, and how fair that is."""

from dataclasses import dataclass

from qoop.replan.decision import Decision


@dataclass(frozen=True, slots=True)
class Completion:
    """The expected completion of a query, in seconds. `elapsed_s`: since its first decision; `remaining_s`: estimated.

    `guaranteed_s`: what its first decision estimated for the whole query at its guarantee of that time.
    """

    elapsed_s: float
    remaining_s: float
    guaranteed_s: float

    @property
    def rho(self) -> float:
        """Finish-time fairness: the expected completion time over that at the guarantee. Above 1 it is late."""
        return (self.elapsed_s + self.remaining_s) / self.guaranteed_s


def expected_completion(first: Decision, first_at: float, latest: Decision, at: float) -> Completion:
    """The expected completion after a decision made `at`, given the first one. Both times in seconds since the epoch.

    Decisions are made with the slots of the guarantee (QOOP section 2.3.2), so the first one has the estimate for it.
    """
    guaranteed = max(first.expected, 1e-3)
    return Completion(max(at - first_at, 0.0), max(latest.expected, 0.0), guaranteed)
