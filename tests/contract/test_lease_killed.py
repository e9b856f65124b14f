"""The lease controller over HTTP: an arbiter killed in any phase completes each round once; bids are sealed."""

import pytest

from tests.eventually import eventually
from tests.fixtures.scripted_manager import ScriptedManager
from tests.toys.process import Process
from tests.toys.stage import QUEUES, check_agreement, check_leases, sent
from yarn_plugin.api.client import ArbiterClient, ArbiterError
from yarn_plugin.decide.commands import RecordRound
from yarn_plugin.decide.pools.commands import Ask, Grant, LeaseEnded, Offer, Revoke

PARAMETERS = (
    '{ policy = "themis", f = 0.0, lease_s = 25, grid_s = 0, grace_s = 3, round_window_s = 2, estimate_s = 60, '
    "bid_s = 60, decide_s = 3, place_within_s = 0, table_rounds = 0, "
    "payments = false }"
)
TWO = {"pieces": [{"gpus": 2}, {"gpus": 2}], "rho": 1.0}


@pytest.fixture
def process(tmp_path):
    manager = ScriptedManager(QUEUES, nodes=2, gpus=2)
    made = Process(manager.url, tmp_path, PARAMETERS, "lease")
    made.manager = manager
    yield made
    made.close()
    manager.close()


@pytest.mark.matrix
def test_an_arbiter_killed_in_any_phase_completes_each_round_once(process):
    """Killed while it asks, while bids are due, while the worker solves, with leases granted, and while revoking."""

    def phase():
        state = process.auction()
        now = None if state is None else state.allocated.round
        return None if now is None else now.phase

    process.start()
    ann = process.register("ann", process.manager)
    eventually(lambda: ann.ids("ask"), "ann is asked")
    process.kill_and_start()
    eventually(lambda: len(ann.ids("ask")) == 2, "ann is asked again")
    ann.say("lease.estimate", round=1, rho=3.0)
    eventually(lambda: ann.ids("offer"), "ann is offered GPUs")
    process.kill_and_start()
    eventually(lambda: len(ann.ids("offer")) == 2, "ann is offered them again")
    ann.say("lease.bid", round=1, rho=3.0, rows=[TWO])
    eventually(lambda: phase() == "solving", "the worker solves")
    process.kill_and_start()
    eventually(lambda: ann.ids("grant"), "the round ends")
    process.kill_and_start()
    eve = process.register("eve", process.manager)
    for one in (ann, eve):
        eventually(lambda one=one: one.ids("ask")[-1:] != ann.ids("ask")[:1] and one.ids("ask"), "the lease has ended")
        one.say("lease.estimate", round=2, rho=3.0 if one is ann else 9.0)
    for one in (ann, eve):
        eventually(
            lambda one=one: one.ids("offer")[-1:] != ann.ids("offer")[:1] and one.ids("offer"), "both are offered"
        )
        one.say("lease.bid", round=2, rho=3.0 if one is ann else 9.0, rows=[TWO])
    eventually(lambda: ann.ids("revoke"), "ann's leases are revoked")
    process.kill_and_start()
    eventually(lambda: eve.ids("grant"), "the GPUs are handed over")
    process.close()
    for follower in (ann, eve):
        follower.close()
    decided = check_agreement(process.journal).history
    rounds = [command.cause for one in decided for command in one.commands if isinstance(command, RecordRound)]
    assert [(one.round, one.won) for one in rounds] == [(1, ((ann.app, 4),)), (2, ((eve.app, 4),))]
    assert [grant.app for grant in sent(decided, Grant)] == [ann.app, eve.app]
    assert check_leases(decided) == 8
    for kind, repeats in ((Ask, 1), (Offer, 1), (Revoke, 2)):
        ids = [one.id for one in sent(decided, kind)]
        assert len(ids) == len(set(ids)) + repeats, "issued again under the same id"
    assert [one.app for one in sent(decided, LeaseEnded)] == [ann.app] * 2


def test_an_arbiter_that_is_started_on_the_folder_of_an_earlier_version_adopts_its_leases(process):
    process.start("earlier")
    ann = process.register("ann", process.manager)
    eventually(lambda: ann.ids("ask"), "ann is asked")
    ann.say("lease.estimate", round=1, rho=3.0)
    eventually(lambda: ann.ids("offer"), "ann is offered GPUs")
    ann.say("lease.bid", round=1, rho=3.0, rows=[TWO])
    eventually(lambda: ann.ids("grant"), "the round ends")
    before = leases_of(ann)
    process.kill_and_start()
    assert leases_of(ann) == before
    assert len(before) == 2
    assert process.replayed().state.pool_states["gpu"].controller == "ledger"
    ann.say("lease.release", lease=before[0].id)
    eventually(lambda: ann.ids("lease_ended"), "the lease ends")
    eventually(lambda: len(ann.ids("ask")) == 2, "its GPUs are offered again")
    process.close()
    ann.close()
    decided = check_agreement(process.journal).history
    assert check_leases(decided) == 4
    assert [one.lease for one in sent(decided, LeaseEnded)] == [before[0].id]


def leases_of(follower):
    """Without their ends, in the wall time of a process."""
    return [lease.model_copy(update={"until": None}) for lease in follower.client.get_leases(follower.app).leases]


def test_bids_are_sealed_and_their_errors_clear(process):
    process.start()
    ann, eve = (process.register(user, process.manager) for user in ("ann", "eve"))
    eventually(lambda: ann.ids("ask") and eve.ids("ask"), "both are asked")
    with pytest.raises(ArbiterError, match="belongs to another user"):
        eve.client.send(ann.app, "lease.bid", round=1, rho=3.0, rows=[])
    with pytest.raises(ArbiterError, match="rho"):
        ann.client.send(ann.app, "lease.bid", round=1, rho="low", rows=[])
    for one, rho in ((ann, 3.0), (eve, 9.0)):
        one.say("lease.estimate", round=1, rho=rho)
    for one in (ann, eve):
        eventually(lambda one=one: one.ids("offer"), "both are offered GPUs")
        one.say("lease.bid", round=1, rho=9.0, rows=[{"pieces": [{"gpus": 1}], "rho": 0.777}])
    eventually(lambda: ann.ids("grant") and eve.ids("grant"), "each wins one")
    offer = next(message for kind, message in ann.heard if kind == "offer")
    assert offer["offer"]["type"] == "lease.offer"
    assert [machine["slots"] for machine in offer["offer"]["machines"]] == [
        [{"id": f"127.0.1.{n}", "gpus": 2}] for n in (1, 2)
    ]
    assert "0.777" not in str([message for _, message in eve.heard])
    seen = [one.reason for one in eve.client.explain(eve.app, 100).decisions]
    assert any("round 1: 1 GPU, won by its bid" in reason for reason in seen)
    assert not any(ann.app in reason for reason in seen), "not even its finish-time fairness"
    admin = ArbiterClient(process.url, (process.state / "admin.token").read_text().strip())
    assert any(f"rho {eve.app} 9, {ann.app} 3" in one.reason for one in admin.explain(eve.app, 100).decisions)
    for follower in (ann, eve):
        follower.close()
