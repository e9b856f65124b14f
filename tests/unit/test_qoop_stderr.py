"""The driver's messages on the way to a stderr that may fail."""

import io
import sys
import threading

import pytest

from qoop.submit.stderr import MESSAGES, relay_to_stderr


def send(pipe, text):
    """Write as a driver does; returns whether everything was taken, as it is while the pipe is read."""

    def write():
        with pipe.open("w", encoding="utf-8") as opened:
            opened.write(text)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    writer.join(20)
    return not writer.is_alive()


class Gone(io.StringIO):
    """A stderr whose reader has gone."""

    def flush(self):
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("stderr", [io.StringIO, Gone])
def test_the_driver_never_blocks_on_its_messages(tmp_path, monkeypatch, stderr):
    said, many = stderr(), "a message\n" * 50_000
    monkeypatch.setattr(sys, "stderr", said)
    with relay_to_stderr(tmp_path / MESSAGES):
        assert send(tmp_path / MESSAGES, many)
        assert send(tmp_path / MESSAGES, "the last\n")
    if stderr is not Gone:
        assert said.getvalue() == many + "the last\n"


@pytest.mark.parametrize("attempt", range(10))
def test_a_message_may_contain_any_byte(tmp_path, monkeypatch, attempt):
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    with relay_to_stderr(tmp_path / MESSAGES):
        assert send(tmp_path / MESSAGES, "before\0")
        assert send(tmp_path / MESSAGES, "after\0\n" * 30_000)
    assert said.getvalue() == "before\0" + "after\0\n" * 30_000
