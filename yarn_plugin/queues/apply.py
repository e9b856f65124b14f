"""Writing a plan: one request, read back, compared."""

from collections.abc import Iterator, Sequence

from yarn_plugin.observe import scheduler_configuration
from yarn_plugin.observe.resource_manager import ResourceManager
from yarn_plugin.observe.scheduler_configuration import Settings
from yarn_plugin.queues import live
from yarn_plugin.queues.check import find_problems
from yarn_plugin.queues.live import LiveQueues
from yarn_plugin.queues.plan import Change, Plan, make_plan
from yarn_plugin.queues.specification import STATE, QueueFileError, QueuesIgnoredError, QueueSpec


def compare(manager: ResourceManager, specs: Sequence[QueueSpec]) -> Plan:
    """What would have to change; nothing is written.

    Raises:
        QueueFileError: the queues would not fit together, or cannot be removed.
        ManagerError: there is no ResourceManager, or its queues cannot be changed.
    """
    have = live.read(manager)
    problems = find_problems(specs, have)
    if problems:
        raise QueueFileError(problems)
    return make_plan(specs, have)


def apply(manager: ResourceManager, specs: Sequence[QueueSpec]) -> Plan:
    """Make the ResourceManager have what the file asks for; returns what was changed.

    Raises:
        QueueFileError: as `compare`; nothing was written.
        QueuesIgnoredError: the ResourceManager said yes and did not do it.
        ManagerError: there is no ResourceManager, or it refused; it applies a request as a whole or not at all.
    """
    plan = compare(manager, specs)
    if plan.changes:
        _write(manager, plan)
        missing = list(_missing(plan, live.read(manager)))
        if missing:
            raise QueuesIgnoredError(missing)
    return plan


def _write(manager: ResourceManager, plan: Plan) -> None:
    removed = [change.path for change in plan.of("remove")]
    scheduler_configuration.write(manager, _settings(plan.of("update")), _settings(plan.of("add")), removed)


def _settings(changes: Sequence[Change]) -> dict[str, Settings]:
    return {change.path: {one.name: one.then for one in change.differences} for change in changes}


def _missing(plan: Plan, have: LiveQueues) -> Iterator[str]:
    for change in plan.changes:
        if change.kind == "remove":
            if have.has(change.path):
                yield f"queue {change.path} is still there"
            continue
        if not have.has(change.path):
            yield f"there is no queue {change.path}"
            continue
        for wanted in change.differences:
            if not have.configuration.has(change.path, wanted.name, wanted.then):
                found = have.get(change.path, wanted.name)
                yield f"{change.path} {wanted.name}: {wanted.then!r} was written, it has {found!r}"
            elif wanted.name == STATE and (have.tree[change.path].state == "RUNNING") != (wanted.then == "RUNNING"):
                yield f"{change.path} is {have.tree[change.path].state}, not {wanted.then}"
