"""HiveD's central claim (OSDI '20, section 3): any scheduler inside a virtual cluster decides as in a private cluster.

The same allocator, alone on the virtual cluster's cells, and in the shared cluster beside guaranteed and opportunistic
work of others: the same decisions at the same times, exactly. Lazy preemption and opportunistic work of its own are
off, and all nodes are healthy.
"""

import random
import re

import pytest

from tests.hosted_pool import Pool, Recorded
from tests.property.test_virtual_clusters import topology
from tests.small_cells import spec
from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.auction import Auction, AuctionSettings
from yarn_plugin.decide.allocators.buddy_cells import BuddyCells, BuddyCellsSettings
from yarn_plugin.decide.allocators.fifo import Fifo, FifoSettings
from yarn_plugin.decide.allocators.job_rounds import JobRounds, JobRoundsSettings
from yarn_plugin.decide.allocators.virtual_pool import virtual_pool
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Claim, Demand, Gang, Pods

SPECS = (
    spec(a={"node": 1, "pair": 2}, b={"rack": 1}),
    spec(a={"rack": 1}, b={"node": 1, "pair": 2}),
    spec(a={"gpu": 2, "pair": 2}, b={"node": 1}),
)
INSIDE = {
    "themis": lambda: Auction(AuctionSettings(lease_s=100.0)),
    "fifo": lambda: Fifo(FifoSettings()),
    "tiresias": lambda: JobRounds(JobRoundsSettings("tiresias", 100.0)),
    "gandiva": lambda: JobRounds(JobRoundsSettings("gandiva", 100.0)),
    "slaq": lambda: JobRounds(JobRoundsSettings("slaq", 100.0)),
}

SERVED = re.compile(r"attained_gpu_s=[^,)]*")


def hosting(cells, inside, other):
    """HiveD with this allocator inside virtual cluster a, and maybe one inside b."""
    kinds = {
        name: AllocatorKind(name, lambda _, __, guest=guest: guest, {})
        for name, guest in (("first", inside), ("second", other))
        if guest is not None
    }
    guests = dict(zip("ab", kinds, strict=False))
    return BuddyCells(BuddyCellsSettings(cells, inside=guests), kinds)


class Worlds:
    """A shared cluster, and the virtual cluster alone."""

    def __init__(self, seed, name, grace_s=0.0):
        self.draw, self.number, self.grace_s = random.Random(seed), 0, grace_s
        cells = self.draw.choice(SPECS)
        self.guest, self.private = Recorded(INSIDE[name]()), Recorded(INSIDE[name]())
        other = INSIDE[self.draw.choice(list(INSIDE))]() if self.draw.random() < 0.5 else None
        self.shared = Pool(hosting(cells, self.guest, other), topology().topology, grace_s=grace_s)
        alone = virtual_pool(Cluster(cells), "a").cells.topology
        self.alone = Pool(self.private, alone, grace_s=grace_s)

    def step(self):
        at = self.shared.at + self.draw.choice([1.0, 1.0, 7.0, 40.0])
        for pool in (self.shared, self.alone):
            pool.wait(at)
        self.draw.choices([self.arrive, self.leave], [3, 3 if len(self.shared.claims) > 6 else 0])[0]()
        validate(self.shared.state.allocated.cells.cluster)

    def check(self):
        """The same decisions, and the same news, but for when leases start and how much they have served since."""
        shared, private = (repr(one.decisions()) for one in (self.guest, self.private))
        if self.grace_s:
            shared, private = SERVED.sub("", shared), SERVED.sub("", private)
        assert shared == private
        assert self.guest.news() == self.private.news()

    def arrive(self):
        self.number += 1
        draw, key = self.draw, (f"app{self.number}", "")
        tenant = draw.choice("aabb")
        pods = tuple(Pods(draw.randint(1, 2), size) for size in draw.sample([1, 2, 3, 4], draw.randint(1, 2)))
        claim = Claim(
            key[0],
            1.0,
            Demand((Resources.of({GPU: draw.randint(1, 6)}),)),
            Resources(),
            tenant=tenant,
            priority=0 if tenant == "a" else draw.choice([-1, -1, -1, 0]),
            gang=Gang(pods) if draw.random() < 0.5 else None,
            arrived_at=self.shared.at,
            yarn_app=f"application_{self.number}",
        )
        self.change(key, claim)

    def leave(self):
        running = [key for key in self.shared.claims if key[0] in self.shared.started()]
        self.change(self.draw.choice(running or list(self.shared.claims)), None)

    def change(self, key, claim):
        is_its = (claim or self.shared.claims[key]).tenant == "a"
        for pool in (self.shared, self.alone) if is_its else (self.shared,):
            if claim is None:
                del pool.claims[key]
            else:
                pool.claims[key] = claim
            pool.look()


def starts_after(grace_s, name, seed):
    """When leases start in the shared cluster, and in the private one, after a random history."""
    worlds = Worlds(seed, name, grace_s)
    for _ in range(40):
        worlds.step()
    worlds.check()
    return worlds.guest.starts(), worlds.private.starts()


@pytest.mark.parametrize("name", sorted(INSIDE))
@pytest.mark.parametrize("seed", range(2))
def test_the_same_decisions_and_starts_as_in_a_private_cluster(name, seed):
    shared, private = starts_after(0.0, name, seed)
    assert shared == private
    assert len(shared) > 3


# Themis and Tiresias decide by what has started: who waits for evictions has attained less.
@pytest.mark.parametrize("name", sorted(INSIDE.keys() - {"themis", "tiresias"}))
def test_evictions_delay_starts_by_at_most_the_grace_period_and_change_no_decision(name):
    are_delayed = []
    for seed in range(10, 13):
        shared, private = starts_after(20.0, name, seed)
        late = [shared[key] - private[key] for key in shared]
        assert all(0.0 <= seconds <= 20.0 for seconds in late)
        are_delayed.append(any(late))
    assert any(are_delayed), "no history in which the guest had to wait for others to leave"
