"""Where the time of a plan goes: scans, joins, shuffles, stored outputs, and waiting for the driver."""

from dataclasses import replace
from enum import StrEnum

from qoop.estimate.cost import CostModel
from qoop.estimate.estimator import Estimator
from qoop.estimate.speed import SECONDS
from qoop.plans.plan import Plan


class Part(StrEnum):
    """A part of a plan's work, as people call it."""

    SCANS = "scans"
    JOINS = "hash joins and broadcasts"
    GROUPING = "grouping"
    SHUFFLES = "shuffles"
    STORED = "storing and reading stages"
    DRIVER = "starting stages"


COSTS: dict[Part, tuple[str, ...]] = {
    Part.SCANS: ("scan_row", "scan_value", "file_seconds"),
    Part.JOINS: ("build_row", "probe_row", "result_row"),
    Part.GROUPING: ("group_row",),
    Part.SHUFFLES: ("shuffle_row", "shuffle_byte"),
    Part.STORED: ("read_byte", "write_byte"),
    Part.DRIVER: ("stage_seconds", "exchange_seconds", "concurrent_seconds"),
}
"""The costs of each part; each cost is of one part, and work is linear in them."""


def breakdown(plan: Plan, estimator: Estimator, slots: float) -> dict[Part, float]:
    """The seconds of each part of a plan, if its stages ran one after the other on this many slots."""
    return {part: _seconds(plan, estimator.with_model(_only(estimator.model, part)), slots) for part in Part}


def _only(model: CostModel, part: Part) -> CostModel:
    return replace(model, **dict.fromkeys(set(SECONDS) - set(COSTS[part]), 0.0))


def _seconds(plan: Plan, estimator: Estimator, slots: float) -> float:
    return sum(estimator.work(plan, stage).seconds(slots) for stage in plan.stages())
