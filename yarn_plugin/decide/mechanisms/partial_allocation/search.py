"""The best choice of rows, with proof; of several problems at once.

Lagrangian prices bound a problem and exclude rows (`relaxation`); knapsacks, in which one capacity is exact, bound it
better (`knapsack`); beams of growing width find choices, and prove the best one once nothing is left out (`beam`);
where many capacities bind, branch and bound does (`_branch`).
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from yarn_plugin.decide.mechanisms.partial_allocation.beam import beam
from yarn_plugin.decide.mechanisms.partial_allocation.blocks import Blocks
from yarn_plugin.decide.mechanisms.partial_allocation.knapsack import Knapsacks
from yarn_plugin.decide.mechanisms.partial_allocation.relaxation import (
    DENSE,
    Flags,
    Indices,
    Numbers,
    Relaxed,
    Tables,
    descend,
)
from yarn_plugin.decide.mechanisms.partial_allocation.repair import exchanged, repaired
from yarn_plugin.decide.mechanisms.partial_allocation.valuation import NAT

ROOT_STEPS = 25
"""Subgradient steps between two attempts to repair the picks into a choice, at the root."""
ROOT_ROUNDS = 8
SLOW = 0.95
"""A round at the root that leaves more of every gap is the last."""
WARM_ROUNDS = 2
"""Of a root whose prices come from a similar problem."""
NODE_STEPS = 6
NODES_AT_ONCE = 64

TIE = 1e-5 * NAT
"""A choice that is better by no more is not looked for. Sums that are equal by mathematics differ by rounding, and a
search that tells them apart repeats its proof for each."""

ENTRIES = 10_000
"""So many entries of the tables (rows x columns) add one unit to the work of a step."""
REPAIR = 5
EXCHANGE = 200
"""What repairing one choice, and exchanging rows in one, count in steps."""

STAGES = ((1, 32), (4, 128), (8, 512), (0, 2048), (0, 8192))
"""Steps of the knapsacks' prices, and the width of the beam after them."""
MIN_SPEED = 0.2
"""Of the steps of a knapsack's prices; it halves with each step that does not lower the bound."""
GLANCES = (1, 2, 4)
"""The rounds at the root after which a narrow beam looks for choices."""
GLANCE_ROWS, GLANCE_WIDTH, MANY_WIDTH = 10, 32, 8
"""Rows of each bidder in such a beam, its width, and that of one for many problems."""
GROWTH, BRANCH_WORK = 4, 600
"""If the next stage, so many times as much work as this one, would be more work than this, so much is spent on nodes
first."""
KNAPSACK_ROWS = 8
"""So many entries of knapsacks count as a step."""
BEAM_BIDDER, BEAM_STATES = 3, 50
"""A beam counts so many steps for each bidder, and one for so many partial choices."""
TRIES = 16
"""So many choices of a beam are tried on the machines, until one fits."""

Rows = tuple[int, ...]
"""The row of each bidder, by index."""

Fits = Callable[[Rows], bool | None]
"""Whether a choice can be placed on the machines; None: not decided."""


@dataclass(slots=True)
class Task:
    """A problem to solve: the best choice among the `allowed` rows (bidder, row).

    `gain`, `rows`: the best choice found so far. `bound`: no choice is better. `solved`: called with `gain` and `bound`
    after each change; whether the search for this task may end. `undecided`: the gain of a choice of which it is not
    known whether it fits. `improved`: the last choice that was improved locally. `open`: nodes; `divided`: whether
    there have been any.
    """

    allowed: Flags
    gain: float
    rows: Rows
    prices: Numbers
    solved: Callable[[float, float], bool] = lambda gain, bound: False
    bound: float = np.inf
    undecided: float = -np.inf
    improved: Rows = ()
    open: list["_Node"] = field(default_factory=list)
    divided: bool = False

    def update(self) -> None:
        """Lower the bound to that of the open nodes."""
        self.bound = max(self.gain, self.undecided, min(self.bound, -self.open[0].order[0]) if self.open else -np.inf)

    @property
    def most(self) -> float:
        """The bound; the gain if the two tie."""
        return self.gain if self.bound <= self.gain + TIE else self.bound

    @property
    def ended(self) -> bool:
        """Whether its optimum is proven, or known well enough."""
        return self.bound <= self.gain + TIE or self.solved(self.gain, self.bound)


@dataclass(slots=True)
class _Node:
    """Part of the choices of a task: those of the allowed rows. `order`: minus its bound, and when it was made."""

    order: tuple[float, int]
    allowed: Flags
    prices: Numbers

    def __lt__(self, other: "_Node") -> bool:
        return self.order < other.order


class Search:
    """Solves tasks on the same tables. `work`: subgradient steps of single nodes so far, weighted by their size."""

    def __init__(self, tables: Tables, blocks: Blocks, fits: Fits) -> None:
        self._tables, self._blocks, self._fits = tables, blocks, fits
        self._bidders = np.arange(tables.gain.shape[0])
        self._impossible: set[Rows] = set()
        self._undecided: set[Rows] = set()
        self._made = 0
        self.work = 0

    def solve(self, tasks: Sequence[Task], work_limit: int, cold: bool) -> None:
        """Improve the tasks until all have ended or the work exceeds the limit.

        cold: start with more steps, as the tasks' prices come from nowhere.
        """
        self._roots(tasks, cold)
        for steps, width in STAGES:
            if self.work >= work_limit or all(task.ended for task in tasks):
                return
            before = self.work
            self._sharpen(tasks, steps, width)
            if GROWTH * (self.work - before) > BRANCH_WORK:
                self._branch(tasks, min(work_limit, self.work + BRANCH_WORK))
        self._branch(tasks, work_limit)

    def _branch(self, tasks: Sequence[Task], work_limit: int) -> None:
        """Divide the open nodes of the tasks that have not ended, the most promising first."""
        for task in tasks:
            if not task.divided and not task.ended:
                self._push(task, task.bound, task.allowed, task.prices)
                task.divided = True
        while self.work < work_limit and (waiting := [task for task in tasks if task.open and not task.ended]):
            share = max(1, NODES_AT_ONCE // len(waiting))
            batch: list[tuple[Task, _Node]] = []
            for task in waiting[:NODES_AT_ONCE]:
                batch += [(task, heapq.heappop(task.open)) for _ in range(min(share, len(task.open)))]
            self._expand([one for one in batch if -one[1].order[0] > one[0].gain + TIE])
            for task in waiting:
                task.update()

    def _roots(self, tasks: Sequence[Task], cold: bool) -> None:
        """Bound the tasks as a whole, drop rows that no better choice contains, and open the first node of each."""
        for count in range(ROOT_ROUNDS if cold else WARM_ROUNDS):
            open_tasks = [task for task in tasks if not task.ended]
            if not open_tasks:
                return
            allowed, prices = (
                np.array([one.allowed for one in open_tasks]),
                np.array([one.prices for one in open_tasks]),
            )
            relaxed = self._relax(self._tables, open_tasks, allowed, prices, None, ROOT_STEPS, 0.8**count)
            before = [task.bound - task.gain for task in open_tasks]
            self._repair(self._tables, open_tasks, allowed, relaxed.prices, None)
            if cold and count in GLANCES:
                self._glance(open_tasks, GLANCE_WIDTH)
            for index, task in enumerate(open_tasks):
                if relaxed.bound[index] < task.bound:
                    task.bound, task.prices = float(relaxed.bound[index]), relaxed.prices[index]
                task.allowed = task.allowed & (relaxed.with_row[index] > task.gain + TIE)
                if not task.allowed.any(axis=1).all():
                    task.update()
            gaps = [task.bound - task.gain for task in open_tasks]
            if all(gap > SLOW * earlier for gap, earlier in zip(gaps, before, strict=True)):
                break

    def leave_out(self, tasks: Mapping[int, Task], prices: Numbers) -> None:
        """Bound these problems, each without the bidder of its key and from the same table of rows, all at once."""
        if not tasks or not len(prices):
            return
        allowed = np.logical_or.reduce([task.allowed for task in tasks.values()])
        knapsack = self._knapsacks(allowed[None], prices[None])
        self._count_knapsacks(knapsack, 2)
        for bidder, task in tasks.items():
            task.bound = min(task.bound, max(knapsack.without(bidder), task.gain))
        self._glance(list(tasks.values()), MANY_WIDTH)

    def _glance(self, tasks: Sequence[Task], width: int) -> None:
        """Look for choices with each bidder's rows that are most promising at the tasks' prices."""
        waiting = [task for task in tasks if not task.ended]
        if not waiting or not len(self._tables.capacity):
            return
        allowed = np.array([task.allowed for task in waiting])
        costs = self._tables.costs(np.array([task.prices for task in waiting]))
        net = np.where(allowed, self._tables.gain - costs, -np.inf)
        short = self._tables.gain == np.zeros(allowed.shape)
        np.put_along_axis(short, np.argsort(-net, axis=2, kind="stable")[:, :, :GLANCE_ROWS], True, axis=2)
        self._beam(waiting, allowed & short, width)

    def _sharpen(self, tasks: Sequence[Task], steps: int, width: int) -> None:
        """Bound tasks by knapsacks, drop rows that no better choice contains, and look for choices by a beam."""
        if not len(self._tables.capacity):
            return
        self._reprice(tasks, steps)
        waiting = [task for task in tasks if not task.ended]
        if waiting:
            found = self._beam(waiting, np.array([task.allowed for task in waiting]), width)
            for task, bound in zip(waiting, found, strict=True):
                task.bound = min(task.bound, max(bound, task.gain, task.undecided))

    def _beam(self, tasks: Sequence[Task], allowed: Flags, width: int) -> list[float]:
        """Improve the tasks by the choices of a beam; no choice of these rows that is better gains more than this."""
        knapsacks = self._knapsacks(allowed, np.array([task.prices for task in tasks]))
        self._count_knapsacks(knapsacks, 1)
        target = np.array([task.gain + TIE for task in tasks])
        kept = beam(self._tables, self._blocks, knapsacks, allowed, target, width)
        self.work += BEAM_BIDDER * len(self._bidders) + kept.compared // BEAM_STATES
        bounds: list[float] = kept.bound.tolist()
        first = np.searchsorted(kept.problem, np.arange(len(tasks) + 1)).tolist()
        for number, task in enumerate(tasks):
            choices = range(first[number], first[number + 1])
            for choice in choices[:TRIES]:
                if kept.gain[choice] > task.gain:
                    self._offer(task, kept.picks[choice])
            # Choices that do not fit may hide others that use the same and gain no more.
            bounds[number] = max([bounds[number], *kept.gain[choices[:1]].tolist()])
        return bounds

    def _reprice(self, tasks: Sequence[Task], steps: int) -> None:
        """Lower the bounds of knapsacks by Polyak's steps, from the tasks' prices, and drop rows that they exclude."""
        trail = {id(task): (task.prices, 1.0, np.inf) for task in tasks}
        for _ in range(steps):
            waiting = [task for task in tasks if id(task) in trail and not task.ended]
            if not waiting:
                return
            tried = np.array([trail[id(task)][0] for task in waiting])
            knapsacks = self._knapsacks(np.array([task.allowed for task in waiting]), tried)
            self._count_knapsacks(knapsacks, 3)
            with_row, picks = knapsacks.with_row(), knapsacks.picks()
            slack = self._tables.capacity - self._tables.used(picks)
            slope = np.where((tried <= 0) & (slack > 0), 0.0, slack)
            slope[:, knapsacks.column] = 0.0
            squared = (slope * slope * self._tables.scale).sum(axis=1)
            for number, (task, bound) in enumerate(zip(waiting, knapsacks.bound.tolist(), strict=True)):
                _, speed, best = trail.pop(id(task))
                if (slack[number] >= 0).all():
                    self._offer(task, picks[number])
                task.allowed = task.allowed & (with_row[number] > task.gain + TIE)
                task.bound = min(task.bound, max(bound, task.gain, task.undecided))
                if not task.allowed.any(axis=1).all():
                    task.open.clear()
                    task.update()
                if bound < best:
                    best, task.prices = bound, tried[number]
                else:
                    speed /= 2
                if squared[number] and speed > MIN_SPEED:
                    length = speed * max(best - task.gain, 0.0) / squared[number]
                    following = np.maximum(0.0, np.rint(tried[number] - length * slope[number] * self._tables.scale))
                    trail[id(task)] = following, speed, best

    def _knapsacks(self, allowed: Flags, prices: Numbers) -> Knapsacks:
        """With that column exact that costs most."""
        column = int((prices.sum(axis=0) * self._tables.capacity).argmax())
        return Knapsacks(self._tables, allowed, prices, column)

    def _count_knapsacks(self, knapsacks: Knapsacks, passes: int) -> None:
        self.work += 1 + passes * knapsacks.entries // KNAPSACK_ROWS

    def _expand(self, batch: Sequence[tuple[Task, _Node]]) -> None:
        """Bound these nodes better, look for choices in them, and divide those that may contain a better one."""
        if not batch:
            return
        tasks = [task for task, _ in batch]
        allowed = np.array([node.allowed for _, node in batch])
        tables, rows, columns = self._tables.narrowed(allowed)
        allowed = np.take_along_axis(allowed, rows[None], axis=2)
        prices = np.array([node.prices for _, node in batch])[:, columns]
        relaxed = self._relax(tables, tasks, allowed, prices, rows, NODE_STEPS, 0.5)
        bounds = np.minimum(relaxed.bound, [-node.order[0] for _, node in batch])
        first = [index for index, task in enumerate(tasks) if all(task is not other for other in tasks[:index])]
        self._repair(tables, [tasks[index] for index in first], allowed[first], relaxed.prices[first], rows)
        self._exchange([tasks[index] for index in first], np.array([batch[index][1].prices for index in first]))
        gains = np.array([task.gain + TIE for task in tasks])
        left = allowed & (relaxed.with_row > gains[:, None, None])
        hopeful: Flags = (bounds > gains) & np.logical_and.reduce(left.any(axis=2), axis=1)
        alive = np.flatnonzero(hopeful)
        single = np.equal(left[alive].sum(axis=2).max(axis=1, initial=0), 1)
        for node in alive[single]:
            self._leaf(tasks[int(node)], left[node].argmax(axis=1), rows, tables)
        alive = alive[~single]
        if len(alive):
            self._divide(alive, tasks, tables, rows, columns, left, bounds, relaxed)

    def _divide(
        self,
        nodes: Indices,
        tasks: Sequence[Task],
        tables: Tables,
        rows: Indices,
        columns: Flags,
        left: Flags,
        bounds: Numbers,
        relaxed: Relaxed,
    ) -> None:
        """Open two nodes for each: one row of one bidder, and the rest.

        The bidder is the one that hesitates most between its rows; the row, the one that it picked most often.
        """
        each = np.arange(len(nodes))
        left, with_row = left[nodes], np.where(left[nodes], relaxed.with_row[nodes], -np.inf)
        frequency = relaxed.frequency[nodes] * left
        several = left.sum(axis=2) > 1
        hesitation = 1.0 - frequency.max(axis=2) / np.maximum(frequency.sum(axis=2), 1.0)
        hesitation = np.where(several, hesitation * (frequency.sum(axis=2) > 0), -1.0)
        second = np.sort(with_row, axis=2)[:, :, -2] if left.shape[2] > 1 else with_row[:, :, 0]
        closest = np.where(several, second, -np.inf).argmax(axis=1)
        bidder = np.where(hesitation.max(axis=1) > 0, hesitation.argmax(axis=1), closest)
        often = frequency[each, bidder] + (with_row[each, bidder] == with_row[each, bidder].max(axis=1)[:, None]) * 0.5
        row = np.where(left[each, bidder], often, -1.0).argmax(axis=1)
        one, others = left.copy(), left.copy()
        one[each, bidder] = False
        one[each, bidder, row] = True
        others[each, bidder, row] = False
        children = np.concatenate([one, others])
        rest = np.where(others[each, bidder], with_row[each, bidder], -np.inf).max(axis=1)
        limits = np.minimum(np.concatenate([with_row[each, bidder, row], rest]), np.tile(bounds[nodes], 2))
        children &= tables.fitting(_room(tables, children))
        possible: Flags = np.logical_and.reduce(children.any(axis=2), axis=1)
        for index in np.flatnonzero(possible).tolist():
            node = int(nodes[index % len(nodes)])
            if limits[index] > tasks[node].gain + TIE:
                allowed = np.zeros(self._tables.gain.shape, dtype=np.bool_)
                np.put_along_axis(allowed, rows, children[index], axis=1)
                prices = np.zeros(len(columns))
                prices[columns] = relaxed.prices[node]
                self._push(tasks[node], limits[index], allowed, prices)

    def _relax(
        self,
        tables: Tables,
        tasks: Sequence[Task],
        allowed: Flags,
        prices: Numbers,
        rows: Indices | None,
        steps: int,
        speed: float,
    ) -> Relaxed:
        def target() -> Numbers:
            return np.array([task.gain + TIE for task in tasks])

        def found(node: int, picks: Indices) -> None:
            self._offer(tasks[node], picks, rows)

        relaxed = descend(tables, allowed, prices, target, steps, found, speed)
        self._count(relaxed.steps, tables)
        return relaxed

    def _repair(
        self, tables: Tables, tasks: Sequence[Task], allowed: Flags, prices: Numbers, rows: Indices | None
    ) -> None:
        self._count(REPAIR * len(tasks), tables)
        picks, found = repaired(tables, allowed, prices)
        for index in np.flatnonzero(found).tolist():
            self._offer(tasks[index], picks[index], rows)

    def _exchange(self, tasks: Sequence[Task], prices: Numbers) -> None:
        """Improve the best choices that have not been improved yet, each at its task's prices (task, column)."""
        for task, at in zip(tasks, prices, strict=True):
            while task.improved != task.rows and not task.ended:
                task.improved = task.rows
                self._count(EXCHANGE, self._tables)
                self._offer(task, exchanged(self._tables, task.allowed, at, np.array(task.rows, dtype=np.intp)))

    def _count(self, steps: int, tables: Tables) -> None:
        self.work += steps * (1 + tables.entries // ENTRIES)

    def _push(self, task: Task, bound: float, allowed: Flags, prices: Numbers) -> None:
        self._made += 1
        heapq.heappush(task.open, _Node((-float(bound), self._made), allowed, prices))

    def _leaf(self, task: Task, picks: Indices, rows: Indices, tables: Tables) -> None:
        """A node with a single choice."""
        if (tables.used(picks[None])[0] <= tables.capacity).all():
            self._offer(task, picks, rows)

    def _offer(self, task: Task, picks: Indices, rows: Indices | None = None) -> None:
        """Take a choice that respects the capacities as the task's best, if it is and can be placed."""
        chosen = picks if rows is None else rows[self._bidders, picks]
        gain = float(self._tables.gain[self._bidders, chosen].sum())
        choice: Rows = tuple(chosen.tolist())
        if gain <= task.gain or choice in self._impossible:
            return
        placed = None if choice in self._undecided else self._fits(choice)
        if placed:
            task.gain, task.rows = gain, choice
        elif placed is None:
            # Several tasks may have this choice: it stays open in each of them.
            task.undecided = max(task.undecided, gain)
            self._undecided.add(choice)
        else:
            self._impossible.add(choice)


def _room(tables: Tables, allowed: Flags) -> Numbers:
    """(node, bidder, column): what the capacities leave for a bidder beside the least that the others must use.

    With many columns, only bidders with a single row count as others.
    """
    if tables.use.shape[2] > DENSE:
        bidders = np.arange(allowed.shape[1])
        fixed = tables.use[bidders, allowed.argmax(axis=2)] * (allowed.sum(axis=2) == 1)[:, :, None]
        beside: Numbers = tables.capacity - fixed.sum(axis=1)[:, None, :] + fixed
        return beside
    least = np.where(allowed[:, :, :, None], tables.use, np.inf).min(axis=2)
    least = np.where(np.isfinite(least), least, 0.0)
    room: Numbers = tables.capacity - least.sum(axis=1)[:, None, :] + least
    return room
