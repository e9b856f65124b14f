"""Finish-time fairness and bids of a search over time."""

from themis_agent.view.snapshot import Snapshot, clock
from yarn_plugin.quantities import count, number
from yarn_plugin.report import Column, Series, Table, Text, TimeChart
from yarn_plugin.report.markup import Block

MAX_BIDS = 100
"""Bids that are listed: the latest."""

MAX_POINTS = 600
"""Points of the chart: the latest."""


def fairness(shown: Snapshot) -> tuple[Block, ...]:
    """rho with what is held, as answered to the arbiter, and the bids."""
    history = shown.history
    held = tuple((at - shown.began, rho) for at, rho in history.rhos[-MAX_POINTS:])
    bid = tuple((one.at - shown.began, one.best_rho) for one in history.bids[-MAX_POINTS:])
    chart = TimeChart(
        "Finish-time fairness",
        "rho",
        tuple(one for one in (Series("with what is held", held, 0), Series("best of a bid", bid, 2)) if one.points),
        time="seconds since the beginning",
        limit=(1.0, "an equal part of the pool"),
    )
    unbounded = sum(rho is None for _, rho in held)
    note = f"Unbounded {count(unbounded, 'time')}: without GPUs it makes no progress." if unbounded else ""
    columns = (Column("time"), Column("GPUs offered", True), Column("rho without them", True), Column("rows", True),
               Column("best rho", True), Column("with GPUs", True))  # fmt: skip
    latest = history.bids[-MAX_BIDS:]
    rows = tuple(
        (
            clock(one.wall, shown.wall),
            one.offered,
            "unbounded" if one.rho is None else number(one.rho),
            one.rows,
            one.best_rho,
            one.best_gpus or None,
        )
        for one in reversed(latest)
    )
    shown_of = f"The latest {len(latest)} of {len(history.bids)} bids." if len(latest) < len(history.bids) else None
    table = Table(columns, rows, caption="Bids", note=shown_of, empty="No offer has come yet.")
    return (chart, Text(note, "muted"), table) if note else (chart, table)
