"""What a ResourceManager allows, and what follows for who uses the arbiter. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Pool
from yarn_plugin.observe.capabilities import DELETES_QUEUES, ManagerFacts
from yarn_plugin.observe.queue_tree import PERCENT, QueueReport
from yarn_plugin.observe.scheduler_configuration import weight_of

Verdict = Literal["good", "limited", "stops"]

TRIED = "3.5.0"
LEAVES_SINCE = (3, 4)
"""The first version with dynamic leaf queues in weight mode (auto-queue-creation-v2)."""

SCHEDULER = "CapacityScheduler"
CALCULATOR = "DominantResourceCalculator"
_PROPERTY = "yarn.resourcemanager.monitor.capacity.preemption"
_LEAST, _MOST = 0.1, 1.0
"""The weights between which a queue that was just made takes little from the others, which weigh 100 together, and YARN
still lets an application in: it allows a queue 10,000 times its fraction of the cluster."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `verdict`: `stops` if the arbiter cannot run with it, `limited` if it does less."""

    topic: str
    found: str
    verdict: Verdict
    follows: str


def can_run(findings: Sequence[Finding]) -> bool:
    """Whether the arbiter can run at all."""
    return all(finding.verdict != "stops" for finding in findings)


def diagnose(facts: ManagerFacts, tree: Mapping[str, QueueReport], pools: Sequence[Pool]) -> list[Finding]:
    """Everything worth knowing before the arbiter is started with these pools."""
    found = [_version(facts), _state(facts), _security(facts), _scheduler(facts, tree), _calculator(facts)]
    found += [_store(facts), _mode(facts), _preemption(facts), *_preemption_wait(facts, pools), _leaf_cleaning(facts)]
    found += [_recovery(facts), _gpus(facts, pools)]
    for pool in pools:
        found += _pool(pool, tree) if tree else []
    return found


def _version(facts: ManagerFacts) -> Finding:
    numbers = tuple(int(part) for part in facts.version.split("-")[0].split(".")[:2] if part.isdigit())
    if numbers and numbers < LEAVES_SINCE:
        follows = "no leaf queue for each application before 3.4: shares are told, and cannot be enforced by weights"
        return Finding("version", facts.version, "limited", follows)
    follows = "" if facts.version == TRIED else f"tried with {TRIED}"
    return Finding("version", facts.version, "good", follows)


def _state(facts: ManagerFacts) -> Finding:
    if facts.state == "ACTIVE":
        return Finding("state", f"active at {facts.url}", "good", "")
    follows = "it schedules nothing now; of an HA pair give both addresses"
    return Finding("state", facts.state.lower(), "stops", follows)


def _security(facts: ManagerFacts) -> Finding:
    if facts.security == "simple":
        return Finding("security", "simple", "good", "anyone who reaches the RM may act as any user")
    follows = "only simple authentication is spoken here; put a gateway that authenticates in between, and try apply"
    return Finding("security", facts.security, "limited", follows)


def _scheduler(facts: ManagerFacts, tree: Mapping[str, QueueReport]) -> Finding:
    if tree:
        return Finding("scheduler", SCHEDULER, "good", "")
    follows = f"shares are steered by the queues of the {SCHEDULER}; set yarn.resourcemanager.scheduler.class"
    return Finding("scheduler", facts.scheduler, "stops", follows)


def _calculator(facts: ManagerFacts) -> Finding:
    if facts.calculator is None:
        return Finding("resource calculator", "not shown", "limited", f"see to it that it is the {CALCULATOR}")
    if facts.calculator == CALCULATOR:
        return Finding("resource calculator", CALCULATOR, "good", "all resources count")
    follows = f"YARN divides memory alone; set yarn.scheduler.capacity.resource-calculator to the {CALCULATOR}"
    return Finding("resource calculator", facts.calculator, "limited", follows)


def _store(facts: ManagerFacts) -> Finding:
    store = facts.store or "not shown"
    if facts.unread:
        return Finding("configuration store", store, "limited", f"it could not be read now: {facts.unread}")
    if facts.writable:
        return Finding("configuration store", store, "good", "queue weights can be written")
    follows = "shares are told but not enforced; set yarn.scheduler.configuration.store.class=fs (or zk, leveldb)"
    return Finding("configuration store", store, "limited", follows)


def _mode(facts: ManagerFacts) -> Finding:
    if facts.mode == "unknown":
        follows = "shares are only reported, not enforced, until the arbiter has found out"
        return Finding("mode", facts.mode, "limited", follows)
    verdict: Verdict = "good" if facts.mode == "enforced" else "limited"
    return Finding("mode", facts.mode, verdict, "" if facts.writable else "queue weights cannot be written")


def _preemption(facts: ManagerFacts) -> Finding:
    if facts.preempts:
        return Finding("preemption", "on", "good", "YARN takes back what exceeds a share")
    follows = (
        "an application over its share keeps what it has until it lets go or is signalled; "
        "set yarn.resourcemanager.scheduler.monitor.enable=true"
    )
    return Finding("preemption", "off", "limited", follows)


def _preemption_wait(facts: ManagerFacts, pools: Sequence[Pool]) -> Iterator[Finding]:
    """Weights are written when the grace is over; from then on YARN waits before it kills."""
    if not facts.preempts or not facts.writable:
        return
    how, wait = facts.preemption, facts.preemption.wait_ms / 1000.0
    for pool in pools:
        shown = f"{wait:g} s, after the grace of {pool.grace:g} s"
        if wait >= pool.overstay:
            follows = (
                f"pool {pool.name} signals containers after {pool.overstay:g} s, before YARN preempts them; "
                f"set {_PROPERTY}.max_wait_before_kill below that, or overstay_s above"
            )
            yield Finding("preemption wait", shown, "limited", follows)
        else:
            follows = f"a share of pool {pool.name} is YARN's to enforce {pool.grace + wait:g} s after it was told"
            yield Finding("preemption wait", shown, "good", follows)
    if how.per_round < 1 or how.termination_factor < 1 or how.dead_zone > 0:
        shown = f"{how.per_round:.0%} a round, {how.termination_factor:.0%} of it, beyond {how.dead_zone:.0%}"
        follows = (
            f"shares are approached slowly; set {_PROPERTY}.total_preemption_per_round=1.0, "
            ".natural_termination_factor=1.0, .max_ignored_over_capacity=0.0"
        )
        yield Finding("preemption speed", shown, "limited", follows)


def _leaf_cleaning(facts: ManagerFacts) -> Finding:
    if DELETES_QUEUES in facts.policies:
        return Finding("leaf cleaning", "on", "good", "queues of ended applications go by themselves")
    follows = (
        "queues of ended applications stay, at most 1,000 in a pool; add the "
        f"{DELETES_QUEUES} to yarn.resourcemanager.scheduler.monitor.policies"
    )
    return Finding("leaf cleaning", "off", "limited", follows)


def _recovery(facts: ManagerFacts) -> Finding:
    if facts.recovers:
        return Finding("recovery", "on", "good", "applications survive a restart of the RM")
    follows = "a restart of the RM ends every application; set yarn.resourcemanager.recovery.enabled=true"
    return Finding("recovery", "off", "limited", follows)


def _gpus(facts: ManagerFacts, pools: Sequence[Pool]) -> Finding:
    wanting = [pool.name for pool in pools if GPU in pool.resources]
    if GPU in facts.resources:
        follows = "" if wanting else "GPUs that nobody uses make YARN's preemption lenient; the arbiter signals then"
        return Finding("GPUs", f"{GPU} is a resource", "good", follows)
    if wanting:
        follows = f"pool {wanting[0]} divides GPUs: set yarn.resource-types={GPU} on the RM, the nodes and clients"
        return Finding("GPUs", "not a resource", "limited", follows)
    return Finding("GPUs", "not a resource", "good", "no pool divides GPUs")


def _pool(pool: Pool, tree: Mapping[str, QueueReport]) -> Iterator[Finding]:
    topic, queue = f"pool {pool.name}", tree.get(pool.queue)
    if queue is None:
        follows = f"there is no queue {pool.queue}; make it with `yarn-plugin queues apply`, or name another"
        yield Finding(topic, f"{pool.queue} is missing", "stops", follows)
        return
    shown = f"{pool.queue}, {queue.guaranteed:.0%} to {queue.maximum:.0%} of the cluster"
    if queue.state == "RUNNING":
        yield Finding(topic, shown, "good", "")
    else:
        follows = "it takes no applications; set its state to RUNNING"
        yield Finding(topic, f"{pool.queue} is {queue.state}", "limited", follows)
    yield _leaves(topic, queue)
    fixed = [child.path for child in tree.values() if child.parent == pool.queue and child.mode == PERCENT]
    if fixed:
        follows = f"queues of applications beside {fixed[0]} get nothing guaranteed; give it a weight"
        yield Finding(topic, "queues in percent", "limited", follows)
    if queue.preemption_disabled:
        yield Finding(topic, "preemption disabled", "limited", "YARN takes nothing back here; the arbiter signals")


def _leaves(topic: str, queue: QueueReport) -> Finding:
    if not queue.makes_leaves:
        follows = "applications share one queue, so no share can be enforced; set dynamic_leaves = true in a queue file"
        return Finding(topic, "no dynamic leaves", "limited", follows)
    template = dict(queue.leaf_template)
    weight = template.get("capacity", "1w")
    has = weight_of(weight)
    if has is not None and not _LEAST <= has <= _MOST:
        follows = (
            f"above {_MOST:g}w one that has just arrived takes that from those that still vacate, below {_LEAST:g}w "
            "YARN may refuse it; set weight = 1 in the leaf_template"
        )
        return Finding(topic, f"dynamic leaves, new ones weigh {weight}", "limited", follows)
    if 0 < _number(template.get("user-limit-factor", "1")) <= 1:
        follows = "no application grows beyond its share; set user_limit_factor = 1000 in the leaf_template"
        return Finding(topic, "dynamic leaves, user limit factor 1", "limited", follows)
    return Finding(topic, f"dynamic leaves, new ones weigh {weight}", "good", "each application gets its own queue")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
