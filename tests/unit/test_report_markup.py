"""Everything that is not markup is escaped; figures read as people write them."""

import pytest

from yarn_plugin.quantities import count, number, seconds, size
from yarn_plugin.report.figure import Scale, ceiling, labels, ticks
from yarn_plugin.report.markup import Ids, Markup, join, tag, verbatim


def test_text_and_attributes_are_escaped() -> None:
    made = tag("p", "<script>alert('x')</script>", tag("b", "a & b"), title='"><img onerror="x">')
    assert made == (
        '<p title="&#34;&gt;&lt;img onerror=&#34;x&#34;&gt;">'
        "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;<b>a &amp; b</b></p>"
    )


def test_markup_is_escaped_once_and_control_characters_are_replaced() -> None:
    assert join(tag("b", "x"), None, "<", Markup("&amp;")) == "<b>x</b>&lt;&amp;"
    assert tag("p", "a\x00b\x1b[0m") == "<p>a�b�[0m</p>"


def test_attributes() -> None:
    made = tag("details", class_="x", open=True, hidden=False, id=None, stroke_width=1.5, x=2.0, y=1 / 3)
    assert made == '<details class="x" open stroke-width="1.5" x="2" y="0.33"></details>'
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_a_style_cannot_end_its_element() -> None:
    with pytest.raises(ValueError, match="could end its element"):
        verbatim("a { content: '</style>' }")


def test_ids_are_unique() -> None:
    ids = Ids()
    assert len({ids.new("a"), ids.new("a"), ids.new("b")}) == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
        (0, "0"),
        (-3, "−3"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (1234567.8, "1,234,568"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


def test_units() -> None:
    assert (seconds(0.314), seconds(None), size(0), size(1_500_000)) == ("0.31 s", "–", "0 B", "1.50 MB")
    assert (count(1, "query", "queries"), count(2, "query", "queries"), count(0, "row")) == (
        "1 query",
        "2 queries",
        "0 rows",
    )


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0, 4, 4, [0, 1, 2, 3, 4]),
        (0, 6.05, 10, [0, 1, 2, 3, 4, 5, 6]),
        (0, 100, 4, [0, 25, 50, 75, 100]),
        (0.2, 0.9, 4, [0.2, 0.4, 0.6, 0.8]),
        (5, 5, 4, [5]),
        (-1, 1, 2, [-1, 0, 1]),
    ],
)
def test_ticks_are_round(low: float, high: float, most: int, expected: list[float]) -> None:
    assert ticks(low, high, most) == pytest.approx(expected)


def test_the_labels_of_an_axis_have_the_same_decimals() -> None:
    assert labels([0.0, 0.5, 1.0]) == ["0.0", "0.5", "1.0"]
    assert labels([0.0, 0.25, 0.5], 100.0) == ["0", "25", "50"]


@pytest.mark.parametrize(
    ("value", "top"), [(0.0, 1.0), (-1.0, 1.0), (4.0, 4.0), (4.1, 6.0), (97.0, 100.0), (1e-9, 1e-9)]
)
def test_an_axis_ends_with_a_round_number(value: float, top: float) -> None:
    assert ceiling(value, 4) == pytest.approx(top)


def test_a_scale_clamps_values() -> None:
    scale = Scale(0.0, 10.0, 100.0, 200.0)
    assert [scale(value) for value in (0, 5, 10, -1, 11)] == [100, 150, 200, 100, 200]
    assert Scale(3.0, 3.0, 100.0, 200.0)(3.0) == 100
