"""Who gets which GPUs of a round: by the solver, dealt as leftovers, or kept."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from yarn_plugin.decide.pools.lease.binding import Winner, bind
from yarn_plugin.decide.pools.lease.quotas import Quotas
from yarn_plugin.decide.pools.lease.state import Round
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.model.causes import How
from yarn_plugin.model.gpus import Gpus


@dataclass(slots=True)
class Allocation:
    """`given`: who gets each GPU, and how. `left`: GPUs that nobody got so far, by slot."""

    left: dict[str, tuple[str, ...]]
    given: dict[str, tuple[Winner, How]] = field(default_factory=dict)

    def give(self, winner: Winner, gpus: Mapping[str, Sequence[str]], how: How) -> None:
        """Give GPUs that are left, by slot."""
        for slot, mine in gpus.items():
            self.given.update(dict.fromkeys(mine, (winner, how)))
            rest = tuple([gpu for gpu in self.left[slot] if gpu not in mine])
            if rest:
                self.left[slot] = rest
            else:
                del self.left[slot]

    def count(self, *hows: How) -> tuple[tuple[str, int], ...]:
        """How many GPUs each application got in these ways."""
        return tuple(sorted(Counter(app for (app, _), how in self.given.values() if how in hows).items()))


def allocate(turn: Turn, now: Round, results: Sequence[tuple[Sequence[tuple[Winner, Gpus]], How]]) -> Allocation:
    """Bind what was won to GPUs. GPUs and winners that are gone since the offer are left out."""
    free, holders = _free(turn), _holders(turn, now)
    allocation = Allocation(_left(turn, now, holders))
    own: dict[Winner, set[str]] = {}
    for gpu, holder in holders.items():
        own.setdefault(holder, set()).add(gpu)
    for won, how in results:
        here = [(winner, gpus) for winner, gpus in won if winner[0] in turn.state.members]
        for winner, gpus in bind(here, allocation.left, free, own).items():
            allocation.give(winner, gpus, how)
    return allocation


def _left(turn: Turn, now: Round, holders: Mapping[str, Winner]) -> dict[str, tuple[str, ...]]:
    """The GPUs of the offer that are still free or held by those whose leases end."""
    left, free = dict(turn.by_slot(now.offer)), _free(turn)
    is_same = turn.index.offered == (now.number, turn.index.freed_or_leased, len(holders))
    if is_same and (turn.settings.rules < 5 or not turn.state.crowded):
        return left
    found = {slot: tuple([gpu for gpu in gpus if gpu in free or gpu in holders]) for slot, gpus in left.items()}
    return {slot: gpus for slot, gpus in found.items() if gpus}


def _free(turn: Turn) -> set[str]:
    """By earlier rules, those in use beyond leases too."""
    return turn.offerable() if turn.settings.rules > 4 else turn.free()


def keep_unwanted(turn: Turn, now: Round, allocation: Allocation) -> None:
    """Leave GPUs that nobody got with holders that did not answer: their training need not be disturbed for nothing.

    Others' results are not changed by it, and nobody who answered keeps more than it won.
    """
    quotas = Quotas(turn, now)
    for (app, _), _ in allocation.given.values():
        quotas.take(app, 1)
    for gpu, holder in _holders(turn, now).items():
        app = holder[0]
        is_silent = app not in now.bids if app in now.bidders else not now.bidders and app not in now.estimates
        if is_silent and app in turn.state.members and quotas.left(app) >= 1:
            slot = turn.inventory.places[gpu].slot
            if gpu in allocation.left.get(slot, ()):
                allocation.give(holder, {slot: (gpu,)}, "kept")
                quotas.take(app, 1)


def _holders(turn: Turn, now: Round) -> dict[str, Winner]:
    """Who holds the GPUs of the ending leases."""
    leases = (turn.state.leases[lease] for lease in now.ending if lease in turn.state.leases)
    return {gpu: (held.lease.app, held.lease.job) for held in leases for gpu in held.staying}


def idle(turn: Turn, now: Round, allocation: Allocation, reasons: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """How many GPUs nobody got, by reason. `reasons`: the solver's, by slot."""
    answered = now.bids if now.bidders else now.estimates
    otherwise = "not wanted" if answered else "no answers"
    if not reasons:
        return ((otherwise, sum(map(len, allocation.left.values()))),) if allocation.left else ()
    found: Counter[str] = Counter()
    for slot, gpus in allocation.left.items():
        found[reasons.get(slot, otherwise)] += len(gpus)
    return tuple(sorted(found.items()))
