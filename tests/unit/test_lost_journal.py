"""An arbiter begins with an empty journal, while containers of applications that it does not know use GPUs: no other
application is leased these until their containers end."""

from tests.lease_world import node
from tests.ledger_world import LedgerWorld
from tests.small_cells import HOSTS, spec
from tests.toys.stage import admitted
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings
from yarn_plugin.decide.commands import ListContainers, SignalContainers
from yarn_plugin.decide.events import AppsChanged, ContainersListed, JobsDeclared, Registered
from yarn_plugin.model.cluster import Container, YarnApp
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Gang, Job, Pods

OLD = "application_1_0999"
MASTER = Container("container_old_0", "masters:8041", Resources.of({"vcores": 1}), True)
ONE = Resources.of({"vcores": 1, GPU: 1})


class World(LedgerWorld):
    """One virtual cluster with all four nodes of four GPUs."""

    @staticmethod
    def begin(**parameters):
        cells = BuddyCellsSettings(spec(prod={"rack": 2}), default_cluster="prod")
        nodes = [node(host, 4) for host in HOSTS]
        return World(LedgerWorld.of("cells", *nodes, settings=cells, grace_s=5.0, **parameters).stage)

    def reports(self, on, queue="root.gpu.old"):
        """YARN reports the application of before, which uses so many GPUs of these hosts; it lists no containers."""
        number = sum(on.values())
        used = Resources.of({"vcores": 1 + number, GPU: number})
        shown = YarnApp(OLD, "old", "ann", queue, False, 1.0, used, Resources(), 1 + number)
        return [command for one in self.take(AppsChanged((shown,), ())) for command in one.commands]

    def lists(self, on, app=OLD):
        containers = [
            Container(f"container_old_{host}_{number}", f"{host}:8041", ONE, False)
            for host, gpus in on.items()
            for number in range(gpus)
        ]
        return self.take(ContainersListed(app, (MASTER, *containers)), 0.01)

    def asks(self, app, *sizes):
        self.take(JobsDeclared(app, (Job("train", "prod", gang=Gang(tuple(Pods(1, size) for size in sizes))),)), 0.01)

    def hosts(self, app):
        return sorted({cell.partition("/")[0] for cell in self.leases().get(app, ())})


def test_gpus_that_nobody_claims_are_not_leased_until_their_containers_end():
    world = World.begin()
    on = {"n0": 3}
    assert any(isinstance(command, ListContainers) for command in world.reports(on))
    world.lists(on)
    app = world.arrive("prod")
    world.asks(app, 4, 4, 4)
    assert world.hosts(app) == ["n1", "n2", "n3"]
    other = world.arrive("other")
    world.asks(other, 2)
    assert world.hosts(other) == [], "one GPU is left"
    world.take(AppsChanged((), (OLD,)))
    assert world.hosts(other) == ["n0"]


def test_nothing_is_leased_until_it_is_known_where_the_containers_run():
    world = World.begin()
    world.reports({"n0": 4})
    app = world.arrive("prod")
    world.asks(app, 4)
    assert world.hosts(app) == []
    world.lists({"n0": 4})
    assert len(world.hosts(app)) == 1 and "n0" not in world.hosts(app)


def test_what_runs_beyond_the_leases_of_an_application_that_registers_again_stays_blocked():
    """It is leased GPUs as if it were new; what it holds on other nodes is signalled after its grace period."""
    world = World.begin()
    queue = world.stage.intake.state.pools[1].queue + ".old"
    world.reports({"n0": 4, "n1": 4}, queue)
    world.lists({"n0": 4, "n1": 4})
    again = Registered("request-old", "old", "ann", "gpu", 1.0, None, None, OLD)
    old = admitted(world.take(again, 0.01)[-1])
    world.lists({"n0": 4, "n1": 4}, old)
    other = world.arrive("other")
    world.asks(other, 4, 4, 4)
    assert world.hosts(other) == [], "only two nodes have room"
    world.wait(6.0)
    asked = [command for one in world.stage.decided for command in one.commands if isinstance(command, ListContainers)]
    assert asked[-1].app == old
    decided = world.lists({"n0": 4, "n1": 4}, old)
    signals = [command for one in decided for command in one.commands if isinstance(command, SignalContainers)]
    assert sorted(host for one in signals for host in one.containers) == sorted(
        f"container_old_{host}_{number}" for host in ("n0", "n1") for number in range(4)
    )
    world.reports({}, queue)
    world.lists({}, old)
    assert len(world.hosts(other)) == 3
