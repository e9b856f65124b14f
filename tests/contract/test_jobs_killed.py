"""Jobs over HTTP, with an arbiter that is killed: nothing acknowledged is lost, and no list is there in part."""

import contextlib
import threading

import pytest

from tests.fixtures.scripted_manager import ScriptedManager
from tests.toys.process import Process
from tests.toys.stage import QUEUES
from yarn_plugin.api.client import ArbiterClient, ArbiterError, ArbiterRefusedError
from yarn_plugin.api.jobs import Alternative, Job, Pods
from yarn_plugin.decide.events import JobsDeclared
from yarn_plugin.model.resources import GPU

FIRST = [Job(name="train", priority=5, gang=[Pods(pods=2, cells_each=2)], leaf_type="V100")]
THEN = [*FIRST, Job(name="evaluate", alternatives=[Alternative(resources={GPU: 1}, speed=4.5)])]


@pytest.fixture
def process(tmp_path):
    manager = ScriptedManager(QUEUES, nodes=2, gpus=2)
    made = Process(manager.url, tmp_path, "{}", "lease")
    yield made
    made.close()
    manager.close()


def names(declared):
    return [job.name for job in declared.jobs]


@pytest.mark.matrix
def test_jobs_outlive_an_arbiter_that_is_killed(process):
    process.start()
    follower = process.register("ann")
    client, app = follower.client, follower.app
    follower.close()
    with pytest.raises(ArbiterRefusedError, match=r"jobs.0.tenant 'eve': ann may not name tenant eve; must be ann"):
        client.declare_jobs(app, [Job(name="train", tenant="eve")])
    acknowledged = client.declare_jobs(app, FIRST).jobs
    process.kill_and_start()
    kept = client.get_jobs(app).jobs
    assert [one.model_dump(exclude={"declared_at"}) for one in kept] == [
        one.model_dump(exclude={"declared_at"}) for one in acknowledged
    ]
    assert kept[0].declared_at == pytest.approx(acknowledged[0].declared_at, abs=1.0)

    def declare():
        with contextlib.suppress(ArbiterError):
            answers.append(names(other.declare_jobs(app, THEN)))

    answers, other = [], ArbiterClient(process.url, client.token)
    sending = threading.Thread(target=declare)
    sending.start()
    process.kill()
    sending.join()
    process.start()
    found = names(client.get_jobs(app))
    assert found in (answers or [["train"], ["train", "evaluate"]])
    again = client.declare_jobs(app, THEN)
    assert names(again) == ["train", "evaluate"]
    taken = process.replayed().history[-1].seq
    assert names(client.declare_jobs(app, THEN)) == names(client.get_jobs(app)) == names(again)
    past = process.replayed()
    assert not any(isinstance(one.event, JobsDeclared) for one in past.history if one.seq > taken)
    assert past.different == 0
