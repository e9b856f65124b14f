"""A run: answers are compared, plans counted, failures reported without ending the run."""

from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from tpcds import show
from tpcds.answers import Answer, PlanCounts
from tpcds.errors import EngineError
from tpcds.results import QueryRow, Report, totals
from tpcds.suite import NamedEngine, run_suite

SWITCHED = PlanCounts(join_trees=5, stages=4, switches=2, reused=1, cancelled=1, unused=0)
ONE_STAGE = PlanCounts(1, 1, 0, 0, 0, 0, one_stage_reason="one relation")


class Scripted:
    """Answers from a table of text -> rows; a text it does not know fails."""

    def __init__(self, rows: dict[str, list[tuple[Any, ...]]], plan: PlanCounts | None = None) -> None:
        self.rows, self.plan, self.asked = rows, plan, 0

    def run(self, sql: str) -> Answer:
        self.asked += 1
        if sql not in self.rows:
            raise EngineError(f"cannot {sql}")
        return Answer(("a",), self.rows[sql], float(self.asked), self.plan)


def text_of(number: int, dialect: str) -> str:
    return f"{dialect} {number}"


def named_engine(name: str, rows: dict[int, list[tuple[Any, ...]]], plan: PlanCounts | None = None) -> NamedEngine:
    dialect = "duckdb" if name == "duckdb" else "spark"
    return NamedEngine(
        name, dialect, Scripted({text_of(number, dialect): answer for number, answer in rows.items()}, plan)
    )


def run(numbers: list[int], measured: NamedEngine, *references: NamedEngine, repeat: int = 1) -> list[QueryRow]:
    return list(run_suite(numbers, measured, references, repeat, text_of))


def report(rows: list[QueryRow]) -> Report:
    return Report(
        engine="qoop",
        compared_with=("spark", "duckdb"),
        master="local[2]",
        confs={},
        scale=0.1,
        switch_every_stage=True,
        repeat=1,
        queries=tuple(rows),
        totals=totals(rows),
    )


def printed(rows: list[QueryRow]) -> str:
    terminal = Console(file=StringIO(), width=160)
    terminal.print(show.query_rows(rows))
    for line in show.summary(report(rows)):
        terminal.print(line, markup=False)
    assert isinstance(terminal.file, StringIO)
    return terminal.file.getvalue()


def test_equal_answers() -> None:
    (row,) = run(
        [1], named_engine("qoop", {1: [(1,)]}), named_engine("spark", {1: [(1,)]}), named_engine("duckdb", {1: [(1,)]})
    )
    assert (row.equal_to_spark, row.equal_to_duckdb, row.differences) == (True, True, ())
    assert not row.is_wrong


def test_an_answer_that_differs_from_one_reference() -> None:
    measured = named_engine("qoop", {1: [(Decimal("0.10"),)]})
    spark, duckdb = named_engine("spark", {1: [(Decimal("0.1"),)]}), named_engine("duckdb", {1: [(Decimal("0.11"),)]})
    (row,) = run([1], measured, spark, duckdb)
    assert (row.equal_to_spark, row.equal_to_duckdb) == (True, False)
    assert row.differences == ("qoop differs from duckdb: row 1, column a: 0.10 instead of 0.11",)
    assert row.is_wrong


def test_only_the_first_differences_are_listed_but_all_are_counted() -> None:
    many = [(number,) for number in range(50)]
    (row,) = run([1], named_engine("qoop", {1: many}), named_engine("spark", {1: []}))
    assert len(row.differences) == 6
    assert row.differences[-1] == "qoop differs from spark: 50 differences in total"


def test_an_answer_that_was_not_compared_is_neither_equal_nor_different() -> None:
    (row,) = run([1], named_engine("spark", {1: [(1,)]}))
    assert (row.equal_to_spark, row.equal_to_duckdb) == (None, None)
    assert not row.is_wrong


def test_a_query_that_fails_does_not_end_the_run() -> None:
    rows = run([1, 2], named_engine("spark", {2: [(1,)]}), named_engine("duckdb", {2: [(1,)]}))
    assert [row.error for row in rows] == ["cannot spark 1", None]
    assert [row.is_wrong for row in rows] == [True, False]
    assert totals(rows).failed == (1,)


def test_a_failed_reference_engine_is_reported_and_not_counted_as_equal() -> None:
    (row,) = run([1], named_engine("spark", {1: [(1,)]}), named_engine("duckdb", {}))
    assert row.equal_to_duckdb is False
    assert row.differences == ("not compared with duckdb, which failed: cannot duckdb 1",)


def test_repetitions_give_the_median() -> None:
    (row,) = run([1], named_engine("spark", {1: [(1,)]}), repeat=3)
    assert (row.seconds, row.repetitions) == (2.0, (1.0, 2.0, 3.0))


@pytest.mark.parametrize(
    ("rows", "blank"), [([], True), ([(0,)], True), ([(None,)], True), ([(None,), ("x",)], False), ([(0.5,)], False)]
)
def test_an_answer_of_only_null_and_zero_is_marked(rows: list[tuple[Any, ...]], blank: bool) -> None:
    (row,) = run([1], named_engine("spark", {1: rows}))
    assert (row.rows, row.blank) == (len(rows), blank)


def test_plans_are_counted_over_the_suite() -> None:
    rows = run([1, 2], named_engine("qoop", {1: [(1,)], 2: []}, SWITCHED))
    rows += run([3], named_engine("qoop", {3: [(0,)]}, ONE_STAGE))
    total = totals(rows)
    assert (total.switches, total.reused, total.cancelled, total.unused) == (4, 2, 2, 0)
    assert (total.several_join_trees, total.queries, total.non_empty) == (2, 3, 2)
    assert (total.empty, total.only_null_or_zero) == ((2,), (3,))


def test_plan_counts_are_missing_for_an_engine_that_does_not_switch() -> None:
    total = totals(run([1], named_engine("spark", {1: [(1,)]})))
    assert (total.switches, total.several_join_trees) == (None, None)


def test_the_printed_summary() -> None:
    spark = named_engine("spark", {1: [(1,)], 2: [(2,)], 3: []})
    rows = run([1, 2, 3], named_engine("qoop", {1: [(1,)], 2: [(3,)]}, SWITCHED), spark)
    rows += run([4], named_engine("qoop", {4: [(0,)]}, ONE_STAGE))
    text = printed(rows)
    assert "equal to Spark: 1 of 2" in text
    assert "equal to DuckDB" not in text
    assert "answers with rows: 3 of 4" in text
    assert "a weak check: 1 (queries: 4)" in text
    assert "switches 4, reused 2, cancelled 2, unused 0" in text
    assert "run as one stage, one relation (queries: 4)" in text
    assert "query 2: qoop differs from spark: row 1, column a: 3 instead of 2" in text
    assert "query 3 failed: cannot spark 3" in text


def test_the_results_file_has_a_row_for_each_query() -> None:
    written = report(run([1], named_engine("qoop", {1: [(1,)]}, SWITCHED))).model_dump(mode="json")
    wanted = "query equal_to_spark equal_to_duckdb join_trees stages switches reused cancelled unused seconds"
    assert set(wanted.split()) <= set(written["queries"][0])
    assert Report.model_validate(written).queries[0].join_trees == 5


def test_results_with_the_earlier_name_of_unused_outputs():
    assert QueryRow.model_validate({"query": 1, "backtracked": 2}).unused == 2
