"""Two arbiters on one pool: one is stopped, the other takes over, the first one continues."""

import os
import signal
from contextlib import suppress

import pytest
import requests

from tests.eventually import eventually
from tests.fixtures.scripted_manager import ScriptedManager
from tests.toys.process import Process
from tests.toys.stage import QUEUES
from yarn_plugin.api.client import ArbiterError, ArbiterUnavailableError

PARAMETERS = (
    '{ policy = "themis", lease_s = 600, grace_s = 1, round_window_s = 0, estimate_s = 60, bid_s = 60, decide_s = 0, '
    "place_within_s = 0 }"
)
ALL = {"pieces": [{"gpus": 4}, {"gpus": 4}], "rho": 1.0}


@pytest.fixture
def arbiters(tmp_path):
    manager = ScriptedManager(QUEUES, nodes=2, gpus=4)
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made.append(Process(manager.url, tmp_path / name, PARAMETERS, "lease"))
    yield manager, *made
    for one in made:
        one.close()
    manager.close()


def lease_all(process, manager, user):
    """An application of this user leases all 8 GPUs."""
    one = process.register(user, manager)
    eventually(lambda: one.ids("ask"), f"{user} is asked")
    one.say("lease.estimate", round=1, rho=9.0)
    eventually(lambda: one.ids("offer"), f"{user} is offered GPUs")
    one.say("lease.bid", round=1, rho=9.0, rows=[ALL])
    eventually(lambda: leased(one) == 8, f"{user} leases all GPUs")
    return one


def leased(follower):
    """How many GPUs the arbiter says that it leases; it answers late, on a busy machine, after it was stopped."""
    with suppress(ArbiterUnavailableError):
        return sum(len(lease.holdings) for lease in follower.client.get_leases(follower.app).leases)


def test_an_arbiter_that_was_stopped_and_superseded_leases_nothing_when_it_continues(arbiters):
    manager, a, b = arbiters
    a.start()
    ann = lease_all(a, manager, "ann")
    os.kill(a.process.pid, signal.SIGSTOP)
    b.start()
    bob = lease_all(b, manager, "bob")
    os.kill(a.process.pid, signal.SIGCONT)
    eventually(lambda: leased(ann) == 0, "the first one stands down")
    assert leased(bob) == 8
    assert [message["cause"]["kind"] for kind, message in ann.heard if kind == "lease_ended"] == ["pool-superseded"] * 2
    for change in (lambda: a.register("eve"), lambda: ann.client.send(ann.app, "lease.release", lease="gpu#1")):
        with pytest.raises(ArbiterError, match=b.url):
            change()
    assert requests.get(f"{a.url}/v1/ready", timeout=10).status_code == 503
    assert requests.get(f"{b.url}/v1/ready", timeout=10).status_code == 200
    for one in (ann, bob):
        one.close()
