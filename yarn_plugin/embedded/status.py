"""The output of `yarn-plugin cluster status`."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from yarn_plugin import console
from yarn_plugin.embedded import rest
from yarn_plugin.embedded.cluster import Cluster
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources

_SHOWN = (MEMORY, VCORES, GPU)


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a cluster. `problem`: a daemon that is not running or not responding, if any."""

    cluster: Cluster
    daemons: dict[str, int]
    nodes: list[rest.NodeReport]
    apps: list[rest.AppReport]
    problem: str | None


def read_status(cluster: Cluster) -> Status:
    """The status of a cluster, from its processes and its ResourceManager."""
    daemons = cluster.daemons
    if not daemons:
        again = f"yarn-plugin cluster up --dir {cluster.spec.dir}"
        return Status(
            cluster, daemons, [], [], f"no daemon of {cluster.spec.dir} is running; start the cluster with `{again}`"
        )
    try:
        nodes, apps = rest.nodes(cluster.rm_url), rest.apps(cluster.rm_url)
    except rest.NoResponseError as silent:
        return Status(cluster, daemons, [], [], _missing(cluster, daemons) or str(silent))
    return Status(cluster, daemons, nodes, apps, _missing(cluster, daemons))


def _missing(cluster: Cluster, daemons: dict[str, int]) -> str | None:
    missing = [name for name in cluster.spec.daemon_names if name not in daemons]
    if not missing:
        return None
    command = f"yarn-plugin cluster start {missing[0]} --dir {cluster.spec.dir}"
    return f"not running: {', '.join(missing)}; start it with `{command}`"


def tables(status: Status) -> Iterator[Table]:
    """The status as tables: daemons, nodes and applications; empty ones are omitted."""
    running = ((name, status.daemons.get(name, "not running")) for name in status.cluster.spec.daemon_names)
    yield console.table(None, ["daemon", "#process"], running)
    if status.nodes:
        yield console.table(
            None,
            ["node", "rack", "state", "#memory MiB", "#vcores", "#GPUs", "#containers"],
            map(_node_row, status.nodes),
        )
    if status.apps:
        yield console.table(
            None,
            ["application", "name", "queue", "state", "#memory MiB", "#vcores", "#GPUs"],
            map(_app_row, status.apps),
        )


def _node_row(node: rest.NodeReport) -> list[object]:
    amounts = [f"{node.used[name]}/{node.total[name]}" for name in _SHOWN]
    return [node.host, node.rack, node.state, *amounts, node.containers]


def _app_row(app: rest.AppReport) -> list[object]:
    has_ended = app.final_status not in ("UNDEFINED", app.state)
    state = f"{app.state} ({app.final_status})" if has_ended else app.state
    return [app.id, app.name, app.queue, state, *(app.used[name] for name in _SHOWN)]


def as_json(status: Status) -> dict[str, Any]:
    """The status as JSON; resources by YARN's names, memory in MiB."""
    cluster = status.cluster
    return {
        "dir": str(cluster.spec.dir),
        "rm_url": cluster.rm_url,
        "hadoop_conf_dir": str(cluster.conf_dir),
        "problem": status.problem,
        "daemons": {name: status.daemons.get(name) for name in cluster.spec.daemon_names},
        "nodes": [_figures(node) for node in status.nodes],
        "apps": [_figures(app) for app in status.apps],
    }


def _figures(report: rest.NodeReport | rest.AppReport) -> dict[str, Any]:
    fields = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
    return {name: _amounts(value) if isinstance(value, Resources) else value for name, value in fields.items()}


def _amounts(resources: Resources) -> dict[str, int]:
    return {name: resources[name] for name in _SHOWN}
