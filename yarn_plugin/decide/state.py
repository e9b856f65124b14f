"""What the arbiter knows between two events. Immutable: every change makes a new value."""

from dataclasses import dataclass, field
from typing import Any

from yarn_plugin.model.cluster import Capabilities, ClusterView
from yarn_plugin.model.share import Pool, Registration, Share


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an application's enforced share: this dominant fraction of its pool binds from `at` on."""

    at: float
    fraction: float


@dataclass(frozen=True, slots=True)
class Member:
    """An application of a pool that counts or has counted.

    `schedule`: the steps of what is enforced; the last one is its present share, earlier ones are kept while an
    application has time to vacate. `over_since`: since when it holds more than is enforced while others wait.
    """

    app: str
    share: Share
    schedule: tuple[Step, ...]
    over_since: float | None = None


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The queue weights: what YARN is known to have, what was asked and not answered yet, when to try again.

    `unsure`: it may have lost them, so they are to be written again. `static`: the queues directly below the pools'
    that the configuration defines itself, which are never written; None until they have been seen, and until then
    nothing is. `reading`: that was asked and not answered yet; `read_at`: when to ask next. `refused`: queues whose
    weight was not taken, and when to try each again. `superseded`: the address of another arbiter that owns the pools'
    queues, so this one writes nothing.
    """

    written: dict[str, float] = field(default_factory=dict)
    unsure: bool = False
    asked: bool = False
    retry_at: float | None = None
    error: str | None = None
    static: tuple[str, ...] | None = None
    reading: bool = False
    read_at: float | None = None
    refused: dict[str, float] = field(default_factory=dict)
    superseded: str | None = None


@dataclass(frozen=True, slots=True)
class Dismissed:
    """A registration that is no longer followed, since `at`. `yarn_app`: what it ran as, if it ever ran.

    `final`: the application itself, or the configuration, ended it. Otherwise YARN did not show it: should YARN show
    it again, it is followed again.
    """

    registration: Registration
    yarn_app: str | None
    reason: str
    at: float
    final: bool


@dataclass(frozen=True, slots=True)
class State:
    """Everything. `registered` by the arbiter's id; `members` by the arbiter's id, or YARN's where unregistered.

    `quiet_since`: when each unregistered application last stopped wanting anything. `looked`: YARN's applications have
    been seen since the arbiter started or lost the manager. `dismissed`: the registrations that were let go of last.
    `epoch`: part of every new id, when it is not 0. `reconcile`: seconds between comparisons of the weights.
    """

    pools: tuple[Pool, ...] = ()
    manager_url: str | None = None
    manager_error: str | None = "not asked yet"
    capabilities: Capabilities | None = None
    cluster: ClusterView = field(default_factory=ClusterView)
    registered: dict[str, Registration] = field(default_factory=dict)
    yarn_apps: dict[str, str] = field(default_factory=dict)
    quiet_since: dict[str, float] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    enforcement: Enforcement = field(default_factory=Enforcement)
    policy_states: dict[str, Any] = field(default_factory=dict)
    timer: float | None = None
    looked: bool = False
    dismissed: dict[str, Dismissed] = field(default_factory=dict)
    epoch: int = 0
    reconcile: float = 60.0
