"""Every chart and block with no, one and many items; the page survives any text and shows it."""

import random

import pytest

from tests.html_checks import Parsed, checked
from yarn_plugin.report import (
    Axis,
    Badge,
    Bar,
    BarChart,
    Code,
    Column,
    ColumnChart,
    ColumnSeries,
    Curve,
    CurveChart,
    Details,
    Distribution,
    Entries,
    Entry,
    Gantt,
    Key,
    KeyFigure,
    KeyFigures,
    Mark,
    Meter,
    Moment,
    Node,
    Page,
    ParallelChart,
    PlaneChart,
    Point,
    Row,
    Sample,
    Section,
    Series,
    SideBySide,
    Span,
    Strand,
    Table,
    Text,
    TimeChart,
    TreeChart,
    axis_of,
    render,
)
from yarn_plugin.report.distribution import quantile
from yarn_plugin.report.figure import Scale, shorten
from yarn_plugin.report.markup import Block
from yarn_plugin.report.moments import height, place
from yarn_plugin.report.timechart import line_path, spread_evenly, values_at
from yarn_plugin.report.tree import format_tree

NASTY = '<b onclick="x">&\'\x07</b>'
MANY = 500


def shown(*blocks: Block) -> Parsed:
    return checked(render(Page("A page", "of charts", (Section("Charts", blocks),))))


def series(points: int) -> tuple[tuple[float, float | None], ...]:
    return tuple((float(at), float(at % 7)) for at in range(points))


EMPTY: tuple[Block, ...] = (
    TimeChart("t", "u", ()),
    TimeChart("t", "u", (Series("s", ()),), kind="stacked"),
    Gantt("g", ()),
    Gantt("g", (Row("r", ()),)),
    BarChart("b", "s", ()),
    ColumnChart("c", "s", (), ()),
    ColumnChart("c", "s", (), (ColumnSeries("x", ()),)),
    Distribution("d", "s", ()),
    Distribution("d", "s", (Sample("x", ()),)),
    CurveChart("c", "step", "loss", (Curve("x", ()),)),
    ParallelChart("p", (Axis("x"), Axis("y")), ()),
    PlaneChart("p", Axis("x"), Axis("y"), ()),
    Table((Column("a"),), ()),
    Entries(()),
    KeyFigures(()),
    SideBySide(()),
)


@pytest.mark.parametrize("block", EMPTY)
def test_nothing(block: Block) -> None:
    assert not shown(block).all("svg", role="img")


ONE: tuple[Block, ...] = (
    TimeChart("t", "u", (Series("s", ((3.0, 2.0),)),)),
    TimeChart("t", "u", (Series("s", ((3.0, 0.0),)),), kind="line"),
    TimeChart("t", "u", (Series("s", ((3.0, 2.0),)),), kind="stacked", limit=(5.0, "all")),
    TimeChart("t", "u", (Series("s", ((3.0, None),)),)),
    Gantt("g", (Row("r", (Bar(1.0, 1.0),)),)),
    BarChart("b", "s", (("x", 1.0),)),
    BarChart("b", "s", (("x", None),)),
    BarChart("b", "s", (("x", 0.0),), notes=("a note",)),
    ColumnChart("c", "s", ("x",), (ColumnSeries("y", (1.0,)),)),
    ColumnChart("c", "s", ("x",), (ColumnSeries("y", (None,)),)),
    Distribution("d", "s", (Sample("x", (1.0,)),)),
    Distribution("d", "s", (Sample("x", (0.0,)),), goal=(1.0, "goal")),
    CurveChart("c", "step", "loss", (Curve("x", ((1.0, 0.0),)),)),
    ParallelChart("p", (Axis("x"), Axis("y", choices=("a",))), (Strand("s", (0.5, "a")),)),
    ParallelChart("p", (Axis("x"), Axis("y")), (Strand("s", (0.5, None)),)),
    PlaneChart("p", Axis("x"), axis_of("y", [1.0]), (Point("one", 0.5, 1.0),), shaded=True),
    TreeChart("t", Node("alone")),
)


@pytest.mark.parametrize("block", ONE)
def test_one(block: Block) -> None:
    page = shown(block)
    assert len(page.all("svg", role="img")) == 1
    assert len(page.all("figure")) == 1


BARS = tuple(Bar(float(at), at + 1.5, f"bar {at}", at % 9, "solid" if at % 3 else "faint") for at in range(40))
MARKS = tuple(Mark(float(at), "dot", "here") for at in range(40))
CURVE = tuple((float(at), 10.0 ** (at % 9 - 4)) for at in range(MANY))
BRANCHES = Node("root", tuple(Node(f"n{i}", (Node("a"), Node("b"))) for i in range(20)))
AXES = (Axis(NASTY, 1, 9), Axis("rate", 1e-9, 1.0, is_log=True), Axis("kind", choices=tuple("abcdefghijklmnopq")))
VALUES = ((3, 1e-4, "c"), (5, None, "q"))
MANY_OF_ALL: tuple[Block, ...] = (
    TimeChart("t", "u", (Series("a", series(MANY), 0), Series("b", series(9), 7, dashed=True))),
    TimeChart("t", "u", tuple(Series(f"s{i}", series(MANY), i) for i in range(9)), kind="stacked", percent=True),
    TimeChart("t", "u", (Series("a", series(MANY)), Series("b", ((0.5, 1.0), (2.5, 3.0)))), kind="line"),
    Gantt("g", tuple(Row(f"row {i}", BARS, MARKS) for i in range(30)), legend=(Key("k", "cross", "ink"),)),
    BarChart("b", "seconds", tuple((f"name {i}", float(i)) for i in range(30)), colours=tuple(range(30))),
    ColumnChart("c", "s", tuple(map(str, range(99))), (ColumnSeries("y", tuple(map(float, range(99)))),)),
    ColumnChart("c", "s", ("a", "b"), (ColumnSeries("y", (1, 2)), ColumnSeries("z", (None, 3))), stacked=True),
    ColumnChart("c", "s", ("a", "b"), (ColumnSeries("y", (1, 2)), ColumnSeries("z", (None, 3)))),
    Distribution("d", "s", (Sample("x", tuple(map(float, range(MANY)))), Sample("y", (-1.0, 4.0), 1)), (9.0, "goal")),
    CurveChart("c", "step", "loss", tuple(Curve(f"x{i}", CURVE, i, not i, "dot") for i in range(40)), ends=(3.0,)),
    ParallelChart("p", AXES, tuple(Strand(f"s{i}", VALUES[i % 2], i / 40, not i, NASTY) for i in range(40))),
    PlaneChart("p", AXES[1], AXES[2], tuple(Point(NASTY, 10.0**-i, "b", i / 9) for i in range(9)), shaded=True),
    TreeChart("t", BRANCHES),
)


@pytest.mark.parametrize("block", MANY_OF_ALL)
def test_many(block: Block) -> None:
    page = shown(block)
    assert page.all("table"), "no figures behind the chart"
    if not isinstance(block, Gantt):
        assert len(page.all("tr")) < 220


def test_ids_are_unique_on_a_page() -> None:
    shown(*EMPTY, *ONE, *MANY_OF_ALL, *ONE)


NASTY_BLOCKS: tuple[Block, ...] = (
    Text(NASTY),
    Code(NASTY),
    KeyFigures((KeyFigure(NASTY, NASTY, NASTY),)),
    Table((Column(NASTY),), ((NASTY,), (Badge(NASTY),), (Meter(1.0, 2.0, NASTY),)), caption=NASTY, note=NASTY),
    Details(NASTY, (Text(NASTY),)),
    Entries((Entry(NASTY, NASTY, Badge(NASTY), NASTY, (Text(NASTY),)), Entry(NASTY, NASTY, Badge(NASTY)))),
    Section(NASTY, (Section(NASTY, (Text(NASTY),)),)),
    SideBySide((Text(NASTY),)),
    TimeChart(NASTY, NASTY, (Series(NASTY, ((0.0, 1.0), (1.0, 2.0))),), time=NASTY, limit=(3.0, NASTY)),
    TimeChart(NASTY, NASTY, (Series("s", series(3)),), moments=(Moment(1.0, NASTY, NASTY, "switch"),)),
    Gantt(NASTY, (Row(NASTY, (Bar(0.0, 9.0, NASTY, 0, detail=NASTY),), (Mark(1.0, "ring", NASTY),), NASTY),)),
    BarChart(NASTY, NASTY, ((NASTY, 1.0),), (NASTY,)),
    ColumnChart(NASTY, NASTY, (NASTY,), (ColumnSeries(NASTY, (1.0,)),), x_label=NASTY),
    Distribution(NASTY, NASTY, (Sample(NASTY, (1.0, 2.0)),), goal=(1.0, NASTY)),
    TreeChart(NASTY, Node(NASTY, (Node(NASTY), Node("", (Node(NASTY, detail=NASTY),)))), (Key(NASTY, "dot", "ink"),)),
)


@pytest.mark.parametrize("block", NASTY_BLOCKS)
def test_no_text_becomes_markup(block: Block) -> None:
    page = shown(block)
    assert not page.all("b")
    assert '<b onclick="x">&\'�</b>' in page.text


def test_every_chart_has_a_text_description() -> None:
    page = shown(TimeChart("Use", "cores", (Series("A", ((0.0, 1.0), (5.0, 3.0), (6.0, None))),)))
    assert "From 0.0 to 6.0 s (cores); A 1 to 3, at the end –." in page.text
    cells = [cell for cell in page.all("td") if cell.get("data-key")]
    assert [cell["data-key"] for cell in cells] == ["1.0", "3.0"]


def test_values_hold_until_the_next() -> None:
    assert values_at(((1.0, 5.0), (3.0, None), (4.0, 6.0)), [0.0, 1.0, 2.0, 3.0, 9.0], holds=True) == [
        None,
        5.0,
        5.0,
        None,
        6.0,
    ]
    assert values_at(((1.0, 5.0),), [0.0, 1.0, 2.0], holds=False) == [None, 5.0, None]


def test_a_line_has_gaps_where_there_is_no_value() -> None:
    scale = Scale(0.0, 10.0, 0.0, 10.0)
    assert line_path([0, 1, 2, 3], [1, None, 2, 3], scale, scale, steps=False) == "M0.0 1.0h0M2.0 2.0h0L3.0 3.0"
    assert line_path([0, 2], [1, 3], scale, scale, steps=True) == "M0.0 1.0h0L2.0 1.0L2.0 3.0"


def test_spreading_evenly_includes_the_ends() -> None:
    assert spread_evenly(range(3), 5) == [0, 1, 2]
    assert spread_evenly(range(1000), 5) == [0, 250, 500, 749, 999]


def test_labels_of_moments_never_overlap() -> None:
    chance = random.Random(7)
    scale = Scale(0.0, 100.0, 200.0, 1086.0)
    for _ in range(50):
        kinds = ("switch", "share", "plain")
        moments = [Moment(chance.uniform(-5, 105), "x" * chance.randint(0, 25), "", kinds[i % 3]) for i in range(12)]
        placed = place(moments, scale)
        assert len(placed) == sum(0 <= moment.at <= 100 for moment in moments)
        labelled = [one for one in placed if one.level is not None]
        assert all(not one.overlaps(other) for one in labelled for other in labelled if one is not other)
        assert all(scale.start - 120 <= one.low and one.high <= scale.end + 2 for one in labelled)
        assert height(placed) <= 64


def test_close_moments_are_all_labelled() -> None:
    scale = Scale(0.0, 40.0, 240.0, 1086.0)
    moments = [Moment(25.0, "plan 39 → 37", "", "switch"), Moment(27.0, "4 → 2 slots", "", "share")]
    assert sorted(one.level for one in place(moments, scale) if one.level is not None) == [0, 1]


def test_charts_share_a_time_axis() -> None:
    span, moments = Span(0.0, 100.0), (Moment(50.0, "half"),)
    page = shown(
        TimeChart("t", "u", (Series("s", ((10.0, 1.0),)),), span=span, gutter=240.0, moments=moments),
        Gantt("g", (Row("r", (Bar(10.0, 20.0),)),), span=span, gutter=240.0, moments=moments),
    )
    assert {one["x1"] for one in page.all("line", class_="stroke")} == {"663"}


def test_names_are_shortened_to_fit() -> None:
    assert shorten("short", 100.0) == "short"
    long = shorten("S2 catalog_sales + household_demographics", 150.0)
    assert len(long) == 22
    assert long.startswith("S2 catalog_sal…")
    assert long.endswith("raphics")


def test_quantiles_are_values_that_occurred() -> None:
    values = [3.0, 1.0, 2.0, 10.0]
    assert [quantile(values, share) for share in (0.0, 0.5, 0.95, 1.0)] == [1.0, 2.0, 10.0, 10.0]


def test_a_tree_in_words() -> None:
    tree = Node("result", (Node("", (Node("a"), Node("S1", (Node("b"), Node("c"))))),))
    assert format_tree(tree) == "result [(a ⋈ S1 [b ⋈ c])]"


def test_an_axis_is_linear_logarithmic_or_has_choices() -> None:
    assert Axis("x", 0, 10).share(5) == 0.5
    assert Axis("x", 1e-4, 1.0, is_log=True).share(1e-2) == pytest.approx(0.5)
    assert Axis("x", choices=("a", "b")).share("b") == 0.75
    assert [name for _, name in Axis("x", 1e-4, 1.0, is_log=True).marks(9)] == ["0.0001", "0.001", "0.01", "0.1", "1"]
    assert axis_of("loss", [0.001, 1.0]).is_log
    assert not axis_of("loss", [-1.0, 1.0]).is_log
