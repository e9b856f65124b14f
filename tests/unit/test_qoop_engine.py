"""The engine when Spark fails: threads survive, every stage is reported, executors are not taken for lost."""

import gc
import threading
import time
import weakref
from contextlib import nullcontext
from functools import partial

import pytest
from py4j.protocol import Py4JError

from qoop.as_written.causes import PlanningFailed, UntypedCause
from qoop.engine import checkpoints as checkpoints_module
from qoop.engine import executors as executors_module
from qoop.engine import spark_engine
from qoop.engine.checkpoints import ExecutorCheckpoints, StoredOutput
from qoop.engine.executors import Executors, ExecutorTarget, usual_slots
from qoop.engine.failures import OF_PYTHON, Cause, is_transient
from qoop.engine.persisted import remove_with
from qoop.engine.prepared import AnalysedQuery, StageViews
from qoop.engine.snapshot import NULL_STRUCTS, reading_settings
from qoop.engine.spark_engine import SparkEngine
from qoop.engine.stored_once import StoredOnce
from qoop.plans.plan import RESULT, StageId
from qoop.replan.events import (
    CannotPlan,
    CheckpointLost,
    ExecutorsChanged,
    StageCancelled,
    StageFailed,
    StageFinished,
    StageGrew,
)
from tests.eventually import eventually

ONE = StageId("qoop_result", 3)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(spark_engine, "WATCH_INTERVAL_S", 0.005)
    monkeypatch.setattr(spark_engine, "MAX_PAUSE_S", 0.02)
    # Before an engine makes its first check, from which it counts.
    monkeypatch.setattr(spark_engine, "LIMIT_CHECK_S", 0.0)
    monkeypatch.setattr(executors_module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(executors_module, "MAX_PAUSE_S", 0.01)


@pytest.fixture
def died(monkeypatch):
    """What threads ended with that should have ended otherwise."""
    found = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    yield found
    assert found == []


# A number of executors.


class Cluster:
    """Executors that can be set only after some failures."""

    def __init__(self, *failures):
        self.failures, self.asked, self.surplus, self.killed = list(failures), [], [], []

    def is_adjustable(self):
        return True

    def set_target(self, target):
        self.asked.append(target)
        if self.failures:
            raise self.failures.pop(0)
        return self.surplus

    def kill(self, leaving):
        self.killed.append(leaving)
        raise Py4JError("gone")


def test_a_failed_request_for_executors_is_retried(died):
    cluster, warned = Cluster(Py4JError("gone"), RuntimeError("gone"), AttributeError("gone")), []
    target = ExecutorTarget(cluster, "q", warned.append)
    target.set(3, 0.0)
    eventually(lambda: len(cluster.asked) == 4, lambda: cluster.asked)
    target.set(2, 0.0)
    eventually(lambda: cluster.asked[-1] == 2, lambda: cluster.asked)
    assert cluster.asked == [3, 3, 3, 3, 2]
    (line,) = warned
    assert ("3 executors" in line, line.endswith("Py4JError: gone")) == (True, True)
    target.close()


def test_the_latest_target_replaces_one_that_fails(died, monkeypatch):
    monkeypatch.setattr(executors_module, "FIRST_PAUSE_S", 3600.0)
    monkeypatch.setattr(executors_module, "MAX_PAUSE_S", 3600.0)
    cluster, warned = Cluster(Py4JError("gone")), []
    target = ExecutorTarget(cluster, "q", warned.append)
    target.set(3, 0.0)
    eventually(lambda: warned, lambda: warned)
    target.set(1, 0.0)
    eventually(lambda: cluster.asked == [3, 1], lambda: cluster.asked)
    target.close()
    target._thread.join(60)
    assert not target._thread.is_alive()


def test_executors_that_have_not_exited_when_the_share_is_enforced_are_killed(died):
    cluster, warned = Cluster(), []
    cluster.surplus = ["3", "4"]
    target = ExecutorTarget(cluster, "q", warned.append)
    target.set(2, time.time() + 1e6)
    eventually(lambda: cluster.asked == [2], lambda: cluster.asked)
    cluster.surplus = ["2"]
    target.set(1, time.time() - 1.0)
    eventually(lambda: warned, lambda: cluster.killed)
    assert cluster.killed == [["2"]], "the others have time"
    assert [line.endswith("Py4JError: gone") for line in warned] == [True]
    target.close()
    for deadline in target._deadlines:
        deadline.join(60)
    assert cluster.killed == [["2"]], "with the query, its deadlines are over"


def test_only_executors_that_are_still_registered_are_killed():
    killed = []
    ids = Fake(size=lambda: 2, apply=["1", "2"].__getitem__)
    backend = Fake(getExecutorIds=lambda: ids, killExecutors=lambda *args: killed.append(args))
    scala, jvm = Fake(schedulerBackend=lambda: backend), Fake(PythonUtils=Fake(toSeq=list))
    executors = Executors(Fake(master="yarn", _jsc=Fake(sc=lambda: scala), _jvm=jvm))
    executors.kill(["2", "3"])
    executors.kill(["3"])
    assert killed == [(["2"], False, False, True)]


# The engine on a Spark that fails.


class Fake:
    """A part of Spark: whatever is asked of it is what was given by name."""

    def __init__(self, **parts):
        self.__dict__.update(parts)


class Spark:
    """A session with two executors on which everything can be made to fail."""

    def __init__(self):
        self.broken, self.ids, self.stopped, self.started = None, ["1", "2"], [], threading.Event()
        self.release = threading.Event()
        backend = Fake(getExecutorIds=self._executor_ids)
        scala = Fake(
            schedulerBackend=lambda: backend,
            maxNumConcurrentTasks=lambda profile: 2 * len(self.ids),
            resourceProfileManager=lambda: Fake(defaultResourceProfile=lambda: None),
        )
        self.sparkContext = Fake(
            master="yarn",
            _gateway=None,
            _jsc=Fake(sc=lambda: scala),
            _jvm=None,
            cancelJobsWithTag=self._cancel,
            getLocalProperty=lambda name: None,
            setLocalProperty=lambda name, value: None,
            addJobTag=lambda tag: None,
            removeJobTag=lambda tag: None,
        )

    def _executor_ids(self):
        if self.broken:
            raise self.broken
        return Fake(size=lambda: len(self.ids), apply=lambda index: self.ids[index])

    def _cancel(self, tag):
        self.stopped.append(tag)
        if self.broken:
            raise self.broken
        self.release.set()

    def sql(self, query):
        """A stage that runs until it is cancelled."""
        self.started.set()
        assert self.release.wait(60)
        raise RuntimeError("cancelled")


class LosingCheckpoints:
    """Checkpoints whose lost views a test sets."""

    def __init__(self):
        self.gone, self.parts, self.grown, self.views = {}, {}, {}, StageViews()
        self.stored, self.complete, self.released = 0.0, 0.0, False

    def save(self, view, frame, whole, versions):
        self.complete += 60.0
        return StoredOutput(1.0, 60.0)

    def complete_bytes(self):
        return self.complete

    def lost_views(self, suspected=False):
        return self.gone

    def stored_bytes(self):
        return self.stored

    def release(self):
        self.released = True

    def stopped(self, view):
        return self.parts.get(view, 0.0)

    def growing(self, least_rows):
        return {view: grown for view, grown in self.grown.items() if grown[0] >= least_rows}


def raising(problem):
    def fail():
        raise problem

    return fail


class Watched:
    """An engine, and the events that it reports."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(spark_engine, "InheritableThread", lambda run, **more: threading.Thread(target=run, **more))
        self.spark, self.kept, self.events, self.warned = Spark(), LosingCheckpoints(), [], []
        written = Fake(text="SELECT 1")
        self.engine = SparkEngine(
            self.spark,
            "q",
            written,
            self.kept,
            len,
            self.events.append,
            self.warned.append,
            too_much=lambda stored: UntypedCause(f"{stored:g} bytes") if stored > 100 else None,
        )

    def wait(self, event):
        eventually(lambda: event in self.events, lambda: (self.events, self.warned))


@pytest.fixture
def watched(monkeypatch, died):
    made = Watched(monkeypatch)
    yield made
    made.spark.broken = None
    made.engine.close()


PROBLEMS = [Py4JError("gone"), AttributeError("no context"), AssertionError(), RuntimeError("what?"), KeyError(1)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_watching_continues_after_any_error_and_reports_it_once(watched, problem):
    watched.wait(ExecutorsChanged(2, 4.0))
    watched.spark.broken = problem
    eventually(lambda: watched.warned, lambda: watched.warned)
    watched.spark.ids, watched.kept.gone = ["1"], {"view": "it is gone"}
    watched.engine._views["view"] = ONE
    watched.spark.broken = None
    watched.wait(ExecutorsChanged(1, 2.0))
    watched.wait(CheckpointLost(ONE, "it is gone"))
    (warning,) = watched.warned
    assert warning.startswith("could not check executors")


def test_executors_are_not_taken_for_lost_when_spark_does_not_answer(watched):
    """No executors would mean that the share is vacated, and that would be confirmed to the arbiter."""
    watched.wait(ExecutorsChanged(2, 4.0))
    watched.spark.broken = Py4JError("gone")
    eventually(lambda: watched.warned, lambda: watched.warned)
    assert watched.events == [ExecutorsChanged(2, 4.0)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_a_stage_is_cancelled_while_everything_else_fails(watched, problem):
    watched.engine.start(ONE, "SELECT 2", "view")
    assert watched.spark.started.wait(60)
    watched.spark.broken = problem
    watched.engine.cancel((ONE,))
    eventually(lambda: watched.warned and len(watched.spark.stopped) > 3, lambda: watched.spark.stopped)
    watched.spark.broken = None
    watched.wait(StageCancelled(ONE))


def test_a_large_output_is_reported_as_it_grows(watched):
    watched.engine.start(ONE, "SELECT 2", "view")
    for rows, finished in ((9e5, 0.1), (1.1e6, 0.2), (1.2e6, 0.4), (2.3e6, 0.5), (5e6, 0.0), (4.7e6, 0.8)):
        watched.kept.grown = {"view": (rows, finished)}
        watched.engine._report_growth()
    told = [event for event in watched.events if isinstance(event, StageGrew)]
    assert told == [StageGrew(ONE, 1.1e6, 0.2), StageGrew(ONE, 2.3e6, 0.5), StageGrew(ONE, 4.7e6, 0.8)]


def test_outputs_that_take_too_much_room_are_reported_once_and_removed_before_the_query_runs_as_written(
    watched,
):
    watched.engine.start(ONE, "SELECT 2", "view")
    for stored in (0.0, 100.0, 101.0, 200.0):
        watched.kept.stored = stored
        watched.engine._report_too_much_stored()
    # The engine's own check may have been first.
    eventually(lambda: CannotPlan(UntypedCause("101 bytes")) in watched.events, lambda: watched.events)
    assert sum(isinstance(event, CannotPlan) for event in watched.events) == 1
    assert not watched.kept.released
    watched.engine.cancel((ONE,))
    watched.engine.start(RESULT, "SELECT 1", None)
    eventually(lambda: watched.kept.released, lambda: watched.events)
    assert StageCancelled(ONE) in watched.events, "otherwise it might store them again"


def test_outputs_that_become_too_large_between_two_checks_are_reported_before_a_stage_follows(watched, monkeypatch):
    monkeypatch.setattr(spark_engine, "LIMIT_CHECK_S", 3600.0)
    monkeypatch.setattr(spark_engine, "refuse_cached_files", lambda frame: None)
    monkeypatch.setattr(watched.engine._prepared, "take", lambda *_, **more: AnalysedQuery(None, False, {}))
    for stage in (ONE, TWO, THREE):
        watched.engine.start(stage, "SELECT 2", "view")
        eventually(lambda stage=stage: finished(watched)[-1:] == [stage], lambda: watched.events)
    told = [event for event in watched.events if isinstance(event, CannotPlan | StageFinished)]
    assert [getattr(event, "cause", None) for event in told] == [None, UntypedCause("120 bytes"), None, None]


def finished(watched):
    return [event.stage for event in watched.events if isinstance(event, StageFinished)]


def test_outputs_that_take_too_much_room_stay_where_a_stage_reads_them_and_while_rows_are_stored(watched):
    watched.kept.stored = 200.0
    watched.engine._storing.add("q-1")
    watched.engine._report_too_much_stored()
    assert not any(isinstance(event, CannotPlan) for event in watched.events)
    watched.engine._storing.clear()
    watched.engine.start(ONE, "SELECT 2", "view")
    watched.engine._report_too_much_stored()
    # The engine's own check may have been first.
    eventually(lambda: CannotPlan(UntypedCause("200 bytes")) in watched.events, lambda: watched.events)
    watched.engine._remove_outputs("q-2")
    assert not watched.kept.released and not watched.spark.stopped


def test_outputs_that_cannot_be_removed_do_not_fail_the_query(watched, monkeypatch):
    monkeypatch.setattr(watched.kept, "release", raising(Py4JError("an executor does not answer")))
    watched.engine._remove_outputs("q-1")
    (line,) = watched.warned
    assert line.startswith("outputs of stages could not be removed: ") and "does not answer" in line


def test_requesting_executors_does_not_block(watched, monkeypatch):
    asked = []

    def fail(self, target):
        asked.append(target)
        raise Py4JError("the resource manager does not answer")

    monkeypatch.setattr(Executors, "set_target", fail)
    watched.engine.set_executors(1, 0.0)
    eventually(lambda: len(asked) > 2, lambda: asked)
    assert set(asked) == {1}
    assert sum("1 executor;" in line for line in watched.warned) == 1


def test_a_plan_that_cannot_be_written_as_one_text_cannot_run(watched):
    def fail():
        raise OverflowError("too wide")

    watched.engine.check_plan(fail)
    watched.wait(CannotPlan(PlanningFailed("the plan cannot be written as one text: OverflowError: too wide")))


class UnspeakableError(Exception):
    """An error whose message cannot be made."""

    def __str__(self):
        raise AttributeError("Java has gone")


@pytest.mark.parametrize("problem", [UnspeakableError(), SystemExit(3), KeyboardInterrupt()])
def test_a_stage_that_ends_in_any_way_is_reported(watched, monkeypatch, problem):
    def fail(query):
        raise problem

    monkeypatch.setattr(watched.spark, "sql", fail)
    watched.engine.start(ONE, "SELECT 2", "view")
    eventually(lambda: any(isinstance(event, StageFailed) for event in watched.events), lambda: watched.events)


@pytest.mark.parametrize(
    ("message", "freed"),
    [
        ("Not enough memory to build and broadcast the table", True),
        ("No space left on device", True),
        ("Connection refused", False),
    ],
)
def test_memory_is_freed_before_a_stage_is_retried_that_had_none_left(watched, monkeypatch, message, freed):
    def fail(query):
        raise RuntimeError(message)

    calls = []

    def free(session, wait):
        calls.append(any(isinstance(event, StageFailed) for event in watched.events))

    monkeypatch.setattr(watched.spark, "sql", fail)
    monkeypatch.setattr(spark_engine, "free_room", free)
    watched.engine.start(ONE, "SELECT 2", "view")
    watched.wait(StageFailed(ONE, message, True, True))
    assert calls == [False] * freed, "before the failure is reported"
    watched.events.clear()
    watched.engine.start(ONE, "SELECT 2", "view")
    watched.wait(StageFailed(ONE, message, not freed, True))
    assert calls == [False] * freed, "memory is freed once for a stage"


def test_what_a_stage_without_memory_has_left_can_be_freed(watched, monkeypatch):
    left = []

    def fail(query):
        own = Spark()
        left.append(weakref.ref(own))
        raise RuntimeError(f"OutOfMemoryError {own is None}")

    def free(session, wait):
        gc.collect()
        left.append(left[0]() is None)

    monkeypatch.setattr(watched.spark, "sql", fail)
    monkeypatch.setattr(spark_engine, "free_room", free)
    watched.engine.start(ONE, "SELECT 2", "view")
    eventually(lambda: len(left) == 2, lambda: watched.events)
    assert left[1] is True


@pytest.mark.parametrize(("message", "removed"), [("No space left on device", True), ("Connection refused", False)])
def test_outputs_are_removed_before_the_query_runs_as_written_if_a_stage_found_no_room(
    watched, monkeypatch, message, removed
):
    def fail(query):
        raise RuntimeError(message)

    def failed(stage):
        return any(isinstance(event, StageFailed) and event.stage == stage for event in watched.events)

    monkeypatch.setattr(watched.spark, "sql", fail)
    monkeypatch.setattr(spark_engine, "free_room", lambda session, wait: None)
    watched.engine.start(ONE, "SELECT 2", "view")
    eventually(lambda: failed(ONE), lambda: watched.events)
    assert not watched.kept.released
    watched.engine.start(RESULT, "SELECT 1", None)
    eventually(lambda: failed(RESULT), lambda: watched.events)
    assert watched.kept.released == removed


def test_a_stage_that_is_cancelled_while_memory_is_freed_has_not_failed(watched, monkeypatch):
    def fail(query):
        raise RuntimeError("OutOfMemoryError")

    monkeypatch.setattr(watched.spark, "sql", fail)
    monkeypatch.setattr(spark_engine, "free_room", lambda session, wait: watched.engine.cancel((ONE,)))
    watched.engine.start(ONE, "SELECT 2", "view")
    watched.wait(StageCancelled(ONE))


def test_a_stage_that_gets_no_thread_is_reported(watched, monkeypatch):
    def none(*_, **more):
        raise AssertionError("no active context")

    monkeypatch.setattr(spark_engine, "_StageThread", none)
    watched.engine.start(ONE, "SELECT 2", "view")
    assert [type(event) for event in watched.events if not isinstance(event, ExecutorsChanged)] == [StageFailed]


# Comparisons of plans with the query as written.


class SlowVerification:
    """Comparisons that wait until they may go on."""

    def __init__(self):
        self.started, self.go_on = [], threading.Event()

    def check(self, text, last=False):
        self.started.append(text)
        assert self.go_on.wait(60)


@pytest.fixture
def slow(watched):
    watched.engine._verification = SlowVerification()
    watched.engine.check_plan(lambda: "the first plan")
    eventually(lambda: watched.engine._verification.started, lambda: "no comparison")
    return watched.engine._verification


def test_the_result_does_not_wait_for_comparisons_of_plans_that_were_left(watched, slow):
    watched.engine.check_plan(lambda: "the second plan")
    checked = watched.engine._checked("what was run")
    slow.go_on.set()
    checked.result(60)
    assert slow.started == ["the first plan", "what was run"]


def test_of_several_plans_that_wait_the_one_that_runs_is_compared(watched, slow):
    for plan in ("the second plan", "the third plan", "the fourth plan"):
        watched.engine.check_plan(partial(str, plan))
    slow.go_on.set()
    watched.engine._checks.submit(lambda: None).result(60)
    assert slow.started == ["the first plan", "the fourth plan"]


# Lost outputs.

TWO, THREE, FOUR = (StageId("qoop_result", number) for number in (5, 6, 7))


@pytest.fixture
def stored(watched):
    """Outputs of which `two` is made from `one`, `three` from `two`, and `four` from none."""
    engine = watched.engine
    engine._definitions |= {
        "one": "SELECT sum(x) AS s FROM t",
        "two": "SELECT s FROM one",
        "three": "SELECT s FROM `two` AS u",
        "four": "SELECT oner FROM t",
    }
    engine._views |= {"one": ONE, "two": TWO, "three": THREE, "four": FOUR}
    return watched


def lost(watched):
    return {event.stage for event in watched.events if isinstance(event, CheckpointLost)}


def test_an_output_with_the_same_values_each_time_is_lost_alone(stored):
    stored.kept.gone = {"one": "it is gone"}
    stored.wait(CheckpointLost(ONE, "it is gone"))
    assert lost(stored) == {ONE}
    assert stored.engine._versions_read("SELECT s FROM one") == {}


def test_an_output_with_other_values_each_time_is_lost_with_all_that_was_made_from_it(stored):
    stored.engine._inexact.add("one")
    before = stored.engine._versions_read("SELECT s FROM three")
    stored.kept.gone = {"one": "it is gone"}
    stored.wait(CheckpointLost(THREE, "computed from two, of which parts were lost"))
    assert lost(stored) == {ONE, TWO, THREE}
    assert stored.engine._versions_read("SELECT s FROM three") != before, "a stage that reads it meanwhile is run again"


def test_an_output_stored_while_another_is_lost_is_reported_after_it_was_stored(stored, monkeypatch):
    engine, five, asked = stored.engine, StageId("qoop_result", 9), []
    engine._inexact.add("one")
    read = engine._versions_read
    losing = threading.Thread(target=engine._report_lost, args=("one", "it is gone", True))

    def versions_read(query):
        found = read(query)
        asked.append(query)
        if len(asked) == 2:
            losing.start()
            losing.join(0.2)
        return found

    monkeypatch.setattr(engine, "_versions_read", versions_read)
    monkeypatch.setattr(engine, "_compute", lambda *_: (1.0, 8.0))
    monkeypatch.setattr(spark_engine, "core_seconds", lambda *_: 1.0)
    engine.start(five, "SELECT s FROM one", "five")
    eventually(lambda: ONE in lost(stored), lambda: stored.events)
    losing.join(60)
    ends = [type(event) for event in stored.events if getattr(event, "stage", None) == five]
    assert ends == [StageFinished, CheckpointLost]


def test_what_is_kept_of_a_cancelled_stage_is_reported_and_may_be_lost(watched, monkeypatch):
    monkeypatch.setattr(spark_engine, "core_seconds", lambda context, tag, last_job=False: 3.0 if last_job else 9.0)
    watched.kept.parts = {"view": 0.8}
    watched.engine.start(ONE, "SELECT 2", "view")
    assert watched.spark.started.wait(60)
    watched.engine.cancel((ONE,))
    watched.wait(StageCancelled(ONE, 0.8, 3.0))
    watched.kept.gone = {"view": "it is gone"}
    watched.wait(CheckpointLost(ONE, "it is gone"))


# Stored outputs.


class Rows:
    """Rows that executors keep."""

    def __init__(self, problem=None):
        self.problem, self.kept = problem, True

    def remove(self):
        if self.problem:
            raise self.problem
        self.kept = False


def output_of(rows, whole=False):
    return checkpoints_module._Stored(rows, 8.0, 1, 2, whole)


def test_rows_that_cannot_be_removed_do_not_stop_the_others():
    outputs = [Rows(), Rows(Py4JError("gone")), Rows()]
    checkpoints = ExecutorCheckpoints(None, _stored={str(rows): output_of(rows) for rows in outputs})
    assert checkpoints.complete_bytes() == 24.0
    with pytest.raises(Py4JError):
        checkpoints.release()
    assert [rows.kept for rows in outputs] == [False, True, False]
    assert checkpoints.complete_bytes() == 0.0


@pytest.mark.parametrize(("whole", "same"), [(True, True), (False, True), (False, False)])
def test_of_an_output_that_is_stored_again_all_rows_are_computed_if_none_may_be_mixed(monkeypatch, whole, same):
    """Nor may those that another plan has made: it is the present one that is compared with the query."""

    class ComputedError(Exception):
        pass

    def compute(frame, name):
        raise ComputedError

    known = Rows()
    known.frame = known.partitions = None
    known.are_of = lambda query: same
    checkpoints = ExecutorCheckpoints(None, views=Fake(define=lambda view, frame: None), _stored={})
    checkpoints._stored["view"] = output_of(known, whole)
    monkeypatch.setattr(checkpoints_module, "PersistedRows", compute)
    monkeypatch.setattr(checkpoints_module, "settings_of", nullcontext)
    kept = same and not whole
    with pytest.raises(TypeError if kept else ComputedError):
        checkpoints.save("view", Fake(sparkSession=None), whole=whole)
    assert known.kept == kept


def test_a_failure_on_garbage_collection_does_not_stop_the_others(died):
    class Owner:
        pass

    owner, outputs = Owner(), [Rows(), Rows(AttributeError("gone")), Rows()]
    remove_with(owner, outputs)
    del owner
    eventually(lambda: not outputs[-1].kept, lambda: outputs)
    assert not outputs[0].kept


# A last stage that stores rows.


class Storing:
    """An engine whose result is stored by a function of the test."""

    def __init__(self, monkeypatch, consume, once):
        monkeypatch.setattr(spark_engine, "InheritableThread", lambda run, **more: threading.Thread(target=run, **more))
        self.spark, self.events, written = Spark(), [], Fake(text="SELECT 1", frame=lambda: None)
        self.engine = SparkEngine(
            self.spark, "q", written, LosingCheckpoints(), consume, self.events.append, once=once and once(consume)
        )

    def start(self):
        self.engine.start(ONE, "SELECT 1", None)

    def wait(self, kind):
        eventually(lambda: any(isinstance(event, kind) for event in self.events), lambda: self.events)
        (found,) = [event for event in self.events if isinstance(event, kind)]
        return found


ATOMICALLY, AT_ONCE = (lambda consume: StoredOnce(consume, True)), (lambda consume: StoredOnce(consume, False))


@pytest.mark.parametrize(
    ("once", "problem", "retry", "final"),
    [
        (None, "ExecutorLostFailure (executor 1 exited)", True, False),
        (ATOMICALLY, "ExecutorLostFailure (executor 1 exited)", False, True),
        (AT_ONCE, "ExecutorLostFailure (executor 1 exited)", False, True),
        (ATOMICALLY, "[TASK_WRITE_FAILED] Task failed while writing rows", False, False),
        (AT_ONCE, "[TASK_WRITE_FAILED] Task failed while writing rows", False, True),
        (ATOMICALLY, "Checkpoint block rdd_1_2 not found!", True, False),
        (ATOMICALLY, "could not rename", False, True),
    ],
)
def test_rows_are_not_stored_again_where_some_may_have_been(monkeypatch, died, once, problem, retry, final):
    tried = []

    def consume(frame):
        tried.append(frame)
        raise RuntimeError(problem)

    storing = Storing(monkeypatch, consume, once)
    storing.start()
    failed = storing.wait(StageFailed)
    assert (failed.retry, failed.final) == (retry, final)
    storing.start()
    eventually(lambda: len(storing.events) >= 3, lambda: storing.events)
    storing.engine.close()
    assert len(tried) == (1 if final else 2)


def test_no_switch_stops_a_stage_that_stores_rows_and_none_follows_it(monkeypatch, died):
    stored, release = threading.Event(), threading.Event()

    def consume(frame):
        assert not stored.is_set(), "rows are stored twice"
        stored.set()
        assert release.wait(60)
        return 7, "place"

    storing = Storing(monkeypatch, consume, ATOMICALLY)
    storing.start()
    assert stored.wait(60)
    storing.engine.cancel((ONE,))
    assert storing.spark.stopped == []
    storing.start()
    release.set()
    assert storing.wait(StageFinished).rows == 7.0
    storing.wait(StageCancelled)
    assert storing.engine.result == "place"
    storing.engine.close()


@pytest.mark.parametrize(
    ("causes", "transient"),
    [
        ([Cause("java.net.ConnectException: Connection refused")], True),
        ([Cause("Job aborted: FetchFailed"), Cause("x", "42000", True)], True),
        ([Cause("[USER_RAISED_EXCEPTION] Could not read", "P0001", True)], False),
        ([Cause("Job aborted"), Cause(f"{OF_PYTHON}: OSError: Connection refused")], False),
        ([Cause("[DIVIDE_BY_ZERO]", "22012", True)], False),
    ],
)
def test_a_function_of_the_users_may_fail_in_the_words_of_the_cluster(causes, transient):
    assert is_transient(causes) == transient


def test_a_last_stage_that_another_one_has_replaced_is_cancelled_until_it_ends(watched):
    watched.engine.start(RESULT, "SELECT 2", None)
    eventually(watched.spark.started.is_set, lambda: watched.events)
    thread = next(iter(watched.engine._threads.values()))
    tag = watched.engine._running[RESULT]
    watched.spark._cancel = lambda tag: watched.spark.stopped.append(tag)
    watched.spark.sparkContext.cancelJobsWithTag = watched.spark._cancel
    watched.engine.cancel((RESULT,))
    watched.engine.start(RESULT, "SELECT 3", None)
    eventually(lambda: watched.spark.stopped.count(tag) > 3, lambda: watched.spark.stopped)
    assert thread.is_alive()
    watched.spark.release.set()
    thread.join(60)


@pytest.mark.parametrize(
    ("master", "settings", "slots"),
    [
        ("yarn", {}, 2.0),
        ("yarn", {"dynamicAllocation.enabled": "true"}, 2.0),
        ("yarn", {"dynamicAllocation.enabled": "true", "dynamicAllocation.maxExecutors": "10"}, 10.0),
        (
            "yarn",
            {"dynamicAllocation.enabled": "true", "dynamicAllocation.maxExecutors": "10", "executor.cores": "4"},
            40.0,
        ),
        ("yarn", {"dynamicAllocation.enabled": "true", "dynamicAllocation.maxExecutors": str(2**31 - 1)}, 2.0),
        ("spark://x", {"dynamicAllocation.enabled": "true", "dynamicAllocation.maxExecutors": "10"}, 2.0),
        ("local[2]", {"dynamicAllocation.enabled": "true", "dynamicAllocation.maxExecutors": "10"}, 2.0),
    ],
)
def test_slots_of_an_application_that_grows(master, settings, slots):
    conf = {f"spark.{name}": value for name, value in settings.items()}
    assert usual_slots(Fake(master=master, defaultParallelism=2, _conf=conf)) == slots


def test_a_setting_that_an_older_spark_lacks_has_its_default():
    class Settings:
        def get(self, name, *default):
            if name == NULL_STRUCTS and not default:
                raise KeyError(name)
            return default[0] if default else "given"

    assert reading_settings(Fake(conf=Settings())) == {
        "ignorecorruptfiles": "given",
        "ignoremissingfiles": "given",
        "columnnameofcorruptrecord": "given",
        NULL_STRUCTS.lower(): "false",
    }
