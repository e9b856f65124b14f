"""What the record of the searches tells: payments, leftovers, ends of leases, resumed trials. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from tpcds.demo.searches.record import Award, Lease, Round, SearchesRecord, TrialRun

NO_PAYMENT = 0.995
"""c above it counts as 1: it is shown with two digits."""

END_WORDS = {
    "lease-vacated": "lost in an auction, and vacated",
    "lease-released": "given back",
    "app-ended": "the search ended",
    "not-placed": "not used in time",
    "node-lost": "the node was lost",
}
"""How a lease ended, by the kind of its cause."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A trial that was started again. `stored`: the step that it went on from. `again`: steps executed twice.

    `before`, `after`: its runs on both sides; `is_moved`: on other GPUs.
    """

    search: str
    before: TrialRun
    after: TrialRun
    stored: float
    again: float

    @property
    def is_moved(self) -> bool:
        """Whether it runs on other GPUs than before."""
        return set(self.before.cells) != set(self.after.cells)


class Told:
    """See the module. `names`: of applications, by the arbiter's ids."""

    def __init__(self, record: SearchesRecord) -> None:
        self.record = record
        self.names = {one.app: one.name for one in record.rounds.apps}

    def name(self, app: str) -> str:
        """The name of an application."""
        return self.names.get(app, app)

    @property
    def auctions(self) -> list[Round]:
        """The rounds with a result and a bid."""
        return [one for one in self.record.rounds.rounds if one.bids and one.error is None]

    @property
    def contended(self) -> list[Round]:
        """The auctions with two bids or more."""
        return [one for one in self.auctions if len(one.bids) >= 2]

    @property
    def payments(self) -> list[tuple[Round, Award]]:
        """The awards that are paid for: c is below 1."""
        return [(one, award) for one in self.auctions for award in one.awards if is_payment(award)]

    @property
    def leftovers(self) -> list[tuple[Round, str, int]]:
        """GPUs dealt to bystanders: applications that were not offered any."""
        return [(one, app, gpus) for one in self.auctions for app, gpus in one.leftovers if app not in one.offered_to]

    @property
    def ended(self) -> list[Lease]:
        """The leases, one for each GPU, that ended before their application did."""
        return [one for one in self.record.rounds.leases if one.end is not None and one.ended_by != "app-ended"]

    @property
    def lost(self) -> list[Lease]:
        """Those whose end an auction decided: another search won the GPU."""
        return [one for one in self.record.rounds.leases if one.lost_in is not None]

    @property
    def resumed(self) -> list[Resumed]:
        """The trials that were stopped and went on from a checkpoint, in the order of their new starts."""
        found = [one for search in self.record.searches for one in _resumed(search.name, search.runs)]
        return sorted(found, key=lambda one: one.after.began)


def is_payment(award: Award) -> bool:
    """Whether a winner keeps less than what it won, before that is rounded to whole GPUs."""
    return award.won > 0 and award.share_max < NO_PAYMENT


def part(award: Award, to: str = "to") -> str:
    """c as text; a range where it is not known exactly, its bounds joined by a word."""
    low, high = award.share_min, award.share_max
    return f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} {to} {high:.2f}"


def _resumed(search: str, runs: tuple[TrialRun, ...]) -> Iterator[Resumed]:
    """Pairs of runs of a trial, where the later one reported and did not begin at the first step."""
    latest: dict[str, TrialRun] = {}
    reached: dict[str, float] = {}
    for run in sorted(runs, key=lambda one: one.began):
        before = latest.get(run.trial)
        if before is not None and run.first_step is not None and run.first_step > 1:
            stored = run.first_step - 1
            yield Resumed(search, before, run, stored, max(reached.get(run.trial, 0.0) - stored, 0.0))
        latest[run.trial] = run
        reached[run.trial] = max(reached.get(run.trial, 0.0), run.last_step or 0.0)
