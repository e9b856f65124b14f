"""The service of a search has the limits of the arbiter's: connections, heads, bodies."""

import contextlib
import logging
import socket
import time
from dataclasses import replace

import pytest

from themis_agent import service as module
from themis_agent.service import Launched, listening, service, serving

TOKEN = "the-token"


class Agent:
    """Takes nothing: no test here sends a valid event."""

    journal_problem = None


@pytest.fixture
def serve(monkeypatch):
    with contextlib.ExitStack() as stack:

        def start(**limits):
            monkeypatch.setattr(module, "LIMITS", replace(module.LIMITS, **limits))
            listener = listening("127.0.0.1")
            address = listener.getsockname()
            stack.enter_context(serving(service(Launched(Agent(), 1), TOKEN), listener))
            return address

        yield start


def connect(address):
    return socket.create_connection(address, timeout=10)


def status(connection):
    answered = b""
    with contextlib.suppress(OSError):
        while b"\r\n" not in answered and (part := connection.recv(4096)):
            answered += part
    return int(answered.split()[1]) if answered else None


def post(connection, length, token=None):
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    head = f"POST /v1/trials/trial-00000/events HTTP/1.1\r\nHost: x\r\n{authorization}Content-Length: {length}\r\n\r\n"
    connection.sendall(head.encode())


def test_half_sent_requests_without_a_token_take_no_more_than_their_connections(serve, caplog):
    address = serve(max_connections=20, header_timeout=0.5)
    with contextlib.ExitStack() as held, caplog.at_level(logging.WARNING):
        for _ in range(20):
            held.enter_context(connect(address)).sendall(b"POST /v1/trials/x/events HTTP/1.1\r\nHost: x\r\n")
        with connect(address) as refused:
            assert status(refused) == 503
        until = time.monotonic() + 10
        found = None
        while found != 401 and time.monotonic() < until:
            with connect(address) as another:
                post(another, 10)
                found = status(another)
        assert found == 401, "those that wait too long are cut off"
    assert caplog.records == []


@pytest.mark.parametrize(("token", "expected"), [(None, 401), (f"{TOKEN}x", 401), (TOKEN, 413)])
def test_a_large_body_is_refused_unread(serve, token, expected):
    address = serve()
    with connect(address) as sender:
        post(sender, 400_000_000, token)
        assert status(sender) == expected


def test_a_body_that_is_no_batch_is_refused_in_one_line(serve):
    address = serve()
    body = b'{"launcher": 1, "events": [%s]}' % b",".join([b"{}"] * 5000)
    with connect(address) as sender:
        post(sender, len(body), TOKEN)
        sender.sendall(body)
        assert status(sender) == 400
