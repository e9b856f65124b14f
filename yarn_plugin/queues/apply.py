"""Apply a plan: one request, then read back and compare."""

import time
from collections.abc import Iterator, Sequence

from yarn_plugin.observe import scheduler_configuration
from yarn_plugin.observe.resource_manager import ResourceManager
from yarn_plugin.observe.scheduler_configuration import Settings
from yarn_plugin.queues import live
from yarn_plugin.queues.check import find_problems
from yarn_plugin.queues.effective import Deviation, deviations
from yarn_plugin.queues.live import LiveQueues
from yarn_plugin.queues.plan import Change, Plan, make_plan
from yarn_plugin.queues.specification import STATE, QueueFileError, QueuesIgnoredError, QueueSpec

SETTLE_S, RECHECK_S = 2.0, 0.2
"""How long a capacity may take to be in effect, and how often that is read. Hadoop 3.5.0 answers after it is, or it
never is."""


def compare(manager: ResourceManager, specs: Sequence[QueueSpec]) -> Plan:
    """The changes to make; nothing is written.

    Raises:
        QueueFileError: the queues would be inconsistent, or cannot be removed.
        ManagerError: the ResourceManager does not answer, or its queues cannot be changed.
    """
    current = live.read(manager, with_partitions=any(spec.partitions for spec in specs))
    problems = find_problems(specs, current)
    if problems:
        raise QueueFileError(problems)
    return make_plan(specs, current)


def apply(manager: ResourceManager, specs: Sequence[QueueSpec]) -> Plan:
    """Apply a queue file to the ResourceManager. Returns the changes made.

    Raises:
        QueueFileError: as for `compare`; nothing was written.
        QueuesIgnoredError: the ResourceManager reported success without applying the change.
        ManagerError: the ResourceManager does not answer, or refused; it applies a request atomically.
    """
    plan = compare(manager, specs)
    if plan.changes:
        _write(manager, plan)
        not_applied = list(_not_applied(plan, live.read(manager)))
        if not_applied:
            raise QueuesIgnoredError(not_applied)
    return plan


def not_in_effect(manager: ResourceManager, specs: Sequence[QueueSpec], settle_s: float) -> tuple[Deviation, ...]:
    """The queues of a file whose capacities YARN does not use, although they are configured, after `settle_s`.

    Raises:
        ManagerError: the ResourceManager does not answer.
    """
    deadline = time.monotonic() + settle_s
    while found := deviations(specs, live.read_tree(manager)):
        if time.monotonic() >= deadline:
            break
        time.sleep(RECHECK_S)
    return found


def _write(manager: ResourceManager, plan: Plan) -> None:
    added, updated = _settings(plan.changes_of("add")), _settings(plan.changes_of("update"))
    removed = [change.path for change in plan.changes_of("remove")]
    scheduler_configuration.write(manager, updated, added, removed)


def _settings(changes: Sequence[Change]) -> dict[str, Settings]:
    return {change.path: {difference.name: difference.then for difference in change.differences} for change in changes}


def _not_applied(plan: Plan, current: LiveQueues) -> Iterator[str]:
    for change in plan.changes:
        if change.kind == "remove":
            if current.has(change.path):
                yield f"queue {change.path} still exists"
            continue
        if not current.has(change.path):
            yield f"queue {change.path} does not exist"
            continue
        state = current.tree[change.path].state
        for difference in change.differences:
            if not current.configuration.has_value(change.path, difference.name, difference.then):
                found = current.get(change.path, difference.name)
                yield f"{change.path} {difference.name}: {difference.then!r} was written, it is {found!r}"
            elif difference.name == STATE and (state == "RUNNING") != (difference.then == "RUNNING"):
                yield f"{change.path} is {state}, not {difference.then}"
