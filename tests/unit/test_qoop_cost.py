"""Work of joins and stages, the machine's calibration, and packing."""

import math
from dataclasses import replace

import pytest

from qoop.estimate.calibration import INITIAL_UNCERTAINTY, TRUST_CORE, TRUST_FIXED, Calibration
from qoop.estimate.cardinality import Cardinalities
from qoop.estimate.cost import CostModel, JoinCosts, Work, WorkSum
from qoop.estimate.packing import MAX_CONCURRENT_STAGES, Task, completion_time, finish_times
from qoop.estimate.prior import Prior
from qoop.estimate.selectivity import Selectivity
from qoop.estimate.statistics import ColumnStatistics, TableStatistics
from qoop.plans.graph import JoinGraph, Relation
from qoop.plans.predicate import Column, Compare, Predicate
from qoop.plans.trees import Leaf, joined
from tests.property.query_world import TEXTS, planned

MODEL = CostModel()


def costs(left, right, connected=True):
    """The join of two tables with so many rows, on a key of the first."""
    tables = {
        "l": TableStatistics(left, left * 40, {"k": ColumnStatistics(left)}),
        "r": TableStatistics(right, right * 40, {"k": ColumnStatistics(min(left, right))}),
    }
    pair = frozenset({Column("l", "k"), Column("r", "k")})
    relations = tuple(Relation(name, name, False, ("k",), ()) for name in "lr")
    graph = JoinGraph(relations, (pair,) if connected else (), (), frozenset(pair))
    rows = Cardinalities(Prior(graph, tables), {})
    return rows, JoinCosts(rows, MODEL)


def test_work_takes_its_fixed_time_and_its_share_of_the_slots():
    work = Work(core_seconds=12.0, fixed_seconds=1.0, tasks=4.0)
    assert [work.seconds(slots) for slots in (1, 2, 4, 8)] == [13.0, 7.0, 4.0, 4.0]


def test_a_join_costs_the_same_whichever_side_comes_first():
    _, joins = costs(1_000.0, 1e6)
    assert joins(1, 2) == joins(2, 1)
    assert joins.seconds(1, 2) == joins(1, 2)[0]


def test_a_small_side_is_broadcast_and_two_large_ones_are_shuffled():
    _, small = costs(1_000.0, 1e6)
    _, large = costs(5e6, 5e6)
    assert small(1, 2)[1] == 1
    assert large(1, 2)[1] == 2
    assert large.seconds(1, 2) > small.seconds(1, 2)


def test_there_is_a_step_at_the_size_that_is_still_broadcast():
    width = costs(1e5, 1e7)[0].width(1)
    limit = MODEL.broadcast_bytes / width
    below, above = (costs(limit * factor, 1e7)[1].seconds(1, 2) for factor in (0.99, 1.01))
    assert above > 1.5 * below


def test_a_cross_join_costs_every_pair():
    _, joins = costs(1e4, 1e5, connected=False)
    assert joins.seconds(1, 2) > 1e4 * 1e5 * MODEL.probe_row


CUSTOMERS, SEGMENTS, ORDERS = 1, 2, 4


def three_tables(customers=2e6, segments=20.0, orders=1e5):
    """Orders of customers of segments: few customers are of the segments that are left."""
    tables = {
        "customers": TableStatistics(customers, customers * 5, {"k": ColumnStatistics(customers)}),
        "segments": TableStatistics(segments, segments * 10, {"k": ColumnStatistics(customers)}),
        "orders": TableStatistics(orders, orders * 200, {"k": ColumnStatistics(orders)}),
    }
    relations = tuple(Relation(name, name, False, ("k",), ()) for name in tables)
    pair = frozenset(Column(name, "k") for name in tables)
    rows = Cardinalities(Prior(JoinGraph(relations, (pair,), (), frozenset(pair)), tables), {})
    return rows, JoinCosts(rows, MODEL)


def stage(tree, inputs=frozenset(), **rows):
    known, joins = three_tables(**rows)
    work = WorkSum()
    work.add_tree(tree, inputs, known, joins, MODEL)
    return work


def test_spark_does_not_know_that_a_join_that_it_computes_is_small():
    """So it shuffles both sides; of a stage's output it knows the size, and broadcasts it."""
    tree = joined(Leaf(ORDERS), joined(Leaf(CUSTOMERS), Leaf(SEGMENTS)))
    assert stage(tree).exchanges == 1 + 2
    assert stage(tree, frozenset({CUSTOMERS | SEGMENTS})).exchanges == 1


def test_spark_broadcasts_the_side_that_it_takes_for_the_smaller():
    """A table of two million rows in a small file, rather than the twenty rows that a join will have."""
    computed = stage(joined(joined(Leaf(SEGMENTS), Leaf(ORDERS)), Leaf(CUSTOMERS)))
    stored = stage(joined(joined(Leaf(SEGMENTS), Leaf(ORDERS)), Leaf(CUSTOMERS)), frozenset({SEGMENTS | ORDERS}))
    assert computed.core_seconds > 2e6 * MODEL.build_row > stored.core_seconds


def test_a_join_is_broadcast_if_all_its_tables_are_tiny():
    tiny = stage(joined(Leaf(ORDERS), joined(Leaf(CUSTOMERS), Leaf(SEGMENTS))), customers=100.0)
    assert tiny.exchanges == 2


def test_broadcasts_that_need_not_wait_for_each_other_cost_less_than_shuffles_that_do():
    chain = WorkSum(exchanges=4, steps=4).work(MODEL).fixed_seconds
    star = WorkSum(exchanges=4, steps=1).work(MODEL).fixed_seconds
    assert chain - star == pytest.approx(3 * (MODEL.exchange_seconds - MODEL.concurrent_seconds))
    broadcast = stage(joined(joined(Leaf(ORDERS), Leaf(SEGMENTS)), Leaf(CUSTOMERS)))
    assert (broadcast.exchanges, broadcast.steps) == (2, 1)


def test_a_part_that_is_only_read_costs_its_bytes_not_its_joins():
    rows, joins = costs(5e6, 5e6)
    tree = joined(Leaf(1), Leaf(2))
    whole, read = WorkSum(), WorkSum()
    whole.add_tree(tree, frozenset(), rows, joins, MODEL)
    read.add_tree(tree, frozenset({3}), rows, joins, MODEL)
    assert read.core_seconds < whole.core_seconds / 10
    assert (read.exchanges, whole.exchanges) == (0, 2)


SALES, DAYS, ITEMS = 1, 2, 4


def sold(tree, inputs=frozenset(), partitioned=True, day_filters=("one of ten days",), **sizes):
    """Ten million sales by day, of which a filter on the days leaves a tenth, and as many items."""
    by = frozenset({"day"}) if partitioned else frozenset()
    tables = {
        "sales": TableStatistics(1e7, 4e8, {"day": ColumnStatistics(1e3), "k": ColumnStatistics(1e7)}, {}, by),
        "days": TableStatistics(100.0, 1e3, {"day": ColumnStatistics(1e3)}),
        "items": TableStatistics(1e7, 4e8, {"k": ColumnStatistics(1e7)}),
        **sizes,
    }
    columns = {"sales": ("day", "k"), "days": ("day",), "items": ("k",)}
    filters = {"days": tuple(Predicate(text, frozenset(), False) for text in day_filters)}
    relations = tuple(Relation(name, name, False, columns[name], filters.get(name, ())) for name in tables)
    classes = tuple(frozenset(Column(name, key) for name in tables if key in columns[name]) for key in ("day", "k"))
    graph = JoinGraph(relations, classes, (), frozenset().union(*classes))
    prior = Prior(graph, tables, dict.fromkeys(range(3), Selectivity(1.0, 0.0, None)))
    rows = Cardinalities(prior, {})
    work = WorkSum()
    work.add_tree(tree, inputs, rows, JoinCosts(rows, MODEL), MODEL)
    return work


LATE = joined(joined(Leaf(SALES), Leaf(ITEMS)), Leaf(DAYS))
EARLY = joined(joined(Leaf(SALES), Leaf(DAYS)), Leaf(ITEMS))


def test_partitions_that_a_small_filtered_table_leaves_out_are_skipped_wherever_it_is_joined():
    late, early = sold(LATE), sold(EARLY)
    assert late.read_bytes == early.read_bytes < sold(LATE, partitioned=False).read_bytes
    assert late.core_seconds == pytest.approx(early.core_seconds, rel=0.1)
    assert late.core_seconds < 0.7 * sold(LATE, partitioned=False).core_seconds


@pytest.mark.parametrize(
    "other",
    [
        {"day_filters": ()},
        {"days": TableStatistics(100.0, 1e9, {"day": ColumnStatistics(1e3)})},
        {"inputs": frozenset({SALES | ITEMS})},
        {"days": TableStatistics(20_000.0, 1e3, {"day": ColumnStatistics(1e6)}), "inputs": frozenset({DAYS})},
        {"days": TableStatistics(100.0, 1e3, {"day": ColumnStatistics(1e3)}, {}, frozenset({"day"}))},
    ],
    ids=["no filter", "a large file", "not scanned here", "stored rows outside the plan", "partitioned itself"],
)
def test_no_partitions_are_skipped(other):
    assert sold(LATE, **other) == sold(LATE, partitioned=False, **other)


def test_no_partitions_are_skipped_by_what_is_joined_with_other_tables_first():
    tree = joined(Leaf(SALES), joined(Leaf(ITEMS), Leaf(DAYS)))
    assert sold(tree).read_bytes == sold(tree, partitioned=False).read_bytes


def test_a_filter_on_a_partition_column_leaves_few_files():
    whole, one = (
        TableStatistics(1e3, 1e4, {"day": ColumnStatistics(1e3), "k": ColumnStatistics(1e3)}, {}, by, files=1e3)
        for by in (frozenset(), frozenset({"day"}))
    )
    day = Predicate("day = 3", frozenset({Column("sales", "day")}), Compare(Column("sales", "day"), "=", 3))
    relation = Relation("sales", "sales", False, ("day",), (day,))
    graph = JoinGraph((relation,), (), (), frozenset({Column("sales", "day")}))
    found = [Cardinalities(Prior(graph, {"sales": table}), {}).scanned(0) for table in (whole, one)]
    assert found == [1.0, pytest.approx(1e-3)]


def test_files_cost_the_time_to_open_them_unless_they_are_skipped():
    many = {"sales": TableStatistics(1e3, 1e4, {"day": ColumnStatistics(1e3)}, {}, frozenset({"day"}), files=1e3)}
    opened = sold(LATE, **many).core_seconds - sold(LATE, sales=replace(many["sales"], files=0.0)).core_seconds
    assert opened == pytest.approx(0.1 * 1e3 * MODEL.file_seconds)


def test_a_partition_at_least_is_read():
    few = {"days": TableStatistics(1.0, 1e3, {"day": ColumnStatistics(1e9)})}
    bytes_of_one = sold(LATE, partitioned=False, **few).read_bytes - sold(LATE, **few).read_bytes
    assert bytes_of_one == pytest.approx(0.999 * 1e7 * 16.0, rel=0.001)


def test_a_stored_output_of_the_filtered_table_prunes_too():
    assert sold(LATE, frozenset({DAYS})).core_seconds < 0.7 * sold(LATE, frozenset({DAYS}), False).core_seconds


def test_a_stage_has_a_task_for_each_piece_of_its_input():
    effort = WorkSum()
    effort.add_read(1.0, 10 * MODEL.task_bytes)
    assert effort.work(MODEL).tasks == 10
    assert WorkSum().work(MODEL) == Work(0.0, MODEL.stage_seconds, 1.0)


def test_keeping_an_output_costs_more_than_handing_it_on():
    made = planned(TEXTS[0], [1_000_000] * 6)
    plan = next(plan for plan in made.plans if len(plan.stages()) == 3)
    cut = next(stage for stage in plan.stages() if stage.relations)
    kept = made.estimator.work(plan, cut)
    assert kept.core_seconds > made.estimator.stage_rows(cut) * 8 * MODEL.write_byte
    assert kept.fixed_seconds >= MODEL.stage_seconds


# The machine's calibration.


def after(calibration, times, core_estimated, core_measured):
    """The calibration after so many equal stages of two slots."""
    work = Work(core_seconds=core_estimated, fixed_seconds=0.5, tasks=8.0)
    for _ in range(times):
        calibration = calibration.updated(
            work, slots=2.0, seconds=core_measured / 2.0 + 0.5, core_seconds=core_measured
        )
    return calibration


def test_before_anything_is_measured_the_machine_has_nominal_speed():
    assert (Calibration().core_factor, Calibration().fixed_factor) == (1.0, 1.0)


def test_measurements_are_weighted_by_size():
    """(TRUST_CORE + 5 x 8) / (TRUST_CORE + 5 x 2): the more was measured, the nearer to 4."""
    assert after(Calibration(), 5, 2.0, 8.0).core_factor == pytest.approx((TRUST_CORE + 40.0) / (TRUST_CORE + 10.0))
    assert after(Calibration(), 1000, 2.0, 8.0).core_factor == pytest.approx(4.0, rel=0.01)
    assert after(Calibration(), 3, 2.0, 8.0).apply(Work(1.0, 1.0, 8.0)).core_seconds == pytest.approx(
        after(Calibration(), 3, 2.0, 8.0).core_factor
    )


def test_small_cold_stages_do_not_make_large_ones_slow():
    known = after(Calibration(), 1, 100.0, 100.0)
    assert after(known, 3, 0.05, 3.0).core_factor < 1.1


def test_waiting_is_the_drivers_time_not_the_cores():
    work = Work(core_seconds=2.0, fixed_seconds=0.5, tasks=8.0)
    calibration = Calibration().updated(work, slots=2.0, seconds=1.0 + 2.0, core_seconds=2.0)
    assert calibration.core_factor == pytest.approx(1.0)
    assert calibration.fixed_factor == pytest.approx((TRUST_FIXED + 2.0) / (TRUST_FIXED + 0.5))


def test_every_stage_makes_the_calibration_surer():
    uncertainties = [after(Calibration(), times, 1.0, 1.0).uncertainty for times in range(5)]
    assert uncertainties == sorted(uncertainties, reverse=True)
    assert uncertainties[0] == INITIAL_UNCERTAINTY


def test_a_suspected_machine_is_slower_by_the_factor():
    known = after(Calibration(), 2, 2.0, 3.0)
    assert known.slowed_by(2.0).core_factor == pytest.approx(2.0 * known.core_factor)
    assert known.slowed_by(2.0).fixed_factor == known.fixed_factor


# Packing.


def task(key, core, *after, fixed=0.0, tasks=16.0):
    return Task(key, frozenset(after), Work(core, fixed, tasks))


def test_no_more_stages_run_at_once_than_there_are_slots_shortest_first():
    """Their fixed times then follow each other."""
    stages = [task("long", 0.0, fixed=3.0), task("short", 0.0, fixed=1.0), task("middle", 0.0, fixed=2.0)]
    assert finish_times(stages, 1.0) == {"short": 1.0, "middle": 3.0, "long": 6.0}
    assert finish_times(stages, 2.0) == {"short": 1.0, "middle": 2.0, "long": 4.0}
    assert finish_times(stages, 64.0)["long"] == 3.0
    many = [task(str(number), 0.0, fixed=1.0) for number in range(MAX_CONCURRENT_STAGES + 1)]
    assert completion_time(many, 64.0) == 2.0


def test_a_running_stage_keeps_its_place():
    stages = [task("short", 0.0, fixed=1.0), replace(task("long", 0.0, fixed=3.0), running=True)]
    assert finish_times(stages, 1.0) == {"long": 3.0, "short": 4.0}


def test_stages_side_by_side_divide_the_slots():
    assert finish_times([task("a", 4.0), task("b", 4.0)], 2.0) == {"a": 4.0, "b": 4.0}
    assert finish_times([task("a", 2.0), task("b", 6.0)], 2.0) == {"a": 2.0, "b": 4.0}


def test_what_one_has_no_tasks_for_goes_to_the_others():
    assert finish_times([task("a", 4.0, tasks=1.0), task("b", 12.0)], 4.0) == {"a": 4.0, "b": 4.0}


def test_a_stage_waits_for_what_it_reads():
    ends = finish_times([task("c", 2.0, "a", "b"), task("a", 2.0), task("b", 6.0)], 2.0)
    assert ends == {"a": 2.0, "b": 4.0, "c": 5.0}


def test_the_drivers_time_is_not_shortened_by_slots():
    assert completion_time([task("a", 0.0, fixed=1.5)], 64.0) == 1.5
    assert completion_time([task("a", 0.0, fixed=1.0), task("b", 0.0, "a", fixed=1.0)], 64.0) == 2.0


def test_inputs_that_are_no_stage_are_stored_already():
    assert completion_time([task("a", 2.0, "finished earlier")], 2.0) == 1.0


def test_nothing_to_do_is_done():
    assert completion_time([], 4.0) == 0.0
    assert completion_time([task("a", 0.0)], 4.0) == 0.0


@pytest.mark.parametrize("unknown", [math.nan, math.inf])
@pytest.mark.parametrize(
    "stage", [{"core": "?"}, {"core": 1.0, "fixed": "?"}, {"core": "?", "tasks": "?"}], ids=["work", "start", "both"]
)
def test_what_waits_for_a_stage_of_unknown_work_never_ends_and_the_rest_does(stage, unknown):
    known = {name: unknown if value == "?" else value for name, value in stage.items()}
    stages = [task("a", **known), task("b", 2.0, fixed=1.0), task("c", 1.0, "a"), task("d", 1.0, "b")]
    ends = finish_times(stages, 4.0)
    assert ends.keys() == {"a", "b", "c", "d"}
    assert ends["a"] == ends["c"] == math.inf and ends["d"] < 10.0
    assert completion_time(stages, 4.0) == math.inf


@pytest.mark.parametrize("slots", [math.nan, math.inf])
def test_an_absurd_share_ends_too(slots):
    assert finish_times([task("a", 4.0), task("b", 4.0, tasks=math.inf)], slots).keys() == {"a", "b"}


def test_fewer_slots_never_end_earlier():
    stages = [task("a", 3.0, fixed=0.2), task("b", 9.0, tasks=3.0), task("c", 4.0, "a"), task("d", 1.0, "b", "c")]
    ends = [completion_time(stages, slots) for slots in (0.5, 1.0, 2.0, 4.0, 32.0)]
    assert ends == sorted(ends, reverse=True)
