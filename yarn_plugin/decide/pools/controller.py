"""The contract of a pool's controller, and where controllers are found.

A controller decides for one pool. It is pure: whatever happens to its pool is an input, whatever it wants done is a
command, and the same state, view, time and input give the same state and commands. It is called with

- `Started`, once; `Restarted` when the arbiter was; `Reconfigured` when the pool's settings changed;
- `TimerDue`, when a time that it set has come: before any input that came at or after that time;
- `FromApp` and `Outcome`, when they are addressed to it: late, twice or never, so a message names the round it is for,
  and the controller passes over what is stale;
- `ViewChanged`, when the parts of the view that it declares in `reads` differ from those of its last call. Any input
  may be the first to come with a new view; then no `ViewChanged` follows. So it looks at the view at every call.

What it raises stops its own pool only: its state stays as it was before the call, an alert is raised, and it is called
again after a while. So it is where it gives something that no journal can hold: a state or a message of a type that is
not declared in `Kind.tags`, a number that is none. Where the input is an application's own request, the request is
refused instead; a message that came while the controller was not called, and on which it raises, is dropped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from yarn_plugin.decide.pools.commands import Command
from yarn_plugin.decide.pools.inputs import Input
from yarn_plugin.decide.pools.view import View
from yarn_plugin.errors import BadInputError, ReportedError, describe
from yarn_plugin.model.share import Pool

Advance = tuple[Any, tuple[Command, ...]]


class NoControllerError(ReportedError):
    """A pool has no controller: its kind or its policy is not installed, or does not take its settings."""


class Controller(Protocol):
    """Decides for one pool; made anew for every step from the pool's settings, which it must not change.

    `reads`: the parts of the view (see `view.PARTS`) that it declares to read; others are empty.
    """

    @property
    def reads(self) -> frozenset[str]:
        """The parts of the view that it reads."""
        ...

    def initial_state(self) -> Any:
        """The state of a new pool: frozen, or a `Mutable`, or frozen with `Mutable` parts (see `Composed`)."""
        ...

    def advance(self, state: Any, view: View, at: float, what: Input) -> Advance:
        """Take in one input at a time (in the arbiter's): the state after it, and what is to be done."""
        ...

    def report(self, state: Any) -> Any:
        """What may be shown of a state: immutable, for other threads to read; None: the state itself."""
        ...


@dataclass(frozen=True)
class Kind:
    """A kind of controller.

    `parameters`: the type of its own settings, a frozen dataclass; None where it has none beside the pool's. `tags`:
    for each type that it keeps in a journal or sends over the wire (its parameters, state, report, messages, problems,
    results), a name that stays for ever; that of a state ends in its version, such as `auction/1`. `messages`: the tags
    of what applications may say to it. `solvers`: by the tag of a problem, what solves it; pure, and may take long.
    """

    name: str
    make: Callable[[Pool, "Registry"], Controller]
    tags: Mapping[str, type]
    parameters: type | None = None
    messages: frozenset[str] = frozenset()
    solvers: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)


@dataclass(frozen=True)
class Registry:
    """The kinds of controllers and the policies of shares that there are, by name; read once, when a program starts.

    `check`: raises ValueError where a journal cannot hold a command; whoever keeps one, sets it.
    """

    kinds: Mapping[str, Kind]
    policies: Mapping[str, Any]
    check: Callable[[object], object] = lambda value: None

    def controller(self, pool: Pool) -> Controller:
        """The controller of a pool.

        Raises:
            NoControllerError: it cannot be made.
        """
        try:
            return self.kind(pool.controller).make(pool, self)
        except Exception as problem:
            said = str(problem) if isinstance(problem, ReportedError) else describe(problem)
            raise NoControllerError(f"pool {pool.name}: {said}") from problem

    def kind(self, name: str) -> Kind:
        """The kind of this name.

        Raises:
            BadInputError: there is none.
        """
        if name not in self.kinds:
            raise BadInputError("controller", name, f"choose one of {', '.join(sorted(self.kinds))}")
        return self.kinds[name]

    def policy(self, name: str) -> Any:
        """The policy of shares of this name.

        Raises:
            BadInputError: there is none.
        """
        if name not in self.policies:
            raise BadInputError("policy", name, f"choose one of {', '.join(sorted(self.policies))}")
        return self.policies[name]

    def check_state(self, state: object) -> None:
        """Refuse a state of a type that no kind declares.

        Raises:
            TypeError: it is such a state.
        """
        if type(state) not in self._types:
            raise TypeError(f"a state is a {type(state).__name__}, which no controller declares in its tags")

    @cached_property
    def _types(self) -> frozenset[type]:
        return frozenset(self.tags().values())

    def tags(self) -> dict[str, type]:
        """Every tag of every kind."""
        return {tag: one for kind in self.kinds.values() for tag, one in kind.tags.items()}

    def solvers(self) -> dict[str, Callable[[Any], object]]:
        """What solves problems, by their tags."""
        return {tag: one for kind in self.kinds.values() for tag, one in kind.solvers.items()}
