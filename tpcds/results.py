"""The results file of a run (`tpcds run --json`): a row per query, and totals."""

import math
from collections.abc import Iterable
from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

PLAN_COUNTS = {
    "join_trees": "join trees",
    "stages": "stages",
    "switches": "switches",
    "reused": "reused",
    "cancelled": "cancelled",
    "unused": "unused",
}
"""Counts of an engine that switches plans: fields of `QueryRow`, and their names in tables and charts."""


UNUSED = AliasChoices("unused", "backtracked")
"""The field `unused`, and its earlier name."""


class QueryRow(BaseModel):
    """One query. Comparisons not made and plan counts of an engine that does not switch are null.

    `reused`, `cancelled` and `unused` count stages; an unused one is finished, but the plans after it do not read it.
    """

    model_config = ConfigDict(frozen=True)
    query: int
    equal_to_spark: bool | None = None
    equal_to_duckdb: bool | None = None
    join_trees: int | None = None
    stages: int | None = None
    switches: int | None = None
    reused: int | None = None
    cancelled: int | None = None
    unused: int | None = Field(default=None, validation_alias=UNUSED)
    # The median over the repetitions, then each of them, in seconds.
    seconds: float | None = None
    repetitions: tuple[float, ...] = ()
    rows: int | None = None
    # All cells of the answer are NULL or 0.
    blank: bool = False
    one_stage_reason: str | None = None
    differences: tuple[str, ...] = ()
    error: str | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether the query failed, or its answer differs from a reference."""
        return self.error is not None or self.equal_to_spark is False or self.equal_to_duckdb is False


class Totals(BaseModel):
    """Totals over all queries; plan counts are null for an engine that does not switch plans."""

    model_config = ConfigDict(frozen=True)
    queries: int
    failed: tuple[int, ...]
    compared_with_spark: int
    equal_to_spark: int
    compared_with_duckdb: int
    equal_to_duckdb: int
    non_empty: int
    empty: tuple[int, ...]
    only_null_or_zero: tuple[int, ...]
    several_join_trees: int | None
    switches: int | None
    reused: int | None
    cancelled: int | None
    unused: int | None = Field(validation_alias=UNUSED)
    seconds: float
    seconds_geometric_mean: float | None


class Report(BaseModel):
    """The results file."""

    model_config = ConfigDict(frozen=True)
    version: Literal[1] = 1
    engine: str
    compared_with: tuple[str, ...]
    master: str
    confs: dict[str, str]
    scale: float | None
    switch_every_stage: bool
    repeat: int
    queries: tuple[QueryRow, ...]
    totals: Totals


def totals(rows: Iterable[QueryRow]) -> Totals:
    """The totals over the rows of a run."""
    rows = tuple(rows)
    times = [row.seconds for row in rows if row.seconds]
    return Totals(
        queries=len(rows),
        failed=tuple(row.query for row in rows if row.error is not None),
        compared_with_spark=sum(row.equal_to_spark is not None for row in rows),
        equal_to_spark=sum(row.equal_to_spark is True for row in rows),
        compared_with_duckdb=sum(row.equal_to_duckdb is not None for row in rows),
        equal_to_duckdb=sum(row.equal_to_duckdb is True for row in rows),
        non_empty=sum(bool(row.rows) for row in rows),
        empty=tuple(row.query for row in rows if row.rows == 0),
        only_null_or_zero=tuple(row.query for row in rows if row.rows and row.blank),
        several_join_trees=_sum(None if row.join_trees is None else int(row.join_trees > 1) for row in rows),
        switches=_sum(row.switches for row in rows),
        reused=_sum(row.reused for row in rows),
        cancelled=_sum(row.cancelled for row in rows),
        unused=_sum(row.unused for row in rows),
        seconds=sum(times),
        seconds_geometric_mean=math.exp(sum(map(math.log, times)) / len(times)) if times else None,
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
