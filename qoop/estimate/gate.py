"""The gate before planning: queries that Spark would end before planning could pay off run as written."""

from collections.abc import Sequence
from dataclasses import dataclass

from qoop.as_written.causes import StopsEarly, TooSmall


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a query reads.

    `sizes`: for each table that it reads, in bytes, those of the partitions and columns that it reads; None if unknown.
    `named`: how many tables it names, those included that Spark does not read. `stops_early`: it returns any rows up to
    a limit, so that Spark need not read its largest table to the end, unless it shuffles it to join another large one.
    """

    sizes: tuple[float | None, ...]
    stops_early: bool = False
    named: int = 0

    @property
    def tables(self) -> int:
        """How many tables a plan of the query has to do with."""
        return max(len(self.sizes), self.named)


@dataclass(frozen=True, slots=True)
class Gate:
    """When a query is worth planning; fitted to TPC-DS at scale 1 on two slots.

    `gain`: how many times the cost of planning Spark's own time must be. `planning_seconds`, `planning_per_table`,
    `planning_per_character`: the cost of planning, the last for characters beyond `USUAL_TEXT`. `query_seconds`:
    Spark's fixed time. `scan_bytes`: bytes that a slot reads and joins in a second. `shuffle_bytes`: the same for a
    table that is shuffled: any but the largest that is above `broadcast_bytes`.
    """

    gain: float = 10.0
    planning_seconds: float = 0.02
    planning_per_table: float = 0.01
    planning_per_character: float = 1.2e-5
    query_seconds: float = 0.1
    scan_bytes: float = 60e6
    shuffle_bytes: float = 15e6
    broadcast_bytes: float = 10 * 1024 * 1024

    def cause(
        self, inputs: Inputs, slots: float, took: float | None = None, characters: int = 0
    ) -> TooSmall | StopsEarly | None:
        """Why a query of so many characters is not worth planning on this many slots; None if it may be.

        `took`: the seconds of an earlier run as written, if there was one. A short one says nothing, as others may be
        longer; a long one shows what sizes do not: a join with a large result, or a small file of many rows.
        """
        worth = self.min_seconds(inputs.tables, characters)
        if took is not None and took > worth:
            return None
        if inputs.stops_early and not self._shuffles(inputs.sizes):
            return StopsEarly()
        known = [size for size in inputs.sizes if size is not None]
        if len(known) < len(inputs.sizes):
            return None
        seconds = self.seconds(known, slots)
        return None if seconds > worth else TooSmall(seconds, worth)

    def _shuffles(self, sizes: Sequence[float | None]) -> bool:
        """Whether Spark may have to shuffle tables, and so to read them to the end before it returns a row."""
        return sum(size is None or size > self.broadcast_bytes for size in sizes) > 1

    def min_seconds(self, tables: int, characters: int = 0) -> float:
        """The time of Spark from which planning pays off, for a query of so many tables and characters."""
        text = self.planning_per_character * max(characters - USUAL_TEXT, 0)
        return self.gain * (self.planning_seconds + self.planning_per_table * tables + text)

    def seconds(self, sizes: Sequence[float], slots: float) -> float:
        """The time that Spark is expected to need for tables of these sizes."""
        large = [size for size in sorted(sizes)[:-1] if size > self.broadcast_bytes]
        core_seconds = sum(sizes) / self.scan_bytes + sum(large) / self.shuffle_bytes
        return self.query_seconds + core_seconds / max(slots, 1.0)

    def bytes_to_know(self, slots: float, tables: int = 0, characters: int = 0) -> float:
        """A size from which on a table alone is worth planning, in a query of so many tables, or `MANY_TABLES`."""
        return self.scan_bytes * slots * self.min_seconds(max(tables, MANY_TABLES), characters)


USUAL_TEXT = 5_000
"""How many characters a query usually has at most; those of longer ones are mostly lists of values."""

MANY_TABLES = 50
"""More tables than a query usually names."""
