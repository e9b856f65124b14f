"""A query with hints is not planned, so Spark obeys them."""

import pytest

from qoop.errors import CannotSplitError
from tests.property.query_world import planned

JOINS = "FROM a JOIN b ON a.k = b.k JOIN c ON b.m = c.m"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT {{}} a.x {JOINS}",
        f"WITH v AS (SELECT {{}} a.k, b.m {JOINS}) SELECT v.k FROM v JOIN d ON v.m = d.m JOIN e ON d.k = e.k",
        f"SELECT a.x {JOINS} WHERE a.m IN (SELECT {{}} d.m FROM d JOIN e ON d.k = e.k)",
        f"SELECT a.x {JOINS} UNION ALL SELECT {{}} d.x FROM d JOIN e ON d.k = e.k",
    ],
    ids=["the query", "a CTE", "a subquery", "a branch of a union"],
)
@pytest.mark.parametrize("hint", ["BROADCAST(b)", "SHUFFLE_HASH(a, b)", "REPARTITION(3)", "COALESCE(1)"])
def test_a_hint_anywhere_makes_a_query_run_as_written(text, hint):
    rows = [1_000_000] * 6
    assert planned(text.format(""), rows).plans
    with pytest.raises(CannotSplitError, match="hints"):
        planned(text.format(f"/*+ {hint} */"), rows)
