"""Searches as YARN applications: submitted, listed and killed through the ResourceManager's REST API."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from themis_agent.yarn.submission import LocalResource
from yarn_plugin.errors import ReportedError
from yarn_plugin.model.resources import GPU
from yarn_plugin.observe.fields import objects_in
from yarn_plugin.observe.resource_manager import ManagerRefusedError, NotAManagerError, ResourceManager

TYPE = "THEMIS"
"""The application type."""

MAX_ATTEMPTS = 4
"""Of the application master within `VALIDITY_MS`, unless the ResourceManager allows fewer."""

VALIDITY_MS = 600_000
"""Failures of the application master that are older are forgotten."""

FINISHED = ("FINISHED", "FAILED", "KILLED")
ACCEPTED_WITHIN_S = 30.0
POLL_S = 0.1


class NotAcceptedError(ReportedError):
    """YARN did not accept an application."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An application as YARN lists it. `final`: SUCCEEDED, FAILED, KILLED, or UNDEFINED. `gpus`: that it holds now.
    `master`: host and port of its application master, as that has registered."""

    id: str
    name: str
    user: str
    state: str
    final: str
    queue: str
    started_ms: int
    gpus: int
    tracking_url: str
    diagnostics: str
    master: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether YARN has ended it."""
        return self.state in FINISHED


@dataclass(frozen=True, slots=True)
class Master:
    """The first container of an application."""

    command: str
    environment: dict[str, str]
    resources: tuple[LocalResource, ...]
    memory_mb: int


def new_application(manager: ResourceManager) -> str:
    """A new application id.

    Raises:
        ManagerError: there is none.
    """
    try:
        answer = json.loads(manager.post("/apps/new-application"))
        found = answer.get("application-id") or next(iter(answer.values()))["application-id"]
    except (ValueError, LookupError, AttributeError, StopIteration):
        raise NotAManagerError(f"--rm {manager.url}: the answer to /apps/new-application has no id") from None
    return str(found)


def submit(manager: ResourceManager, app: str, name: str, queue: str, partition: str, master: Master) -> None:
    """Submit an application, and wait until YARN has accepted it.

    Raises:
        ManagerError: the ResourceManager refuses, or is away.
        NotAcceptedError: YARN has ended it, or decides too late.
    """
    manager.post("/apps", _body(app, name, queue, partition, master))
    deadline = time.monotonic() + ACCEPTED_WITHIN_S
    while True:
        found = get(manager, app)
        if found is not None and found.has_ended:
            raise NotAcceptedError(f"YARN did not accept {app}: {found.diagnostics or found.state}")
        if found is not None and found.state in ("ACCEPTED", "RUNNING"):
            return
        if time.monotonic() > deadline:
            raise NotAcceptedError(f"YARN has not accepted {app} within {ACCEPTED_WITHIN_S:g} s")
        time.sleep(POLL_S)


def kill(manager: ResourceManager, app: str) -> None:
    """Kill an application. Idempotent.

    Raises:
        ManagerError: the ResourceManager refuses, or is away.
    """
    try:
        manager.put(f"/apps/{app}/state", {"state": "KILLED"})
    except ManagerRefusedError as refused:
        if refused.status != 404:
            raise


def get(manager: ResourceManager, app: str) -> Listed | None:
    """One application; None if the ResourceManager does not know it.

    Raises:
        ManagerError: the ResourceManager refuses, or is away.
    """
    try:
        answer = manager.get(f"/apps/{app}")
    except ManagerRefusedError as refused:
        if refused.status == 404:
            return None
        raise
    return _listed(answer.get("app", answer))


def searches(manager: ResourceManager) -> list[Listed]:
    """All searches that the ResourceManager knows, the latest first.

    Raises:
        ManagerError: the ResourceManager refuses, or is away.
    """
    answer = manager.get("/apps", applicationTypes=TYPE)
    inner = answer.get("apps", answer) or {}
    found = [_listed(one) for one in objects_in(inner.get("app"))]
    return sorted(found, key=lambda one: one.started_ms, reverse=True)


def _listed(app: dict[str, Any]) -> Listed:
    def text(field: str) -> str:
        return " ".join(str(app.get(field) or "").split())

    tracking = text("trackingUrl")
    return Listed(
        id=text("id"),
        name=text("name"),
        user=text("user"),
        state=text("state"),
        final=text("finalStatus"),
        queue=text("queue"),
        started_ms=int(app.get("startedTime") or 0),
        gpus=sum(_gpus(app)),
        tracking_url=tracking if tracking != "UNASSIGNED" else "",
        diagnostics=text("diagnostics"),
        master=text("amRPCAddress"),
    )


def _gpus(app: dict[str, Any]) -> Iterator[int]:
    """What it holds in each partition."""
    for partition in objects_in((app.get("resourceInfo") or {}).get("resourceUsagesByPartition")):
        used = objects_in(((partition.get("used") or {}).get("resourceInformations") or {}).get("resourceInformation"))
        yield from (int(one.get("value") or 0) for one in used if one.get("name") == GPU)


def _body(app: str, name: str, queue: str, partition: str, master: Master) -> dict[str, Any]:
    resources = [{"key": one.name, "value": _resource(one)} for one in master.resources]
    return {
        "application-id": app,
        "application-name": name,
        "application-type": TYPE,
        "queue": queue,
        "max-app-attempts": MAX_ATTEMPTS,
        "attempt-failures-validity-interval": VALIDITY_MS,
        "keep-containers-across-application-attempts": True,
        "app-node-label-expression": partition,
        "resource": {"memory": master.memory_mb, "vCores": 1},
        "am-container-spec": {
            "commands": {"command": master.command},
            "environment": {"entry": [{"key": key, "value": one} for key, one in master.environment.items()]},
            "local-resources": {"entry": resources},
        },
    }


def _resource(one: LocalResource) -> dict[str, object]:
    return {
        "resource": one.url,
        "type": one.type,
        "visibility": "PUBLIC" if one.public else "PRIVATE",
        "size": one.size,
        "timestamp": one.modified_ms,
    }
