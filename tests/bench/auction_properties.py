"""What the auction's properties (Themis, thesis theorem 3.2) are worth in whole GPUs: violations and gains from lying.

Random rounds of four applications on four machines of four GPUs. rho is a formula, so it is known for any GPUs, also
those that are left after a payment.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from tests.auction_rounds import lies
from yarn_plugin.decide.mechanisms.partial_allocation import AppBid, Award, PartialAllocationProblem, allocate
from yarn_plugin.decide.mechanisms.partial_allocation.problem import Rounding
from yarn_plugin.model.auction import Row
from yarn_plugin.model.gpus import Gpus, Machine, Piece, Slot

ROUNDS = 1000
APPS, MACHINES, GPUS = 4, 4, 4
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class App:
    """rho = `waited` + `slowdown` x `work` / n with n GPUs in several machines, without the slowdown in one; `waited` +
    `idle` x `work` without GPUs."""

    name: str
    waited: float
    work: float
    slowdown: float
    idle: float

    def rho(self, gpus: int, machines: int) -> float:
        """Finish-time fairness with GPUs on so many machines."""
        if not gpus:
            return self.waited + self.idle * self.work
        return self.waited + (1.0 if machines == 1 else self.slowdown) * self.work / gpus

    def value(self, gpus: Gpus) -> float:
        """V = 1 / rho with these GPUs, by slot; a machine has one."""
        return 1 / self.rho(sum(number for _, number in gpus), len(gpus))

    def bid(self) -> AppBid:
        """Its true table: as few machines as possible, or scattered."""
        rows: dict[tuple[Piece, ...], float] = {}
        for count in range(1, MACHINES * GPUS + 1):
            whole, rest = divmod(count, GPUS)
            packed = (Piece(GPUS),) * whole + ((Piece(rest),) if rest else ())
            for pieces in (packed, (Piece(1),) * count):
                rows.setdefault(pieces, self.rho(count, len(pieces)))
        return AppBid(self.name, self.rho(0, 0), tuple(Row(pieces, rho) for pieces, rho in rows.items()))


RULES = ("no payments", *get_args(Rounding))


def measure(rounds: int = ROUNDS, rules: Sequence[str] = RULES) -> dict[str, Any]:
    """Per rounding rule: the parts of applications that envy another or would prefer an equal part of the machines, and
    the largest factor by which a liar gains; with exact shares (no whole GPUs) and without payments too."""
    results: dict[str, Any] = {}
    for rule in rules:
        envious = unshared = 0
        gain = exact_gain = 1.0
        for seed in range(rounds):
            draw = random.Random(f"properties {seed}")
            apps = [_app(draw, f"app-{number}") for number in range(APPS)]
            given = _round(apps, rule, seed)
            awards = {award.app: award for award in allocate(given).awards}
            for one in apps:
                own = one.value(awards[one.name].kept)
                better = own * (1 + TOLERANCE)
                envious += any(one.value(other.kept) > better for other in awards.values())
                unshared += one.value((("m0", MACHINES * GPUS // APPS),)) > better
            lied, exactly = _largest_gain(given, apps, awards, draw)
            gain, exact_gain = max(gain, lied), max(exact_gain, exactly)
        name = rule.replace(" ", "_")
        results[f"{name}_envious"] = envious / (rounds * APPS)
        results[f"{name}_worse_than_equal_part"] = unshared / (rounds * APPS)
        results[f"{name}_largest_gain_from_lying"] = gain
        results[f"{name}_largest_gain_with_exact_shares"] = exact_gain
    return {"rounds": rounds, **results}


def _app(draw: random.Random, name: str) -> App:
    return App(name, draw.uniform(0, 2), draw.uniform(0.5, 16), draw.choice((1.0, 1.1, 1.5, 2.0)), draw.uniform(1.1, 8))


def _round(apps: list[App], rule: str, seed: int) -> PartialAllocationProblem:
    machines = tuple(Machine(f"m{number}", "r", (Slot(f"m{number}", GPUS),)) for number in range(MACHINES))
    bids = tuple(one.bid() for one in apps)
    made = PartialAllocationProblem(1, seed, machines, bids, exact_shares=True)
    return replace(made, payments=False) if rule == "no payments" else replace(made, rounding=rule)  # type: ignore


def _largest_gain(
    given: PartialAllocationProblem, apps: list[App], honest: dict[str, Award], draw: random.Random
) -> tuple[float, float]:
    """By what factor one application, drawn at random, gains by lying: in the V of the GPUs that it keeps, and in the
    V of those that it wins times its share."""
    liar = draw.randrange(len(apps))
    one, true = apps[liar], given.bids[liar]
    gain = exact = 1.0
    for table in lies(true, draw):
        told = allocate(replace(given, bids=(*given.bids[:liar], table, *given.bids[liar + 1 :])))
        award = next(award for award in told.awards if award.app == one.name)
        gain = max(gain, one.value(award.kept) / one.value(honest[one.name].kept))
        exact = max(exact, _shared(one, award) / _shared(one, honest[one.name]))
    return gain, exact


def _shared(app: App, award: Award) -> float:
    return award.share_max * app.value(award.won)
