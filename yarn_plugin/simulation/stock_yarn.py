"""YARN with the CapacityScheduler's own division among a user's queues, without an arbiter.

At each level, the queue with the least use for its capacity is served first; what others do not use it may have, up to
its maximum and its users' limits. Nothing is preempted, as in YARN by default. The scheduler counts by the dominant
resource.
"""

from collections.abc import Iterable
from math import inf

from yarn_plugin.model.cluster import Node
from yarn_plugin.simulation.free_capacity import Amounts
from yarn_plugin.simulation.scheduler_queues import Queue
from yarn_plugin.simulation.yarn import MAX_ALLOCATION, RunningApp, SimulatedYarn


class StockYarn(SimulatedYarn):
    """A ResourceManager with static queues. `join` says in which one an application is, before it is submitted."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        super().__init__(nodes)
        self._tree: dict[str, Queue] = {}

    def join(self, queue: Queue) -> None:
        """Applications may be submitted to this queue from now on."""
        self._tree[queue.path] = queue

    def allocate(self) -> dict[str, int]:
        """Allocate containers until nothing fits. Returns their number by application, masters included."""
        allocated: dict[str, int] = {}
        used = _Use(self._tree, self.apps.values(), self.total)
        waiting, full = {self.apps[name].queue for name in self.pending}, set[Amounts]()
        while waiting:
            queue = min(waiting, key=lambda path: (used.ratios(path), path))
            got = self._serve_queue(self._tree[queue], used, full, is_last=len(waiting) == 1)
            if got is None:
                waiting.discard(queue)
            else:
                app, count = got
                allocated[app] = allocated.get(app, 0) + count
        return allocated

    def _serve_queue(self, queue: Queue, used: "_Use", full: set[Amounts], is_last: bool) -> tuple[str, int] | None:
        """Allocate a container to the first application of a queue that may have one, or all that it may have if no
        other queue waits; None: there is none."""
        apps = [self.apps[name] for name in self._queues[queue.path] if name in self.pending]
        for app in sorted(apps, key=used.of_app) if queue.is_fair else apps:
            size = app.next_size()
            if size is None or size in full:
                continue
            missing = 1 if app.is_waiting or not is_last or queue.is_fair else app.wanted - app.held
            asked = min(missing, used.room(queue, app, size, {one.user for one in apps}), MAX_ALLOCATION)
            if asked <= 0:
                continue
            placed = self._free_capacity.place(size, asked)
            count = sum(placed.values())
            if count < asked:
                full.add(size)
            if count:
                used.add(app, size, count)
                self._place(app, size, placed, count)
                return app.id, count
        return None


class _Use:
    """What queues, their users and their masters use, in the course of one allocation."""

    def __init__(self, tree: dict[str, Queue], apps: Iterable[RunningApp], total: Amounts) -> None:
        self._tree, self._total = tree, total
        self._queues: dict[str, list[int]] = {}
        self._users: dict[tuple[str, str], list[int]] = {}
        self._apps: dict[str, list[int]] = {}
        self._masters: dict[str, list[int]] = {}
        for app in apps:
            if app.held:
                self.add(app, app.size, app.held)
            if not app.is_waiting:
                self._count(app, app.master, 1, is_master=True)

    def ratios(self, path: str) -> tuple[float, ...]:
        """The use of each queue of a branch for its part, from below the root down."""
        return tuple(
            self._fraction(self._queues.get(at)) / part if part else inf for at, part in self._tree[path].branch
        )

    def of_app(self, app: RunningApp) -> float:
        """The fraction of the cluster that an application uses."""
        return self._fraction(self._apps.get(app.id))

    def add(self, app: RunningApp, size: Amounts, count: int) -> None:
        """An application has so many containers more; its master first."""
        self._count(app, size, count, is_master=app.is_waiting)

    def room(self, queue: Queue, app: RunningApp, size: Amounts, active: set[str]) -> int:
        """How many containers of a size an application may have more. `active`: users of the queue that wait."""
        if app.is_waiting and not self._has_room_for_master(queue, size):
            return 0
        each = self._fraction(size)
        if not each:
            return MAX_ALLOCATION
        rooms = [
            (most - self._fraction(self._queues.get(at))) / each
            for (at, _), most in zip(queue.branch, queue.maxima, strict=True)
        ]
        limit = self._user_limit(queue, each, max(len(active), 1))
        mine = self._fraction(self._users.get((queue.path, app.user)))
        # A user may exceed the limit by one container.
        rooms.append((limit - mine) / each + 1 if mine <= limit + 1e-9 else 0.0)
        return int(min(rooms) + 1e-9)

    def _user_limit(self, queue: Queue, each: float, active: int) -> float:
        used = self._fraction(self._queues.get(queue.path))
        current = queue.capacity if used < queue.capacity else used + each
        return min(max(current / active, current * queue.min_user_limit), queue.capacity * queue.user_limit)

    def _has_room_for_master(self, queue: Queue, master: Amounts) -> bool:
        """One application may always run."""
        running = self._masters.get(queue.path)
        if running is None or not any(running):
            return True
        both = [amount + more for amount, more in zip(running, master, strict=True)]
        return self._fraction(both) <= queue.masters * queue.maxima[-1] + 1e-9

    def _count(self, app: RunningApp, size: Amounts, count: int, is_master: bool) -> None:
        queue = self._tree[app.queue]
        counts = [self._queues.setdefault(at, [0] * len(size)) for at, _ in queue.branch]
        counts.append(self._users.setdefault((app.queue, app.user), [0] * len(size)))
        counts.append(self._apps.setdefault(app.id, [0] * len(size)))
        if is_master:
            counts.append(self._masters.setdefault(app.queue, [0] * len(size)))
        for amounts in counts:
            for place, amount in enumerate(size):
                amounts[place] += count * amount

    def _fraction(self, amounts: Iterable[int] | None) -> float:
        """The dominant fraction of the cluster."""
        if amounts is None:
            return 0.0
        return max((amount / all_ for amount, all_ in zip(amounts, self._total, strict=True) if all_), default=0.0)
