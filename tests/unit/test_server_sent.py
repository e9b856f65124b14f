"""Server-sent events from the bytes of a stream, in whatever pieces they come."""

import pytest

from yarn_plugin.api import server_sent
from yarn_plugin.api.server_sent import EventParser, ServerSent, TooLongError

STREAM = (
    "id: 17\nevent: share\ndata: {}\n\n"
    ": still here\n\n"
    "id: 18.1\r\nevent: end\r\ndata: one\r\ndata: two\r\n\r\n"
    "retry: 3\nunknown\n\n"
    "data: caf\u00e9 \u2028 \x85 \x0b\n\n"
).encode()
EVENTS = [
    ServerSent("share", "{}", "17"),
    ServerSent("end", "one\ntwo", "18.1"),
    ServerSent("message", "café \u2028 \x85 \x0b", None),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_do_not_depend_on_the_pieces_in_which_they_arrive(size):
    parser = EventParser()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert [event for piece in pieces for event in parser.feed(piece)] == EVENTS


@pytest.mark.parametrize("wrong", ["", " 17", "1\t7", "caf\u00e9", "1\x007"])
def test_an_event_id_unfit_for_a_header_is_dropped(wrong):
    assert list(EventParser().feed(f"id: {wrong}\ndata: x\n\n".encode())) == [ServerSent("message", "x", None)]


def test_an_incomplete_event_is_dropped():
    assert list(EventParser().feed(b"id: 17\nevent: share\ndata: {}\n")) == []


@pytest.mark.parametrize("endless", [b"data: x" * 20, b"data: x\n" * 20])
def test_an_event_without_an_end_is_refused(monkeypatch, endless):
    monkeypatch.setattr(server_sent, "MAX_EVENT_BYTES", 100)
    with pytest.raises(TooLongError):
        list(EventParser().feed(endless))


def test_signs_of_life_add_up_to_nothing(monkeypatch):
    monkeypatch.setattr(server_sent, "MAX_EVENT_BYTES", 100)
    parser = EventParser()
    assert [event for _ in range(50) for event in parser.feed(b": still here\n")] == []
