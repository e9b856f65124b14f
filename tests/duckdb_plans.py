"""Runs candidate plans stage by stage in DuckDB, to compare their result with that of the query as written."""

from collections import Counter
from decimal import Decimal

import duckdb
import sqlglot

from qoop.estimate.cost import CostModel
from qoop.estimate.statistics import ColumnStatistics, TableStatistics, distinct_values
from qoop.parsing.render import stage_query
from qoop.parsing.spark_sql import DIALECT
from qoop.parsing.statement import parse_statement
from qoop.planner import plan
from qoop.plans.candidates import CutPolicy
from qoop.plans.plan import RESULT, view_name

EVERYWHERE = CutPolicy(everywhere=True)


class Tables:
    """Tables in a DuckDB of their own; the planner's catalogue of them, and their statistics."""

    def __init__(self, *statements):
        self.connection = duckdb.connect(config={"threads": 1})
        for statement in statements:
            self.connection.execute(statement)

    def columns(self, table):
        name = table.replace("`", "").lower().split(".")[-1]
        found = self.connection.execute(
            "SELECT column_name, data_type FROM information_schema.columns WHERE lower(table_name) = ?"
            " ORDER BY ordinal_position",
            [name],
        ).fetchall()
        return {column.lower(): _spark_type(kind) for column, kind in found} or None

    def statistics(self, table):
        relation = self.connection.execute(f"SELECT * FROM {_duck_name(table)}")
        names = [column[0].lower() for column in relation.description]
        rows = relation.fetchall()
        sample = {name: tuple(_plain(row[i]) for row in rows) for i, name in enumerate(names)}
        columns = {name: ColumnStatistics(distinct_values(values, len(rows), None)) for name, values in sample.items()}
        return TableStatistics(float(len(rows)), 100.0 * len(rows), columns, sample)

    def plan(self, text, cut_policy=EVERYWHERE):
        return plan(parse_statement(text), self, self.statistics, cut_policy, CostModel())

    def rows(self, text):
        """The rows of a query as written, as a multiset."""
        return Counter(_comparable(row) for row in self.connection.execute(_duck(text)).fetchall())

    def staged(self, planned, choices, lose=0):
        """The rows of a query whose stages are taken in turn from the plans that `choices` gives.

        `choices`: a random.Random, which picks plans and stages. `lose`: so many outputs are lost on the way.
        """
        database = self.connection.cursor()
        database.execute("BEGIN")
        try:
            ready = frozenset()
            while True:
                chosen = choices.choice(planned.plans)
                stages = chosen.stages(ready)
                stage = choices.choice([one for one in stages if chosen.reads(one, ready) <= ready])
                text = _duck(stage_query(planned.text, chosen, stage, sorted(chosen.reads(stage, ready))))
                if stage == RESULT:
                    return Counter(_comparable(row) for row in database.execute(text).fetchall())
                database.execute(f'CREATE OR REPLACE TABLE "{view_name(stage)}" AS {text}')
                ready |= {stage}
                if lose and choices.random() < 0.3:
                    lose -= 1
                    ready -= {choices.choice(sorted(ready))}
        finally:
            database.execute("ROLLBACK")


def _duck(text):
    return sqlglot.transpile(text, read=DIALECT, write="duckdb")[0]


def _duck_name(table):
    return table.replace("`", '"')


def _spark_type(kind):
    names = {"integer": "int", "varchar": "string", "real": "float", "timestamp with time zone": "timestamp"}
    return names.get(kind.lower(), kind.lower())


def _plain(value):
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return float(value) if isinstance(value, Decimal) else str(value)


def _comparable(row):
    return tuple(round(float(value), 6) if isinstance(value, float | Decimal) else _hashable(value) for value in row)


def _hashable(value):
    return repr(value) if isinstance(value, list | dict | set) else value
