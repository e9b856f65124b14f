"""First in, first out (yarn_plugin/decide/allocators/fifo.py)."""

import pytest

from tests.lease_world import node
from tests.ledger_world import LedgerWorld
from tests.plain_ledger import PlainLedger
from tests.property.test_virtual_clusters import topology
from yarn_plugin.decide.allocators.fifo import Fifo, FifoSettings
from yarn_plugin.decide.allocators.happenings import Began, Unplaced
from yarn_plugin.decide.events import JobsDeclared, NodesChanged
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Claim, Gang, Job, Pods


def world(gpus=4, **more):
    return LedgerWorld.of("fifo", node("n1", gpus), node("n2", gpus), **more)


def test_claims_start_in_the_order_in_which_they_arrived():
    at = world()
    first, second, third = at.arrive("a", {GPU: 6}), at.arrive("b", {GPU: 4}), at.arrive("c", {GPU: 1})
    assert set(at.leases()) == {first}, "one GPU would be free for the third; the second is before it"
    at.leave(first)
    assert set(at.leases()) == {second, third}


def test_what_can_never_fit_blocks_nobody():
    at = world()
    at.arrive("huge", {GPU: 9})
    small = at.arrive("small", {GPU: 1})
    assert set(at.leases()) == {small}


def test_the_pods_of_a_gang_are_each_on_one_node_and_start_together():
    at = world()
    app = at.arrive("a")
    at.take(JobsDeclared(app, (Job("wide", "a", gang=Gang((Pods(2, 3),))),)), 0.01)
    assert at.leases()[app] == sorted(f"{host}/{gpu}" for host in ("n1", "n2") for gpu in range(3))
    at.take(JobsDeclared(app, (Job("wide", "a", gang=Gang((Pods(2, 3),))), Job("2", "a", gang=Gang((Pods(1, 2),))))), 1)
    assert len(at.leases()[app]) == 6, "two GPUs are free, on two nodes"


def test_a_pod_that_lost_its_node_gets_another():
    at = world()
    app = at.arrive("a", {GPU: 4})
    (host,) = {cell.partition("/")[0] for cell in at.leases()[app]}
    lost = node(host.partition(":")[0], 4)
    at.take(NodesChanged((), (lost.id,), (lost,)), 0.01)
    assert len(at.leases()[app]) == 4


def test_claims_whose_leases_were_not_placed_come_again():
    ledger = PlainLedger(Fifo(FifoSettings(60.0)), topology())
    key = ("a", "")
    ledger.claims[key] = Claim("a", 1.0, None, Resources(), gang=Gang((Pods(2, 4),)))
    ledger.tell(Began())
    before = set(ledger.leases)
    ledger.end(sorted(before), Unplaced)
    assert not ledger.leases
    ledger.at = 60.0
    ledger.wake()
    assert len(ledger.leases) == 2
    assert before.isdisjoint(ledger.leases)


def test_a_retry_time_out_of_range_is_refused():
    with pytest.raises(BadInputError, match="retry_s"):
        FifoSettings(0.0)
