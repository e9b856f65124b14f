"""What the controller of shares remembers of its pool."""

from dataclasses import dataclass, field
from typing import Annotated

from yarn_plugin.model.share import Share
from yarn_plugin.model.tagged import Tagged


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an application's enforced share: this dominant fraction of its pool binds from `at` on."""

    at: float
    fraction: float


@dataclass(frozen=True, slots=True)
class Member:
    """An application of a pool that counts.

    `schedule`: the steps of what is enforced; the last one is its present share, earlier ones are kept while an
    application has time to vacate. `over_since`: since when it holds more than is enforced while others wait.
    """

    app: str
    share: Share
    schedule: tuple[Step, ...]
    over_since: float | None = None


@dataclass(frozen=True, slots=True)
class ShareState:
    """The members of a pool by id (the arbiter's, or YARN's where unregistered), and what its policy remembers."""

    members: dict[str, Member] = field(default_factory=dict)
    policy_state: Annotated[object, Tagged()] = None


def binding(member: Member, now: float) -> float:
    """The dominant fraction that binds an application now: the latest step of its schedule that has begun."""
    bound = member.schedule[0].fraction
    for step in member.schedule:
        if step.at <= now:
            bound = step.fraction
    return bound
