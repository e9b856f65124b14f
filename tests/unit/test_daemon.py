"""The arbiter's loop with everything around it that can go wrong: a full disk, a step that fails, a loop that ends."""

import threading
import time
from dataclasses import replace

import pytest

from tests.clock import HandClock
from tests.eventually import eventually
from tests.fixtures.scripted_manager import ScriptedManager
from yarn_plugin.act.ownership import OwnedError, Owner, Ownership
from yarn_plugin.decide import enforcement
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import SolveInWorker, WriteWeights
from yarn_plugin.decide.events import LeavesSeen, ManagerLost, Registered, Revised, TimerFired, WeightsWritten
from yarn_plugin.decide.pools.controller import Kind
from yarn_plugin.decide.state import Failure
from yarn_plugin.drive import daemon as daemon_module
from yarn_plugin.drive import dispatcher, journaling
from yarn_plugin.drive.daemon import Daemon, Stopped
from yarn_plugin.drive.watchdog import Heartbeat, Watchdog
from yarn_plugin.journal import execution
from yarn_plugin.journal.intake import SkippedInputError
from yarn_plugin.journal.records import JournalDamagedError, JournalUnavailableError, read_records
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Pool
from yarn_plugin.observe.poller import PollIntervals
from yarn_plugin.observe.resource_manager import ResourceManager

SQL = Pool("sql", "root.sql", ("memory-mb", "vcores"), grace=0.5)
INTERVALS = PollIntervals(metrics=0.05, apps=0.1, nodes=0.2, queues=0.5)


@pytest.fixture
def manager():
    made = ScriptedManager({"root.sql": (80.0, 100.0)})
    yield made
    made.close()


@pytest.fixture
def start(manager, tmp_path):
    """Starts arbiters of the same state folder, one after the other."""
    running = []

    def one(pools=(SQL,), **options):
        made = Daemon(lambda: ResourceManager([manager.url], "ann"), pools, INTERVALS, tmp_path, **options)
        running.append(made)
        made.start()
        return made

    one.stop = lambda: [made.stop() for made in running]
    yield one
    one.stop()


@pytest.fixture
def arbiter(start):
    return start()


def register(name, user="ann"):
    return Registered(f"request-{name}", name, user, "sql", 1.0, None, None, None)


def admitted(decided):
    return next(command.registration for command in decided.commands if type(command).__name__ == "Admit")


def journaled(tmp_path, kind="input"):
    return [record for record in read_records(tmp_path / "journal") if record["kind"] == kind]


# A full disk.


def test_nothing_is_decided_while_the_disk_is_full_and_everything_resumes_after(arbiter, manager, room, tmp_path):
    a = admitted(arbiter.take(register("a")))
    app = manager.submit(a.queue, "a", "ann")
    manager.use(app, 4)
    eventually(lambda: a.queue in str(manager.properties), "its weight is written")
    eventually(lambda: arbiter.health().ready, "it is ready")
    with room((tmp_path / "journal").stat().st_size):
        with pytest.raises(JournalUnavailableError):
            arbiter.take(register("refused"))
        size, seq = (tmp_path / "journal").stat().st_size, arbiter.history()[-1].seq
        failures = arbiter.counters()["journal_failures"]
        other = manager.submit("root.sql.guest", "guest", "eve")
        eventually(lambda: arbiter.counters()["journal_failures"] > failures, "what is polled cannot be journaled")
        health = arbiter.health()
        assert (health.alive, health.ready) == (True, False)
        assert "file too large" in health.journal_error
        assert ((tmp_path / "journal").stat().st_size, arbiter.history()[-1].seq) == (size, seq)
        assert arbiter.state.members[a.id].share.apps == 1, "the last share is still answered"
    eventually(lambda: other in arbiter.state.cluster.apps, "what was seen meanwhile is taken in")
    eventually(lambda: arbiter.health().ready, "it is ready again")
    assert arbiter.counters()["journal_failures"] > 0
    assert "request-refused" not in (tmp_path / "journal").read_text()
    assert arbiter.take(register("refused")).seq > seq


def test_the_outcome_of_a_command_is_not_lost_while_the_disk_is_full(arbiter, manager, room, tmp_path):
    go_on, write = threading.Event(), manager._write

    def slowly(body):
        go_on.wait(60)
        return write(body)

    a = admitted(arbiter.take(register("a")))
    manager._write = slowly
    manager.use(manager.submit(a.queue, "a", "ann"), 4)
    eventually(lambda: arbiter.state.enforcement.asked, "weights are asked for")
    with room((tmp_path / "journal").stat().st_size):
        go_on.set()
        eventually(lambda: a.queue in str(manager.properties), "they are written")
        eventually(lambda: arbiter._deferred, "that cannot be journaled")
        assert arbiter.state.enforcement.asked
    eventually(lambda: arbiter.state.enforcement.written.get(a.queue) == 100.0, "it is learned when there is room")
    eventually(lambda: not arbiter.state.enforcement.asked, "nothing is waited for any more")


def test_a_timer_that_comes_due_while_the_disk_is_full_fires_when_there_is_room(start, manager, room, tmp_path):
    arbiter = start((replace(SQL, grace=1.5),))
    a = admitted(arbiter.take(register("a")))
    manager.use(manager.submit(a.queue, "a", "ann"), 16)
    eventually(lambda: arbiter.state.enforcement.written.get(a.queue) == 100.0, "it weighs all")
    b = admitted(arbiter.take(register("b", "eve")))
    manager.use(manager.submit(b.queue, "b", "eve"), 1, pending=8)
    eventually(lambda: b.id in arbiter.state.yarn_apps, "both run")
    with room((tmp_path / "journal").stat().st_size):
        grace_ends = arbiter.state.members[a.id].share.effective_at
        eventually(lambda: arbiter.now() > grace_ends, "the grace period has ended")
        eventually(lambda: arbiter.counters()["journal_failures"] > 0, "the journal cannot be written")
        assert arbiter.state.enforcement.written[a.queue] > 50.0
    eventually(lambda: arbiter.state.enforcement.written.get(a.queue) == 50.0, "the grace is over")


# A step that fails.


@pytest.fixture
def touchy(monkeypatch):
    """A step that fails on what a test names."""
    step, fails = journaling.step, []

    def failing(state, seq, at, event, registry):
        if any(wrong(event) for wrong in fails):
            raise OverflowError("int too large to convert to float")
        return step(state, seq, at, event, registry)

    monkeypatch.setattr(journaling, "step", failing)
    return fails


def test_a_request_on_which_nothing_can_be_decided_is_set_aside_and_the_next_is_decided(touchy, start, tmp_path):
    arbiter = start()
    touchy.append(lambda event: isinstance(event, Registered) and event.name == "poison")
    with pytest.raises(SkippedInputError, match="OverflowError"):
        arbiter.take(register("poison"))
    a = admitted(arbiter.take(register("a", "eve")))
    assert arbiter.counters()["inputs_set_aside"] == 1
    assert arbiter.health().alive
    (failed,) = journaled(tmp_path, "failed")
    arbiter.stop()
    touchy.clear()
    again = start()
    assert set(again.state.registered) == {a.id}
    assert again.counters()["inputs_set_aside"] == 1
    assert failed["error"].startswith("OverflowError: int too large")


def test_a_timer_on_which_nothing_can_be_decided_fires_again(touchy, start, monkeypatch, tmp_path):
    monkeypatch.setattr(execution, "TIMER_RETRY", 0.1)
    fired = []
    touchy.append(lambda event: isinstance(event, TimerFired) and (fired.append(1) or len(fired) < 4))
    # It compares the weights often, which takes a timer each time.
    arbiter = start(reconcile=0.5)
    eventually(lambda: len(fired) >= 4, "it fires until it is decided on", limit_s=60)
    assert arbiter.health().alive
    assert arbiter.counters()["inputs_set_aside"] >= 3
    assert len(journaled(tmp_path, "failed")) >= 3


# Inputs and timers in the order of their stamps.


def test_inputs_and_timers_come_in_the_order_of_their_stamps_though_the_loop_is_busy(start, monkeypatch, tmp_path):
    clock, busy, go_on = HandClock(1000.0), threading.Event(), threading.Event()
    monkeypatch.setattr(daemon_module, "JournalClock", lambda: clock)
    arbiter = start()
    eventually(lambda: arbiter.state.looked and arbiter.state.timer is not None, "it has a timer")

    def hold_up(decided):
        if isinstance(decided.event, Registered) and decided.event.name == "first":
            busy.set()
            assert go_on.wait(60)

    arbiter.publish_to(hold_up)
    arbiter.post(register("first"))
    assert busy.wait(60)
    due = arbiter.state.timer
    clock.time = due - 0.25
    before = arbiter.post(register("before", "eve"))
    clock.time = due
    at_once = arbiter.post(register("at once", "zoe"))
    clock.time = due + 7.0
    after = arbiter.post(register("after", "bob"))
    clock.time = due + 9.0
    go_on.set()
    numbers = [answer.result(60).seq for answer in (before, at_once, after)]
    records = {record["seq"]: record for record in journaled(tmp_path)}
    timers = [seq for seq, record in records.items() if record["event"]["type"] == "TimerFired"]
    assert [records[seq]["at"] for seq in numbers] == [due - 0.25, due, due + 7.0]
    (timer,) = [seq for seq in timers if records[seq]["at"] == due]
    assert numbers[0] < timer < numbers[1]
    times = [record["at"] for record in records.values()]
    assert times == sorted(times)


def test_a_timer_of_an_idle_loop_is_stamped_with_its_due_time(start, monkeypatch, tmp_path):
    clock = HandClock(1000.0)
    monkeypatch.setattr(daemon_module, "JournalClock", lambda: clock)
    arbiter = start()
    eventually(lambda: arbiter.state.looked and arbiter.state.timer is not None, "it has a timer")
    due = arbiter.state.timer
    clock.time = due + 3.0
    eventually(lambda: arbiter.state.timer != due, "it has fired")
    fired = [record["at"] for record in journaled(tmp_path) if record["event"]["type"] == "TimerFired"]
    assert fired[0] == due


def test_a_timer_that_came_due_while_the_arbiter_was_down_is_not_fired_before_its_start(start, monkeypatch, tmp_path):
    """An application that registered may have been submitted meanwhile: a start expires no registration."""
    clock = HandClock(1000.0)
    monkeypatch.setattr(daemon_module, "JournalClock", lambda: clock)
    arbiter = start()
    arbiter.take(register("a"))
    eventually(lambda: arbiter.state.looked, "it has looked")
    start.stop()
    inputs = len(journaled(tmp_path))
    clock.time += 3000.0
    start()
    again = journaled(tmp_path)[inputs]
    assert (again["event"]["type"], again["at"]) == ("Configured", 4000.0)


def test_an_undecidable_application_does_not_hide_the_others(touchy, start, manager, tmp_path):
    touchy.append(
        lambda event: any(app.name == "poison" for app in getattr(event, "present", ()) if hasattr(app, "user"))
    )
    arbiter = start()
    names = [manager.submit(f"root.sql.q{number}", "poison" if number == 3 else "good", "eve") for number in range(8)]
    good = set(names) - {names[3]}
    eventually(lambda: good <= set(arbiter.state.cluster.apps), "all others are known", limit_s=60)
    failed = len(journaled(tmp_path, "failed"))
    time.sleep(0.5)
    assert len(journaled(tmp_path, "failed")) == failed, "it is not journaled again at every look"
    assert arbiter.counters()["observations_refused"] >= 1
    assert names[3] not in arbiter.state.cluster.apps


def test_health_names_a_pool_that_is_stopped_and_keeps_the_error_for_those_who_may_see_it(arbiter):
    arbiter.stop()
    kept = arbiter.state.pool_states["sql"]
    failed = replace(kept, failure=Failure("ValueError: ann bids 7", 1, 0.0))
    arbiter.state = replace(arbiter.state, pool_states={"sql": failed})
    problems = " ".join(arbiter.health().problems)
    assert "pool sql is stopped" in problems
    assert "ann bids" not in problems, "no token is needed to read it"


def test_an_arbiter_that_another_one_has_superseded_is_alive_and_not_ready(start, manager, monkeypatch):
    monkeypatch.setattr(daemon_module, "CHECK_OWNER", 0.05)
    leased = Pool("gpu", "root.sql", (GPU,), controller="lease")
    mine = Ownership(Owner("me", "http://me:1", 1), ("root.sql",))
    arbiter = start(pools=(leased,), claim=lambda: mine)
    eventually(lambda: arbiter.health().ready, "it is ready")
    manager.properties["yarn.scheduler.capacity.root.sql.arbiter-owner"] = "you|http://you:2|2"
    eventually(lambda: not arbiter.health().ready, "it notices the other one")
    assert arbiter.health().alive
    assert any("http://you:2" in problem for problem in arbiter.health().problems)


# A loop that ends, or stands still.


def test_a_loop_that_dies_is_reported_and_ends_the_process(arbiter):
    ended = []
    watchdog = Watchdog(arbiter.is_alive, lambda: arbiter.heartbeat.count, 1.0, ended.append)
    watchdog.start()

    def broken(decided):
        raise MemoryError("no more")

    arbiter.publish_to(broken)
    arbiter.post(register("a"))
    eventually(lambda: ended, "the watchdog ends the process", limit_s=60)
    (reason,) = ended
    assert "loop has failed" in reason
    health = arbiter.health()
    assert (health.alive, health.ready) == (False, False)
    assert "MemoryError: no more" in health.problems[0]
    with pytest.raises(Stopped):
        arbiter.take(register("b"))


def test_a_hung_loop_ends_the_process(start):
    arbiter = start(patience=0.7)
    ended, go_on, beats = [], threading.Event(), arbiter.heartbeat.count
    eventually(lambda: arbiter.heartbeat.count > beats, "an idle loop makes progress")
    arbiter.publish_to(lambda decided: go_on.wait(60))
    arbiter.post(register("a"))
    watchdog = Watchdog(arbiter.is_alive, lambda: arbiter.heartbeat.count, 1.0, ended.append)
    watchdog.start()
    eventually(lambda: ended, "the watchdog ends the process", limit_s=60)
    assert [" 1 s" in reason for reason in ended] == [True]
    assert not arbiter.health().alive
    go_on.set()


def test_a_suspended_process_is_not_ended_by_its_watchdog():
    """Only the watchdog's own checks count: while it is suspended together with the loop, it checks nothing."""
    ended, heart = [], Heartbeat()
    watchdog = Watchdog(lambda: True, lambda: heart.count, 3600.0, ended.append)
    watchdog.start()
    heart.at -= 7200
    time.sleep(0.2)
    watchdog.close()
    assert not ended


def test_a_stopping_arbiter_refuses_further_requests(start):
    arbiter = start()
    arbiter.stop()
    with pytest.raises(Stopped):
        arbiter.take(register("late"))


# Ids, owners.


def test_an_accepted_loss_starts_a_new_series_of_ids(start, tmp_path):
    arbiter = start()
    for number in range(20):
        a = admitted(arbiter.take(register(f"a{number}")))
        arbiter.take(Revised(a.id, 2.0, None))
    arbiter.stop()
    journal = tmp_path / "journal"
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)
    with pytest.raises(JournalDamagedError):
        start()
    again = start(accept_loss=True)
    b = admitted(again.take(register("b", "eve")))
    assert b.id.startswith("app_e1_")
    assert int(b.id.rpartition("_")[2]) > int(a.id.rpartition("_")[2])
    again.stop()
    third = start()
    assert admitted(third.take(register("c", "zoe"))).id.startswith("app_e1_")


def test_a_lost_journal_with_an_intact_secret_starts_a_new_series_of_ids(start, tmp_path):
    (tmp_path / "secret").write_text("x" * 64)
    a = admitted(start().take(register("a")))
    assert a.id.startswith("app_e1_")
    for made in (1, 2):
        start.stop()
        (tmp_path / "journal").unlink()
        assert admitted(start().take(register("b", "eve"))).id.startswith(f"app_e{made + 1}_")


def test_an_arbiter_does_not_start_beside_another_that_owns_the_queues(start, tmp_path):
    def owned():
        raise OwnedError("root.sql", "http://elsewhere:8780")

    with pytest.raises(OwnedError, match="http://elsewhere:8780, already controls it"):
        start(claim=owned)


def test_weights_are_those_that_are_known_to_be_written(arbiter, manager):
    a = admitted(arbiter.take(register("a")))
    manager.use(manager.submit(a.queue, "a", "ann"), 4)
    eventually(lambda: arbiter.state.enforcement.written.get(a.queue) == 100.0, "its weight is written")
    events = [decided.event for decided in arbiter.history()]
    commands = [command for decided in arbiter.history() for command in decided.commands]
    assert [one.weights for one in commands if isinstance(one, WriteWeights)] == [((a.queue, 100.0),)]
    assert [one.weights for one in events if isinstance(one, WeightsWritten)] == [((a.queue, 100.0),)]


def test_a_loss_that_was_accepted_counts_also_where_that_start_failed(start, tmp_path):
    arbiter = start()
    ids = set()
    for number in range(20):
        ids.add(admitted(arbiter.take(register(f"a{number}"))).id)
    start.stop()
    journal = tmp_path / "journal"
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)

    def owned():
        raise OwnedError("root.sql", "http://elsewhere:8780")

    with pytest.raises(OwnedError):
        start(accept_loss=True, claim=owned)
    start.stop()
    again = start()
    assert admitted(again.take(register("b", "eve"))).id not in ids


def test_what_no_journal_can_hold_is_set_aside(arbiter):
    with pytest.raises(SkippedInputError, match="surrogates"):
        arbiter.take(ManagerLost("it is \ud800"))
    assert arbiter.health().alive


def test_weights_that_could_not_be_decided_on_are_read_again(touchy, start, monkeypatch):
    monkeypatch.setattr(enforcement, "RETRY_DELAY", 0.2)
    failed = []
    touchy.append(lambda event: isinstance(event, LeavesSeen) and not failed and not failed.append(1))
    arbiter = start()
    eventually(lambda: arbiter.state.enforcement.static is not None, "they are read again", limit_s=60)
    assert failed


def test_a_stopping_arbiter_starts_no_worker(start, monkeypatch):
    """What is still in the queue then is decided; what it wants solved is given again after the next start."""
    kind = Kind("solving", lambda pool, registry: None, {"problem": Pool}, solvers={"problem": str})
    registry = replace(BUILT_IN, kinds={**BUILT_IN.kinds, "solving": kind})
    made = []
    monkeypatch.setattr(dispatcher, "Worker", lambda *args: made.append(args))
    arbiter = start(registry=registry)
    arbiter.stop()
    arbiter._dispatcher._solve(SolveInWorker("gpu", "gpu#1", None))
    assert made == []
