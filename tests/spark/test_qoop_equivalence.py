"""Plans compared with the query as written: those of the planner are equivalent, those with a defect are not."""

import pytest
from pyspark.sql import SparkSession
from sqlglot import exp, parse_one

from qoop.engine.catalogue import SparkCatalogue
from qoop.engine.session import query_session
from qoop.engine.verification import DifferentPlanError, Verification
from qoop.errors import CannotSplitError, UnknownNameError
from qoop.estimate.cost import CostModel
from qoop.parsing.render import plan_query
from qoop.parsing.spark_sql import DIALECT
from qoop.parsing.statement import ParsedText
from qoop.planner import plan
from qoop.plans.candidates import CutPolicy
from tests.sampled import one_in
from tests.unit.test_qoop_rewriting import CASES

pytestmark = pytest.mark.integration

TABLES = {
    "a": "id int, x int, y string, d date",
    "b": "id int, x int, z string, amt decimal(7, 2)",
    "c": "id int, y string, w double",
    "t": "x int",
    "e": "id int, x int",
    "underscored": "x int, g__id int",
}


@pytest.fixture(scope="module")
def spark():
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    session.sql("CREATE DATABASE IF NOT EXISTS main")
    for name, columns in TABLES.items():
        session.createDataFrame([], columns).createOrReplaceTempView(name)
    yield session
    session.stop()


class Compared:
    """A query, its plans as single texts, and their comparison with the query as written."""

    def __init__(self, spark, text):
        self.written = spark.sql(text)
        catalogue = SparkCatalogue(spark)
        cut = CutPolicy(everywhere=True)
        statement = ParsedText(text).statement
        assert statement is not None
        self.planned = plan(statement, catalogue, catalogue.statistics, cut, CostModel())
        self.verification = Verification(self.written, query_session(spark))

    def texts(self):
        """The texts of the first and of the last plan."""
        plans = self.planned.plans
        return [plan_query(self.planned.text, one) for one in (plans[0], *plans[1:][-1:])]

    def differs(self, text):
        try:
            self.verification.check(text)
        except DifferentPlanError as problem:
            return str(problem)
        return None


NOT_OF_SPARK = ("main.", "reflect(", "JOIN b JOIN c ON")
"""Texts that Spark rejects."""


OF_SPARK = [case for case in CASES if not any(text in case.text for text in NOT_OF_SPARK)]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if number % 8 == 0 else pytest.mark.matrix)
        for number, case in enumerate(OF_SPARK)
    ],
)
def test_plans_of_queries_that_are_easily_rewritten_wrongly(spark, case):
    try:
        compared = Compared(spark, case.text)
    except (CannotSplitError, UnknownNameError):
        return
    found = {compared.differs(text) for text in compared.texts()}
    if ("LIMIT" in case.text or "OVER" in case.text) and found != {None}:
        (reason,) = found
        assert reason is not None and "inside the query" in reason
    else:
        assert found == {None}


def test_plans_whose_stages_have_subqueries_over_other_stages(spark):
    compared = Compared(
        spark,
        "SELECT a.y, s.w FROM a JOIN (SELECT id, c.w, count(*) AS n FROM b JOIN c USING (id) JOIN e USING (id)"
        " GROUP BY id, c.w) AS s ON s.id = a.id JOIN t ON t.x = a.x",
    )
    nested = [text for text in compared.texts() if "(WITH" in text]
    assert nested
    assert {compared.differs(text) for text in nested} == {None}


QUERY = """
WITH q AS (SELECT id, max(x) AS x, count(DISTINCT z) AS n FROM b GROUP BY id)
SELECT DISTINCT a.y, c.w + 1 AS w, q.x, coalesce(q.n, 0) AS n, CASE WHEN a.x > 1 THEN 'p' ELSE 'q' END AS k
FROM a JOIN q ON a.id = q.id JOIN c ON c.id = q.id AND c.w < 5 LEFT JOIN e ON e.id = a.id AND e.x > 2
WHERE a.d >= DATE '2000-01-02' AND a.y IN ('p', 'q') AND a.x NOT IN (SELECT x FROM t WHERE x IS NOT NULL)
  AND (a.x = 1 OR a.y = 'p') AND EXISTS (SELECT 1 FROM underscored AS u WHERE u.x = a.x)
ORDER BY a.y DESC, q.x NULLS LAST LIMIT 10
"""


def _first(tree, kind, matches=lambda node: True):
    return next(node for node in tree.find_all(kind) if matches(node))


def _drop_condition(number):
    """Drop one conjunct of all conditions in the text."""

    def change(tree):
        node = list(tree.find_all(exp.And))[number]
        node.replace(node.left.copy())

    return change


def _replace(kind, new, matches=lambda node: True):
    def change(tree):
        node = _first(tree, kind, matches)
        node.replace(new(node.copy()))

    return change


def _set(node_type, matches=lambda node: True, **arguments):
    def change(tree):
        node = _first(tree, node_type, matches)
        for name, value in arguments.items():
            node.set(name, value)

    return change


def _is(text):
    return lambda node: str(node.this) == text


def _swap(selects):
    first, third = selects[0].this, selects[2].this
    selects[0].set("this", third.copy())
    selects[2].set("this", first.copy())


DEFECTS = {
    "outer for inner join": _set(exp.Join, lambda join: not join.side and join.args.get("on"), side="LEFT"),
    "inner for outer join": _set(exp.Join, lambda join: join.side == "LEFT", side=""),
    "full for outer join": _set(exp.Join, lambda join: join.side == "LEFT", side="FULL"),
    "semi for inner join": _set(exp.Join, lambda join: join.side == "LEFT", side="LEFT", kind="SEMI"),
    "lost DISTINCT": lambda tree: next(
        one for one in tree.find_all(exp.Select) if isinstance(one.args.get("distinct"), exp.Distinct)
    ).set("distinct", None),
    "lost DISTINCT in count": _replace(exp.Count, lambda node: exp.Count(this=node.this.expressions[0])),
    "IN for NOT IN": lambda tree: _first(tree, exp.Not, lambda node: node.find(exp.Query)).replace(
        _first(tree, exp.Not, lambda node: node.find(exp.Query)).this.copy()
    ),
    "NOT EXISTS for EXISTS": _replace(exp.Exists, lambda node: exp.not_(node)),
    "IS NULL for IS NOT NULL": lambda tree: _first(tree, exp.Is).parent.replace(_first(tree, exp.Is).copy()),
    "min for max": _replace(exp.Max, lambda node: exp.Min(this=node.this)),
    "sum for max": _replace(exp.Max, lambda node: exp.Sum(this=node.this)),
    "lost LIMIT": _set(exp.Select, lambda node: node.args.get("limit"), limit=None),
    "another LIMIT": _replace(exp.Limit, lambda node: exp.Limit(expression=exp.Literal.number(11))),
    "lost ORDER BY": _set(exp.Select, lambda node: node.args.get("order"), order=None),
    "ascending for descending": _set(exp.Ordered, lambda node: node.args.get("desc"), desc=False),
    "nulls first for last": _set(exp.Ordered, lambda node: not node.args.get("desc"), nulls_first=True),
    "lost GROUP BY column": lambda tree: _first(tree, exp.Group).set("expressions", [exp.column("x")]),
    "less for less or equal": _replace(exp.LT, lambda node: exp.LTE(this=node.this, expression=node.expression)),
    "greater or equal for greater": _replace(exp.GT, lambda node: exp.GTE(this=node.this, expression=node.expression)),
    "turned comparison": _replace(exp.GTE, lambda node: exp.LTE(this=node.this, expression=node.expression)),
    "another date": _replace(exp.Literal, lambda node: exp.Literal.string("2000-01-03"), _is("2000-01-02")),
    "another number": _replace(exp.Literal, lambda node: exp.Literal.number(6), _is("5")),
    "another string": _replace(exp.Literal, lambda node: exp.Literal.string("P"), _is("p")),
    "a value missing in IN": lambda tree: _first(tree, exp.In, lambda node: node.expressions).set(
        "expressions", [exp.Literal.string("p")]
    ),
    "AND for OR": _replace(exp.Or, lambda node: exp.and_(node.left, node.right)),
    "other branch of CASE": lambda tree: _first(tree, exp.Case).set("default", exp.Literal.string("p")),
    "lost COALESCE": _replace(exp.Coalesce, lambda node: node.this),
    "subtraction for addition": _replace(exp.Add, lambda node: exp.Sub(this=node.this, expression=node.expression)),
    "another table": lambda tree: _first(tree, exp.Table, _is("t")).set("this", exp.to_identifier("e")),
    "another join column": _replace(
        exp.EQ,
        lambda node: exp.EQ(this=node.this, expression=exp.column("c__w", quoted=True)),
        lambda node: str(node.expression).strip('`"') == "c__id" or "c__id" in str(node.this),
    ),
    "swapped columns": lambda tree: _swap(_first(tree, exp.Select, lambda node: node.args.get("distinct")).selects),
    "another cast": _replace(exp.Cast, lambda node: exp.cast(node.this, "timestamp")),
    "union of the rows with themselves": lambda tree: None,
    **{f"lost condition {number}": _drop_condition(number) for number in range(5)},
}


@pytest.fixture(scope="module")
def example(spark):
    return Compared(spark, QUERY)


@one_in(2, "defect", DEFECTS)
def test_a_defect_of_the_planner_is_found(example, defect):
    whole = plan_query(example.planned.text, example.planned.plans[0])
    assert example.differs(whole) is None
    tree = parse_one(whole, dialect=DIALECT)
    DEFECTS[defect](tree)
    text = tree.sql(DIALECT)
    if defect == "union of the rows with themselves":
        text = f"SELECT * FROM ({whole}) UNION ALL SELECT * FROM ({whole})"
    assert text != parse_one(whole, dialect=DIALECT).sql(DIALECT), "the defect changes the text"
    assert example.differs(text) is not None


SAME = {
    "a column equal to itself": (
        "SELECT s.g FROM (SELECT id AS g, id AS h FROM a) s JOIN b ON b.id = s.g",
        "SELECT s.g FROM (SELECT id AS g, id AS h FROM a) s JOIN b ON b.id = s.g AND s.g = s.h",
    ),
    "no more than IS NOT NULL": ("SELECT y FROM a WHERE x IS NOT NULL", "SELECT y FROM a WHERE x = x"),
    "other names in a join of a table to itself": (
        "SELECT sum(v.x) AS s FROM e AS u JOIN e AS v ON u.id = v.id",
        "SELECT sum(u.x) AS s FROM e AS u JOIN e AS v ON u.id = v.id",
    ),
    "more columns to choose from": (
        "SELECT a.y, w FROM a LEFT JOIN (SELECT * FROM b JOIN c USING (id)) AS r ON r.id = a.id",
        "SELECT a.y, w FROM a LEFT JOIN (SELECT b.id, w, c.id AS o FROM b JOIN c ON b.id = c.id) AS r ON r.id = a.id",
    ),
    "more columns to choose from on both sides": (
        "SELECT a.y, w FROM a FULL JOIN (SELECT * FROM b JOIN c USING (id)) AS r ON r.id = a.id",
        "SELECT a.y, w FROM a FULL JOIN (SELECT b.id, w, c.id AS o FROM b JOIN c ON b.id = c.id) AS r ON r.id = a.id",
    ),
    "an equality with a cast": (
        "SELECT y FROM a JOIN b ON CAST(a.x AS DECIMAL(5, 1)) = b.id JOIN e ON e.id = b.id",
        "SELECT y FROM a JOIN b ON CAST(a.x AS DECIMAL(5, 1)) = b.id JOIN e ON e.id = CAST(a.x AS DECIMAL(5, 1))",
    ),
    "numbers with suffixes": (
        "SELECT -2L AS l, 1.50D AS d, -0.0D AS z, 2.5F AS f, -4S AS s, 1e3D AS e, y FROM a WHERE x > -1.5D",
        "SELECT -CAST(2 AS BIGINT) AS l, CAST(1.50 AS DOUBLE) AS d, -CAST(0.0 AS DOUBLE) AS z, CAST(2.5 AS FLOAT) AS f,"
        " -CAST(4 AS SMALLINT) AS s, CAST(1e3 AS DOUBLE) AS e, y FROM a WHERE x > -CAST(1.5 AS DOUBLE)",
    ),
    "strings that groups compute, under other names": (
        "WITH v AS (SELECT m, x FROM b JOIN (SELECT id, max(y) AS m FROM a GROUP BY id) USING (id) GROUP BY m, x)"
        " SELECT r.x FROM v AS l JOIN v AS r ON l.m = r.m AND l.x = r.x",
        "WITH v AS (SELECT g_m AS m, x FROM b JOIN (SELECT id AS g_id, max(y) AS g_m FROM a GROUP BY id) ON g_id = id"
        " GROUP BY g_m, x)"
        " SELECT q AS x FROM (SELECT m AS l, x AS p FROM v) JOIN (SELECT m AS r, x AS q FROM v) ON p = q AND l = r",
    ),
}

DIFFERENT = {
    "strings that groups compute, another column": (
        "WITH v AS (SELECT x, max(y) AS m, min(y) AS n FROM a GROUP BY x) SELECT l.x FROM v l JOIN v r ON l.m = r.m",
        "WITH v AS (SELECT x, max(y) AS m, min(y) AS n FROM a GROUP BY x) SELECT l.x FROM v l JOIN v r ON l.m = r.n",
    ),
    "the other zero": ("SELECT 0.0D AS z FROM a", "SELECT -0.0D AS z FROM a"),
    "another type of number": ("SELECT typeof(2L) AS t FROM a", "SELECT typeof(2) AS t FROM a"),
    "a number with more digits": ("SELECT x * 0.1D AS z FROM a", "SELECT x * 0.1000000000000001D AS z FROM a"),
    "without a cast": (
        "SELECT y FROM a JOIN b ON CAST(a.x AS DECIMAL(5, 1)) = b.id JOIN e ON e.id = b.id",
        "SELECT y FROM a JOIN b ON CAST(a.x AS DECIMAL(5, 1)) = b.id JOIN e ON e.id = a.x",
    ),
    "an equality that rounds": (
        "SELECT y FROM a JOIN b ON CAST(a.x AS DECIMAL(38, 30)) = CAST(b.x AS DECIMAL(38, 0)) JOIN e ON e.id = b.id",
        "SELECT y FROM a JOIN b ON CAST(a.x AS DECIMAL(38, 30)) = b.x JOIN e ON e.id = b.id",
    ),
    "without IS NOT NULL": ("SELECT y FROM a", "SELECT y FROM a WHERE x = x"),
    "one of two equal tables": (
        "SELECT sum(u.x) AS s, max(v.x) AS m FROM e AS u JOIN e AS v ON u.id = v.id",
        "SELECT sum(u.x) AS s, max(u.x) AS m FROM e AS u JOIN e AS v ON u.id = v.id",
    ),
    "another column of a LEFT JOIN": (
        "SELECT a.y, r.w FROM a LEFT JOIN (SELECT b.id, w, amt FROM b JOIN c ON b.id = c.id) AS r ON r.id = a.id",
        "SELECT a.y, r.w FROM a LEFT JOIN (SELECT b.id, amt AS w FROM b JOIN c ON b.id = c.id) AS r ON r.id = a.id",
    ),
}


@pytest.mark.parametrize("name", [*SAME, *DIFFERENT])
def test_texts_of_the_same_relation_are_equal_and_others_are_not(spark, name):
    one, other = (SAME | DIFFERENT)[name]
    for written, made in ((one, other), (other, one)):
        verification = Verification(spark.sql(written), query_session(spark))
        if name in SAME:
            verification.check(made)
        else:
            with pytest.raises(DifferentPlanError):
                verification.check(made)
