"""The findings of `yarn-plugin doctor`: what a ResourceManager supports, and how to enable what it lacks. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from yarn_plugin.checks import Finding
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Pool
from yarn_plugin.observe.capabilities import DELETES_QUEUES, ManagerFacts
from yarn_plugin.observe.lease_findings import leased_pool
from yarn_plugin.observe.partitions import Partition
from yarn_plugin.observe.queue_tree import PERCENT, QueueReport
from yarn_plugin.observe.scheduler_configuration import weight_of

__all__ = ["Finding", "can_run", "diagnose"]

TESTED_VERSION = "3.5.0"
MIN_VERSION = (3, 4)
"""The first version with dynamic leaf queues in weight mode (auto-queue-creation-v2)."""

SCHEDULER = "CapacityScheduler"
CALCULATOR = "DominantResourceCalculator"
_CALCULATOR_PROPERTY = "yarn.scheduler.capacity.resource-calculator"
_PROPERTY = "yarn.resourcemanager.monitor.capacity.preemption"
MIN_NEW_WEIGHT, MAX_NEW_WEIGHT = 0.1, 1.0
"""Suitable weights of a new leaf queue, whose siblings have a total weight of 100. With more, it takes a noticeable
part from them. With less, YARN may reject its application: YARN allows a queue 10,000 applications times its fraction
of the cluster."""


def can_run(findings: Sequence[Finding]) -> bool:
    """Whether the arbiter can run at all."""
    return all(finding.verdict != "stops" for finding in findings)


def diagnose(
    facts: ManagerFacts,
    tree: Mapping[str, QueueReport],
    pools: Sequence[Pool],
    partitions: Mapping[str, Partition] | None = None,
) -> list[Finding]:
    """Check a ResourceManager, its partitions and the queues of these pools, before the arbiter is started."""
    found = [_version(facts), _state(facts), _security(facts), _scheduler(facts, tree), _calculator(facts)]
    found += [_store(facts), _mode(facts), _preemption(facts), *_preemption_wait(facts, pools), _queue_deletion(facts)]
    found += [_recovery(facts), _gpus(facts, pools)]
    for pool in pools:
        found += _pool(pool, tree) if tree else []
        if pool.queue in tree and isinstance(pool.parameters, LeaseSettings | LedgerSettings):
            found += leased_pool(pool, pool.parameters, facts, tree, partitions or {})
    return found


def _version(facts: ManagerFacts) -> Finding:
    numbers = tuple(int(part) for part in facts.version.split("-")[0].split(".")[:2] if part.isdigit())
    if numbers and numbers < MIN_VERSION:
        follows = (
            "Versions before 3.4 cannot create a leaf queue for each application. "
            "Shares are not enforced. Upgrade to 3.4 or later."
        )
        return Finding("version", facts.version, "limited", follows)
    follows = "" if facts.version == TESTED_VERSION else f"Tested with {TESTED_VERSION} only."
    return Finding("version", facts.version, "good", follows)


def _state(facts: ManagerFacts) -> Finding:
    if facts.state == "ACTIVE":
        return Finding("state", f"active at {facts.url}", "good", "")
    follows = "This ResourceManager does not schedule. For an HA pair, give both addresses: --rm URL,URL."
    return Finding("state", facts.state.lower(), "stops", follows)


def _security(facts: ManagerFacts) -> Finding:
    if facts.security == "simple":
        return Finding("security", "simple", "good", "Anyone who can reach the ResourceManager can act as any user.")
    follows = (
        "The arbiter supports simple authentication only. Put an authenticating gateway in front of the "
        "ResourceManager, and verify write access with `yarn-plugin queues apply`."
    )
    return Finding("security", facts.security, "limited", follows)


def _scheduler(facts: ManagerFacts, tree: Mapping[str, QueueReport]) -> Finding:
    if tree:
        return Finding("scheduler", SCHEDULER, "good", "")
    follows = f"The arbiter needs the {SCHEDULER}. Set yarn.resourcemanager.scheduler.class."
    return Finding("scheduler", facts.scheduler, "stops", follows)


def _calculator(facts: ManagerFacts) -> Finding:
    if facts.calculator is None:
        return Finding(
            "resource calculator", "not shown", "limited", f"Check that {_CALCULATOR_PROPERTY} is the {CALCULATOR}."
        )
    if facts.calculator == CALCULATOR:
        return Finding("resource calculator", CALCULATOR, "good", "YARN schedules all resource types.")
    follows = f"YARN schedules by memory only. Set {_CALCULATOR_PROPERTY} to the {CALCULATOR}."
    return Finding("resource calculator", facts.calculator, "limited", follows)


def _store(facts: ManagerFacts) -> Finding:
    store = facts.store or "not shown"
    if facts.unread:
        return Finding(
            "configuration store", store, "limited", f"The scheduler configuration could not be read: {facts.unread}"
        )
    if facts.writable:
        return Finding("configuration store", store, "good", "Queue weights can be written.")
    follows = (
        "Shares are not enforced. Set yarn.scheduler.configuration.store.class=fs (on a shared file system such as "
        "HDFS) or zk; leveldb only without an HA pair. Restart the ResourceManager afterwards."
    )
    return Finding("configuration store", store, "limited", follows)


def _mode(facts: ManagerFacts) -> Finding:
    if facts.mode == "unknown":
        follows = "Shares are not enforced until the configuration can be read."
        return Finding("mode", facts.mode, "limited", follows)
    if facts.writable:
        return Finding("mode", facts.mode, "good", "")
    return Finding("mode", facts.mode, "limited", "Shares are not enforced: weights are read-only.")


def _preemption(facts: ManagerFacts) -> Finding:
    if facts.preempts:
        return Finding("preemption", "on", "good", "YARN preempts containers over a share.")
    follows = (
        "An application over its share keeps its containers until it releases them or the arbiter kills them. "
        "Set yarn.resourcemanager.scheduler.monitor.enable=true."
    )
    return Finding("preemption", "off", "limited", follows)


def _preemption_wait(facts: ManagerFacts, pools: Sequence[Pool]) -> Iterator[Finding]:
    """Weights are written when the grace period ends; YARN then waits `wait_ms` before it kills containers."""
    if not facts.preempts or not facts.writable:
        return
    how, wait = facts.preemption, facts.preemption.wait_ms / 1000.0
    for pool in pools:
        shown = f"{wait:g} s after the grace period of {pool.grace:g} s"
        if wait >= pool.preempt_after:
            follows = (
                f"In pool {pool.name}, the arbiter kills containers of an application that has been over its share for "
                f"{pool.preempt_after:g} s while another one waits, before YARN preempts them. "
                f"Set {_PROPERTY}.max_wait_before_kill below "
                f"{pool.preempt_after * 1000:g} (ms), or preempt_after_s above {wait:g}."
            )
            yield Finding("preemption wait", shown, "limited", follows)
        else:
            follows = (
                f"In pool {pool.name}, YARN starts to preempt containers over a share {pool.grace + wait:g} s "
                "after the notification."
            )
            yield Finding("preemption wait", shown, "good", follows)
    if how.per_round < 1 or how.termination_factor < 1 or how.dead_zone > 0:
        shown = (
            f"at most {how.per_round:.0%} of the cluster and {how.termination_factor:.0%} of the excess per round; an "
            f"excess below {how.dead_zone:.0%} is ignored"
        )
        follows = (
            f"Preemption takes several rounds to enforce a share. Set {_PROPERTY}.total_preemption_per_round=1.0, "
            ".natural_termination_factor=1.0 and .max_ignored_over_capacity=0.0."
        )
        yield Finding("preemption speed", shown, "limited", follows)


def _queue_deletion(facts: ManagerFacts) -> Finding:
    if DELETES_QUEUES in facts.policies:
        return Finding("queue deletion", "on", "good", "YARN deletes the queues of finished applications.")
    follows = (
        "YARN keeps the queues of finished applications, at most 1,000 per pool. "
        f"Add the {DELETES_QUEUES} to yarn.resourcemanager.scheduler.monitor.policies."
    )
    return Finding("queue deletion", "off", "limited", follows)


def _recovery(facts: ManagerFacts) -> Finding:
    if facts.recovers:
        return Finding("recovery", "on", "good", "Applications survive a restart of the ResourceManager.")
    follows = "A restart of the ResourceManager kills all applications. Set yarn.resourcemanager.recovery.enabled=true."
    return Finding("recovery", "off", "limited", follows)


def _gpus(facts: ManagerFacts, pools: Sequence[Pool]) -> Finding:
    wanting = [pool.name for pool in pools if GPU in pool.resources]
    if GPU in facts.resources:
        follows = (
            ""
            if wanting
            else "While GPUs are idle, YARN may preempt too few containers; the arbiter kills the rest that are over a "
            "share."
        )
        return Finding("GPUs", f"{GPU} is a resource type", "good", follows)
    if wanting:
        follows = (
            f"Pool {wanting[0]} divides GPUs. Set yarn.resource-types={GPU} on the ResourceManager, the "
            "NodeManagers and the clients."
        )
        return Finding("GPUs", "not a resource type", "limited", follows)
    return Finding("GPUs", "not a resource type", "good", "No pool divides GPUs.")


def _pool(pool: Pool, tree: Mapping[str, QueueReport]) -> Iterator[Finding]:
    topic, queue = f"pool {pool.name}", tree.get(pool.queue)
    if queue is None:
        follows = f"Create queue {pool.queue} with `yarn-plugin queues apply`, or name an existing queue in --config."
        yield Finding(topic, f"{pool.queue} is missing", "stops", follows)
        return
    shown = f"{pool.queue}, {queue.guaranteed:.0%} to {queue.maximum:.0%} of the cluster"
    if queue.state == "RUNNING":
        yield Finding(topic, shown, "good", "")
    else:
        follows = "The queue accepts no applications. Set its state to RUNNING."
        yield Finding(topic, f"{pool.queue} is {queue.state}", "limited", follows)
    if isinstance(pool.parameters, LeaseSettings | LedgerSettings):
        return
    yield _leaves(topic, queue)
    fixed = [child.path for child in tree.values() if child.parent == pool.queue and child.mode == PERCENT]
    if fixed:
        follows = (
            f"While {fixed[0]} has a percentage, dynamic queues beside it get only what is left, with no guarantee. "
            f"Give {fixed[0]} a weight."
        )
        yield Finding(topic, "queues with percentages", "limited", follows)
    if queue.preemption_disabled:
        follows = "YARN does not preempt in this queue; the arbiter kills containers over a share instead."
        yield Finding(topic, "preemption disabled", "limited", follows)


def _leaves(topic: str, queue: QueueReport) -> Finding:
    if not queue.makes_leaves:
        follows = "Applications share one queue: shares are not enforced. Set dynamic_leaves = true in the queue file."
        return Finding(topic, "no dynamic leaf queues", "limited", follows)
    template = dict(queue.leaf_template)
    weight = template.get("capacity", "1w")
    initial = weight_of(weight)
    if initial is not None and not MIN_NEW_WEIGHT <= initial <= MAX_NEW_WEIGHT:
        follows = (
            f"A new queue with an initial weight above {MAX_NEW_WEIGHT:g} takes resources from applications still in "
            f"their grace periods; below {MIN_NEW_WEIGHT:g}, YARN may reject its application. Set weight = 1 in the "
            "leaf_template."
        )
        return Finding(topic, f"dynamic leaf queues, initial weight {weight}", "limited", follows)
    if 0 < _number(template.get("user-limit-factor", "1")) <= 1:
        follows = (
            "No application can use idle resources beyond its share. Set user_limit_factor = 1000 in the leaf_template."
        )
        return Finding(topic, "dynamic leaf queues, user limit factor 1", "limited", follows)
    return Finding(
        topic, f"dynamic leaf queues, initial weight {weight}", "good", "Each application gets its own queue."
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
