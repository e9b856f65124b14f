"""Long work in a process of its own: what comes of a task whatever becomes of the process; nothing is left running."""

import os
import queue
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.eventually import eventually
from tests.sampled import one_in
from tests.solvers import TAGS, Sum, Total, Trouble, Unsolved, Untagged
from yarn_plugin.act.worker import Worker
from yarn_plugin.decide.events import Solved
from yarn_plugin.observe.delivery import Stopped

PATIENCE = 60.0
REGISTRY = "tests.solvers:REGISTRY"


class Told(queue.Queue):
    """Collects outcomes; `fails` may raise instead."""

    def __init__(self):
        super().__init__()
        self.fails = lambda outcome: None

    def __call__(self, outcome):
        self.put(outcome)
        self.fails(outcome)

    def next(self):
        return self.get(timeout=PATIENCE)


@pytest.fixture
def start():
    """A worker and the outcomes that it reports; it is closed at the end."""
    workers = []

    def begin(registry=REGISTRY, limit_s=PATIENCE):
        told = Told()
        workers.append(Worker(registry, TAGS, told, limit_s))
        return workers[-1], told

    yield begin
    for worker in workers:
        worker.close()


def begun(mark):
    """The id of the process that a solver runs in, once it has started."""
    eventually(mark.exists, "the solve")
    return int(mark.read_text())


def is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def summed(told):
    outcome = told.next()
    assert (outcome.kind, outcome.error) == ("done", None), outcome
    assert isinstance(outcome.result, Total)
    return outcome.id, outcome.result.value


@pytest.mark.parametrize("registry", [REGISTRY, "tests.solvers:registry"])
def test_a_result_comes_back_as_the_value_that_it_was(start, registry):
    worker, told = start(registry)
    assert worker.pid() is None, "nothing is started before there is something to solve"
    worker.submit("gpu", "1", Sum((1.0, 2.5)))
    outcome = told.next()
    assert outcome == Solved("gpu", "1", "done", Total(3.5, worker.pid(), outcome.result.niceness))
    assert worker.pid() != os.getpid()
    assert outcome.result.niceness > os.nice(0)


def test_a_large_problem_goes_through(start):
    worker, told = start()
    worker.submit("gpu", "1", Sum((0.5,) * 300_000))
    assert summed(told) == ("1", 150_000.0)


def test_tasks_are_solved_in_order_and_by_one_process(start):
    worker, told = start()
    for number in range(5):
        worker.submit(f"pool-{number % 2}", str(number), Sum((float(number),)))
    outcomes = [told.next() for _ in range(5)]
    assert [outcome.id for outcome in outcomes] == ["0", "1", "2", "3", "4"]
    assert len({outcome.result.pid for outcome in outcomes}) == 1


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (Trouble("raises"), "ValueError: no solution xxx"),
        (Trouble("exits"), "SystemExit: enough"),
        (Trouble("untagged"), "Untagged has no journal tag"),
        (Trouble("wrong"), "value"),
        (Trouble("endless"), "Total"),
        (Unsolved(), "'unsolved'"),
        (Untagged(), "Untagged has no journal tag"),
    ],
)
def test_a_failed_task_reports_one_line_and_the_next_is_solved(start, problem, error):
    worker, told = start()
    worker.submit("gpu", "1", problem)
    outcome = told.next()
    assert (outcome.pool, outcome.id, outcome.kind, outcome.result) == ("gpu", "1", "failed", None)
    assert error in outcome.error
    assert "\n" not in outcome.error
    assert len(outcome.error) <= 300
    worker.submit("gpu", "2", Sum((1.0,)))
    assert summed(told) == ("2", 1.0)
    assert worker.counters["tasks_failed"] == 1


@one_in(2, "reference", ["tests.solvers:broken", "tests.solvers:nothing", "tests.nowhere:x", "nothing"])
def test_a_registry_that_cannot_be_used_fails_every_task(start, reference):
    worker, told = start(reference)
    for name in ("1", "2"):
        worker.submit("gpu", name, Sum(()))
        outcome = told.next()
        assert outcome.kind == "failed"
        assert repr(reference) in outcome.error


def test_output_of_a_solver_is_not_taken_as_its_answer_and_goes_to_stderr(start, capfd):
    worker, told = start()
    worker.submit("gpu", "1", Trouble("prints"))
    worker.submit("gpu", "2", Sum((2.0,)))
    assert [summed(told), summed(told)] == [("1", 0.0), ("2", 2.0)]
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "garbage" in printed.err


def test_a_child_forked_by_a_solver_cannot_answer_the_next_task(start, tmp_path):
    worker, told = start()
    worker.submit("gpu", "1", Trouble("forks"))
    assert summed(told) == ("1", 1.0)
    time.sleep(0.5)
    worker.submit("gpu", "2", Sum((2.0, 3.0)))
    assert summed(told) == ("2", 5.0)


def test_an_interrupt_does_not_reach_it(start):
    worker, told = start()
    worker.submit("gpu", "1", Trouble("is interrupted"))
    assert summed(told) == ("1", 1.0)
    assert os.getsid(worker.pid()) != os.getsid(0)


def test_a_process_that_is_killed_loses_its_task_and_the_next_one_is_solved_by_another(start, tmp_path):
    worker, told = start()
    worker.submit("gpu", "1", Trouble("sleeps", str(tmp_path / "mark")))
    worker.submit("gpu", "2", Sum((2.0,)))
    killed = begun(tmp_path / "mark")
    os.kill(killed, signal.SIGKILL)
    outcome = told.next()
    assert (outcome.pool, outcome.id, outcome.kind) == ("gpu", "1", "lost")
    assert "SIGKILL; check whether the machine ran out of memory" in outcome.error
    assert summed(told) == ("2", 2.0)
    assert worker.pid() != killed
    assert worker.counters["tasks_lost"] == 1


def test_a_process_that_exits_loses_its_task(start):
    worker, told = start()
    worker.submit("gpu", "1", Trouble("dies"))
    outcome = told.next()
    assert (outcome.kind, "exit code 3" in outcome.error) == ("lost", True)


def test_a_process_that_closes_its_pipes_is_stopped_and_loses_its_task(start):
    worker, told = start()
    worker.submit("gpu", "1", Trouble("closes its pipes"))
    outcome = told.next()
    assert (outcome.kind, "closed its pipes" in outcome.error) == ("lost", True)


def test_a_process_that_is_killed_between_tasks_loses_none(start):
    worker, told = start()
    worker.submit("gpu", "1", Sum((1.0,)))
    assert summed(told) == ("1", 1.0)
    before = worker.pid()
    os.kill(before, signal.SIGKILL)
    # Until the last of its threads has ended, a process cannot be told from one that runs.
    eventually(lambda: os.waitid(os.P_PID, before, os.WEXITED | os.WNOHANG | os.WNOWAIT), "the end")
    worker.submit("gpu", "2", Sum((2.0,)))
    assert summed(told) == ("2", 2.0)


@pytest.mark.parametrize("kind", ["sleeps", "holds the interpreter", "starts another"])
def test_a_task_past_its_limit_is_killed_with_whatever_it_started(start, tmp_path, kind):
    worker, told = start(limit_s=1.0)
    worker.submit("gpu", "1", Trouble(kind, str(tmp_path / "mark")))
    outcome = told.next()
    assert (outcome.kind, " 1 s" in outcome.error) == ("lost", True)
    pids = [int(path.read_text()) for path in (tmp_path / "mark", tmp_path / "mark.child") if path.exists()]
    assert pids
    eventually(lambda: all(is_gone(pid) for pid in pids), "the end")


def test_what_a_killed_process_had_started_ends_too(start, tmp_path):
    worker, told = start()
    worker.submit("gpu", "1", Trouble("starts another", str(tmp_path / "mark")))
    child = tmp_path / "mark.child"
    eventually(lambda: child.exists() and child.read_text(), "its child")
    os.kill(begun(tmp_path / "mark"), signal.SIGKILL)
    assert told.next().kind == "lost"
    eventually(lambda: is_gone(int(child.read_text())), "the child's end")


def test_the_same_task_again_is_solved_once(start, tmp_path):
    worker, told = start()
    hanging = Trouble("sleeps", str(tmp_path / "mark"))
    worker.submit("gpu", "1", hanging)
    killed = begun(tmp_path / "mark")
    worker.submit("gpu", "1", hanging)  # is being solved
    worker.submit("gpu", "2", Sum((1.0,)))
    worker.submit("other", "2", Sum((5.0,)))
    worker.submit("gpu", "2", Sum((2.0,)))  # waits
    worker.submit("gpu", "3", Sum((3.0,)))
    os.kill(killed, signal.SIGKILL)
    found = [told.next() for _ in range(4)]
    assert [(one.pool, one.id, one.kind) for one in found] == [
        ("gpu", "1", "lost"),
        ("gpu", "2", "done"),
        ("other", "2", "done"),
        ("gpu", "3", "done"),
    ]
    assert [one.result.value for one in found[1:]] == [2.0, 5.0, 3.0]


def test_a_task_that_was_lost_can_be_given_again(start, tmp_path):
    worker, told = start()
    worker.submit("gpu", "1", Trouble("dies"))
    assert told.next().kind == "lost"
    worker.submit("gpu", "1", Sum((1.0,)))
    assert summed(told) == ("1", 1.0)


def test_closing_ends_the_worker_at_once_without_an_outcome(start, tmp_path, caplog):
    worker, told = start()
    worker.submit("gpu", "1", Trouble("holds the interpreter", str(tmp_path / "mark")))
    worker.submit("gpu", "2", Sum(()))
    pid = begun(tmp_path / "mark")
    worker.close()
    assert not psutil.pid_exists(pid)
    assert not worker.is_alive()
    assert told.empty()
    assert not caplog.records
    assert not worker.counters["tasks_lost"]


def test_an_unused_worker_is_closed(start):
    worker, _ = start()
    assert worker.is_alive()
    worker.close()
    assert not worker.is_alive()


def test_an_outcome_that_is_not_taken_in_does_not_end_it(start):
    worker, told = start()
    told.fails = lambda outcome: {}["nothing"]
    worker.submit("gpu", "1", Sum((1.0,)))
    worker.submit("gpu", "2", Sum((2.0,)))
    assert [summed(told), summed(told)] == [("1", 1.0), ("2", 2.0)]
    worker.close()
    assert worker.counters["outcomes_lost"] == 2


def test_when_the_arbiter_ends_so_does_it(start):
    worker, told = start()

    def stopped(_):
        raise Stopped

    told.fails = stopped
    worker.submit("gpu", "1", Sum((1.0,)))
    pid = told.next().result.pid
    eventually(lambda: not worker.is_alive(), "the end")
    eventually(lambda: is_gone(pid), "the process's end")


ARBITER = """
import sys, time
from tests.solvers import TAGS, Sum, Trouble
from yarn_plugin.act.worker import Worker
from yarn_plugin.decide.events import Solved

told = []
worker = Worker("tests.solvers:REGISTRY", TAGS, told.append, 1000.0)
worker.submit("gpu", "1", Trouble(sys.argv[1], sys.argv[2]))
time.sleep(1000)
"""


@one_in(2, "kind", ["sleeps", "holds the interpreter", "idles"])
def test_an_arbiter_that_is_killed_leaves_no_process(tmp_path, kind):
    mark = tmp_path / "mark"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", ARBITER, kind, str(mark)]
    with subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[2]) as arbiter:
        pid = begun(mark)
        arbiter.kill()
    eventually(lambda: is_gone(pid), "the worker's end")
