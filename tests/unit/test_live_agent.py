"""An agent in real time and its service: what cannot be journaled is refused, and harms nothing."""

import math
import threading
import time

import pytest

from tests.agent_world import FIRST, PLAIN
from themis_agent.agent import events
from themis_agent.live import InvalidEventError, LiveAgent
from themis_agent.service import Launched, listening, service, serving
from themis_agent.trial.agent_link import AgentLink
from themis_agent.trial.wire import LaunchSpec, Profiled, Started
from yarn_plugin.journal.records import MemoryRecords

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
    agent.put(events.Begun(PLAIN)).result(timeout=10)
    yield agent
    over.set()
    thread.join()


@pytest.mark.parametrize("step_s", [math.inf, math.nan])
def test_an_event_that_cannot_be_read_back_is_refused(agent, records, step_s):
    with pytest.raises(InvalidEventError, match="Profiled cannot be read back"):
        agent.put(events.Profiled(FIRST, 1, step_s))
    agent.put(events.Profiled(FIRST, 1, 0.5)).result(timeout=10)
    assert LiveAgent(records, lambda command: None).state == agent.state


def test_events_that_the_agent_refuses_are_dropped_and_said(agent, tmp_path, capsys):
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
        link.send(Profiled.model_construct(sequence=1, at=1.0, iteration_s=-1.0))
        said, deadline = "", time.monotonic() + 10
        while "the agent refuses events 1 to 1, which are dropped" not in said:
            assert time.monotonic() < deadline, said
            time.sleep(0.02)
            said += capsys.readouterr().err
        link.send(Started(sequence=2, at=1.0, host="here"))
        link.close(10)
    assert link.answer.acknowledged == 2
    assert "HTTP 400" in said
    assert "iteration_s" in said
