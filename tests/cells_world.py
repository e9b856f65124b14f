"""Random clusters of cells and random histories on them."""

from dataclasses import dataclass
from random import Random

from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator, Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Bind, Preempt
from yarn_plugin.decide.mechanisms.buddy_cells.cells import FREE
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.errors import CellFileError, RejectedError
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Request, Stage
from yarn_plugin.decide.mechanisms.buddy_cells.specification import (
    CellType,
    ClusterSpec,
    PhysicalSpec,
    Quota,
    VirtualClusterSpec,
)

LAYOUTS = (  # children of each level from the top; the position of the node level
    ((2, 4), 1),
    ((3, 2, 2), 1),
    ((2, 2, 4), 1),
    ((2, 2), 0),
    ((2, 2, 2), 1),
    ((4,), 0),
)


def random_spec(random, leaves=24, chains=2):
    """A feasible cluster of at most so many leaves in each chain."""
    while True:
        try:
            spec = _spec(random, leaves, chains)
            Cluster(spec)
        except CellFileError:
            continue
        return spec


def _spec(random, leaves, chains):
    types, cells, names, quotas, order = {}, [], ["A", "B", "C"][: random.randint(1, 3)], {}, {}
    quotas = {name: [] for name in names}
    pins = {name: [] for name in names}
    for chain in "XY"[: random.randint(1, chains)]:
        fans, node = random.choice(LAYOUTS)
        kinds = [f"{chain}{level}" for level in range(len(fans), -1, -1)]
        for depth, fan in enumerate(fans):
            types[kinds[depth]] = CellType(kinds[depth + 1], fan, depth == node)
        size = 1
        for fan in fans:
            size *= fan
        number = random.randint(1, max(1, leaves // size))
        for _ in range(number):
            pin = ""
            if random.random() < 0.15:
                pin = f"pin{len(cells)}"
                pins[random.choice(names)].append(pin)
            cells.append(PhysicalSpec(kinds[0], f"{chain}{len(cells)}", pin))
        order.setdefault(kinds[-1], []).append(chain)
        for name in names:
            for kind in kinds:
                if random.random() < 0.5:
                    quotas[name].append(Quota(kinds[0], kind, random.randint(1, 3)))
    clusters = {name: VirtualClusterSpec(tuple(quotas[name]), tuple(pins[name])) for name in names}
    nodes = _named(cells, types)
    order = {leaf: tuple(f"{chain}{_height(types, chain)}" for chain in each) for leaf, each in order.items()}
    return ClusterSpec(types, tuple(nodes), clusters, order)


def _height(types, chain):
    return sum(1 for name in types if name.startswith(chain))


def _named(cells, types):
    """The cells with host names for their nodes."""
    counter = iter(range(10_000))

    def grow(kind, address, pin):
        if kind not in types:
            return PhysicalSpec(kind)
        if types[kind].is_node:
            return PhysicalSpec(kind, f"n{next(counter)}", pin)
        children = tuple(grow(types[kind].child, "", "") for _ in range(types[kind].number))
        return PhysicalSpec(kind, address, pin, children)

    return [grow(cell.type, cell.address, cell.pinned) for cell in cells]


def random_request(random, cluster, name, lazy=True, max_pods=4):
    """A request that may or may not fit."""
    virtual = random.choice(list(cluster.virtual))
    pods = tuple((random.randint(1, 2), random.choice((1, 1, 2, 3, 4, 8))) for _ in range(random.randint(1, 2)))
    while sum(number for number, _ in pods) > max_pods:
        pods = pods[:1]
    priority = random.choice((-1, -1, 0, 0, 1, 2, 5))
    pins = list(cluster.virtual[virtual].pins)
    pinned = random.choice(pins) if pins and priority >= 0 and random.random() < 0.3 else ""
    leaf_type = ""
    return Request(name, virtual, priority, pods, leaf_type, pinned, lazy and random.random() < 0.4, True)


@dataclass(frozen=True)
class Asked:
    """A request, our answer, and for a new gang whether it fits anywhere."""

    request: Request
    answer: object
    fits: bool | None


class World:
    """A history on a random cluster: gangs come, wait, preempt, withdraw and end."""

    def __init__(self, seed, leaves=24, lazy=True):
        self.random = Random(seed)
        self.spec = random_spec(self.random, leaves)
        self.allocator = Allocator(Cluster(self.spec))
        self.lazy = lazy
        self.number = 0
        self.waiting = {}

    @property
    def cluster(self):
        return self.allocator.cluster

    def step(self):
        """One random operation; the call and the answer of a request, else None."""
        draw = self.random.random()
        if draw < 0.5:
            self.number += 1
            request = random_request(self.random, self.cluster, f"g{self.number}", self.lazy)
            return self.ask(request)
        gangs = sorted(self.cluster.gangs.values(), key=lambda gang: gang.name)
        preempting = [gang for gang in gangs if gang.stage is Stage.PREEMPTING]
        if draw < 0.6 and preempting:
            gang = self.random.choice(preempting)
            if self.random.random() < 0.3:
                for pod in sorted(gang.waiting):
                    self.allocator.withdraw(gang.name, pod)
                return None
            return self.ask(gang.request)
        leaving = [gang for gang in gangs if gang.stage is Stage.PREEMPTED]
        running = [gang for gang in gangs if gang.stage is not Stage.PREEMPTING]
        if running:
            self.finish(self.random.choice(leaving or running if draw < 0.8 else running))
        return None

    def ask(self, request):
        """Ask for the first pod of a gang, and start all its pods if it is placed."""
        is_new = request.gang not in self.cluster.gangs
        legal = fits_by_search(self.cluster, request) if is_new else None
        answer = None
        try:
            for index, size in enumerate(request.sizes):
                call = Call(f"{request.gang}-{index}", size, request)
                each = self.allocator.decide(call)
                answer = answer or each
                if not isinstance(each, Bind):
                    break
                self.allocator.start(call, each)
        except RejectedError:
            return None
        return Asked(request, answer, legal)

    def finish(self, gang):
        for pod in gang.pods:
            self.allocator.end(gang, pod)


def fits_by_search(cluster, request):
    """Whether a gang fits, by trying every node for every pod; with leaves below its priority as free."""
    if request.guaranteed:
        virtual = cluster.virtual[request.cluster]
        if request.pinned:
            groups = [virtual.pins[request.pinned].cells]
        else:
            groups = [part.cells for part in virtual.chains.values()]
        rooms = [_virtual_rooms(cells, request.priority) for cells in groups]
    else:
        rooms = [
            [
                sum(leaf.priority == FREE for leaf in node.leaves)
                for node in levels[cluster.forest.chains[name].node_level - 1]
            ]
            for name, levels in cluster.forest.levels.items()
        ]
    return any(_packs(room, sorted(request.sizes, reverse=True)) for room in rooms)


def _virtual_rooms(cells, priority):
    rooms = {}
    for leaf in cells.levels[0]:
        top = leaf
        while top.parent is not None and top.level < cells.chain.node_level:
            top = top.parent
        rooms.setdefault(top, 0)
        rooms[top] += leaf.priority < priority
    return list(rooms.values())


def _packs(rooms, sizes):
    if not sizes:
        return True
    return any(
        _packs([*rooms[:index], room - sizes[0], *rooms[index + 1 :]], sizes[1:])
        for index, room in enumerate(rooms)
        if room >= sizes[0]
    )


def is_placed(answer):
    return isinstance(answer, Bind | Preempt)
