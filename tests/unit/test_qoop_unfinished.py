"""What stays stored of outputs whose stages were cancelled."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError

from qoop.engine import unfinished
from qoop.engine.checkpoints import ExecutorCheckpoints
from qoop.engine.unfinished import Unfinished, UnfinishedOutputs, is_affordable


class Rows:
    """Rows that executors keep; of their four partitions some have finished."""

    def __init__(self, finished=(0, 1, 2)):
        self.finished, self.stored = finished, True
        accumulators = SimpleNamespace(get=lambda number: self)
        classes = {"org.apache.spark.util.AccumulatorContext": accumulators}
        self.query, self.builder = SimpleNamespace(sparkSession=SimpleNamespace(_jvm=classes)), self

    def remove(self):
        self.stored = False

    # The accumulator, as an option of a map.

    def isDefined(self):  # noqa: N802
        return True

    def get(self):
        return self

    def value(self):
        return self

    def toString(self):  # noqa: N802
        return "{" + ", ".join(f"{partition}=(10,800)" for partition in self.finished) + "}"

    def materializationAccumulatorId(self):  # noqa: N802
        if self.finished is None:
            raise Py4JError("no such method")
        return 7


@pytest.fixture
def room(monkeypatch):
    """Executors that store 100 bytes, and outputs of 20 bytes each."""
    monkeypatch.setattr(unfinished, "java_class", lambda classes, name: classes[name])
    monkeypatch.setattr(unfinished, "storage_memory", lambda context: 100.0)
    monkeypatch.setattr(unfinished, "stored_bytes", lambda context, identities: 20.0 * len(identities))


def kept_by(*outputs):
    checkpoints = ExecutorCheckpoints(SimpleNamespace(sparkContext=None))
    fractions = []
    for number, rows in enumerate(outputs):
        checkpoints._keep(f"v{number}", Unfinished(rows, number, 4, {}))
        fractions.append(checkpoints.stopped(f"v{number}"))
    return checkpoints, fractions


def test_an_output_is_kept_as_far_as_its_tasks_have_finished(room):
    rows = Rows()
    assert kept_by(rows)[1] == [0.75]
    assert rows.stored


@pytest.mark.parametrize("finished", [(), None])
def test_an_output_without_a_partition_that_is_known_to_be_finished_is_given_up(room, finished):
    rows = Rows(finished)
    assert kept_by(rows)[1] == [0.0]
    assert not rows.stored


def test_an_output_for_which_there_is_no_room_is_given_up(room):
    outputs = [Rows(), Rows(), Rows()]
    assert kept_by(*outputs)[1] == [0.75, 0.75, 0.0]
    assert [rows.stored for rows in outputs] == [True, True, False]
    assert is_affordable(50.0, 100.0)
    assert not is_affordable(51.0, 100.0)


def test_nothing_stays_stored_when_the_query_has_ended(room):
    one, late = Rows(), Rows()
    checkpoints, _ = kept_by(one)
    checkpoints.release()
    checkpoints._keep("late", Unfinished(late, 9, 4, {}))
    assert not one.stored
    assert not late.stored


def test_a_kept_output_that_executors_took_with_them_is_lost(room):
    rows, outputs = Rows((0, 1, 2, 3)), UnfinishedOutputs()
    outputs.add("v", Unfinished(rows, 5, 8, {}))
    assert outputs.lost_views({}, 0.25) == {}, "nothing was promised yet"
    outputs.kept("v", None)
    assert outputs.lost_views({5: 4}, 0.25) == outputs.lost_views({5: 5}, 0.25) == {}
    assert list(outputs.lost_views({5: 3}, 0.25)) == ["v"]
    outputs.take("v")
    assert outputs.lost_views({}, 0.25) == {}


def test_rows_and_partitions_are_counted_at_once(room):
    output = Unfinished(Rows(finished=(0, 2)), 1, 4, {})
    assert output.finished() == {0, 2}
    assert output.progress(least_rows=20) == (20.0, 0.5)
    assert output.progress(least_rows=21) is None


def test_where_spark_counts_no_partitions_nothing_is_known(room):
    assert Unfinished(Rows(finished=None), 1, 4, {}).progress(least_rows=0) is None
