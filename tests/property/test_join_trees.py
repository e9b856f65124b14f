"""Any mixture of join trees, cuts and plans returns the rows of the query as written."""

import random

from duckdb import Error as DuckError
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from qoop.errors import CannotSplitError
from tests.duckdb_plans import Tables
from tests.property import queries


@settings(max_examples=30)
@given(queries.tables(), queries.queries(), st.integers(0, 999))
def test_any_mixture_of_plans_gives_the_rows_of_the_text(made, text, seed):
    tables = Tables(*made)
    try:
        expected, planned = tables.rows(text), tables.plan(text)
    except (DuckError, CannotSplitError):
        assume(False)
    for lose in (0, 2):
        note(text)
        assert tables.staged(planned, random.Random(seed), lose) == expected
