"""The contract of a pool's controller, and the registry of controllers.

A controller decides for one pool. It is pure: everything that happens to its pool is an input, all its actions are
commands, and the same state, view, time and input give the same state and commands. It is called with

- `Started`, once; `Restarted` after a restart of the arbiter; `Reconfigured` when the pool's settings changed;
- `TimerDue`, when a timer that it set is due: before any input that arrived at or after that time;
- `FromApp` and `Outcome`, when they are addressed to it. They may be late, duplicated or lost, so a message names its
  round, and the controller ignores stale ones;
- `ViewChanged`, when the parts of the view that it declares in `reads` differ from those of its last call. Any input
may
  be the first with a new view; then no `ViewChanged` follows. So it must read the view at every call.

An exception stops its own pool only: the state stays as before the call, an alert is raised, and the controller is
retried later. Output that cannot be journaled counts as an exception: a state or a message of a type that `Kind.tags`
does not declare, or a number that is not finite. If the input is an application's request, the request is rejected
instead. A message that arrived while the controller was stopped, and on which it fails, is dropped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.policies.lease import LeasePolicy
from yarn_plugin.decide.pools.commands import Command
from yarn_plugin.decide.pools.inputs import Input
from yarn_plugin.decide.pools.view import View
from yarn_plugin.errors import BadInputError, ReportedError, describe
from yarn_plugin.model.share import Job, Pool
from yarn_plugin.validation import one_of

Advance = tuple[Any, tuple[Command, ...]]


class NoControllerError(ReportedError):
    """A pool has no controller: its kind or policy is not installed, or rejects the pool's settings."""

    exit_code = 2


class Controller(Protocol):
    """Decides for one pool. Created from the pool's settings, which it must not change, and kept between steps.

    It may be created anew at any time, and be given a state other than its last one: that of a step which failed, or of
    a journal. So what it remembers beside its state only saves time, and it checks that this follows from the state.

    `reads`: the parts of the view (see `view.PARTS`) that it reads; the others are empty.
    """

    @property
    def reads(self) -> frozenset[str]:
        """The parts of the view that it reads."""
        ...

    def initial_state(self) -> Any:
        """The state of a new pool: frozen, `Mutable`, or frozen with `Mutable` parts (see `Composed`)."""
        ...

    def advance(self, state: Any, view: View, at: float, what: Input) -> Advance:
        """Process one input at a time `at` (the arbiter's): the state after it, and the commands."""
        ...

    def report(self, state: Any) -> Any:
        """An immutable view of a state for other threads; None if the state itself is immutable."""
        ...


@dataclass(frozen=True)
class Kind:
    """A kind of controller.

    `parameters`: the type of its own settings, a frozen dataclass, or None. `fixed`: those of them that a configuration
    cannot set, as they are in pools configured now. `tags`: a permanent name for each type that
    it journals or sends (parameters, state, report, messages, problems, results); that of a state ends in its version,
    such as `auction/1`. `messages`: the tags of messages that it accepts from applications; `messages_of`: further
    ones, of a pool. `solvers`: a pure function for each problem, by the problem's tag; it may run long.
    `policy_solvers`: the same, for problems that policies of the registry solve. `check`: raises BadInputError for
    a message that is wrong in this state, so that its sender is told; the controller is given the message all the
    same, and must expect it; `check_message`: the same, in a pool. `check_pools`: raises BadInputError if the pools
    of this kind, and of others with the same check, may not be beside each other on one cluster. `check_job`:
    raises BadInputError for a declared job that is wrong in a pool. `adopt`: the state of a pool that another kind of
    controller led, from that one's state and last view; None: the pool begins anew.
    """

    name: str
    make: Callable[[Pool, "Registry"], Controller]
    tags: Mapping[str, type]
    parameters: type | None = None
    fixed: Mapping[str, object] = field(default_factory=dict)
    messages: frozenset[str] = frozenset()
    solvers: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)
    policy_solvers: Mapping[str, Callable[["Registry", Any], object]] = field(default_factory=dict)
    check: Callable[[Any, str, object], None] = lambda state, app, message: None
    check_pools: Callable[[Sequence[Pool]], None] = lambda pools: None
    messages_of: Callable[[Pool, "Registry"], frozenset[str]] = lambda pool, registry: frozenset()
    check_job: Callable[[Pool, "Registry", Job], None] = lambda pool, registry, job: None
    check_message: Callable[[Pool, "Registry", Any, str, object], None] = lambda pool, registry, state, app, message: (
        None
    )
    adopt: Callable[[Pool, object, View], object] = lambda pool, state, seen: None


@dataclass(frozen=True)
class Registry:
    """The available kinds of controllers, share policies, lease policies and allocators, by name; read once at start.

    `check`: raises ValueError if a command cannot be journaled; set by users of a journal.
    """

    kinds: Mapping[str, Kind]
    policies: Mapping[str, Any]
    check: Callable[[object], object] = lambda value: None
    lease_policies: Mapping[str, LeasePolicy] = field(default_factory=dict)
    allocators: Mapping[str, AllocatorKind] = field(default_factory=dict)

    def controller(self, pool: Pool) -> Controller:
        """The controller of a pool.

        Raises:
            NoControllerError: it cannot be created.
        """
        try:
            return self.kind(pool.controller).make(pool, self)
        except Exception as problem:
            reason = str(problem) if isinstance(problem, ReportedError) else describe(problem)
            raise NoControllerError(f"pool {pool.name}: {reason}") from problem

    def kind(self, name: str) -> Kind:
        """The kind of controller with this name.

        Raises:
            BadInputError: there is none.
        """
        if name not in self.kinds:
            raise BadInputError("controller", name, f"not installed; {one_of(self.kinds, name)}")
        return self.kinds[name]

    def policy(self, name: str) -> Any:
        """The share policy with this name.

        Raises:
            BadInputError: there is none.
        """
        if name not in self.policies:
            raise BadInputError("policy", name, f"not installed; {one_of(self.policies, name)}")
        return self.policies[name]

    def lease_policy(self, name: str) -> LeasePolicy:
        """The lease policy with this name.

        Raises:
            BadInputError: there is none.
        """
        if name not in self.lease_policies:
            raise BadInputError("policy", name, f"not installed; {one_of(self.lease_policies, name)}")
        return self.lease_policies[name]

    def allocator(self, name: str) -> AllocatorKind:
        """The kind of allocator with this name.

        Raises:
            BadInputError: there is none.
        """
        if name not in self.allocators:
            raise BadInputError("allocator", name, f"not installed; {one_of(self.allocators, name)}")
        return self.allocators[name]

    def messages(self, pool: Pool) -> frozenset[str]:
        """The tags of the messages that a pool accepts from applications.

        Raises:
            BadInputError: its kind of controller is not installed.
        """
        kind = self.kind(pool.controller)
        return kind.messages | kind.messages_of(pool, self)

    def check_message(self, pool: Pool, state: object, app: str, message: object) -> None:
        """Check a message of an application of a pool in this state.

        Raises:
            BadInputError: it is wrong; the pool is to be given it all the same.
        """
        kind = self.kind(pool.controller)
        kind.check(state, app, message)
        kind.check_message(pool, self, state, app, message)

    def check_job(self, pool: Pool, job: Job) -> None:
        """Check a job that an application of a pool declares.

        Raises:
            BadInputError: it is wrong there; the field is one of the job.
        """
        self.kind(pool.controller).check_job(pool, self, job)

    def check_state(self, controller: str, state: object) -> None:
        """Check that a state's type is declared by a kind.

        Raises:
            TypeError: it is not.
        """
        if type(state) not in self._types:
            raise TypeError(
                f"controller {controller}: the type of its state, {type(state).__name__}, is not in its tags"
            )

    @cached_property
    def _types(self) -> frozenset[type]:
        return frozenset(self.tags().values())

    def tags(self) -> dict[str, type]:
        """The tags of all kinds of controllers and allocators."""
        kinds: list[Kind | AllocatorKind] = [*self.kinds.values(), *self.allocators.values()]
        return {tag: one for kind in kinds for tag, one in kind.tags.items()}

    def solvers(self) -> dict[str, Callable[[Any], object]]:
        """The solvers of all kinds, by the tags of their problems."""
        kinds: list[Kind | AllocatorKind] = [*self.kinds.values(), *self.allocators.values()]
        plain = {tag: one for kind in kinds for tag, one in kind.solvers.items()}
        by_policy = {
            tag: partial(one, self) for kind in self.kinds.values() for tag, one in kind.policy_solvers.items()
        }
        return {**plain, **by_policy}

    def solver(self) -> Callable[[Any], object]:
        """One that solves problems of every kind."""
        solvers, tags = self.solvers(), {kind: tag for tag, kind in self.tags().items()}
        return lambda problem: solvers[tags[type(problem)]](problem)


class Controllers:
    """The controllers of pools, each created once for the same settings. Owned by a driver, or by a host."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._known: dict[str, tuple[Pool, Controller]] = {}

    def of(self, pool: Pool) -> Controller:
        """The controller of a pool.

        Raises:
            NoControllerError: it cannot be created.
        """
        known = self._known.get(pool.name)
        if known is None or (known[0] is not pool and known[0] != pool):
            known = self._known[pool.name] = pool, self.registry.controller(pool)
        return known[1]

    def drop(self, pool: Pool) -> None:
        """Create its controller anew: it has raised, perhaps halfway through a change of what it remembers."""
        self._known.pop(pool.name, None)
