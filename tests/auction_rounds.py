"""Rounds of the auction for tests: short ways to write bids, random rounds, and their solution by brute force."""

import itertools
import math
import random
from collections import Counter
from dataclasses import replace

from yarn_plugin.decide.mechanisms.partial_allocation import AppBid, Gang, PartialAllocationProblem
from yarn_plugin.decide.mechanisms.partial_allocation.valuation import log_rho_without
from yarn_plugin.model.auction import Row
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
    """Whether all pieces can be placed, by trying every place for each."""
    free = {slot.id: slot.gpus for one in machines for slot in one.slots}
    home = {slot.id: one for one in machines for slot in one.slots}

    def inside(piece, slot):
        return piece.within in ("", slot, home[slot].id, home[slot].rack)

    def place(rest):
        if not rest:
            return True
        piece, *others = rest
        slots = [slot for slot in free if inside(piece, slot)]
        if piece.level == "slot" or piece.within in free:
            ways = [{slot: piece.gpus} for slot in slots if free[slot] >= piece.gpus]
        else:
            ways = [
                dict(zip(names, parts, strict=True))
                for names in {tuple(slot.id for slot in home[slot].slots) for slot in slots}
                for parts in itertools.product(*(range(free[name] + 1) for name in names))
                if sum(parts) == piece.gpus
            ]
        for way in ways:
            for slot, gpus in way.items():
                free[slot] -= gpus
            if place(others):
                return True
            for slot, gpus in way.items():
                free[slot] += gpus
        return False

    return place(sorted(pieces, key=lambda piece: piece.level != "slot"))


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
