"""A coarse model of YARN in virtual time: nodes, dynamic leaf queues, and a CapacityScheduler with weights.

Containers go to the queue with the least use relative to its weight, first come first served within a queue, as long as
anything fits; none is preempted unless a command says so. The model has no clock of its own.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf

from yarn_plugin.model.cluster import Container, Node, YarnApp
from yarn_plugin.model.resources import Resources, total_of
from yarn_plugin.simulation.free_capacity import Amounts, FreeCapacity

NEW_LEAF = 0.01
"""The weight of a leaf queue before one is written, as in the leaf template that the arbiter requires."""

MAX_ALLOCATION = 1_000_000
"""The most containers allocated to one application at once."""

MASTER = 1
"""The container number of an application master."""


@dataclass(slots=True)
class RunningApp:
    """An application that has not ended. `wanted`: target number of containers besides the master. `containers`: nodes
    by container number."""

    id: str
    name: str
    user: str
    queue: str
    started_at: float
    size: Amounts
    master: Amounts
    wanted: int = 0
    next_number: int = MASTER
    containers: dict[int, str] = field(default_factory=dict)

    @property
    def is_waiting(self) -> bool:
        """Whether the application waits for its master."""
        return MASTER not in self.containers

    @property
    def held(self) -> int:
        """Containers besides the master."""
        return len(self.containers) - (not self.is_waiting)

    def next_size(self) -> Amounts | None:
        """The size of the next container to allocate; None if the application has all."""
        if self.is_waiting:
            return self.master
        return self.size if self.held < self.wanted else None


class SimulatedYarn:
    """The ResourceManager and its nodes.

    `changed`, `gone`: applications since the last poll; `changed_nodes` likewise. `pending`: the applications that wait
    for a container.

    Args:
        nodes: the nodes at the start.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node.id: node for node in nodes}
        self._names = tuple(sorted({name for node in self.nodes.values() for name, _ in node.capacity}))
        self._free_capacity = FreeCapacity()
        self.total: Amounts = (0,) * len(self._names)
        self.present: set[str] = set()
        self.apps: dict[str, RunningApp] = {}
        self._queues: dict[str, dict[str, None]] = {}
        self._used: dict[str, list[int]] = {}
        self.weights: dict[str, float] = {}
        self.pending: set[str] = set()
        self.changed: dict[str, None] = {}
        self.gone: dict[str, None] = {}
        self.changed_nodes: dict[str, None] = {}
        for node in self.nodes:
            self.add_node(node)

    def amounts(self, resources: Resources) -> Amounts:
        """The amounts of a vector, in the order of this cluster's resources."""
        return tuple(resources[name] for name in self._names)

    def resources(self, amounts: Iterable[int]) -> Resources:
        """The vector of amounts given in the order of this cluster's resources."""
        return Resources(tuple([pair for pair in zip(self._names, amounts, strict=True) if pair[1]]))

    @property
    def has_pending(self) -> bool:
        """Whether an application waits for a container."""
        return bool(self.pending)

    # Nodes.

    def add_node(self, node: str) -> None:
        """Add a node, or bring a lost one back; it is empty."""
        capacity = self.amounts(self.nodes[node].capacity)
        self._free_capacity.add(node, capacity)
        self.total = tuple(map(sum, zip(self.total, capacity, strict=True)))
        self.present.add(node)
        self.changed_nodes[node] = None

    def lose_node(self, node: str) -> dict[str, int]:
        """Lose a node. Returns the number of containers lost by each application."""
        self._free_capacity.remove(node)
        self.present.discard(node)
        self.changed_nodes[node] = None
        capacity = self.amounts(self.nodes[node].capacity)
        self.total = tuple(amount - lost for amount, lost in zip(self.total, capacity, strict=True))
        lost: dict[str, int] = {}
        for app in self.apps.values():
            numbers = [number for number, place in app.containers.items() if place == node]
            if numbers:
                self._take(app, numbers, node_is_gone=True)
                lost[app.id] = len(numbers)
                if app.is_waiting:
                    # Without its master an attempt ends, and with it all its containers; the next attempt starts.
                    lost[app.id] += len(app.containers)
                    self._take(app, list(app.containers))
        return lost

    # Applications.

    def submit(self, app: RunningApp) -> None:
        """Submit an application, which then waits for its master."""
        self.apps[app.id] = app
        self._queues.setdefault(app.queue, {})[app.id] = None
        self._used.setdefault(app.queue, [0] * len(self._names))
        self._moved(app)

    def set_containers(self, name: str, wanted: int) -> None:
        """Set an application's target number of containers besides its master; the newest surplus ones are released."""
        app = self.apps[name]
        if wanted == app.wanted and app.held <= wanted:
            return
        app.wanted = wanted
        surplus = app.held - wanted
        if surplus > 0:
            self._take(app, sorted((n for n in app.containers if n != MASTER), reverse=True)[:surplus])
        self._moved(app)

    def end(self, name: str) -> None:
        """End an application and release its containers."""
        app = self.apps.pop(name)
        self._take(app, list(app.containers))
        del self._queues[app.queue][name]
        self.pending.discard(name)
        if not self._queues[app.queue]:
            # The leaf queue stays in YARN; here only its weight is retained.
            del self._queues[app.queue], self._used[app.queue]
        self.changed.pop(name, None)
        self.gone[name] = None

    def kill(self, name: str, containers: Iterable[str]) -> tuple[tuple[str, ...], int]:
        """Kill containers by id. Returns the ids that no longer exist, and the number of containers killed."""
        app = self.apps.get(name)
        held = app.containers if app is not None else {}
        prefix, running, missing = container_prefix(name), list[int](), list[str]()
        for container in containers:
            number = int(container.removeprefix(prefix))
            if number in held:
                running.append(number)
            else:
                missing.append(container)
        if app is not None:
            self._take(app, running)
        return tuple(missing), len(running)

    def containers(self, name: str) -> tuple[Container, ...]:
        """The containers of an application; empty if it has ended."""
        app = self.apps.get(name)
        if app is None:
            return ()
        master, size, prefix = self.resources(app.master), self.resources(app.size), container_prefix(name)
        return tuple(
            [
                Container(f"{prefix}{number:06d}", node, master if number == MASTER else size, number == MASTER)
                for number, node in app.containers.items()
            ]
        )

    def report(self, name: str) -> YarnApp:
        """An application as the ResourceManager reports it."""
        app = self.apps[name]
        used, asked = self._of(app, app.held, not app.is_waiting), self._of(app, app.wanted - app.held, app.is_waiting)
        return YarnApp(name, app.name, app.user, app.queue, app.is_waiting, app.started_at, used, asked,
                       len(app.containers))  # fmt: skip

    def used(self) -> Resources:
        """The resources allocated to all containers."""
        return total_of(self.resources(amounts) for amounts in self._used.values())

    # The scheduler.

    def write(self, weights: Iterable[tuple[str, float]], forget: Iterable[str]) -> None:
        """Write weights of leaf queues, and remove those of others."""
        for queue in forget:
            self.weights.pop(queue, None)
        self.weights.update(weights)

    def lose_weights(self) -> None:
        """Lose all weights, as in a restart without a persistent configuration store."""
        self.weights.clear()

    def allocate(self) -> dict[str, int]:
        """Allocate containers until nothing fits. Returns their number by application, masters included."""
        allocated: dict[str, int] = {}
        waiting = {self.apps[name].queue for name in self.pending}
        order = [(self._ratio(queue), queue) for queue in sorted(waiting)]
        heapify(order)
        full: set[Amounts] = set()
        while order:
            _, queue = heappop(order)
            got = self._serve(queue, order[0][0] if order else inf, full)
            if got is not None:
                app, count = got
                allocated[app] = allocated.get(app, 0) + count
                heappush(order, (self._ratio(queue), queue))
        return allocated

    def _serve(self, queue: str, until: float, full: set[Amounts]) -> tuple[str, int] | None:
        """Allocate containers to the first application of a queue that fits, until the queue's ratio exceeds `until`,
        that of the next queue. None if no application of the queue fits."""
        for name in self._queues[queue]:
            app = self.apps[name]
            size = app.next_size()
            if size is None or size in full:
                continue
            missing = 1 if app.is_waiting else app.wanted - app.held
            asked = min(missing, self._room_until(queue, size, until))
            placed = self._free_capacity.place(size, asked)
            count = sum(placed.values())
            if count < asked:
                full.add(size)
            if count:
                self._place(app, size, placed, count)
                return name, count
        return None

    def _room_until(self, queue: str, size: Amounts, until: float) -> int:
        """The number of containers of a size that bring a queue's ratio above `until`."""
        if until == inf:
            return MAX_ALLOCATION
        target = until * self.weights.get(queue, NEW_LEAF)
        counts = [
            int((target * all_ - used) / needs)
            for used, needs, all_ in zip(self._used[queue], size, self.total, strict=True)
            if needs
        ]
        return max(min(counts, default=0), 0) + 1

    def _place(self, app: RunningApp, size: Amounts, placed: Mapping[str, int], count: int) -> None:
        number = MASTER if app.is_waiting else max(app.next_number, MASTER + 1)
        for node, placed_here in placed.items():
            for _ in range(placed_here):
                app.containers[number] = node
                number += 1
        app.next_number = max(number, app.next_number)
        used = self._used[app.queue]
        for place, amount in enumerate(size):
            used[place] += count * amount
        self._moved(app)

    def _take(self, app: RunningApp, numbers: Iterable[int], node_is_gone: bool = False) -> None:
        used, left = self._used[app.queue], Counter[tuple[str, Amounts]]()
        for number in numbers:
            left[app.containers.pop(number), app.master if number == MASTER else app.size] += 1
        for (node, size), count in left.items():
            if not node_is_gone:
                self._free_capacity.release(node, size, count)
            for place, amount in enumerate(size):
                used[place] -= count * amount
        self._moved(app)

    def _moved(self, app: RunningApp) -> None:
        self.changed[app.id] = None
        if app.next_size() is None:
            self.pending.discard(app.id)
        else:
            self.pending.add(app.id)

    def _ratio(self, queue: str) -> float:
        """A queue's dominant fraction of the cluster, relative to its weight."""
        used = max((use / all_ for use, all_ in zip(self._used[queue], self.total, strict=True) if all_), default=0.0)
        return used / self.weights.get(queue, NEW_LEAF)

    def _of(self, app: RunningApp, containers: int, master: bool) -> Resources:
        count = max(containers, 0)
        return self.resources(
            count * amount + (own if master else 0) for amount, own in zip(app.size, app.master, strict=True)
        )


def container_prefix(app: str) -> str:
    """The prefix of an application's container ids; as in YARN, an increasing number follows."""
    return f"container_{app.removeprefix('application_')}_01_"
