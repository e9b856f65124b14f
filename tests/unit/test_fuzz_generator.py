"""The generator of the fuzz: the same case for a seed, all constructs and settings, shrinking to what fails."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from qoop.parsing import query
from qoop.parsing.statement import parse_statement
from tests.fuzz import query as queries
from tests.fuzz.bugs import BUGS
from tests.fuzz.case import Case, by_world, make, world
from tests.fuzz.coverage import Coverage
from tests.fuzz.results import Results
from tests.fuzz.run import Result, Run, difference
from tests.fuzz.settings import CONFLICTS, QUOTED, SETTINGS, values
from tests.fuzz.shrink import reductions, shrink, shrunk
from tests.fuzz.tree import Expr, Item, Join, Order, Query, Select, Source, expr, nodes

SEEDS = range(300)


def test_a_seed_has_one_case():
    assert [make(seed) for seed in range(40)] == [make(seed) for seed in range(40)]
    assert len({make(seed).text for seed in SEEDS}) == len(SEEDS)
    assert make(7, attempt=1).text != make(7).text


def test_cases_of_one_world_have_the_same_tables():
    assert make(0).tables == make(24).tables == world(0)
    assert make(25).tables != world(0)


def test_a_repeated_query_has_other_rows_in_the_same_columns():
    case = make(7)
    later = case.later()
    assert case.is_repeated and not make(8).is_repeated
    assert case.text == later.text and later == case.later()
    for before, after in zip(case.tables, later.tables, strict=True):
        assert (before.name, before.columns, len(before.rows)) == (after.name, after.columns, len(after.rows))
        assert (before.rows == after.rows) == (before not in case.read)


def test_every_text_is_one_statement():
    for seed in SEEDS[:60]:
        case = make(seed)
        if QUOTED not in case.settings:
            assert parse_statement(case.text).query is not None


def test_all_constructs_and_settings_occur():
    cases = [make(seed) for seed in range(800)]
    constructs = Counter(construct for case in cases for construct in case.constructs)
    settings = Counter(name for case in cases for name in case.settings)
    assert len(constructs) > 55 and min(constructs.values()) >= 4
    assert settings.keys() == SETTINGS.keys() and min(settings.values()) >= 20
    assert not any(len(group & {*case.settings}) > 1 for case in cases for group in CONFLICTS)


def test_a_limit_has_an_order_by_all_columns():
    for seed in SEEDS:
        for node in nodes(make(seed).query):
            if isinstance(node, Query) and node.limit is not None:
                body = next(one for one in nodes(node.body) if isinstance(one, Select))
                assert {key.place for key in node.order} == set(range(len(body.items)))


def test_no_order_is_by_values_that_are_equal_but_different():
    made = Query(_select("a.nick", "a.k"))
    for seed in SEEDS:
        writer = queries._Writer(Random(seed), world(0), ())
        ordered = writer.ordered(made, (("o0", "folded"), ("o1", "int")), True, limited=False)
        assert [key.place for key in ordered.order] == [1]


class OrderlessLab:
    """A lab in which every case is said to differ, and columns are counted."""

    def expected(self, case):
        return Result(tuple((item.alias, "int") for item in case.query.body.items))

    def compare(self, case, expected):
        assert all(key.place < len(expected.columns) for key in case.query.order)
        return _run(0, difference="has its rows in another order" if case.query.order else None)


def test_a_failure_with_an_order_keeps_its_columns():
    made = Query(_select("a.k", "a.g", where=(expr("a.k > 1"),)), order=(Order("2", 1),), limit=3)
    small = shrink(OrderlessLab(), Case(0, 0, (), (), made, frozenset()))
    assert str(small.query) == "SELECT a.k AS o0, a.g AS o1 FROM r AS a ORDER BY 2"


def test_a_golden_case_has_its_tables_settings_and_text():
    case = make(3)
    lines = case.golden().splitlines()
    assert case.settings
    assert lines[0] == f"-- seed 3: {', '.join(case.settings)}" and lines[-1] == case.text + ";"
    for name, value in values(case.settings).items():
        assert f"SET {name}={value};" in lines


def _select(*columns, joins=(), where=()):
    items = tuple(Item(expr(column), f"o{place}") for place, column in enumerate(columns))
    return Select(items, Source("r", "a"), joins, where)


def test_the_text_of_a_tree():
    inner = Query(_select("a.k"))
    join = Join("LEFT JOIN", Source(inner, "b"), (expr("a.k = b.o0"), expr("b.o0 > 1")))
    made = Query(_select("a.k", joins=(join,), where=(expr("a.k IN ", inner),)), order=(Order("o0 DESC", 0),), limit=3)
    assert str(made) == (
        "SELECT a.k AS o0 FROM r AS a LEFT JOIN (SELECT a.k AS o0 FROM r AS a) AS b ON a.k = b.o0 AND b.o0 > 1 "
        "WHERE a.k IN (SELECT a.k AS o0 FROM r AS a) ORDER BY o0 DESC LIMIT 3"
    )


def _left_joins(body):
    return isinstance(body, Select) and any(join.kind == "LEFT JOIN" for join in body.joins)


def test_a_failure_shrinks_to_what_causes_it():
    case = next(
        make(seed) for seed in SEEDS if make(seed).text.count("JOIN") > 3 and _left_joins(make(seed).query.body)
    )
    small = shrunk(case, lambda one: "LEFT JOIN" in one.text, 5000)
    assert len(small.text) < 250 < len(case.text)
    assert small.text.count("JOIN") == 1 and small.settings == ()
    assert all(not table.rows for table in small.tables if f" {table.name} " in small.text.lower())


def test_a_reduction_drops_what_mentions_a_dropped_source():
    joins = (Join("JOIN", Source("q", "b"), (expr("a.k = b.k"),)), Join("JOIN", Source("p", "c"), (expr("b.k = c.k"),)))
    made = _select("a.k", "b.g", joins=joins, where=(expr("b.k > 1"), expr("a.k > 2")))
    case = Case(0, 0, (), (), Query(made), frozenset())
    assert "SELECT a.k AS o0 FROM r AS a CROSS JOIN p AS c WHERE a.k > 2" in {one.text for one in reductions(case)}


def test_rows_are_compared_as_bags_and_by_their_order():
    case = Case(0, 0, (), (), Query(_select("a.k", "a.g"), order=(Order("o0", 0),)), frozenset())

    def rows(*found):
        return Result((("o0", "int"), ("o1", "int")), found)

    assert difference(case, rows((1, 2), (1, 3)), rows((1, 3), (1, 2))) is None, "o1 is in any order"
    assert "order" in difference(case, rows((1, 2), (2, 3)), rows((2, 3), (1, 2)))
    assert "2 rows instead of 1" in difference(case, rows((1, 2)), rows((1, 2), (1, 2)))
    assert "columns" in difference(case, rows((1, 2)), replace(rows((1, 2)), columns=(("o0", "int"), ("O1", "int"))))
    assert "raises" in difference(case, rows((1, 2)), Result(error="an error"))
    assert difference(case, Result(error="an error"), rows((1, 2))) is None, "Spark may evaluate fewer rows"


def _run(seed, **changes):
    made = Run(seed, 0, ("ansi off",), ("CTE",), None, 3, stages=2, switches=1, seconds=(0.5, 1.0))
    return replace(made, **changes)


def test_results_are_resumed(tmp_path):
    results = Results(tmp_path / "results.jsonl")
    results.add(_run(2))
    results.add(_run(1))
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"seed": 3, "att')
    assert results.runs() == [_run(1), _run(2)]


def test_coverage_counts_runs_that_spark_itself_can_run():
    runs = [_run(0), _run(1, stages=1, switches=0, as_written=True, rows=0), _run(2, failed=True)]
    coverage = Coverage.of(runs)
    assert coverage.shares() == {
        "two stages or more": 0.5, "switched to another tree": 0.5, "returned rows": 0.5, "as written": 0.5,
    }  # fmt: skip
    assert [line.partition(":")[0] for line in coverage.missed()] == [
        "two stages or more",
        "returned rows",
        "as written",
    ]
    assert coverage.cells() == {("CTE", "ansi off"): 2}
    assert coverage.sparse()["CTE", "none"] == 0


def test_seeds_are_found_that_run_rare_constructs():
    often = [_run(seed, constructs=("LATERAL VIEW",), settings=(name,)) for seed, name in enumerate(SETTINGS)] * 30
    assert Coverage.of(often).sparse() == {("LATERAL VIEW", "none"): 0}
    found = Coverage.of(often).filling(range(5_000))
    assert 0 < len(found) <= 30
    cases = [make(seed) for seed in found]
    assert all("LATERAL VIEW" in case.constructs and not case.settings for case in cases)


def test_constructs_that_mean_nothing_under_a_setting_are_not_missed():
    sparse = Coverage.of([_run(0, constructs=('"name"',))]).sparse()
    assert ('"name"', "zone east") in sparse and ('"name"', "none") not in sparse


def test_expressions_keep_queries_inside():
    inner = Query(_select("a.k"))
    assert expr("x IN ", inner, expr(" AND ", "y")) == Expr(("x IN ", inner, " AND ", "y"))


@pytest.mark.parametrize("name", BUGS)
def test_a_defect_is_put_where_the_planner_has_something(name):
    with BUGS[name]():
        pass


class OneTable:
    """A catalogue in which every table has the same columns."""

    def columns(self, table):
        return {"k": "int", "g": "int"}


def test_defects_change_blocks_as_they_say():
    text = parse_statement("SELECT a.k FROM r AS a WHERE a.k NOT IN (SELECT c.`g` AS one FROM q AS c)").query
    with BUGS["NOT IN ignores NULLs"]():
        (block,) = query.split_query(text, OneTable()).blocks.values()
    assert "NOT `a`.`k` IN (SELECT `c`.`g` AS `one` FROM q AS `c` WHERE NOT `c`.`g` IS NULL)" in block.sql("spark")


def test_a_filter_is_pushed_into_a_block_that_others_read_by_its_defect():
    text = "WITH c AS (SELECT k, g FROM r) SELECT a.k FROM c AS a JOIN c AS b ON a.k = b.k WHERE a.g > 1"
    name = "a filter pushed into a block that others read too"

    def filters():
        split = query.split_query(parse_statement(text).query, OneTable())
        blocks = query.push_down_filters(split).blocks.values()
        return sorted(block.sql("spark").count("WHERE") for block in blocks)

    assert filters() == [0, 1, 1], "a copy is filtered, and the result as before"
    with BUGS[name]():
        assert filters() == [1, 1], "the only one is"


def test_seeds_of_one_world_stay_together():
    assert by_world([3, 24, 25, 60]) == [[3, 24], [25], [60]]
