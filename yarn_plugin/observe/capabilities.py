"""What a ResourceManager allows, found out by asking it."""

from dataclasses import dataclass

from yarn_plugin.model.cluster import Capabilities
from yarn_plugin.model.resources import MEMORY, VCORES, Resources
from yarn_plugin.observe import translate
from yarn_plugin.observe.resource_manager import ManagerRefusedError, NotAManagerError, ResourceManager

STORE = "yarn.scheduler.configuration.store.class"
MONITOR = "yarn.resourcemanager.scheduler.monitor.enable"
WAIT = "yarn.resourcemanager.monitor.capacity.preemption.max_wait_before_kill"
SCHEDULER = "yarn.resourcemanager.scheduler.class"
SECURITY = "hadoop.security.authentication"
RESOURCE_TYPES = "yarn.resource-types"
LEAST_MEMORY = "yarn.scheduler.minimum-allocation-mb"
FILE_STORE = "file"


@dataclass(frozen=True, slots=True)
class ManagerFacts:
    """A ResourceManager in facts. `store`: its configuration store, None where it does not say."""

    url: str
    version: str
    state: str
    started_at: float
    scheduler: str
    store: str | None
    writable: bool
    preempts: bool
    preemption_wait_ms: int | None
    security: str
    resources: tuple[str, ...]
    least_memory_mb: int | None

    def capabilities(self) -> Capabilities:
        """What the arbiter must know of it."""
        least = Resources.of({MEMORY: self.least_memory_mb or 0})
        return Capabilities(self.version, self.writable, self.preempts, least)


def find_out(manager: ResourceManager) -> ManagerFacts:
    """Ask a ResourceManager what it is.

    Raises:
        ManagerError: nobody answers, or not as a ResourceManager does.
    """
    info = translate.info(manager.get("/info"))
    if "resourceManagerVersion" not in info:
        raise NotAManagerError(f"--rm {manager.url}: what answers there is not a ResourceManager")
    conf = manager.configuration()
    types = tuple(name.strip() for name in conf.get(RESOURCE_TYPES, "").split(",") if name.strip())
    return ManagerFacts(
        url=manager.url,
        version=info["resourceManagerVersion"],
        state=info.get("haState", "ACTIVE"),
        started_at=info.get("startedOn", 0) / 1000.0,
        scheduler=conf.get(SCHEDULER, "unknown").rsplit(".", 1)[-1],
        store=conf.get(STORE),
        writable=_is_writable(manager, conf.get(STORE)),
        preempts=conf.get(MONITOR, "false") == "true",
        preemption_wait_ms=_whole(conf.get(WAIT)),
        security=conf.get(SECURITY, "simple"),
        resources=(MEMORY, VCORES, *types),
        least_memory_mb=_whole(conf.get(LEAST_MEMORY)),
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _is_writable(manager: ResourceManager, store: str | None) -> bool:
    """The scheduler's configuration is shown where it can be written; with the file store it answers 400."""
    if store == FILE_STORE:
        return False
    try:
        manager.get("/scheduler-conf")
    except ManagerRefusedError:
        return False
    return True
