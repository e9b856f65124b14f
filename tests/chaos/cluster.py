"""YARN: nodes, containers, applications, and the record of who owns the queues."""

from collections import Counter, deque
from dataclasses import dataclass, field

from tests.chaos.checks import require
from yarn_plugin.act.ownership import OWNER, owner_of
from yarn_plugin.model.cluster import Container, Node, YarnApp
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources, total_of
from yarn_plugin.observe.scheduler_configuration import SchedulerConfiguration, property_name

QUEUE = "root.gpu"
MASTER = Resources.of({MEMORY: 512, VCORES: 1})
MASTERS = Node("masters:8041", "/r0", Resources.of({MEMORY: 65536, VCORES: 64}))


def size_of(gpus):
    return Resources.of({MEMORY: 1024 * gpus, VCORES: gpus, GPU: gpus})


@dataclass(eq=False)
class Running:
    """A container. `cells`: the GPUs that its processes use, once they run. `arbiter`, `since`: whose lease they are
    on, and when they began. `ends`: called when it is gone."""

    id: str
    app: str
    node: str
    size: Resources
    is_master: bool = False
    cells: tuple = ()
    arbiter: str = ""
    since: float = 0.0
    ends: object = None
    beyond_s: float = 0.0


@dataclass(eq=False)
class Application:
    """`allocated`, `completed`: for its master's next heartbeat."""

    id: str
    user: str
    queue: str
    at: float
    attempt: int = 0
    requests: dict = field(default_factory=dict)
    containers: dict = field(default_factory=dict)
    allocated: deque = field(default_factory=deque)
    completed: deque = field(default_factory=deque)
    number: int = 0

    @property
    def is_waiting(self):
        return not any(one.is_master for one in self.containers.values())


class Yarn:
    """`away`: the ResourceManager does not answer. `changed`: counts the changes of what runs."""

    def __init__(self, world, nodes):
        self.world, self.nodes = world, {node.id: node for node in (*nodes, MASTERS)}
        self.up = set(self.nodes)
        self.apps, self.properties = {}, {}
        self.away, self.changed, self.claimed_at = False, 0, 0.0

    # Who owns the queues.

    def configuration(self):
        return SchedulerConfiguration(dict(self.properties))

    def owner(self):
        return owner_of(self.configuration(), QUEUE)

    def write_owner(self, owner):
        self.properties[property_name(QUEUE, OWNER)] = str(owner)
        self.claimed_at = self.world.now

    # What it reports.

    def present_nodes(self):
        return {name: node for name, node in self.nodes.items() if name in self.up}

    def reports(self):
        return {name: self._report(app) for name, app in self.apps.items()}

    def _report(self, app):
        used = total_of(one.size for one in app.containers.values())
        pending = total_of(size_of(gpus) for _, gpus in app.requests.values())
        return YarnApp(app.id, app.id, app.user, app.queue, app.is_waiting, app.at, used, pending, len(app.containers))

    def list_containers(self, name):
        found = self.apps[name].containers.values() if name in self.apps else ()
        return tuple(Container(one.id, one.node, one.size, one.is_master) for one in found)

    def running(self):
        return [one for app in self.apps.values() for one in app.containers.values() if one.cells]

    # Applications.

    def submit(self, name, user):
        self.apps[name] = Application(name, user, QUEUE, self.world.now)

    def start_master(self, name):
        app = self.apps[name]
        app.attempt += 1
        for one in [one for one in app.containers.values() if one.is_master]:
            del app.containers[one.id]
        self._add(app, MASTERS.id, MASTER, is_master=True)

    def lose_master(self, name):
        app = self.apps[name]
        for one in [one for one in app.containers.values() if one.is_master]:
            del app.containers[one.id]
        app.requests.clear()
        # What was allocated and not started is given back with the attempt.
        for one, _ in app.allocated:
            app.containers.pop(one, None)
        app.allocated.clear()

    def finish(self, name):
        app = self.apps.get(name)
        if app is not None:
            for one in list(app.containers):
                self._complete(app, one, -105)
            del self.apps[name]

    def request(self, name, number, host, gpus):
        self.apps[name].requests[number] = (host, gpus)

    def cancel(self, name, number):
        self.apps[name].requests.pop(number, None)

    def begin(self, name, container, cells, arbiter, ends):
        """A node starts the processes of a container."""
        one = self.apps[name].containers.get(container)
        if one is None:
            return False
        one.cells, one.arbiter, one.ends, one.since = cells, arbiter, ends, self.world.now
        require(len(cells) == one.size[GPU], f"{container} has another number of GPUs than its request")
        self.changed += 1
        return True

    def end(self, name, container, status):
        """The processes of a container have ended, or were ended."""
        app = self.apps.get(name)
        if app is not None and container in app.containers:
            self._complete(app, container, status)

    def kill(self, containers):
        """Signal containers; those that are gone."""
        missing = []
        for container in containers:
            app = next((app for app in self.apps.values() if container in app.containers), None)
            if app is None:
                missing.append(container)
            else:
                require(not app.containers[container].is_master, f"{container} is a master, and is signalled")
                self._complete(app, container, 137)
        return missing

    def lose_node(self, name):
        self.up.discard(name)
        for app in self.apps.values():
            for one in [one for one in app.containers.values() if one.node == name]:
                self._complete(app, one.id, -100)

    def heartbeat(self, name):
        """What its master has not heard yet: allocated containers by request, completed ones with their statuses."""
        app = self.apps[name]
        found = list(app.allocated), list(app.completed)
        app.allocated.clear()
        app.completed.clear()
        return found

    def allocate(self):
        """Allocate what fits, first come first served."""
        free = Counter({name: node.capacity[GPU] for name, node in self.nodes.items() if name in self.up})
        for app in self.apps.values():
            for one in app.containers.values():
                free[one.node] -= one.size[GPU]
        require(min(free.values()) >= 0, "a node has more GPUs in use than it has")
        for app in self.apps.values():
            for number, (host, gpus) in list(app.requests.items()):
                node = f"{host}:8041"
                if node in self.up and free[node] >= gpus:
                    free[node] -= gpus
                    del app.requests[number]
                    app.allocated.append((self._add(app, node, size_of(gpus)), number))

    def _add(self, app, node, size, is_master=False):
        app.number += 1
        name = f"container_{app.id.removeprefix('application_')}_{app.attempt:02}_{app.number:06}"
        app.containers[name] = Running(name, app.id, node, size, is_master)
        return name

    def _complete(self, app, name, status):
        one = app.containers.pop(name)
        self.changed += 1
        app.completed.append((name, status))
        if one.ends is not None:
            one.ends()
