"""An agent in real time and its service: what cannot be journaled is refused, and harms nothing."""

import math
import threading

import pytest

from tests.agent_world import FIRST, PLAIN, gpus
from tests.eventually import eventually
from themis_agent.agent import events
from themis_agent.live import InvalidEventError, LiveAgent
from themis_agent.service import AgentWaitsError, Launched, listening, service, serving
from themis_agent.trial.agent_link import AgentLink
from themis_agent.trial.wire import Batch, LaunchSpec, Profiled, Reported, Started
from yarn_plugin.journal.records import JournalUnavailableError, MemoryRecords

TOKEN = "token"


@pytest.fixture
def records():
    return MemoryRecords()


@pytest.fixture
def agent(records):
    agent = LiveAgent(records, lambda command: None)
    over = threading.Event()
    thread = threading.Thread(target=agent.run, args=(lambda state: over.is_set(),))
    thread.start()
    agent.put(events.Begun(PLAIN)).result(timeout=60)
    yield agent
    over.set()
    thread.join()


class Full(MemoryRecords):
    """A journal that cannot be written while `is_full`."""

    is_full = False

    def append(self, *records, durable=True):
        if self.is_full:
            raise JournalUnavailableError("journal: no space left on device")
        super().append(*records, durable=durable)


def test_while_the_journal_cannot_be_written_nothing_is_decided_and_nothing_is_lost(caplog):
    records, commands, over = Full(), [], threading.Event()
    agent = LiveAgent(records, commands.append)
    thread = threading.Thread(target=agent.run, args=(lambda state: over.is_set(),))
    thread.start()
    agent.put(events.Begun(PLAIN)).result(timeout=60)
    records.is_full = True
    granted = agent.put(events.Granted("lease-1", gpus("m1", 2)))
    later = agent.put(events.StopRequested())
    eventually(lambda: agent.journal_problem)
    with pytest.raises(AgentWaitsError, match="no space left"):
        Launched(agent, 1).take(FIRST, Batch(launcher="x", epoch=1, events=[Started(sequence=1, at=1.0, host="here")]))
    assert commands == []
    assert not granted.done()
    records.is_full = False
    later.result(timeout=60)
    assert granted.done()
    assert agent.journal_problem == ""
    over.set()
    thread.join()
    assert agent.state.outcome.reason == "stopped by the user"
    assert LiveAgent(records, commands.append).state == agent.state
    assert sum("the search waits until it can be written" in one.getMessage() for one in caplog.records) == 1


def test_of_a_group_nothing_is_acted_on_shown_or_acknowledged_before_it_is_durable():
    commands, commits, over, is_away = [], [], threading.Event(), [True]
    records = MemoryRecords()
    agent = LiveAgent(records, commands.append)

    def commit():
        commits.append(len(list(records.read())))
        if is_away[0]:
            raise JournalUnavailableError("journal: the store is away")

    agent.group(commit)
    done = [agent.put(events.Begun(PLAIN)), agent.put(events.Granted("lease-1", gpus("m1", 2)))]
    thread = threading.Thread(target=agent.run, args=(lambda state: over.is_set(),))
    thread.start()
    eventually(lambda: agent.journal_problem)
    assert (agent.state, commands, [one.done() for one in done]) == (None, [], [False, False])
    is_away[0] = False
    for one in done:
        one.result(timeout=60)
    assert commands and agent.state.gpus and agent.journal_problem == ""
    assert len(set(commits)) == 1, "both events were committed at once"
    over.set()
    thread.join()
    assert LiveAgent(records, commands.append).state == agent.state


@pytest.mark.parametrize("step_s", [math.inf, math.nan])
def test_an_event_that_cannot_be_read_back_is_refused(agent, records, step_s):
    with pytest.raises(InvalidEventError, match="Profiled cannot be read back"):
        agent.put(events.Profiled(FIRST, 1, step_s))
    agent.put(events.Profiled(FIRST, 1, 0.5)).result(timeout=60)
    assert LiveAgent(records, lambda command: None).state == agent.state


def test_only_the_events_that_the_agent_refuses_are_dropped_and_said(agent, records, tmp_path, capsys):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    listener = listening("127.0.0.1")
    spec = LaunchSpec(
        trial=FIRST,
        epoch=1,
        command=["true"],
        ranks=[0],
        world_size=1,
        checkpoint={"directory": str(tmp_path)},
        log_directory=str(tmp_path),
        heartbeat_s=0.05,
        agent_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
        token_file=str(token),
    )
    with serving(service(Launched(agent, 1), TOKEN), listener):
        link = AgentLink(spec, lambda: None)
        for number in range(1, 40):
            link.send(Reported(sequence=number, at=1.0, step=number, loss=0.5))
        # One that is no event, one that could not be journaled, and the last one of all.
        link.send(Profiled.model_construct(sequence=40, at=1.0, iteration_s=-1.0))
        link.send(Profiled(sequence=41, at=1.0, iteration_s=2.0))
        link.send(Reported.model_construct(sequence=42, at=1.0, step=10**400, loss=0.5))
        link.send(Started(sequence=43, at=1.0, host="here"))
        link.close(30)
    said = capsys.readouterr().err
    assert link.answer.acknowledged == 43
    assert "the agent refuses event 40 (profiled), which is dropped; report this: HTTP 400" in said
    assert "iteration_s" in said
    assert "event 42 (reported)" in said
    assert said.count("refuses") == 2
    taken = [record["event"] for record in records.read() if record["kind"] == "input"]
    reported = [event["step"] for event in taken if event["type"] == "event/Reported"]
    assert reported == list(range(1, 40))
    assert [event["step_s"] for event in taken if event["type"] == "event/Profiled"] == [2.0]
    assert [event["host"] for event in taken if event["type"] == "event/LauncherStarted"] == ["here"]
