"""What is known of a block's result before it has run."""

from collections.abc import Mapping

from qoop.estimate.cardinality import Cardinalities
from qoop.estimate.statistics import UNKNOWN, ColumnStatistics, TableStatistics
from qoop.plans.plan import Block
from qoop.plans.predicate import Column

HAVING = 0.5
"""What conditions after grouping, and around the core, are assumed to keep."""


def result_statistics(
    block: Block, rows: Cardinalities | None, tables: Mapping[str, TableStatistics]
) -> TableStatistics:
    """The statistics of a block's result, from those of what it reads."""
    if rows is None or block.graph is None:
        read = [tables.get(name, UNKNOWN).rows for name in block.around]
        count = sum(read) if block.is_union else max(read, default=UNKNOWN.rows)
        return _plain(block, count)
    core = rows.rows(block.graph.everything)
    groups = core
    if block.keys is not None:
        groups = 1.0
        for key in block.keys:
            groups = min(groups * _distinct(rows, key, core), core)
    count = max(groups * (HAVING if block.around else 1.0), 1.0)
    columns = {
        output.name: ColumnStatistics(
            min(_distinct(rows, output.column, core), count), width=_width(rows, output.column)
        )
        for output in block.outputs
        if output.column is not None
    }
    return TableStatistics(count, count * 8.0 * len(block.outputs), columns)


def _plain(block: Block, rows: float) -> TableStatistics:
    return TableStatistics(max(rows, 1.0), max(rows, 1.0) * 8.0 * len(block.outputs))


def _distinct(rows: Cardinalities, column: Column, limit: float) -> float:
    index = rows.graph.bit[column.relation].bit_length() - 1
    leaf = rows.rows(1 << index)
    return max(min(rows.base(index).column(column.name).distinct, leaf, limit), 1.0)


def _width(rows: Cardinalities, column: Column) -> float:
    return rows.base(rows.graph.bit[column.relation].bit_length() - 1).column(column.name).width
