"""Arguments of a text as literals in it."""

from datetime import date, datetime
from decimal import Decimal

import pytest

from qoop.parsing.parameters import with_arguments


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("SELECT :a, x FROM t WHERE y > :b", {"a": 1, "b": -2}, "SELECT 1, x FROM t WHERE y > (-2)"),
        ("SELECT ? + ?", [1, 2.5], "SELECT 1 + 2.5D"),
        ("SELECT ':a', '?', `:a`, :a -- :a ?\n", {"a": True}, "SELECT ':a', '?', `:a`, TRUE -- :a ?\n"),
        ("SELECT v:a, :a", {"a": "it's \\"}, "SELECT v:a, 'it\\'s \\\\'"),
        ("SELECT :d, :n", {"d": date(2024, 2, 29), "n": Decimal("1.50")}, "SELECT DATE '2024-02-29', 1.50BD"),
        ("SELECT :t", {"t": datetime(2024, 2, 29)}, None),
        ("SELECT ?", [None], None),
        ("SELECT ?, ?", [1], None),
        ("SELECT :x", {"x": float("nan")}, None),
        ("SELECT 1", {"x": 1}, "SELECT 1"),
    ],
)
def test_arguments_become_literals(text, arguments, expected):
    assert with_arguments(text, arguments) == expected
