"""Read REST responses of the ResourceManager and the NameNode."""

import getpass
from dataclasses import dataclass
from typing import Any

import requests

from yarn_plugin.embedded.errors import ClusterError
from yarn_plugin.model.resources import Resources, total_of
from yarn_plugin.observe import answers, fields
from yarn_plugin.observe.polled_lists import OMITTED_FIELDS
from yarn_plugin.observe.resource_manager import ManagerError, ResourceManager

_TIMEOUT_S = 10


class NoResponseError(ClusterError):
    """No valid response from the address."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node as the ResourceManager reports it.

    `health_ms`: time of the node's last health check, which is its start, as disk checks are off here.
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
    """An application as the ResourceManager reports it; `progress` in percent."""

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
    """The JSON at a loopback URL other than the ResourceManager's. Raises `NoResponseError`."""
    with requests.Session() as session:
        session.trust_env = False  # No proxy for loopback addresses.
        try:
            answer = session.get(url, timeout=_TIMEOUT_S, headers={"Accept": "application/json"})
            answer.raise_for_status()
            return answer.json()
        except (requests.RequestException, ValueError) as failed:
            raise NoResponseError(f"{url}: {_reason(failed)}") from failed


def _reason(failed: Exception) -> str:
    match failed:
        case requests.HTTPError(response=requests.Response() as answer):
            return f"answered {answer.status_code} {answer.reason}"
        case requests.Timeout():
            return f"no answer within {_TIMEOUT_S} s"
        case requests.ConnectionError():
            return "no connection"
        case _:
            return "the answer is not JSON"


def is_active(rm_url: str) -> bool:
    """Whether a ResourceManager reports that it is active. Raises `NoResponseError`.

    It responds before it has loaded its state, as if there were no applications.
    """
    return answers.unwrapped(_ask(rm_url, "/info"), "clusterInfo").get("haState") == "ACTIVE"


def nodes(rm_url: str) -> list[NodeReport]:
    """All registered nodes, including lost ones."""
    return sorted((_node(row) for row in _rows(rm_url, "/nodes", "nodes", "node")), key=lambda row: row.host)


def apps(rm_url: str) -> list[AppReport]:
    """The applications known to the ResourceManager, newest first."""
    rows = _rows(rm_url, "/apps", "apps", "app", deSelects=OMITTED_FIELDS)
    return [_app(row) for row in sorted(rows, key=lambda row: -int(row["startedTime"]))]


def _rows(rm_url: str, path: str, outer: str, inner: str, **params: str) -> list[dict[str, Any]]:
    """The rows of a list; in an empty one the inner key is missing, or the list is null."""
    return fields.objects_in(answers.unwrapped(_ask(rm_url, path, **params), outer).get(inner))


def _ask(rm_url: str, path: str, **params: str) -> Any:
    try:
        return ResourceManager([rm_url], getpass.getuser()).get(path, **params)
    except ManagerError as problem:
        raise NoResponseError(str(problem)) from problem


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
    """The resources allocated to an application; empty if it has ended."""
    parts = fields.objects_in(answers.unwrapped(app, "resourceInfo").get("resourceUsagesByPartition"))
    return total_of(_resources(part.get("used")) for part in parts)


def _resources(written: Any) -> Resources:
    return fields.resources(written) if written else Resources()
