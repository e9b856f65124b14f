"""Rounds of the auction to measure: bid tables of training applications, by their sensitivity to placement."""

import random
from typing import Literal

from yarn_plugin.decide.mechanisms.partial_allocation import AppBid, PartialAllocationProblem
from yarn_plugin.model.auction import Row
from yarn_plugin.model.gpus import Machine, Piece, Slot

ROWS = 40
GPUS_PER_MACHINE = 4
MACHINES_PER_RACK = 16

Demand = Literal["spread", "contended"]
Names = Literal["classes", "machines"]


def round_of(bidders: int, gpus: int, demand: Demand, names: Names, seed: int) -> PartialAllocationProblem:
    """A round in which all GPUs of a cluster are offered.

    `names`: rows name a rack and a piece size ("classes"), or up to four machines. "spread": together the applications
    want about as much as is offered; "contended": four times as much, and named machines are all in a quarter of the
    racks. Half of the applications hold nothing: their rho without GPUs is unbounded. A row of g GPUs has
    rho = waited + serial + slowdown x work / g.
    """
    draw = random.Random(f"{bidders}/{gpus}/{demand}/{names}/{seed}")
    machines = tuple(
        Machine(f"m{k:03}", f"r{k // MACHINES_PER_RACK:02}", (Slot(f"m{k:03}/s", GPUS_PER_MACHINE),))
        for k in range(gpus // GPUS_PER_MACHINE)
    )
    wanted = gpus * (4 if demand == "contended" else 1) / bidders
    named = machines[: len(machines) // 4] if demand == "contended" and names == "machines" else machines
    bids = tuple(_bid(draw, f"app-{k:02}", named, wanted, names) for k in range(bidders))
    return PartialAllocationProblem(1, seed, machines, bids)


def _bid(draw: random.Random, app: str, machines: tuple[Machine, ...], wanted: float, names: Names) -> AppBid:
    most = max(1, min(sum(one.gpus for one in machines), round(wanted * draw.uniform(0.3, 1.7))))
    waited, work, serial = draw.uniform(0.0, 3.0), draw.uniform(0.5, 8.0), draw.uniform(0.0, 0.1)
    across_machines, across_racks = 1 + draw.choice((0.02, 0.1, 0.5)), 1 + draw.choice((0.05, 0.3, 1.5))
    racks = sorted({one.rack for one in machines})
    rows: dict[tuple[Piece, ...], float] = {}
    for _ in range(20 * ROWS):
        if len(rows) == ROWS:
            break
        size = draw.choice((1, 2, 4, 4))
        # Small counts are listed more densely, as the powers of two of a bid table are.
        count = max(1, round(most ** draw.random() / size))
        if names == "machines":
            count = min(count, 4)
        rack = draw.choice(["", *racks])
        inside = [one for one in machines if rack in ("", one.rack)]
        if count > len(inside):
            continue
        if names == "classes":
            pieces = tuple(Piece(size, rack) for _ in range(count))
            spread = 1 + (count > 1) + (count > 1 and rack == "")
        else:
            chosen = sorted(draw.sample(inside, count), key=lambda one: one.id)
            pieces = tuple(Piece(size, one.id) for one in chosen)
            spread = 1 + (count > 1) + (len({one.rack for one in chosen}) > 1)
        slowdown = (1.0, across_machines, across_racks)[spread - 1]
        used = min(size * count, most)
        rows.setdefault(pieces, waited + serial + slowdown * work / used)
    held = draw.choice((None, waited + serial + work))
    return AppBid(app, held, tuple(Row(pieces, rho) for pieces, rho in rows.items()))
