"""How many GPUs the applications of one user may lease together (`max_gpus_per_user`), and win by bids (`entitlement`).

Before a round is solved, what each user may still win is set aside for its applications, in their order. So neither
bids, nor leftovers, nor payments that are offered again exceed it, and others may win the rest in the same round.
GPUs that are being vacated do not count.
"""

import math
from collections import Counter
from dataclasses import replace

from yarn_plugin.decide.mechanisms.partial_allocation import AppBid, AppWithoutBid
from yarn_plugin.decide.pools.lease.state import Round
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.model.gpus import Job, total


class Quotas:
    """What each user may win in a round beside its leases that go on, less what is set aside."""

    def __init__(self, turn: Turn, now: Round) -> None:
        self._turn, self._held, self._left = turn, Counter[str](), dict[str, int]()
        most = turn.settings.max_gpus_per_user
        if most is None and turn.settings.entitlement == "application":
            return
        for app in turn.state.members:
            going_on = [one for one in turn.leases_of(app) if one.lease.id not in now.ending]
            self._held[turn.user_of(app)] += sum(len(one.staying) for one in going_on)
        if most is not None:
            self._left = {user: most - held for user, held in self._held.items()}

    def left(self, app: str) -> float:
        """How many GPUs an application may win."""
        return max(self._left[self._turn.user_of(app)], 0) if self._left else math.inf

    def take(self, app: str, gpus: int) -> None:
        """Set GPUs aside for an application."""
        if self._left:
            self._left[self._turn.user_of(app)] -= gpus

    def bid(self, bid: AppBid) -> AppBid:
        """A bid without the rows that its user may not win; its largest row is set aside."""
        if not self._held or bid.app not in self._turn.state.members:
            return bid
        sizes = [sum(piece.gpus for piece in row.pieces) for row in bid.rows]
        left = min(self.left(bid.app), self._part_left(bid.app, min(sizes, default=0)))
        most = max([size for size in sizes if size <= left], default=0)
        self.take(bid.app, most)
        self._held[self._turn.user_of(bid.app)] += most
        rows = tuple(row for row, size in zip(bid.rows, sizes, strict=True) if size <= left)
        return bid if len(rows) == len(bid.rows) else replace(bid, rows=rows)

    def _part_left(self, app: str, smallest: int) -> float:
        """What a user with several applications may win by bids where users are entitled to equal parts: the rest of
        its part; one that holds nothing, at least the smallest row."""
        user = self._turn.user_of(app)
        if self._turn.settings.entitlement == "application" or self._turn.users()[user] <= 1:
            return math.inf
        held = self._held[user]
        return self._turn.equal_part() - held if held else max(self._turn.equal_part(), smallest)

    def without_bid(self, app: AppWithoutBid) -> AppWithoutBid:
        """An application that may get leftovers wants no more than its user may win; that is set aside."""
        wants = min(app.wants, self.left(app.app))
        self.take(app.app, int(wants))
        return app if wants == app.wants else replace(app, wants=int(wants))

    def jobs(self, app: str, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        """The jobs of an application that its user may win GPUs for, with as many as it may; that is set aside."""
        if not self._left:
            return jobs
        found: list[Job] = []
        for job in jobs:
            held = total(job.held)
            allowed = min(job.max_gpus, held + int(self.left(app)))
            if allowed < max(job.min_gpus, held):
                continue
            most = job.min_gpus + (allowed - job.min_gpus) // job.step_gpus * job.step_gpus
            self.take(app, max(min(most, len(self._turn.inventory.places)) - held, 0))
            found.append(job if most == job.max_gpus else replace(job, max_gpus=most))
        return tuple(found)
