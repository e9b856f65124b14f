"""List scheduling of iterations: one stream that computes, and channels that communicate (Syndicate section 4.4.3).

Pseudocode 4 of the thesis has two loops without one around them, so it stops early, and a single clock for all
communication. Here every lane (the computation, each channel) has its own, and time goes from event to event.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from themis_agent.communication.errors import PlanError
from themis_agent.communication.iteration import Iteration
from themis_agent.communication.options import TimedMotif

COMPUTE = 0
"""The lane of the computation; channel c is lane c + 1."""

UNROLLED = 3
"""Iterations that are scheduled: two, and one that goes before them, whose start is not typical."""

REPLAYED = 5
"""Iterations in which a repeated sequence is timed; the later half counts."""


@dataclass(frozen=True, slots=True)
class Place:
    """A motif of a task's operation, or the computation of a task (motif 0)."""

    task: int
    motif: int


Lags = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Graph:
    """An iteration whose operations have become motifs. Nodes are computations and motifs, in program order.

    `needs`, `followers`: (node, iterations between).
    """

    places: tuple[Place, ...]
    seconds: tuple[float, ...]
    lanes: tuple[int, ...]
    needs: tuple[Lags, ...]
    channels: int
    overlap: tuple[tuple[float, ...], ...] = ()

    @cached_property
    def followers(self) -> tuple[Lags, ...]:
        """The nodes that need each node."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.places]
        for node, needs in enumerate(self.needs):
            for other, lag in needs:
                found[other].append((node, lag))
        return tuple(map(tuple, found))

    @cached_property
    def computing(self) -> tuple[int, ...]:
        """The nodes that compute."""
        return tuple(node for node, lane in enumerate(self.lanes) if lane == COMPUTE)


def graph(
    iteration: Iteration,
    chosen: Mapping[int, Sequence[TimedMotif]],
    channels: int,
    overlap: tuple[tuple[float, ...], ...] = (),
    serial: bool = False,
) -> Graph:
    """The graph of an iteration under options. `chosen`: the motifs of each task that communicates. `serial`: at most
    one motif at a time, whatever its channel.
    """
    first: list[int] = []
    places: list[Place] = []
    seconds: list[float] = []
    lanes: list[int] = []
    needs: list[Lags] = []
    ends: list[tuple[int, ...]] = []
    for place, task in enumerate(iteration.tasks):
        outer = [(need.task, need.lag) for need in task.needs]
        first.append(len(places))
        if task.operation is None:
            places.append(Place(place, 0))
            seconds.append(task.seconds)
            lanes.append(COMPUTE)
            needs.append(tuple(outer))
            ends.append((len(places) - 1,))
            continue
        begin = len(places)
        for number, motif in enumerate(chosen[place]):
            places.append(Place(place, number))
            seconds.append(motif.seconds)
            lanes.append(1 if serial else motif.channel + 1)
            needs.append(tuple((-1 - begin - one, 0) for one in motif.after) if motif.after else tuple(outer))
        followed = {one for motif in chosen[place] for one in motif.after}
        ends.append(tuple(begin + number for number in range(len(chosen[place])) if number not in followed))
    # So far a need is (task, lag), or -1 - node for a motif of the same operation.
    resolved = tuple(
        tuple(
            pair
            for other, lag in one
            for pair in ([(-1 - other, lag)] if other < 0 else [(end, lag) for end in ends[other]])
        )
        for one in needs
    )
    unequal = any(factor != 1.0 for row in overlap for factor in row)
    return Graph(tuple(places), tuple(seconds), tuple(lanes), resolved, channels, overlap if unequal else ())


Key = tuple[float, ...]
"""Of motifs that are ready, the one with the smallest key goes first."""

Priority = Callable[[int, int], Key]
"""The key of a node in an iteration."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A motif of a sequence; `lag`: how many iterations later than the others of the round that it belongs to."""

    place: Place
    lag: int = 0


Sequence_ = tuple[tuple[Entry, ...], ...]
"""For each channel the order of its motifs, which repeats in every iteration."""


@dataclass(frozen=True)
class Timeline:
    """When each node of each iteration runs: `starts[iteration][node]`."""

    graph: Graph
    starts: list[list[float]]
    ends: list[list[float]]

    def finish(self, iteration: int) -> float:
        """When the computation of an iteration has ended."""
        return max(self.ends[iteration][node] for node in self.graph.computing)

    @property
    def period_s(self) -> float:
        """The time of an iteration: the mean of the later half."""
        last, middle = len(self.ends) - 1, (len(self.ends) - 1) // 2
        return (self.finish(last) - self.finish(middle)) / (last - middle)

    @property
    def idle(self) -> float:
        """The part of an iteration in which nothing computes."""
        computing = sum(self.graph.seconds[node] for node in self.graph.computing)
        return 1 - computing / self.period_s if self.period_s > 0 else 0.0


def list_schedule(graph: Graph, iterations: int, priority: Priority) -> Timeline:
    """On each idle lane begin the ready motif with the smallest key, until all iterations have ended."""
    waiting: list[list[tuple[Key, int, int]]] = [[] for _ in range(graph.channels + 1)]

    def ready(lane: int, iteration: int, node: int) -> None:
        heapq.heappush(waiting[lane], (priority(iteration, node), iteration, node))

    def pick(lane: int) -> tuple[int, int] | None:
        return heapq.heappop(waiting[lane])[1:] if waiting[lane] else None

    return _run(graph, iterations, ready, pick)


def replay(graph: Graph, iterations: int, sequence: Sequence_) -> Timeline:
    """Each channel executes its motifs strictly in the order of the sequence, round after round.

    Raises:
        PlanError: the order would deadlock: a motif waits for one that comes after it.
    """
    number = {place: node for node, place in enumerate(graph.places)}
    orders: list[list[tuple[int, int]]] = [[]]
    for entries in sequence:
        lags = [one.lag for one in entries] or [0]
        rounds = range(-max(lags), iterations - min(lags))
        orders.append(
            [(at + one.lag, number[one.place]) for at in rounds for one in entries if 0 <= at + one.lag < iterations]
        )
    orders += [[] for _ in range(graph.channels + 1 - len(orders))]
    if not graph.overlap:
        orders[COMPUTE] = [(iteration, node) for iteration in range(iterations) for node in graph.computing]
        return _pass(graph, iterations, orders)
    positions = [0] * len(orders)
    waiting: set[tuple[int, int]] = set()

    def ready(lane: int, iteration: int, node: int) -> None:
        waiting.add((iteration, node))

    def pick(lane: int) -> tuple[int, int] | None:
        if positions[lane] < len(orders[lane]) and orders[lane][positions[lane]] in waiting:
            positions[lane] += 1
            return orders[lane][positions[lane] - 1]
        return None

    return _run(graph, iterations, ready, pick)


def _pass(graph: Graph, iterations: int, orders: Sequence[Sequence[tuple[int, int]]]) -> Timeline:
    """The times of strict orders where lanes do not slow each other down: everything ends `seconds` after the last of
    what it waits for.
    """
    seconds, needs = graph.seconds, graph.needs
    starts = [[0.0] * len(seconds) for _ in range(iterations)]
    ends = [[-1.0] * len(seconds) for _ in range(iterations)]
    positions, free = [0] * len(orders), [0.0] * len(orders)
    advanced = True
    while advanced:
        advanced = False
        for lane, order in enumerate(orders):
            place, at = positions[lane], free[lane]
            while place < len(order):
                iteration, node = order[place]
                for other, lag in needs[node]:
                    if lag <= iteration:
                        end = ends[iteration - lag][other]
                        if end < 0:
                            break
                        if end > at:
                            at = end
                else:
                    starts[iteration][node] = at
                    at += seconds[node]
                    ends[iteration][node] = free[lane] = at
                    place += 1
                    continue
                break
            advanced = advanced or place > positions[lane]
            positions[lane] = place
    return _complete(Timeline(graph, starts, ends))


def _complete(timeline: Timeline) -> Timeline:
    """The timeline, unless something never runs.

    Raises:
        PlanError: it does.
    """
    for row in timeline.ends:
        for node, end in enumerate(row):
            if end < 0:
                raise PlanError(f"order: would deadlock; task {timeline.graph.places[node].task} is never reached")
    return timeline


def _run(
    graph: Graph,
    iterations: int,
    ready: Callable[[int, int, int], None],
    pick: Callable[[int], tuple[int, int] | None],
) -> Timeline:
    nodes = len(graph.places)
    lanes, seconds, followers, overlap = graph.lanes, graph.seconds, graph.followers, graph.overlap
    left = [
        [sum(1 for _, lag in needs if lag <= iteration) for needs in graph.needs] for iteration in range(iterations)
    ]
    starts = [[0.0] * nodes for _ in range(iterations)]
    ends = [[-1.0] * nodes for _ in range(iterations)]
    program = [(iteration, node) for iteration in range(iterations) for node in graph.computing]
    next_compute = 0
    for iteration in range(iterations):
        for node in range(nodes):
            if not left[iteration][node] and lanes[node] != COMPUTE:
                ready(lanes[node], iteration, node)
    running: dict[int, tuple[int, int]] = {}
    remaining: dict[int, float] = {}
    idle = set(range(graph.channels + 1))
    now = 0.0
    while True:
        for lane in sorted(idle):
            if lane == COMPUTE:
                if next_compute == len(program) or left[program[next_compute][0]][program[next_compute][1]]:
                    continue
                chosen: tuple[int, int] | None = program[next_compute]
                next_compute += 1
            else:
                chosen = pick(lane)
            if chosen is not None:
                running[lane], remaining[lane] = chosen, seconds[chosen[1]]
                starts[chosen[0]][chosen[1]] = now
                idle.discard(lane)
        if not running:
            break
        factors = _factors(overlap, running)
        passed = min(left_s * factors[lane] for lane, left_s in remaining.items())
        now += passed
        for lane in list(running):
            remaining[lane] -= passed / factors[lane]
            if remaining[lane] > 1e-12:
                continue
            iteration, node = running.pop(lane)
            del remaining[lane]
            idle.add(lane)
            ends[iteration][node] = now
            for other, lag in followers[node]:
                later = iteration + lag
                if later < iterations:
                    left[later][other] -= 1
                    if not left[later][other] and lanes[other] != COMPUTE:
                        ready(lanes[other], later, other)
    return _complete(Timeline(graph, starts, ends))


_ALONE: dict[int, float] = dict.fromkeys(range(64), 1.0)


def _factors(overlap: tuple[tuple[float, ...], ...], running: Mapping[int, tuple[int, int]]) -> dict[int, float]:
    """How many times longer each lane's motif takes beside the others."""
    if not overlap:
        return _ALONE
    return {
        lane: max((overlap[lane - 1][other - 1] for other in running if other not in (lane, COMPUTE)), default=1.0)
        if lane != COMPUTE
        else 1.0
        for lane in running
    }


def critical_path(graph: Graph, iterations: int) -> Priority:
    """The motif with the longest path to the end of all iterations goes first."""
    nodes, seconds = len(graph.places), graph.seconds
    after_compute = dict(pairwise(graph.computing))
    first, last = (graph.computing[0], graph.computing[-1]) if graph.computing else (-1, -1)
    longest = [[0.0] * nodes for _ in range(iterations)]
    for iteration in reversed(range(iterations)):
        row = longest[iteration]
        beyond = longest[iteration + 1] if iteration + 1 < iterations else None
        for node in reversed(range(nodes)):
            best = 0.0
            for other, lag in graph.followers[node]:
                if iteration + lag < iterations:
                    best = max(best, longest[iteration + lag][other])
            if node in after_compute:
                best = max(best, row[after_compute[node]])
            elif node == last and beyond is not None:
                best = max(best, beyond[first])
            row[node] = best + seconds[node]
    return lambda iteration, node: (-longest[iteration][node], iteration, node)


def fold(timeline: Timeline, iteration: int = 1) -> Sequence_:
    """The order of the motifs of an iteration, to be repeated in every one. A round begins with the computation of the
    iteration; what began before it is part of an earlier round, with a lag.
    """
    graph = timeline.graph
    first = graph.computing[0]
    begin, period = timeline.starts[iteration][first], timeline.starts[iteration + 1][first]
    period -= begin
    found: list[list[tuple[float, float, Entry]]] = [[] for _ in range(graph.channels)]
    for node, place in enumerate(graph.places):
        if graph.lanes[node] == COMPUTE:
            continue
        since = timeline.starts[iteration][node] - begin
        rounds = int(since // period) if period > 0 else 0
        entry = Entry(place, -rounds)
        found[graph.lanes[node] - 1].append((since - rounds * period, timeline.starts[iteration][node], entry))
    return tuple(tuple(entry for *_, entry in sorted(one, key=lambda item: item[:2])) for one in found)


def in_program_order(graph: Graph) -> Sequence_:
    """Each channel executes its motifs as the program calls them."""
    return tuple(
        tuple(Entry(place) for node, place in enumerate(graph.places) if graph.lanes[node] == channel + 1)
        for channel in range(graph.channels)
    )
