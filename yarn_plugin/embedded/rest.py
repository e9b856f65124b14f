"""Reading REST answers of the ResourceManager, the NodeManagers and the NameNode, as far as this room needs them."""

from dataclasses import dataclass
from typing import Any

import requests

from yarn_plugin.embedded.errors import ClusterError
from yarn_plugin.model.resources import Resources

_LIMIT_S = 10


class UnansweredError(ClusterError):
    """Nobody answers at the address, or not with what was asked for."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What the ResourceManager knows of a node.

    `health_ms` is when the node last looked at its own health: at its start, as its disks are not checked here.
    """

    host: str
    rack: str
    state: str
    used: Resources
    total: Resources
    containers: int
    health_ms: int


@dataclass(frozen=True, slots=True)
class AppReport:
    """What the ResourceManager knows of an application; `progress` in percent."""

    id: str
    name: str
    user: str
    queue: str
    state: str
    final_status: str
    used: Resources
    containers: int
    progress: float


def get(url: str) -> Any:
    """The JSON at a loopback address. Raises `UnansweredError`."""
    with requests.Session() as session:
        session.trust_env = False  # A proxy for the outside world must not be asked for our own machine.
        try:
            answer = session.get(url, timeout=_LIMIT_S, headers={"Accept": "application/json"})
            answer.raise_for_status()
            return answer.json()
        except (requests.RequestException, ValueError) as failed:
            raise UnansweredError(f"{url} does not answer: {type(failed).__name__}") from failed


def nodes(rm_url: str) -> list[NodeReport]:
    """All nodes that have registered, lost ones too."""
    return sorted(
        (_node(row) for row in _rows(get(f"{rm_url}/ws/v1/cluster/nodes"), "nodes", "node")), key=lambda row: row.host
    )


def apps(rm_url: str) -> list[AppReport]:
    """The applications the ResourceManager remembers, the newest first."""
    hidden = "resourceRequests,timeouts,appNodeLabelExpression,amNodeLabelExpression"
    rows = _rows(get(f"{rm_url}/ws/v1/cluster/apps?deSelects={hidden}"), "apps", "app")
    return [_app(row) for row in sorted(rows, key=lambda row: -int(row["startedTime"]))]


def _rows(answer: Any, outer: str, inner: str) -> list[dict[str, Any]]:
    """The rows of a list; an empty one loses its inner key, or is null."""
    rows = (answer.get(outer) or {}).get(inner) or []
    return rows if isinstance(rows, list) else [rows]


def _node(row: dict[str, Any]) -> NodeReport:
    return NodeReport(
        host=row["nodeHostName"],
        rack=row["rack"],
        state=row["state"],
        used=_resources(row.get("usedResource")),
        total=_resources(row.get("totalResource")),
        containers=int(row["numContainers"]),
        health_ms=int(row["lastHealthUpdate"]),
    )


def _app(row: dict[str, Any]) -> AppReport:
    return AppReport(
        id=row["id"],
        name=row["name"],
        user=row["user"],
        queue=row["queue"],
        state=row["state"],
        final_status=row["finalStatus"],
        used=_used(row),
        containers=max(int(row["runningContainers"]), 0),
        progress=float(row["progress"]),
    )


def _used(app: dict[str, Any]) -> Resources:
    """What an application holds; one that has ended has no such record, or holds nothing in it."""
    parts = (app.get("resourceInfo") or {}).get("resourceUsagesByPartition") or []
    return sum((_resources(part.get("used")) for part in parts), Resources())


def _resources(resource: dict[str, Any] | None) -> Resources:
    amounts = ((resource or {}).get("resourceInformations") or {}).get("resourceInformation") or []
    return Resources.of({amount["name"]: int(amount["value"]) for amount in amounts})
