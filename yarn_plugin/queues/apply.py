"""Writing a plan: one request, read back, compared."""

from collections.abc import Iterator, Sequence
from typing import Any

from yarn_plugin.observe.resource_manager import ResourceManager
from yarn_plugin.queues import live
from yarn_plugin.queues.check import find_problems
from yarn_plugin.queues.errors import QueueFileError, QueuesIgnoredError
from yarn_plugin.queues.live import LiveQueues
from yarn_plugin.queues.plan import Change, Plan, make_plan
from yarn_plugin.queues.specification import STATE, QueueSpec, same


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
        manager.put(live.CONF, request(plan))
        missing = list(_missing(plan, live.read(manager)))
        if missing:
            raise QueuesIgnoredError(missing)
    return plan


def request(plan: Plan) -> dict[str, Any]:
    """The body of the request. Bare: wrapped in "sched-conf" the ResourceManager answers 200 and changes nothing."""
    parts: dict[str, list[Any]] = {
        "add-queue": [_settings(change) for change in plan.of("add")],
        "update-queue": [_settings(change) for change in plan.of("update")],
        "remove-queue": [change.path for change in plan.of("remove")],
    }
    return {name: part for name, part in parts.items() if part}


def _settings(change: Change) -> dict[str, Any]:
    entries = [{"key": difference.name, "value": difference.then} for difference in change.differences]
    return {"queue-name": change.path, "params": {"entry": entries}}


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
            found = have.get(change.path, wanted.name)
            if not same(found, wanted.then):
                yield f"{change.path} {wanted.name}: {wanted.then!r} was written, it has {found!r}"
            elif wanted.name == STATE and (have.tree[change.path].state == "RUNNING") != (wanted.then == "RUNNING"):
                yield f"{change.path} is {have.tree[change.path].state}, not {wanted.then}"
