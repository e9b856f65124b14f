"""The same matching as a min-cost flow, solved by OR-tools (extra `allox`): for queues that are deep on few machines.

From jobs over classes (see `classes`) to the sink: each job one unit, each machine of a class one unit.
"""

import math
from collections.abc import Sequence

import numpy as np

from yarn_plugin.decide.mechanisms.matching.classes import Floats

UNITS = 2.0**40
"""Into how many integer units the largest cost is divided: costs are rounded to 1e-12 of it."""


GROWTH = 1.5
"""By how much classes are deepened while the deepest is used."""


def is_installed() -> bool:
    """Whether OR-tools can be imported."""
    try:
        import ortools.graph.python.min_cost_flow  # noqa: F401
    except ImportError:
        return False
    return True


ByClass = dict[tuple[int, int], list[int]]
"""The jobs of each class (kind, position)."""


def classes_by_flow(seconds: Floats, waits: Sequence[Floats], depths: Sequence[int]) -> ByClass:
    """The jobs in each class, at the least cost.

    `depths`: a guess, for each kind, of how many positions are used; deeper ones are tried while the deepest is used.
    """
    limits = [len(seconds) if len(waits_of_kind) else 0 for waits_of_kind in waits]
    depths = [min(max(1, depth), limit) for depth, limit in zip(depths, limits, strict=True)]
    while True:
        jobs_by_class = _solved(seconds, waits, depths)
        full = [
            kind for kind, depth in enumerate(depths) if 0 < depth < limits[kind] and (kind, depth) in jobs_by_class
        ]
        if not full:
            return jobs_by_class
        for kind in full:
            depths[kind] = min(math.ceil(GROWTH * depths[kind]) + 1, limits[kind])


def _solved(seconds: Floats, waits: Sequence[Floats], depths: Sequence[int]) -> ByClass:
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

    jobs = len(seconds)
    classes = [(kind, position) for kind, depth in enumerate(depths) for position in range(1, depth + 1)]
    kinds, positions = np.array([kind for kind, _ in classes]), np.array([float(position) for _, position in classes])
    costs = seconds[:, kinds] * positions
    job_of, class_of = np.nonzero(np.isfinite(costs))
    job_costs = costs[job_of, class_of]
    wait_class = np.concatenate([np.full(len(waits[kind][:jobs]), a) for a, (kind, _) in enumerate(classes)])
    wait_costs = np.concatenate([waits[kind][:jobs] for kind, _ in classes])
    scale = UNITS / max(float(job_costs.max()), float(wait_costs.max()), math.ulp(1.0))
    sink = jobs + len(classes)
    flow = SimpleMinCostFlow()
    arcs = flow.add_arcs_with_capacity_and_unit_cost(
        np.concatenate([job_of, jobs + wait_class]).astype(np.int32),
        np.concatenate([jobs + class_of, np.full(len(wait_class), sink)]).astype(np.int32),
        np.ones(len(job_of) + len(wait_class), np.int64),
        np.rint(np.concatenate([job_costs, wait_costs]) * scale).astype(np.int64),
    )
    flow.set_nodes_supplies(np.arange(jobs, dtype=np.int32), np.ones(jobs, np.int64))
    flow.set_node_supply(sink, -jobs)
    status = flow.solve()
    if status != flow.OPTIMAL:
        raise ArithmeticError(f"the flow of {jobs} jobs over {len(classes)} classes has no optimum: {status}")
    used = np.flatnonzero(flow.flows(arcs[: len(job_of)]))
    jobs_by_class: ByClass = {}
    for arc in used:
        jobs_by_class.setdefault(classes[class_of[arc]], []).append(int(job_of[arc]))
    return jobs_by_class
