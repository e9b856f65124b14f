"""Turns of statements, sessions and their limits, logs, states, patterns of names, settings of clients."""

import re
import threading
import time
from collections import Counter
from functools import partial
from random import Random

import pytest

from qoop.server import metadata
from qoop.server.errors import AuthenticationError, InvalidHandleError, LimitError, MalformedError, ServerError
from qoop.server.limits import SMALL_MESSAGE, Budget, Received, ServerLimits
from qoop.server.operations import Failure, Handle, Operation, OperationKind, OperationLog, OperationState
from qoop.server.sasl import Credentials, Status, check_mechanism, credentials, header
from qoop.server.sessions import Sessions
from qoop.server.turns import FairQueue, Owner, Workers

A, B = Owner("ann", 1), Owner("bob", 2)


def test_turns_go_round_the_owners():
    queue = FairQueue()
    for item in ("a1", "a2", "a3"):
        queue.put(A, item)
    queue.put(B, "b1")
    taken = [queue.take(), queue.take()]
    queue.put(B, "b2")
    taken += [queue.take() for _ in range(3)]
    assert [item for _, item in taken] == ["a1", "b1", "a2", "b2", "a3"]
    assert queue.take() is None


def test_an_owner_that_may_not_run_is_passed_over():
    queue = FairQueue()
    for owner, item in ((A, 1), (B, 2), (A, 3)):
        queue.put(owner, item)
    assert queue.take(lambda owner: owner == B) == (B, 2)
    assert queue.take(lambda owner: owner == B) is None
    assert [queue.take(), queue.take()] == [(A, 1), (A, 3)]


def test_an_item_that_is_withdrawn_has_no_turn():
    queue = FairQueue()
    queue.put(A, 1)
    queue.put(A, 2)
    assert queue.remove(A, 1)
    assert not queue.remove(A, 1)
    assert (queue.take(), len(queue)) == ((A, 2), 0)


def test_no_more_run_than_may_and_no_more_wait():
    workers, gate, running = Workers(2, 3), threading.Event(), []
    arrived = threading.Semaphore(0)

    def job():
        running.append(1)
        arrived.release()
        gate.wait(10)

    for _ in range(2):
        workers.submit(A, job)
        assert arrived.acquire(timeout=10)
    for _ in range(3):
        workers.submit(A, job)
    with pytest.raises(LimitError, match="too many wait to run already, 3"):
        workers.submit(A, job)
    assert len(running) == 2
    gate.set()
    for _ in range(3):
        assert arrived.acquire(timeout=10)
    workers.close()
    with pytest.raises(LimitError, match="shuts down"):
        workers.submit(A, job)


class Backend:
    closed = 0

    def close(self):
        self.closed += 1


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def sessions(clock):
    return Sessions(ServerLimits(max_sessions=2, max_statements=2, idle_timeout_s=10.0), lambda: clock[0])


def statement(**given):
    return Operation(OperationKind.EXECUTE_STATEMENT, OperationLog(10), **given)


def test_sessions_are_their_users_and_limited(sessions):
    session = sessions.open("ann", None, Backend)
    assert sessions.find(session.handle, "ann") is session
    with pytest.raises(InvalidHandleError):
        sessions.find(session.handle, "bob")
    with pytest.raises(InvalidHandleError):
        sessions.find(Handle(session.handle.guid, b"guess"), "ann")
    sessions.open("bob", None, Backend)
    with pytest.raises(LimitError, match="too many are open already, 2"):
        sessions.open("ann", None, Backend)
    sessions.close(session)
    sessions.open("ann", None, Backend)


def test_a_session_that_fails_to_open_takes_no_room(sessions):
    def fail():
        raise LimitError("no")

    for _ in range(5):
        with pytest.raises(LimitError):
            sessions.open("ann", None, fail)
    sessions.open("ann", None, Backend)


def test_a_session_closes_its_statements_and_limits_them(sessions):
    stopped = []
    session = sessions.open("ann", None, Backend)
    first, second = statement(on_stop=lambda: stopped.append(1)), statement()
    session.add(first)
    session.add(second)
    with pytest.raises(LimitError, match="2 open statements"):
        session.add(statement())
    assert sessions.find_operation(first.handle, "ann") == (session, first)
    with pytest.raises(InvalidHandleError):
        sessions.find_operation(first.handle, "bob")
    second.finish((), None)
    sessions.close(session)
    assert (stopped, first.state, session.backend.closed) == ([1], OperationState.CLOSED, 1)
    with pytest.raises(InvalidHandleError):
        session.add(statement())


def test_idle_sessions_are_those_that_nobody_uses_and_nothing_runs_in(sessions, clock):
    idle, busy = sessions.open("ann", None, Backend), sessions.open("ann", None, Backend)
    busy.add(statement())
    clock[0] += 11.0
    assert sessions.idle() == [idle]
    sessions.find(idle.handle, "ann")
    assert sessions.idle() == []


def test_sessions_end_with_their_connection(sessions):
    connection = object()
    ours, _ = sessions.open("ann", connection, Backend), sessions.open("ann", None, Backend)
    assert sessions.of_connection(connection) == [ours]


def test_a_state_is_final():
    stopped, told = [], []
    operation = statement(on_stop=lambda: stopped.append(1))
    operation.when_ended(lambda: told.append(1))
    assert operation.start()
    operation.time_out(2.0)
    operation.finish((), None)
    operation.fail(Failure("late"))
    operation.cancel()
    assert (operation.state, operation.failure.sql_state) == (OperationState.TIMEDOUT, "HYT00")
    assert (stopped, told) == ([1], [1])
    assert not operation.start()
    operation.when_ended(lambda: told.append(2))
    assert told == [1, 2]


def test_a_waiter_can_be_forgotten():
    told, operation = [], statement()
    tell = lambda: told.append(1)  # noqa: E731
    operation.when_ended(tell)
    operation.forget(tell)
    operation.cancel()
    assert told == []


def test_a_log_keeps_its_last_lines_and_goes_on_where_it_was_fetched():
    log = OperationLog(3)
    for line in "abcd":
        log.add(line)
    assert log.fetch(2) == ["b", "c"]
    log.add("e")
    assert log.fetch(10) == ["d", "e"]
    assert log.fetch(10) == []
    assert log.fetch(10, from_start=True) == ["c", "d", "e"]


def test_messages_are_bounded_each_and_together_but_for_small_ones():
    budget = Budget(100)
    one, other = Received(SMALL_MESSAGE + 60, budget), Received(SMALL_MESSAGE + 60, budget)
    one.expect(SMALL_MESSAGE + 60)
    with pytest.raises(MalformedError, match="must have at most"):
        one.expect(1)
    other.expect(SMALL_MESSAGE)
    with pytest.raises(LimitError):
        other.expect(50)
    one.release()
    other.expect(50)
    with pytest.raises(MalformedError):
        other.expect(-1)
    other.release()
    assert budget.used == 0


def test_no_user_can_take_all_of_a_budget():
    budget = Budget(1000)
    hog = sum(budget.take(1, "hog") for _ in range(1000))
    other = sum(budget.take(1, "other") for _ in range(1000))
    assert (hog, budget.used) == (750, 750 + other)
    assert other > 150
    assert budget.take(1, "third")
    budget.give_back(1, "third")
    budget.give_back(other, "other")
    budget.give_back(hog, "hog")
    assert budget.used == 0
    assert not budget.take(1001, "hog")


def test_a_user_with_endless_statements_leaves_places_for_another():
    workers, gate, ended = Workers(4, 100), threading.Event(), threading.Event()
    try:
        for number in range(20):
            workers.submit(Owner("hog", number), lambda: gate.wait(20))
        workers.submit(B, ended.set)
        assert ended.wait(10)
    finally:
        gate.set()
        workers.close()


def test_sessions_that_wait_are_served_alike_however_much_each_asks_for():
    workers, gate, served = Workers(4, 10_000), threading.Event(), []
    done = threading.Semaphore(0)
    owners = [Owner(f"user{number % 3}", number) for number in range(8)]

    def job(owner):
        gate.wait(20)
        # Lets the other threads go on, of which Python runs one at a time.
        time.sleep(0.001)
        served.append(owner)
        done.release()

    try:
        for owner in owners:
            for _ in range(20 + 180 * (owner.session % 2)):
                workers.submit(owner, partial(job, owner))
        gate.set()
        for _ in range(128):
            assert done.acquire(timeout=20)
    finally:
        workers.close()
    # The first began before all had asked.
    counts = Counter(served[8:128]).values()
    assert len(counts) == len(owners)
    assert max(counts) <= 1.5 * min(counts)


def test_lines_of_a_log_control_no_terminal():
    log = OperationLog(10)
    log.add("half of the pool since \x1b]0;mine\x07 arrived\nforged")
    assert log.fetch(10) == [r"half of the pool since \x1b]0;mine\x07 arrived\nforged"]


@pytest.mark.parametrize("status", [2, 5], ids=["Python", "Java"])
def test_sasl_plain(status):
    assert header(bytes([status]) + b"\0\0\0\x08") == (Status(status), 8)
    assert credentials(b"\0ann\0se:cret") == Credentials("ann", "se:cret")
    assert credentials(b"ann\0ann\0x").user == "ann"
    check_mechanism(Status.START, b"PLAIN")


@pytest.mark.parametrize("payload", [b"", b"ann", b"\0ann", b"bob\0ann\0x", b"\0\xff\0x", b"\0a\0b\0c"])
def test_credentials_that_are_none(payload):
    with pytest.raises(AuthenticationError):
        credentials(payload)


@pytest.mark.parametrize("data", [b"\x09\0\0\0\0", b"\x02\x7f\0\0\0", b"\x02\xff\xff\xff\xff"])
def test_sasl_messages_that_are_none(data):
    with pytest.raises(MalformedError):
        header(data)


def test_other_mechanisms_are_refused():
    with pytest.raises(AuthenticationError, match="GSSAPI"):
        check_mechanism(Status.START, b"GSSAPI")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (None, ["a_b", "aXb", "item", "item.x"]),
        ("%", ["a_b", "aXb", "item", "item.x"]),
        (".*", ["a_b", "aXb", "item", "item.x"]),
        ("*", ["a_b", "aXb", "item", "item.x"]),
        ("a_b", ["a_b", "aXb"]),
        (r"a\_b", ["a_b"]),
        ("ITEM", ["item"]),
        ("item|a%", ["a_b", "aXb", "item"]),
        ("(", []),
        ("\\", []),
        ("", ["a_b", "aXb", "item", "item.x"]),
        ("%_", ["a_b", "aXb", "item", "item.x"]),
        ("i%e%m", ["item"]),
        ("%e%x", ["item.x"]),
        ("|item", ["item"]),
    ],
)
def test_patterns_of_names(pattern, names):
    assert [name for name in ("a_b", "aXb", "item", "item.x") if metadata.matcher(pattern)(name)] == names


def test_a_pattern_cannot_take_for_ever():
    assert not metadata.matcher("%a" * 2000 + "b")("a" * 3000)
    assert metadata.matcher("%a" * 2000 + "%")("a" * 3000)
    with pytest.raises(ServerError, match="at most 10000"):
        metadata.matcher("a|" * 10_000)


def test_type_info_has_a_row_a_type_and_as_many_values_as_columns():
    listing = metadata.type_info()
    assert {len(row) for row in listing.rows} == {len(listing.columns)}
    assert len(listing.rows) == len(metadata.SQL_TYPES)


def test_a_pattern_means_what_its_regular_expression_does():
    random = Random(7)
    meanings = {"%": ".*", "_": ".", "|": "|"}
    for _ in range(3000):
        pattern = "".join(random.choice("ab%_|") for _ in range(random.randrange(1, 8)))
        name = "".join(random.choice("ab") for _ in range(random.randrange(6)))
        expected = re.fullmatch("".join(meanings.get(part, part) for part in pattern), name) is not None
        assert metadata.matcher(pattern)(name) == expected, (pattern, name)
