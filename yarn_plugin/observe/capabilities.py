"""What a ResourceManager supports: its version, settings and capabilities, read over REST."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from yarn_plugin.model.cluster import Capabilities
from yarn_plugin.model.resources import MEMORY, VCORES, Resources
from yarn_plugin.observe import scheduler_configuration, translate
from yarn_plugin.observe.nodes import isolate_gpus
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
MIN_MEMORY = "yarn.scheduler.minimum-allocation-mb"
RECOVERY = "yarn.resourcemanager.recovery.enabled"
NODE_LABELS = "yarn.node-labels.enabled"
CALCULATOR = "resource-calculator"
FILE_STORE = "file"
MUTABLE_STORES = ("memory", "fs", "leveldb", "zk")
PREEMPTS = "ProportionalCapacityPreemptionPolicy"
DELETES_QUEUES = "AutoCreatedQueueDeletionPolicy"


@dataclass(frozen=True, slots=True)
class PreemptionSettings:
    """YARN's settings for preemption; the defaults are Hadoop's.

    `wait_ms`: between marking a container and killing it. `per_round`: the maximum fraction of the cluster to preempt
    per round. `termination_factor`: the fraction of the excess to preempt per round. `dead_zone`: the excess that is
    ignored, as a fraction of a queue's capacity.
    """

    wait_ms: int = 15_000
    per_round: float = 0.1
    termination_factor: float = 0.2
    dead_zone: float = 0.1


@dataclass(frozen=True, slots=True)
class ManagerFacts:
    """The properties of a ResourceManager.

    `store`: its configuration store, None if unknown. `policies`: of its scheduling monitor, empty if that is off.
    `calculator`: the scheduler's resource calculator, None if unknown. `unread`: why the scheduler's configuration
    could not be read; `writable` is then inferred from the store. `age`: seconds since its start, by its own clock;
    None if it sends no time. `has_partitions`: node labels are enabled. `isolates_gpus`: NodeManagers show a container
    its own GPUs alone, as far as the ResourceManager's configuration says.
    """

    url: str
    version: str
    state: str
    started_at: float
    scheduler: str
    store: str | None
    writable: bool
    policies: tuple[str, ...]
    preemption: PreemptionSettings
    security: str
    resources: tuple[str, ...]
    least_memory_mb: int | None
    calculator: str | None
    recovers: bool
    unread: str | None = None
    age: float | None = None
    has_partitions: bool = False
    isolates_gpus: bool = False

    @property
    def mode(self) -> Literal["enforced", "feedback only", "unknown"]:
        """Whether shares are enforced or only reported."""
        return "enforced" if self.writable else "unknown" if self.unread else "feedback only"

    @property
    def preempts(self) -> bool:
        """Whether YARN preempts containers of a queue over its share."""
        return PREEMPTS in self.policies

    def capabilities(self) -> Capabilities:
        """The capabilities that decisions depend on."""
        smallest = Resources.of({MEMORY: self.least_memory_mb or 0})
        return Capabilities(self.version, self.writable, self.preempts, smallest)


def probe(manager: ResourceManager) -> ManagerFacts:
    """Read the properties of a ResourceManager; of an HA pair, of the active one.

    Raises:
        ManagerError: there is no answer, or not a ResourceManager's.
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
        scheduler=_simple_name(conf.get(SCHEDULER, "unknown")),
        store=store,
        writable=queues is not None or (unread is not None and store in MUTABLE_STORES),
        policies=_policies(conf),
        preemption=_preemption(conf),
        security=conf.get(SECURITY, "simple"),
        resources=(MEMORY, VCORES, *_split(conf.get(RESOURCE_TYPES, ""))),
        least_memory_mb=_integer_or_none(conf.get(MIN_MEMORY)),
        calculator=None
        if queues is None
        else _simple_name(queues.global_property(CALCULATOR) or "DefaultResourceCalculator"),
        recovers=conf.get(RECOVERY, "false") == "true",
        unread=unread,
        age=age,
        has_partitions=conf.get(NODE_LABELS, "false") == "true",
        isolates_gpus=isolate_gpus(conf),
    )


def _integer_or_none(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _info(manager: ResourceManager) -> dict[str, Any]:
    try:
        # A standby answers /info, too, but not /metrics.
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
    """The scheduler's configuration if it is readable (only a mutable one is), or why reading it failed."""
    if store == FILE_STORE:
        return None, None
    try:
        return scheduler_configuration.read(manager), None
    except ManagerError as problem:
        return None, None if is_read_only(problem) else str(problem)


def is_read_only(problem: ManagerError) -> bool:
    """Whether an error means that the scheduler's configuration is read-only, or not accessible to this user.

    With the file store the ResourceManager answers 400 and mentions mutable stores; without permission, 401 or 403; in
    versions without this API, 404 or 405. Other errors (500, no answer) may be temporary.
    """
    if not isinstance(problem, ManagerRefusedError):
        return False
    return problem.status in (401, 403, 404, 405, 501) or (problem.status == 400 and "mutable" in str(problem).lower())


def _policies(conf: Mapping[str, str]) -> tuple[str, ...]:
    """The policies of the scheduling monitor; empty if it is off."""
    if conf.get(MONITOR, "false") != "true":
        return ()
    return tuple(_simple_name(name) for name in _split(conf.get(POLICIES, PREEMPTS)))


def _preemption(conf: Mapping[str, str]) -> PreemptionSettings:
    default = PreemptionSettings()
    return PreemptionSettings(
        wait_ms=int(_number(conf, "max_wait_before_kill", default.wait_ms)),
        per_round=_number(conf, "total_preemption_per_round", default.per_round),
        termination_factor=_number(conf, "natural_termination_factor", default.termination_factor),
        dead_zone=_number(conf, "max_ignored_over_capacity", default.dead_zone),
    )


def _number(conf: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(conf.get(f"{PREEMPTION}.{name}", default))
    except ValueError:
        return default


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _simple_name(class_name: str) -> str:
    return class_name.rsplit(".", 1)[-1]
