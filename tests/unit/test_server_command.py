"""What `qoop server` refuses before Spark is started; its share; whose token a password is; settings of clients."""

import asyncio
import os
import socket
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

pytest.importorskip("TCLIService", reason="needs thrift and PyHive")

from qoop.cli import cli
from qoop.errors import QoopError
from qoop.feedback.shares import Shares
from qoop.replan.events import ArbiterAway, ShareChanged
from qoop.server import authentication, start
from qoop.server.authentication import ByName, ByToken
from qoop.server.errors import AuthenticationError
from qoop.server.sasl import Credentials
from qoop.server.spark import settings
from qoop.submit import application
from qoop.submit.job import SparkFlags
from yarn_plugin import console
from yarn_plugin.api.client import ArbiterRefusedError, ArbiterUnavailableError


@pytest.fixture(autouse=True)
def no_arbiter(monkeypatch):
    monkeypatch.delenv("YARN_ARBITER_URL", raising=False)
    monkeypatch.delenv("YARN_ARBITER_TOKEN", raising=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--listen", "10000"], "--listen '10000': must be HOST:PORT, such as 127.0.0.1:10000"),
        (["--listen", "0.0.0.0:10000"], "--listen '0.0.0.0:10000': requires --tls-cert and --tls-key"),
        (["--tls-cert", "nowhere.pem"], "--tls-cert 'nowhere.pem': requires --tls-key, too"),
        (["--tls-cert", "a.pem", "--tls-key", "b.pem"], "--tls-cert 'a.pem': no such file"),
        (["--master", "yarn", "--deploy-mode", "cluster"], "--deploy-mode cluster: cannot be given"),
        (["--tables", "/nowhere/at/all"], "--tables '/nowhere/at/all'"),
        (["--profile", "/nowhere/at/all"], "--profile '/nowhere/at/all'"),
    ],
)
def test_wrong_options_are_refused_in_one_line(words, message, capsys):
    assert console.run(cli, "qoop", ["server", *words]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"qoop: {message}")
    assert printed.count("\n") == 1


def test_the_token_is_not_in_sparks_environment_where_any_client_could_read_it(monkeypatch):
    monkeypatch.setattr(os, "environ", {**os.environ, "YARN_ARBITER_TOKEN": "user.ann.secret"})
    known = []

    class Builder:
        def getOrCreate(self):  # noqa: N802
            known.append(dict(os.environ))
            raise OSError("no Spark here")

    monkeypatch.setattr(application, "SparkSession", SimpleNamespace(builder=Builder()))
    with pytest.raises(QoopError, match="no Spark here"), _started():
        pass
    assert "secret" not in str(known)


def test_with_an_arbiter_the_server_needs_a_token_of_its_own(capsys):
    assert console.run(cli, "qoop", ["server", "--arbiter", "http://127.0.0.1:1"]) == 2
    assert capsys.readouterr().err.startswith("qoop: --token-file: required")


def test_an_address_in_use_is_refused_before_spark_is_started(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert console.run(cli, "qoop", ["server", "--listen", where]) == 2
    assert "address already in use" in capsys.readouterr().err.lower()


def test_a_server_that_others_can_reach_needs_passwords(tmp_path, capsys):
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("")
    words = ["--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]
    assert console.run(cli, "qoop", ["server", "--listen", "0.0.0.0:10000", *words]) == 2
    assert "requires --arbiter, whose tokens are the passwords" in capsys.readouterr().err
    assert console.run(cli, "qoop", ["server", "--listen", "127.0.0.1:0", *words]) == 2
    assert "is no certificate with its key" in capsys.readouterr().err


def _started():
    return start.started("x", None, None, None, SparkFlags((), {}), None, None)


class FakeArbiter:
    """The arbiter knows these tokens; `asked` is how often it was asked."""

    tokens = ("user.ann.s1", "admin.admin.s2", "app.app_1.s3", "user.dotted.name.s4")
    asked = 0
    away = False

    def __init__(self, url, token, verify):
        self._token = token

    def get_cluster(self):
        type(self).asked += 1
        if self.away:
            raise ArbiterUnavailableError("arbiter http://x: connection refused")
        if self._token not in self.tokens:
            raise ArbiterRefusedError(401, [])


@pytest.fixture
def arbiter(monkeypatch):
    monkeypatch.setattr(authentication, "ArbiterClient", FakeArbiter)
    monkeypatch.setattr(authentication, "FAILURE_DELAY_S", 0.0)
    monkeypatch.setattr(FakeArbiter, "asked", 0)
    return FakeArbiter


def user_of(authenticator, *pairs):
    async def ask():
        return [await authenticator.user(Credentials(*pair)) for pair in pairs]

    return asyncio.run(ask())


def test_the_user_is_whose_token_it_is(arbiter):
    checked = ByToken("http://x")
    pairs = [("ann", "user.ann.s1"), ("", "user.ann.s1"), ("token", "admin.admin.s2"), ("", "user.dotted.name.s4")]
    assert user_of(checked, *pairs) == ["ann", "ann", "admin", "dotted.name"]
    assert arbiter.asked == 3


@pytest.mark.parametrize(
    "pair",
    [
        ("ann", ""),
        ("ann", "x"),
        ("ann", "user.ann.guess"),
        ("bob", "user.ann.s1"),
        ("", "app.app_1.s3"),
        ("", "user..s"),
    ],
)
def test_other_passwords_are_refused(arbiter, pair):
    with pytest.raises(AuthenticationError):
        user_of(ByToken("http://x"), pair)


def test_without_the_arbiter_only_known_tokens_are_valid(arbiter, monkeypatch):
    checked = ByToken("http://x")
    user_of(checked, ("", "user.ann.s1"))
    monkeypatch.setattr(arbiter, "away", True)
    assert user_of(checked, ("", "user.ann.s1")) == ["ann"]
    with pytest.raises(AuthenticationError, match="cannot be checked now"):
        user_of(checked, ("", "admin.admin.s2"))


def test_without_passwords_clients_have_the_name_that_they_give():
    assert user_of(ByName(), ("ann", "x"), ("", "")) == ["ann", "anonymous"]


class ToyFeed:
    def start(self, emit):
        self.emit = emit

    def close(self):
        self.closed = True


class ToyHolder:
    def __init__(self):
        self.targets, self.count = [], 3

    def set_executors(self, target, by):
        self.targets.append(target)

    def executors(self):
        return self.count


def share(slots, executors, seq):
    return ShareChanged(slots, executors, f"share number {seq}", 0.0, seq)


def test_statements_follow_the_share_and_the_application_holds_it():
    feed, holder, confirmed, told, first, second = ToyFeed(), ToyHolder(), [], [], [], []
    shares = Shares(feed, holder, confirmed.append)
    shares.start()
    try:
        with shares.telling(told.append):
            feed.emit(share(8.0, 4, 1))
            with shares.statement(first.append, 1) as statement:
                events = []
                assert statement.slots == 8.0
                statement.start(events.append)
                feed.emit(share(4.0, 2, 2))
                statement.close()
                feed.emit(ArbiterAway("the arbiter is away"))
            with shares.statement(second.append, 2):
                feed.emit(share(6.0, 3, 3))
        feed.emit(share(2.0, 1, 4))
        assert [event.slots for event in events] == [8.0, 4.0]
        assert {(event.executors, event.seq) for event in events} == {(None, None)}
        assert holder.targets == [4, 2, 3, 1]
        lines = [
            "share: 8 slots; share number 1",
            "share: 4 slots; share number 2",
            "the arbiter is away; the last known share stays in effect",
            "share: 6 slots; share number 3",
        ]
        assert told == ["share: not known yet", *lines]
        assert first == lines[:3]
        assert second == lines[1::2]
        assert 4 not in confirmed
        holder.count = 1
        deadline = time.monotonic() + 10
        while confirmed[-1:] != [4]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        shares.close()


def test_a_statement_alone_follows_the_whole_share():
    feed, events = ToyFeed(), []
    shares = Shares(feed, None)
    shares.start()
    feed.emit(share(6.0, None, 1))
    statement = shares.feed()
    statement.start(events.append)
    feed.emit(share(2.0, None, 2))
    statement.close()
    feed.emit(share(3.0, None, 3))
    shares.close()
    assert [event.slots for event in events] == [6.0, 2.0]
    assert shares.slots == 3.0


def test_statements_divide_the_share():
    feed, now, lines, events = ToyFeed(), [0.0], [], []
    shares = Shares(feed, None, clock=lambda: now[0])
    feed.start(shares._take)
    feed.emit(share(6.0, None, 1))
    with shares.statement(lines.append, 1) as first:
        first.start(events.append)
        with shares.statement(print, 2) as second, shares.statement(print, 3) as third:
            assert [part.slots for part in (first, second, third)] == [6.0, 3.0, 2.0]
            shares.divide()
            assert first.slots == 6.0, "the others may end at once"
            now[0] = 2.0
            shares.divide()
            assert [part.slots for part in (first, second, third)] == [2.0, 2.0, 2.0]
            feed.emit(share(2.0, None, 2))
            assert first.slots == 1.0, "no part is less than a slot"
            feed.emit(share(0.5, None, 3))
            assert first.slots == 0.5
            feed.emit(share(6.0, None, 4))
        shares.divide()
        assert first.slots == 6.0
    assert [event.slots for event in events] == [6.0, 2.0, 1.0, 0.5, 2.0, 6.0]
    assert events[1].reason == "share number 1; 2 slots of it for this statement, as 3 run"
    assert lines[:2] == [
        "share: 6 slots; share number 1",
        "share: 6 slots; share number 1; 2 slots of it for this statement, as 3 run",
    ]


def test_sessions_have_equal_parts_however_many_statements_each_runs():
    """Spark's fair scheduler divides the slots in this way: it has a pool a session."""
    feed, now, lines = ToyFeed(), [0.0], []
    shares = Shares(feed, None, clock=lambda: now[0])
    feed.start(shares._take)
    feed.emit(share(24.0, None, 1))
    with ExitStack() as running:
        alone = running.enter_context(shares.statement(lines.append, "alone"))
        many = [running.enter_context(shares.statement(lambda line: None, "many")) for _ in range(3)]
        now[0] = 2.0
        shares.divide()
        assert alone.slots == 12.0
        assert [part.slots for part in many] == [4.0, 4.0, 4.0]
    assert lines[-1] == "share: 24 slots; share number 1; 12 slots of it for this statement, as 4 run in 2 sessions"


def test_settings_are_those_of_spark():
    assert settings(
        {
            "use:database": "sales",
            "set:hiveconf:hive.server2.thrift.resultset.default.fetch.size": "1000",
            "set:hiveconf:spark.sql.ansi.enabled": "false",
            "set:hivevar:day": "2020-01-01",
            "set:system:user.name": "me",
            "spark.qoop.plan": "always",
        }
    ) == {"spark.sql.ansi.enabled": "false", "day": "2020-01-01", "spark.qoop.plan": "always"}
