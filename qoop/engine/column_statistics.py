"""Statistics of columns as ANALYZE TABLE ... FOR COLUMNS stored them in Spark's catalogue."""

import math
import re
from dataclasses import replace
from functools import lru_cache
from typing import Any

from qoop.estimate.statistics import ColumnStatistics, TableStatistics

SIMILAR = 2.0
"""By how many times the number of rows may have changed since, for the statistics to be of use."""

ROWS = re.compile(r"CatalogStatistics\((?P<bytes>\d+),Some\((?P<rows>\d+)\),")
COLUMN = re.compile(r"(?:Map\(|, )(.+?) -> CatalogColumnStat\(" + ",".join([r"(?:Some\((.*?)\)|None)"] * 5))
"""Name; distinct values, minimum, maximum, NULLs, average length."""


def catalogue_statistics(plan: Any) -> str | None:
    """What the catalogue knows of the table that a plan reads and does nothing else, as Spark prints it."""
    if str(plan.getClass().getSimpleName()) != "LogicalRelation":
        return None
    table = plan.catalogTable()
    return str(table.get().stats().toString()) if table.isDefined() else None


def rows_and_bytes(text: str | None) -> tuple[float, float] | None:
    """The rows and bytes in printed statistics; None if they have no rows, or are not there."""
    found = ROWS.search(text) if text is not None else None
    if found is None or "0" in (found["rows"], found["bytes"]):
        return None
    return float(found["rows"]), float(found["bytes"])


def with_analysed(known: TableStatistics, text: str | None) -> TableStatistics:
    """Statistics of a table with those of its columns that were analysed, unless it has changed much since then."""
    rows, columns = _analysed(text) if text is not None else (0.0, {})
    if not known.rows / SIMILAR <= rows <= known.rows * SIMILAR:
        return known
    merged = {
        name: replace(
            found,
            distinct=max(min(found.distinct, known.rows), 1.0),
            width=known.columns[name].width if name in known.columns else found.width,
        )
        for name, found in columns.items()
    }
    return replace(known, columns=known.columns | merged)


@lru_cache(256)
def _analysed(text: str) -> tuple[float, dict[str, ColumnStatistics]]:
    """Rows and columns in printed statistics; no rows if Spark has not counted them."""
    rows = ROWS.search(text)
    if rows is None or rows["rows"] == "0":
        return 0.0, {}
    count = float(rows["rows"])
    return count, {
        name.lower(): ColumnStatistics(
            distinct=float(distinct),
            nulls=float(nulls or 0) / count,
            # Lengths vary only where there are no limits, as of texts.
            width=8.0 if low else 8.0 + float(length or 0),
            low=_number(low),
            high=_number(high),
        )
        for name, distinct, low, high, nulls, length in COLUMN.findall(text)
        if distinct
    }


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        # A date, or nothing.
        return None
    return number if math.isfinite(number) else None
