"""Diagnostics from the ResourceManager for many users: few requests, shared answers, no user delays another."""

import threading

import pytest

from tests.clock import HandClock
from tests.eventually import eventually
from yarn_plugin.drive.diagnostics import BUSY, CACHE_TTL, MAX_LINE_LENGTH, MAX_LINES, MAX_WAITING, THREADS, Diagnostics
from yarn_plugin.observe.resource_manager import ManagerRefusedError

SAYS = {"appActivities": {"allocations": [{"diagnostic": "no node has room", "nodeIds": ["h1:1"]}]}}


class Manager:
    """A ResourceManager that answers when it is let; `asked`: for which paths, in order."""

    url = "http://rm:8088"

    def __init__(self, answer=SAYS, held=False):
        self.asked, self._answer, self._free = [], answer, threading.Event()
        if not held:
            self.let()

    def let(self):
        self._free.set()

    def get(self, path, **params):
        self.asked.append(path.rpartition("/")[2])
        assert self._free.wait(30)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def diagnostics(manager, clock=None):
    clock = clock or HandClock()
    return Diagnostics(lambda: manager, collect_seconds=0.0, clock=clock.now)


def test_many_requests_about_one_application_share_one_query():
    manager = Manager(held=True)
    asks = diagnostics(manager)
    waiting = [asks.why_waiting("application_1_0001") for _ in range(120)]
    manager.let()
    assert {tuple(one.result(15)) for one in waiting} == {("no node has room (on h1)",)}
    assert len(manager.asked) == 2


def test_diagnostics_are_cached_for_a_short_time():
    manager, clock = Manager(), HandClock()
    asks = diagnostics(manager, clock)
    for _ in range(3):
        assert asks.why_waiting("application_1_0001").result(15)
    assert len(manager.asked) == 2
    clock.time += CACHE_TTL + 1
    assert asks.why_waiting("application_1_0001").result(15)
    assert len(manager.asked) == 4
    assert len(asks._answers) == 1


def test_the_manager_is_asked_by_few_threads_about_few_applications_at_a_time():
    manager = Manager(held=True)
    asks = diagnostics(manager)
    before = threading.active_count()
    waiting = [asks.why_waiting(f"application_1_{number:04}") for number in range(120)]
    eventually(lambda: len(manager.asked) == THREADS)
    assert threading.active_count() <= before + THREADS
    assert [one.result(0) for one in waiting[MAX_WAITING:]] == [[BUSY]] * (120 - MAX_WAITING)
    assert not any(one.done() for one in waiting[:MAX_WAITING])
    manager.let()
    assert all(one.result(15) == ["no node has room (on h1)"] for one in waiting[:MAX_WAITING])


@pytest.mark.parametrize("answer", [[], 7, {"appActivities": []}, {"appActivities": {"allocations": [1]}}])
def test_a_malformed_answer_gives_no_reason(answer):
    asks = diagnostics(Manager(answer))
    for app in ("application_1_0001", "application_1_0002", "application_1_0003"):
        assert all("is unreadable" in line for line in asks.why_waiting(app).result(15))


def test_a_thread_continues_after_an_error():
    asks = diagnostics(Manager(RuntimeError("no manager's error")))
    for app in ("application_1_0001", "application_1_0002", "application_1_0003"):
        (line,) = asks.why_waiting(app).result(15)
        assert "is unreadable" in line


def test_a_refusal_of_the_manager_is_reported():
    asks = diagnostics(Manager(ManagerRefusedError(404, "not found")))
    (said,) = asks.why_waiting("application_1_0001").result(15)
    assert said.endswith("(404): not found")


def test_a_long_answer_is_cut():
    reasons = [{"diagnostic": f"{number} " + "r" * 5000} for number in range(200)]
    said = (
        diagnostics(Manager({"appActivities": {"allocations": reasons}})).why_waiting("application_1_0001").result(15)
    )
    assert (len(said), max(map(len, said))) == (MAX_LINES, MAX_LINE_LENGTH)
