"""The best allocation of a round by an integer program of another kind, solved by HiGHS: an oracle for larger rounds.

A binary for each row; for each kind of piece and each machine, or slot, a number of pieces there. So pieces are placed
exactly, where the auction's own program has necessary conditions and checks afterwards.
"""

import math
from collections import defaultdict

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix

from yarn_plugin.decide.mechanisms.partial_allocation.valuation import log_rho_without


def best_value(machines, bids, seconds=60.0):
    """The greatest sum of log(rho without / rho with the row), in nats: what was found, and a bound."""
    columns, upper, gain = [], [], []
    entries, limits = [], []  # (constraint, column, coefficient); [lower, upper]

    def variable(most, worth=0.0):
        columns.append(len(columns))
        upper.append(most)
        gain.append(worth)
        return columns[-1]

    def constraint(terms, lower, most):
        entries.extend((len(limits), column, amount) for column, amount in terms)
        limits.append((lower, most))

    pieces = defaultdict(list)
    for one in bids:
        without = log_rho_without(one)
        rows = []
        for row in one.rows:
            rows.append(variable(1, without - math.log(row.rho)))
            for piece in row.pieces:
                pieces[piece].append((rows[-1], 1))
        constraint([(column, 1) for column in rows], 0, 1)
    in_machine, in_slot = defaultdict(list), defaultdict(list)
    for piece, chosen in pieces.items():
        placed = []
        for machine in machines:
            slots = [slot for slot in machine.slots if piece.within in ("", machine.rack, machine.id, slot.id)]
            named_slot = piece.within in {slot.id for slot in machine.slots}
            for slot in slots if piece.level == "slot" or named_slot else slots[:1]:
                column = variable(machine.gpus)
                placed.append((column, -1))
                in_machine[machine.id].append((column, piece.gpus))
                if piece.level == "slot" or named_slot:
                    in_slot[slot.id].append((column, piece.gpus))
        constraint([*chosen, *placed], 0, 0)
    for machine in machines:
        constraint(in_machine[machine.id], -math.inf, machine.gpus)
        for slot in machine.slots:
            constraint(in_slot[slot.id], -math.inf, slot.gpus)
    if not columns:
        return 0.0, 0.0
    rows, at, amounts = zip(*entries, strict=True)
    matrix = csr_matrix((amounts, (rows, at)), shape=(len(limits), len(columns)))
    lower, most = zip(*limits, strict=True)
    found = milp(
        -np.array(gain),
        constraints=LinearConstraint(matrix, lower, most),
        integrality=np.ones(len(columns)),
        bounds=Bounds(0, upper),
        options={"mip_rel_gap": 0.0, "time_limit": seconds},
    )
    assert found.x is not None, found.message
    return -found.fun, -found.mip_dual_bound
