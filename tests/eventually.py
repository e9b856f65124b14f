"""Waiting in tests for what other threads, processes or a cluster make true."""

import time


def eventually(condition, expected="it comes true", limit_s=180.0, every_s=0.05):
    """Wait until `condition()` is true; returns its value.

    Args:
        condition: what is asked again and again.
        expected: what an error says was expected; a function is called only then.
        limit_s: the longest wait.
        every_s: the pause between two questions.

    Raises:
        AssertionError: it did not become true in time.
    """
    deadline = time.monotonic() + limit_s
    while not (value := condition()):
        said = expected() if callable(expected) else expected
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {said}"
        time.sleep(every_s)
    return value
