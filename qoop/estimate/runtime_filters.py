"""Spark's runtime filters: the table sizes for which a query uses them.

Spark can drop rows of a table early if a Bloom filter shows that no row on the other side of a join matches them. By
default it does so only where it scans a table of 10 GB or more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_MADE_OF = 100.0e6
"""The largest table, in bytes, that a filter is made of: it is read a second time for that."""

MEMORY_PART = 40.0
"""The largest table as a part of the driver's memory, one in 40: Spark broadcasts, through the driver, what a filter
makes small."""

MIN_FILTERED = 1.0e6
"""The smallest table, in bytes, that is filtered where Spark broadcasts no tables, or only very small ones."""


@dataclass(frozen=True, slots=True)
class FilterSizes:
    """The smallest table to filter and the largest one to make a filter of, in bytes."""

    filtered: float
    made_of: float


def filter_sizes(sizes: Sequence[float | None], broadcast_bytes: float, driver_memory: float) -> FilterSizes | None:
    """The sizes for a query that reads these tables, in bytes, None for unknown ones; None: leave them to Spark.

    Where at most one table is too large to be broadcast, Spark shuffles none to join it, and filters cost more than
    they save.
    """
    shuffled = [size for size in sizes if size is None or size > broadcast_bytes]
    if len(shuffled) < 2:
        return None
    known = [size for size in shuffled if size is not None]
    largest = max(known) if len(known) == len(shuffled) else MAX_MADE_OF
    return FilterSizes(max(broadcast_bytes, MIN_FILTERED), min(largest, MAX_MADE_OF, driver_memory / MEMORY_PART))
