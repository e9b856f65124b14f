"""Rounds of the auction for tests: short ways to write bids, random rounds, and their solution by brute force."""

import itertools
import math
import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest

from yarn_plugin.decide.mechanisms.partial_allocation import AppBid, Gang, PartialAllocationProblem, checked_bid
from yarn_plugin.decide.mechanisms.partial_allocation.rounding import kept_of, usable
from yarn_plugin.decide.mechanisms.partial_allocation.valuation import log_rho_without
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.auction import Bid, GpuOffer, Row
from yarn_plugin.model.gpus import Machine, Piece, Slot


def machine(id, gpus=4, rack="r0", slots=1):
    """A machine with this many GPUs in each of its slots."""
    return Machine(id, rack, tuple(Slot(f"{id}/s{k}", gpus) for k in range(slots)))


def row(rho, *pieces):
    """A row; a piece is a number of GPUs, or (GPUs, within), or (GPUs, within, level)."""
    return Row(tuple(Piece(*(piece if isinstance(piece, tuple) else (piece,))) for piece in pieces), rho)


def bid(app, rho, *rows, **options):
    return AppBid(app, rho, rows, **options)


def problem(machines, *bids, **options):
    return PartialAllocationProblem(**{"round": 1, "seed": 1, **options, "machines": tuple(machines), "bids": bids})


def count(gpus):
    return sum(number for _, number in gpus)


def random_round(seed, bidders=3, machines=3, rows=4, **options):
    """A small round: some applications starved, rows in classes and on named machines and slots."""
    draw = random.Random(seed)
    shape = [
        machine(f"m{k}", draw.choice((1, 2, 4)), f"r{draw.randrange(2)}", draw.choice((1, 1, 2)))
        for k in range(machines)
    ]
    places = [""] + [one.rack for one in shape] + [one.id for one in shape] + [one.slots[0].id for one in shape]
    made = []
    for number in range(bidders):
        table = {}
        for _ in range(draw.randint(0, rows)):
            pieces = tuple(
                sorted(
                    (draw.choice((1, 1, 2, 3, 4)), draw.choice(places), draw.choice(("machine", "machine", "slot")))
                    for _ in range(draw.choice((1, 1, 2, 3)))
                )
            )
            table[pieces] = round(draw.uniform(0.5, 8), 1)
        empty = draw.choice((None, round(draw.uniform(4, 12), 1)))
        gangs = draw.choice(((), (Gang(1, 4, 1, 4),), (Gang(2, 4, 2, 3),)))
        made.append(bid(f"app-{number}", empty, *(row(rho, *pieces) for pieces, rho in table.items()), gangs=gangs))
    return problem(shape, *made, round=seed, **options)


def scattered_machines(draw):
    """What a busy pool has free: up to five machines of two models in up to three racks, a third with two or three
    slots, each with 0 to 4 free GPUs (of machines with one slot also to 8)."""
    slots, most = draw.choice((((1,), 4), ((1,), 8), ((2, 3), 4)))
    return tuple(
        Machine(
            f"m{k}",
            f"r{draw.randrange(3)}",
            tuple(Slot(f"m{k}/s{s}", draw.randint(0, most)) for s in range(draw.choice(slots))),
            draw.choice(("A100", "V100")),
        )
        for k in range(draw.randint(1, 5))
    )


PLANTED = ((1, 2, 4), (1, 4), (1, 3, 6), (2, 4), (2, 3, 5), (3, 4, 5), (2, 3, 4, 6), (1, 2, 3, 4, 5, 6, 7))
"""Sizes of pieces that fill machines."""


def planted_pieces(draw, machines, sizes, in_slots):
    """Pieces of these sizes that fill nearly all machines; a part `in_slots` of them needs a slot."""
    pieces = []
    for one in machines:
        left = {slot.id: slot.gpus for slot in one.slots}
        while (free := sum(left.values())) >= min(sizes) and draw.random() < 0.97:
            gpus = draw.choice([size for size in sizes if size <= free])
            slot = next((name for name in left if left[name] >= gpus), None)
            if slot is not None and draw.random() < in_slots:
                left[slot] -= gpus
                pieces.append(Piece(gpus, draw.choice(("", "", one.rack, one.id, slot)), "slot"))
                continue
            pieces.append(Piece(gpus, draw.choice(("", "", one.rack, one.id))))
            for name in left:
                taken = min(gpus, left[name])
                left[name] -= taken
                gpus -= taken
    return pieces


def scattered_round(seed, **options):
    """A small legal round on `scattered_machines`, with rows in classes and on named racks, machines and slots.

    In most rounds each bidder has a part of pieces that fill the machines: only a close packing serves all.
    """
    draw = random.Random(f"scattered {seed}")
    machines = scattered_machines(draw)
    offer = GpuOffer(seed, machines, 600.0, 1.0)
    wide = ["", *(one.rack for one in machines)]
    narrow = [*(one.id for one in machines), *(slot.id for one in machines for slot in one.slots)]
    levels = draw.choice((("machine",), ("machine",), ("machine", "machine", "slot")))
    bidders = draw.randint(1, 4)
    planted = planted_pieces(draw, machines, draw.choice(PLANTED), levels.count("slot") * 0.4)
    hands = [draw.randrange(bidders) for _ in planted]
    is_planted = draw.random() < 0.8
    made = []
    for number in range(bidders):
        rows = {}
        mine = tuple(piece for piece, hand in zip(planted, hands, strict=True) if hand == number)
        for turn in range(draw.randint(1, 8)):
            if turn == 0 and is_planted and mine:
                one = Row(mine, round(draw.uniform(0.5, 1), 1))
            else:
                pieces = tuple(
                    Piece(
                        draw.choice((1, 1, 2, 2, 3, 4, 5, 6)),
                        draw.choice(draw.choice((wide, narrow))),
                        draw.choice(levels),
                    )
                    for _ in range(draw.randint(1, 4))
                )
                one = Row(pieces, round(draw.uniform(0.5, 8), 1))
            with suppress(BadInputError):
                checked_bid(Bid(seed, None, (one,)), offer)
                rows[frozenset(Counter(one.pieces).items())] = one
        gangs = draw.choice(((), (Gang(1, 4, 1, 4),), (Gang(2, 4, 2, 3),)))
        empty = draw.choice((None, round(draw.uniform(4, 12), 1)))
        made.append(bid(f"app-{number}", empty, *list(rows.values())[:4], gangs=gangs))
    return problem(machines, *made, round=seed, **options)


def lies(honest, draw):
    """The table scaled, with rows dropped, and with values swapped; drawn at random."""
    rows = honest.rows
    scale = draw.choice((0.1, 0.5, 0.8, 1.25, 2, 10))
    yield replace(honest, rows=tuple(Row(one.pieces, one.rho * scale) for one in rows))
    dropped = draw.sample(range(len(rows)), draw.randint(1, len(rows)))
    yield replace(honest, rows=tuple(one for index, one in enumerate(rows) if index not in dropped))
    values = [one.rho for one in rows]
    draw.shuffle(values)
    yield replace(honest, rows=tuple(Row(one.pieces, rho) for one, rho in zip(rows, values, strict=True)))


def fits(machines, pieces):
    """Whether all pieces can be placed, by trying every slot, then every machine, for each."""
    slots = [slot for one in machines for slot in one.slots]
    home = {slot.id: number for number, one in enumerate(machines) for slot in one.slots}
    failed = set()

    def in_slot(piece):
        return piece.level == "slot" or piece.within in home

    def inside(piece, number):
        return piece.within in ("", machines[number].id, machines[number].rack)

    def place(rest, free):
        """`free`: by slot while pieces that need one slot are left, then by machine."""
        if not rest:
            return True
        if (len(rest), free) in failed:
            return False
        piece, *others = rest
        if len(free) > len(machines) and not in_slot(piece):
            free = tuple(
                sum(free[k] for k, slot in enumerate(slots) if home[slot.id] == n) for n in range(len(machines))
            )
        for bin, gpus in enumerate(free):
            if in_slot(piece):
                fine = piece.within == slots[bin].id or inside(piece, home[slots[bin].id])
            else:
                fine = inside(piece, bin)
            if fine and gpus >= piece.gpus and place(others, (*free[:bin], gpus - piece.gpus, *free[bin + 1 :])):
                return True
        failed.add((len(rest), free))
        return False

    return place(
        sorted(pieces, key=lambda piece: (not in_slot(piece), -piece.gpus)), tuple(slot.gpus for slot in slots)
    )


def value_of(bid, index):
    """V of a row; of nothing, if the index is None."""
    return 1 / (math.exp(log_rho_without(bid)) if index is None else bid.rows[index].rho)


def best_product(machines, bids):
    """The greatest product of V over all allocations that can be placed, by trying all."""
    best = 0.0
    for choice in itertools.product(*([None, *range(len(one.rows))] for one in bids)):
        product = math.prod(value_of(one, index) for one, index in zip(bids, choice, strict=True))
        if product > best * (1 + 1e-12):
            pieces = [
                piece
                for one, index in zip(bids, choice, strict=True)
                if index is not None
                for piece in one.rows[index].pieces
            ]
            if fits(machines, pieces):
                best = product
    return best


class BruteForce:
    """The optimum of a round, and of its others without one application, by trying all choices of rows."""

    def __init__(self, given):
        self._given = given
        self._gains = [[0.0, *(math.log(value_of(one, index) / value_of(one, None)) for index in range(len(one.rows)))]
                       for one in given.bids]  # fmt: skip
        choices = itertools.product(*(range(len(gains)) for gains in self._gains))
        self._best_first = sorted(choices, key=self.value, reverse=True)
        self._fit = {}

    def value(self, choice):
        """The sum of log(rho without / rho with) in nats. A choice has 0 for nothing, else 1 + the row."""
        return sum(gains[index] for gains, index in zip(self._gains, choice, strict=True))

    def best(self, without=None):
        """The greatest value, if application number `without` gets nothing."""
        return next(
            self.value(choice)
            for choice in self._best_first
            if (without is None or choice[without] == 0) and self.fits(choice)
        )

    def fits(self, choice):
        """Whether the rows can be placed together."""
        if choice not in self._fit:
            rows = [one.rows[index - 1].pieces for one, index in zip(self._given.bids, choice, strict=True) if index]
            self._fit[choice] = fits(self._given.machines, [piece for row in rows for piece in row])
        return self._fit[choice]


def check_exact(given, result):
    """Value, shares and GPUs kept are those of brute force; what is not proven lies within the stated bounds."""
    check_feasible(given, result)
    brute = BruteForce(given)
    awards = {award.app: award for award in result.awards}
    won = tuple(0 if awards[one.app].row is None else 1 + awards[one.app].row for one in given.bids)
    # Values that differ by 1e-5 tie, and then the one that serves more wins: each counts 2e-5 for this.
    tie = 1.1e-5 + 2e-5 * len(given.bids)
    assert result.value == pytest.approx(brute.value(won), abs=1e-6)
    assert result.value <= brute.best() + 1e-6 <= result.value + result.gap + tie
    assert result.proven == (result.gap == 0)
    if not given.payments:
        return
    for number, one in enumerate(given.bids):
        award = awards[one.app]
        if award.row is None:
            continue
        others = brute.value((*won[:number], 0, *won[number + 1 :]))
        share = min(1.0, math.exp(others - brute.best(without=number)))
        assert award.share_min * math.exp(-2 * tie) <= share <= award.share_max * math.exp(2 * tie)
        numbers = usable(one.gangs, count(one.held), count(award.won))
        if award.decided:
            assert count(award.kept) == kept_of(share, count(award.won), numbers, given.rounding)


def check_feasible(problem, result):
    """No GPU twice; what is won matches the row's pieces; what is kept is part of it; all GPUs are accounted for."""
    free = {slot.id: slot.gpus for one in problem.machines for slot in one.slots}
    bids = {one.app: one for one in problem.bids}
    won, used = Counter(), Counter()
    for award in result.awards:
        won.update(dict(award.won))
        used.update(dict(award.kept))
        assert (award.row is None) == (award.won == ())
        if award.row is not None:
            pieces = bids[award.app].rows[award.row].pieces
            assert count(award.won) == sum(piece.gpus for piece in pieces)
            mine = tuple(
                Machine(one.id, one.rack, tuple(Slot(s.id, dict(award.won).get(s.id, 0)) for s in one.slots))
                for one in problem.machines
            )
            assert fits(mine, pieces)
            assert all(0 < gpus <= dict(award.won)[slot] for slot, gpus in award.kept)
        assert 0 <= award.share_min <= award.share_max <= 1
    assert all(won[slot] <= free[slot] for slot in won)
    for leftover in result.leftovers:
        used.update(dict(leftover.gpus))
    for idle in result.idle:
        used[idle.slot] += idle.gpus
    assert {slot: used[slot] for slot in free} == free
