"""Calls that are made one after another in a thread of their own, and values that are computed once."""

import subprocess
import sys
import textwrap
import threading
from concurrent.futures import CancelledError

import pytest

from qoop.computed_once import computed_once
from qoop.engine.one_by_one import OneByOne

WAIT_S = 20


def test_calls_are_made_in_order_and_an_error_is_raised_where_the_result_is_asked_for():
    calls, made = OneByOne("calls"), []
    answers = [calls.submit(lambda place=place: made.append(place) or place) for place in range(5)]
    assert [answer.result(WAIT_S) for answer in answers] == made == [0, 1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError):
        calls.submit(lambda: 1 / 0).result(WAIT_S)
    calls.close()


def test_when_it_is_closed_what_waits_is_cancelled_and_its_thread_ends():
    calls, began, may_end = OneByOne("closed"), threading.Event(), threading.Event()
    running = calls.submit(lambda: began.set() or may_end.wait(WAIT_S))
    waiting = calls.submit(lambda: None)
    assert began.wait(WAIT_S)
    calls.close()
    for late in (waiting, calls.submit(lambda: None)):
        with pytest.raises(CancelledError):
            late.result(0)
    may_end.set()
    assert running.result(WAIT_S)
    for thread in [one for one in threading.enumerate() if one.name == "closed"]:
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_calls_are_made_after_the_main_thread_has_ended():
    """Executors of the standard library refuse them then."""
    script = """
        import threading
        from qoop.engine.one_by_one import OneByOne

        def late():
            threading.main_thread().join()
            print(OneByOne("late").submit(lambda: "made").result(20))

        threading.Thread(target=late).start()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("made\n", "")


class Slow:
    """Computes a value that waits for another object's."""

    def __init__(self):
        self.times, self.began, self.may_end = 0, threading.Event(), threading.Event()

    @computed_once
    def value(self):
        """How often it was computed."""
        self.times += 1
        self.began.set()
        assert self.may_end.wait(WAIT_S)
        return self.times


def test_a_value_is_computed_once_and_other_objects_do_not_wait_for_it():
    slow, other = Slow(), Slow()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert slow.began.wait(WAIT_S)
    other.may_end.set()
    assert other.value == other.value == 1
    slow.may_end.set()
    thread.join(WAIT_S)
    assert slow.value == 1 and Slow.value.__doc__ == "How often it was computed."
