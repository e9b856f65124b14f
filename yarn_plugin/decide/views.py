"""The views of all pools, kept up to date: a step costs what has changed since the last one.

What has changed is found by comparing values of the last state with those of the present one, by identity. So a step
may be rolled back, a state replaced: the views are those of the present state alone, as `membership.view_of` builds
them from scratch.
"""

import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Mapping
from itertools import chain, islice
from types import MappingProxyType
from typing import Any

from yarn_plugin.decide.identity import are_same, changed
from yarn_plugin.decide.membership import (
    capacity_of,
    counted_until,
    expected_claim,
    is_steering,
    pool_of,
    registered_claims,
    tenant_of,
    unregistered_claim,
    users_of,
)
from yarn_plugin.decide.pools.view import View
from yarn_plugin.decide.state import State
from yarn_plugin.model.causes import Causes
from yarn_plugin.model.cluster import Use, YarnApp
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Pool
from yarn_plugin.model.topology import Topology

Arrival = tuple[float, str]
"""When an application arrived, and its id: its place among a pool's claims."""

Group = tuple[str, str, str]
"""The pool, user and tenant of applications that are not submitted yet and count as one."""

_NO_CELLS = Topology()
_NOTHING: Mapping[str, int] = MappingProxyType({})


class Views:
    """Changed in place by `update`; see the module."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._reset(State(), 0.0)

    def _reset(self, state: State, now: float) -> None:
        self._now = now
        self._parts = {pool.name: _Parts(pool) for pool in state.pools}
        self._users: Mapping[str, str] = {}
        self._app_of: dict[str, str] = {}
        self._placed: dict[str, tuple[str, Arrival]] = {}
        self._group_of: dict[str, Group] = {}
        self._groups: dict[Group, set[str]] = defaultdict(set)
        self._outside: dict[str, tuple[str, Resources]] = {}
        self._used_outside: dict[str, dict[str, int]] = defaultdict(dict)
        self._waits: dict[str, str] = {}
        self._until: dict[str, float] = {}
        self._idle_at: dict[str, float] = {}
        self._next_idle = -math.inf

    def update(self, state: State, now: float) -> None:
        """Learn what has changed."""
        before, self._state = self._state, None
        if before is None or state.pools is not before.pools or now < self._now:
            self._reset(state, now)
            before = State(pools=state.pools)
        self._update(before, state, now)
        self._state, self._now = state, now

    def of(self, pool: Pool, seq: int, causes: Causes) -> View:
        """The view of a pool at input number `seq`, with all parts."""
        state, mine = self._state, self._parts[pool.name]
        assert state is not None, "the views are up to date"
        known = state.enforcement
        other = self._used_outside.get("", _NOTHING), self._used_outside.get(pool.name, _NOTHING)
        return View(
            seq=seq,
            causes=causes,
            capacity=mine.capacity(state, *other),
            topology=state.cells or _NO_CELLS,
            claims=mine.claims(),
            use=mine.use(state.cluster.use),
            node_used=state.cluster.node_used,
            waiting=mine.waiting,
            weights=mine.weights(known.written),
            static=known.static,
            steering=is_steering(state),
            looked=state.looked,
            superseded=known.superseded,
        )

    def next_idle(self, now: float) -> float:
        """When the next YARN application becomes idle, without any event; infinity if none does."""
        if self._next_idle <= now:
            self._next_idle = min([at for at in self._idle_at.values() if at > now], default=math.inf)
        return self._next_idle

    def _update(self, before: State, state: State, now: float) -> None:
        apps = {*changed(before.registered, state.registered), *changed(before.jobs, state.jobs)}
        matched = {*changed(before.yarn_apps, state.yarn_apps)}
        running = {*changed(before.cluster.apps, state.cluster.apps), *changed(before.quiet_since, state.quiet_since)}
        running.update([app for app, until in self._until.items() if until <= now] if self._until else ())
        if matched:
            apps.update(matched)
            running.update(
                known[app] for known in (before.yarn_apps, state.yarn_apps) for app in matched if app in known
            )
            self._app_of = {known: app for app, known in state.yarn_apps.items()}
        if self._has_other_users(before, state, apps):
            running |= state.cluster.apps.keys()
        running |= {state.yarn_apps[app] for app in apps if app in state.yarn_apps}
        apps |= {self._app_of[known] for known in running if known in self._app_of}
        self._place_registered(state, apps)
        self._place_unregistered(state, running, now)
        if state.cluster.apps is not before.cluster.apps and (running or self._waits):
            self._note_waiting(state)

    def _has_other_users(self, before: State, state: State, apps: set[str]) -> bool:
        known = [
            registered[app] for registered in (before.registered, state.registered) for app in apps if app in registered
        ]
        if not any(one.yarn_users for one in known):
            return False
        users, self._users = self._users, users_of(state)
        return users != self._users

    # Claims.

    def _place_registered(self, state: State, apps: set[str]) -> None:
        left = {app: group for app in apps if (group := self._group_of.pop(app, None)) is not None}
        for app, group in left.items():
            self._groups[group].discard(app)
        groups = set(left.values())
        # First: who joins or leaves a group may have its place.
        for name in (*apps, *map("\0".join, groups)):
            self._unplace(name)
        for app in apps:
            known = state.registered.get(app)
            if known is None or known.pool not in self._parts:
                continue
            if app in state.yarn_apps:
                claims = registered_claims(state, known, self._parts[known.pool].pool)
                self._place(app, known.pool, (known.registered_at, app), claims)
            else:
                group = self._group_of[app] = known.pool, known.user, tenant_of(state, known)
                self._groups[group].add(app)
                self._unplace("\0".join(group))
                groups.add(group)
        for group in groups:
            self._place_group(state, group)

    def _place_group(self, state: State, group: Group) -> None:
        """Those of one user count as one, under the id of the first."""
        if not self._groups[group]:
            del self._groups[group]
            return
        mine = sorted(
            [state.registered[app] for app in self._groups[group]], key=lambda one: (one.registered_at, one.id)
        )
        pool = self._parts[group[0]].pool
        self._place(
            "\0".join(group), pool.name, (mine[0].registered_at, mine[0].id), (expected_claim(state, mine, pool),)
        )

    def _place_unregistered(self, state: State, apps: set[str], now: float) -> None:
        for name in apps:
            self._unplace(name)
            self._until.pop(name, None)
            self._forget_use(name)
            self._waits.pop(name, None)
            if self._idle_at.pop(name, None) is not None:
                self._next_idle = -math.inf
            running = state.cluster.apps.get(name)
            if running is None:
                continue
            if running.waiting or running.pending:
                self._waits[name] = running.queue
            home = pool_of(state, running.queue)
            if home is not None and (idle_at := counted_until(state, home, running)) < math.inf:
                self._idle_at[name], self._next_idle = idle_at, -math.inf
            counted_in = self._counted_in(state, running, home, now)
            if running.used and (home is None or home.name != counted_in):
                self._add_use(name, "" if home is None else home.name, running.used)

    def _counted_in(self, state: State, running: YarnApp, home: Pool | None, now: float) -> str | None:
        """The pool that a YARN application has a claim in; that of an unregistered one is placed."""
        app = self._app_of.get(running.id)
        if app is not None:
            placed = self._placed.get(app)
            return None if placed is None else placed[0]
        if home is None:
            return None
        until = counted_until(state, home, running)
        if now >= until:
            return None
        if until < math.inf:
            self._until[running.id] = until
        claim = unregistered_claim(running, home, self._users)
        self._place(running.id, home.name, (running.started_at, running.id), (claim,))
        return home.name

    def _place(self, name: str, pool: str, arrival: Arrival, claims: tuple[Claim, ...]) -> None:
        self._placed[name] = pool, arrival
        self._parts[pool].add(arrival, claims)

    def _unplace(self, name: str) -> None:
        if (placed := self._placed.pop(name, None)) is not None:
            pool, arrival = placed
            self._parts[pool].remove(arrival)

    # What others use.

    def _add_use(self, name: str, pool: str, used: Resources) -> None:
        self._outside[name] = pool, used
        total = self._used_outside[pool]
        self._used_outside[pool] = {**total, **{one: total.get(one, 0) + amount for one, amount in used}}

    def _forget_use(self, name: str) -> None:
        if (known := self._outside.pop(name, None)) is not None:
            pool, used = known
            total = self._used_outside[pool]
            self._used_outside[pool] = {**total, **{one: total[one] - amount for one, amount in used}}

    def _note_waiting(self, state: State) -> None:
        waits = [(name, self._waits[name]) for name in state.cluster.apps if name in self._waits] if self._waits else []
        for mine in self._parts.values():
            mine.waiting = tuple(islice((name for name, queue in waits if mine.pool.contains(queue)), 2))


class _Parts:
    """The parts of a pool's view. The same values are the same objects, so that controllers see what has changed."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.waiting: tuple[str, ...] = ()
        self._by_arrival: dict[Arrival, tuple[Claim, ...]] = {}
        self._order: list[Arrival] = []
        self._claims: tuple[Claim, ...] | None = ()
        self._use: tuple[Any, Any, tuple[Use, ...]] = (), None, ()
        self._weights: tuple[Any, dict[str, float]] = None, {}
        self._capacity: tuple[tuple[Any, ...], Resources] = (), Resources()

    def add(self, arrival: Arrival, claims: tuple[Claim, ...]) -> None:
        """The claims of an application that has none yet."""
        if arrival not in self._by_arrival:
            insort(self._order, arrival)
        self._by_arrival[arrival] = claims
        self._claims = None

    def remove(self, arrival: Arrival) -> None:
        """Its claims are gone."""
        del self._by_arrival[arrival]
        del self._order[bisect_left(self._order, arrival)]
        self._claims = None

    def claims(self) -> tuple[Claim, ...]:
        """In order of arrival."""
        if self._claims is None:
            self._claims = tuple(chain.from_iterable(map(self._by_arrival.__getitem__, self._order)))
        return self._claims

    def use(self, known: Mapping[str, tuple[Use, ...]]) -> tuple[Use, ...]:
        """The use per node of those with claims."""
        claims = self.claims()
        if self._use[0] is not claims or self._use[1] is not known:
            apps = dict.fromkeys(claim.app for claim in claims) if known else ()
            found = tuple(one for app in apps for one in known.get(app, ()))
            # Most often it is what it was.
            self._use = claims, known, self._use[2] if found == self._use[2] else found
        return self._use[2]

    def weights(self, written: Mapping[str, float]) -> dict[str, float]:
        """The known weights of the pool's leaf queues."""
        if self._weights[0] is not written:
            below = self.pool.queue + "."
            self._weights = written, {queue: weight for queue, weight in written.items() if queue.startswith(below)}
        return self._weights[1]

    def capacity(self, state: State, *others: Mapping[str, int]) -> Resources:
        """What the pool divides. `others`: what others use, never changed in place."""
        follows_from = state.cluster.total, state.cluster.nodes, state.cluster.queues, *others
        if not are_same(follows_from, self._capacity[0]):
            total: dict[str, int] = defaultdict(int)
            for name, amount in chain.from_iterable(other.items() for other in others):
                total[name] += amount
            self._capacity = follows_from, capacity_of(state, self.pool, Resources.of(total))
        return self._capacity[1]
