"""When two answers are the same."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tpcds.answers import RELATIVE_TOLERANCE, Answer, Difference, compare, is_same_value


def answer(*rows: tuple[Any, ...], columns: tuple[str, ...] = ("a", "b")) -> Answer:
    return Answer(columns, list(rows), 0.0)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (1, Decimal("1.00")),
        (Decimal("1.5"), Decimal("1.50")),
        (1.5, Decimal("1.5")),
        (1.0, 1),
        (1.0, 1.0 + RELATIVE_TOLERANCE / 2),
        (float("nan"), float("nan")),
        (float("inf"), float("inf")),
        (None, None),
        ("é", "é"),
        (date(2000, 1, 2), date(2000, 1, 2)),
    ],
)
def test_same_values(x: Any, y: Any) -> None:
    assert is_same_value(x, y)
    assert is_same_value(y, x)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (1, 2),
        (Decimal("0.01"), Decimal("0.02")),
        (1, None),
        (0.0, None),
        (0, False),
        (1.0, True),
        ("1", 1),
        ("a", "a "),
        ("a", "A"),
        (1.0, 1.0 + 3 * RELATIVE_TOLERANCE),
        (0.0, 1e-300),
        (float("nan"), 1.0),
        (float("nan"), None),
        (date(2000, 1, 2), "2000-01-02"),
    ],
)
def test_different_values(x: Any, y: Any) -> None:
    assert not is_same_value(x, y)
    assert not is_same_value(y, x)


def test_columns_are_compared_by_position_not_by_name() -> None:
    assert compare(answer((1, 2)), answer((1, 2), columns=("x", "y"))) == []


def test_rows_are_compared_in_their_order() -> None:
    found = compare(answer((1, "x"), (2, "y")), answer((2, "y"), (1, "x")))
    assert [(one.row, one.column) for one in found] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_an_extra_row_is_reported_on_either_side() -> None:
    assert [str(one) for one in compare(answer((1, 2), (3, 4)), answer((1, 2)))] == ["row 2: (3, 4) instead of no row"]
    assert [str(one) for one in compare(answer(), answer((1, None)))] == ["row 1: no row instead of (1, None)"]


def test_a_different_number_of_columns_is_reported() -> None:
    assert compare(answer((1, 2)), answer((1,), columns=("a",))) == [Difference(0, None, "2 columns", "1 column")]


def test_a_difference_as_a_line() -> None:
    (found,) = compare(answer((1, None)), answer((1, "x" * 100)))
    assert str(found) == f"row 1, column b: NULL instead of {'x' * 57}..."
