"""The changes that bring the ResourceManager's queues in line with a queue file. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from yarn_plugin.observe.scheduler_configuration import is_equivalent
from yarn_plugin.queues.live import LiveQueues
from yarn_plugin.queues.specification import ROOT, STATE, QueueSpec

Kind = Literal["add", "update", "remove"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A property: its current value (None if not set), and the value in the file."""

    name: str
    now: str | None
    then: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one queue."""

    kind: Kind
    path: str
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All changes in a valid order; `unnamed`: configured queues that the file does not mention."""

    changes: tuple[Change, ...]
    unnamed: tuple[str, ...]

    def changes_of(self, kind: Kind) -> list[Change]:
        """The changes of one kind."""
        return [change for change in self.changes if change.kind == kind]


def make_plan(specs: Sequence[QueueSpec], live: LiveQueues) -> Plan:
    """The changes that bring the ResourceManager in line with the file.

    Parents are added before their children and removed after them.
    """
    present = sorted((spec for spec in specs if not spec.remove), key=lambda spec: spec.path.count("."))
    added = [_addition(spec) for spec in present if not live.has(spec.path)]
    updated = [change for spec in present if live.has(spec.path) and (change := _update(spec, live)).differences]
    removed = [Change("remove", spec.path) for spec in _deepest_first(specs) if live.has(spec.path)]
    named = {spec.path for spec in specs} | {ROOT}
    unnamed = [path for path, queue in live.tree.items() if not queue.dynamic and path not in named]
    return Plan((*added, *updated, *removed), tuple(unnamed))


def _addition(spec: QueueSpec) -> Change:
    return Change("add", spec.path, tuple(Difference(name, None, value) for name, value in spec.properties))


def _update(spec: QueueSpec, live: LiveQueues) -> Change:
    found = [Difference(name, _current(spec.path, name, live), value) for name, value in spec.properties]
    return Change("update", spec.path, tuple(difference for difference in found if not _is_met(difference)))


def _current(path: str, name: str, live: LiveQueues) -> str | None:
    # A queue may be stopped without being configured so, because its parent was stopped.
    return live.tree[path].state if name == STATE else live.get(path, name)


def _is_met(difference: Difference) -> bool:
    if difference.name == STATE and difference.now == "DRAINING":
        return difference.then == "STOPPED"
    return is_equivalent(difference.now, difference.then)


def _deepest_first(specs: Iterable[QueueSpec]) -> list[QueueSpec]:
    return sorted((spec for spec in specs if spec.remove), key=lambda spec: -spec.path.count("."))
