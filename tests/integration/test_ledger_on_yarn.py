"""Allocators on a real cluster: containers hold cells as leased, and no GPU is held twice."""

import sys

import pytest

from tests.eventually import eventually
from tests.integration.arbiter_process import ArbiterProcess
from tests.leased.intervals import overlaps
from tests.leased.lab import BID_S, Lab, ledger_pool
from tests.toys.registry import TOYS
from tests.toys.stage import check_agreement, check_leases, sent
from yarn_plugin.decide.commands import RecordRound
from yarn_plugin.decide.pools.commands import Revoke
from yarn_plugin.drive.replay import replay
from yarn_plugin.model.causes import LeaseLapsed, LeaseLost

pytestmark = pytest.mark.integration


class ToyArbiterProcess(ArbiterProcess):
    """An arbiter with the toys."""

    def _command(self, address):
        words = (self.rm_url, self.state, address, self.folder / "arbiter.toml")
        return [sys.executable, "-m", "tests.toys.arbiter", *map(str, words)]


@pytest.fixture
def lab(cluster, tmp_path):
    # Of the four GPUs of the node, two are leased: it has memory for two tasks.
    config = ledger_pool("toy-in-turn", {"lease_s": 6}, task_memory_mb=1400, nodes=[cluster.nodes[0].host])
    made = Lab(cluster, tmp_path, config=config, process=ToyArbiterProcess)
    yield made
    made.close()


def test_two_gpus_pass_from_hand_to_hand_on_yarn_and_alike_in_virtual_time(lab):
    lab.submit("ann", gpus=1)
    lab.submit("eve", gpus=1)
    eventually(lambda: lab.gpus_of("ann") and lab.gpus_of("eve"), "ann and eve have a GPU each", 60)
    lab.submit("bob", gpus=1)
    eventually(lambda: lab.gpus_of("bob"), "bob has one, after a lease was not kept", 60)
    lab.finish("ann", "eve", "bob")
    journal = lab.arbiter.state / "journal"

    def leases():
        return replay(journal, TOYS).state.pool_states["gpu"].state.ledger.leases

    eventually(lambda: not leases(), "all leases are over")
    assert not overlaps(lab.intervals())
    decided = check_agreement(journal).history
    assert check_leases(decided) >= 3
    assert any(isinstance(one.cause, LeaseLapsed) for one in sent(decided, Revoke))


@pytest.fixture
def auctioned(cluster, tmp_path):
    timing = {"lease_s": 6, "grid_s": 0, "round_window_s": 0.5, "estimate_s": 30, "bid_s": BID_S, "decide_s": 1}
    config = ledger_pool(
        "themis", {"f": 0, "payments": False, **timing}, task_memory_mb=1400, nodes=[cluster.nodes[0].host]
    )
    made = Lab(cluster, tmp_path, config=config)
    yield made
    made.close()


def test_two_gpus_are_auctioned_among_three_on_a_ledger(auctioned):
    lab = auctioned
    lab.submit("ann", gpus=1)
    lab.submit("eve", gpus=1)
    eventually(lambda: lab.gpus_of("ann") and lab.gpus_of("eve"), "ann and eve have a GPU each", 60)
    lab.submit("bob", gpus=1)
    eventually(lambda: lab.gpus_of("bob"), "bob wins one, after a lease has ended", 60)
    stands = {one.name: one.standing for one in lab.arbiter.admin().list_apps() if one.standing is not None}
    assert [stands[name].guarantee for name in ("ann", "bob", "eve")] == pytest.approx([1 / 3] * 3)
    assert any(stand.rho is not None for stand in stands.values())
    lab.finish("ann", "eve", "bob")
    journal = lab.arbiter.state / "journal"
    eventually(lambda: not replay(journal).state.pool_states["gpu"].state.ledger.leases, "all leases are over")
    assert not overlaps(lab.intervals())
    decided = check_agreement(journal).history
    assert check_leases(decided) >= 3
    lost = [one for one in sent(decided, Revoke) if isinstance(one.cause, LeaseLost)]
    rounds = [one.cause for each in decided for one in each.commands if isinstance(one, RecordRound)]
    assert lost
    assert sum(bool(one.won) for one in rounds) >= 2
