"""What a ResourceManager allows, found out by asking it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from yarn_plugin.model.cluster import Capabilities
from yarn_plugin.model.resources import MEMORY, VCORES, Resources
from yarn_plugin.observe import scheduler_configuration, translate
from yarn_plugin.observe.resource_manager import (
    NO_MANAGER,
    ManagerError,
    ManagerRefusedError,
    NotAManagerError,
    ResourceManager,
)
from yarn_plugin.observe.scheduler_configuration import SchedulerConfiguration

STORE = "yarn.scheduler.configuration.store.class"
MONITOR = "yarn.resourcemanager.scheduler.monitor.enable"
POLICIES = "yarn.resourcemanager.scheduler.monitor.policies"
PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption"
SCHEDULER = "yarn.resourcemanager.scheduler.class"
SECURITY = "hadoop.security.authentication"
RESOURCE_TYPES = "yarn.resource-types"
LEAST_MEMORY = "yarn.scheduler.minimum-allocation-mb"
RECOVERY = "yarn.resourcemanager.recovery.enabled"
CALCULATOR = "resource-calculator"
FILE_STORE = "file"
MUTABLE_STORES = ("memory", "fs", "leveldb", "zk")
PREEMPTS = "ProportionalCapacityPreemptionPolicy"
DELETES_QUEUES = "AutoCreatedQueueDeletionPolicy"


@dataclass(frozen=True, slots=True)
class PreemptionFacts:
    """How YARN takes back what exceeds a queue's share. The defaults are Hadoop's own.

    `wait_ms`: between marking a container and killing it. `per_round`: the part of the cluster taken back at once.
    `termination_factor`: the part of what is to be taken back that is taken in a round. `dead_zone`: the part of its
    share that a queue may exceed it by, unnoticed.
    """

    wait_ms: int = 15_000
    per_round: float = 0.1
    termination_factor: float = 0.2
    dead_zone: float = 0.1


@dataclass(frozen=True, slots=True)
class ManagerFacts:
    """A ResourceManager in facts.

    `store`: its configuration store, None where it does not say. `policies`: what its scheduling monitor runs, empty
    where that is off. `calculator`: how its scheduler compares resources, None where it does not say. `unread`: why
    the scheduler's configuration could not be read just now; `writable` is then what the store lets expect. `age`:
    seconds since it started, by its own clock; None where it does not tell the time.
    """

    url: str
    version: str
    state: str
    started_at: float
    scheduler: str
    store: str | None
    writable: bool
    policies: tuple[str, ...]
    preemption: PreemptionFacts
    security: str
    resources: tuple[str, ...]
    least_memory_mb: int | None
    calculator: str | None
    recovers: bool
    unread: str | None = None
    age: float | None = None

    @property
    def mode(self) -> Literal["enforced", "feedback only", "unknown"]:
        """What becomes of shares here."""
        return "enforced" if self.writable else "unknown" if self.unread else "feedback only"

    @property
    def preempts(self) -> bool:
        """Whether YARN itself takes back what exceeds a queue's share."""
        return PREEMPTS in self.policies

    def capabilities(self) -> Capabilities:
        """What the arbiter must know of it."""
        least = Resources.of({MEMORY: self.least_memory_mb or 0})
        return Capabilities(self.version, self.writable, self.preempts, least)


def probe(manager: ResourceManager) -> ManagerFacts:
    """Ask a ResourceManager what it is; of an HA pair, the active one.

    Raises:
        ManagerError: nobody answers, or not as a ResourceManager does.
    """
    info = _info(manager)
    started_at = info.get("startedOn", 0) / 1000.0
    age = None if manager.clock is None or not started_at else manager.clock - started_at
    conf = manager.configuration()
    store = conf.get(STORE)
    queues, unread = _scheduler_configuration(manager, store)
    return ManagerFacts(
        url=manager.url,
        version=info["resourceManagerVersion"],
        state=info.get("haState", "ACTIVE"),
        started_at=started_at,
        scheduler=_last_part(conf.get(SCHEDULER, "unknown")),
        store=store,
        writable=queues is not None or (unread is not None and store in MUTABLE_STORES),
        policies=_policies(conf),
        preemption=_preemption(conf),
        security=conf.get(SECURITY, "simple"),
        resources=(MEMORY, VCORES, *_split(conf.get(RESOURCE_TYPES, ""))),
        least_memory_mb=_whole(conf.get(LEAST_MEMORY)),
        calculator=None
        if queues is None
        else _last_part(queues.of_scheduler(CALCULATOR) or "DefaultResourceCalculator"),
        recovers=conf.get(RECOVERY, "false") == "true",
        unread=unread,
        age=age,
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _info(manager: ResourceManager) -> dict[str, Any]:
    try:
        # A standby answers /info as an active one does, and nothing else: whoever answers /metrics is active.
        translate.metrics(manager.get("/metrics"))
        return translate.info(manager.get("/info"))
    except ManagerRefusedError as refused:
        if refused.status not in (400, 401, 404, 405, 501):
            raise
    except NotAManagerError:
        pass
    raise NotAManagerError(f"--rm {manager.url}: {NO_MANAGER}")


def _scheduler_configuration(
    manager: ResourceManager, store: str | None
) -> tuple[SchedulerConfiguration | None, str | None]:
    """The scheduler's configuration, shown where it can be written, or else why it could not be read now."""
    if store == FILE_STORE:
        return None, None
    try:
        return scheduler_configuration.read(manager), None
    except ManagerError as problem:
        return None, None if says_read_only(problem) else str(problem)


def says_read_only(problem: ManagerError) -> bool:
    """Whether this is how a ResourceManager says that its scheduler's configuration is not for us to read or change.

    With the file store the answer is 400 and speaks of mutable stores, to who may not it is 401 or 403, from versions
    that cannot do it 404 or 405. Anything else (500, no answer) may be otherwise at the next question.
    """
    if not isinstance(problem, ManagerRefusedError):
        return False
    return problem.status in (401, 403, 404, 405, 501) or (problem.status == 400 and "mutable" in str(problem).lower())


def _policies(conf: Mapping[str, str]) -> tuple[str, ...]:
    """What the scheduling monitor runs; nothing where it is off."""
    if conf.get(MONITOR, "false") != "true":
        return ()
    return tuple(_last_part(name) for name in _split(conf.get(POLICIES, PREEMPTS)))


def _preemption(conf: Mapping[str, str]) -> PreemptionFacts:
    usual = PreemptionFacts()
    return PreemptionFacts(
        wait_ms=int(_number(conf, "max_wait_before_kill", usual.wait_ms)),
        per_round=_number(conf, "total_preemption_per_round", usual.per_round),
        termination_factor=_number(conf, "natural_termination_factor", usual.termination_factor),
        dead_zone=_number(conf, "max_ignored_over_capacity", usual.dead_zone),
    )


def _number(conf: Mapping[str, str], name: str, usual: float) -> float:
    try:
        return float(conf.get(f"{PREEMPTION}.{name}", usual))
    except ValueError:
        return usual


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _last_part(class_name: str) -> str:
    return class_name.rsplit(".", 1)[-1]
