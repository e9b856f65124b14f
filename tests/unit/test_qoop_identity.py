"""A query is recognised in another session, where Spark numbers its columns and CTEs otherwise."""

from qoop.engine.identity import renumbered

PLAN = """WithCTE
:- CTERelationDef {cte}, false
:  +- Aggregate [k#{k}], [k#{k}, count(1) AS n#{n}L]
+- CTERelationRef {cte}, true, [k#{other}, n#{n}L], false"""


def plan(**numbers):
    return renumbered(PLAN.format(**numbers))


def test_numbers_do_not_matter_although_a_cte_may_have_that_of_a_column():
    assert plan(cte=0, k=0, n=1, other=2) == plan(cte=7, k=40, n=41, other=42) == plan(cte=5, k=3, n=5, other=4)


def test_which_column_is_which_matters():
    assert plan(cte=0, k=1, n=2, other=3) != plan(cte=0, k=1, n=2, other=1)
