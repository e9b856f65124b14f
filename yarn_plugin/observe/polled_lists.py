"""What is polled and how often: the ResourceManager's lists of nodes, queues and applications."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from yarn_plugin.decide.events import AppsChanged, QueuesChanged
from yarn_plugin.model.cluster import ClusterView
from yarn_plugin.observe import translate
from yarn_plugin.observe.answers import ParsedItems
from yarn_plugin.observe.changes import Observation, nodes_changed
from yarn_plugin.observe.nodes import BROKEN_STATES, parse_nodes

UNFINISHED_STATES = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
OMITTED_FIELDS = "resourceRequests,timeouts,appNodeLabelExpression,amNodeLabelExpression"


@dataclass(frozen=True, slots=True)
class PollIntervals:
    """How often the ResourceManager is polled, in seconds.

    `metrics`: its cluster metrics. `apps`, `nodes`, `queues`: each list, even if no metric has changed.
    `reregister_timeout`: how long nodes may take to register again after the ResourceManager has restarted.
    `confirm_delay`: when many items disappear at once, the wait before a second poll confirms it.
    """

    metrics: float = 0.4
    apps: float = 5.0
    nodes: float = 20.0
    queues: float = 60.0
    reregister_timeout: float = 60.0
    confirm_delay: float = 1.0


@dataclass(frozen=True, slots=True)
class PolledList:
    """One polled list. `parameters`: of the query. `triggers`: the cluster metrics that change with it."""

    name: str
    path: str
    parameters: Mapping[str, str]
    parse: Callable[[Any], ParsedItems[Any]]
    known: Callable[[ClusterView], Mapping[str, Any]]
    event: Callable[[tuple[Any, ...], tuple[str, ...]], Observation]
    triggers: frozenset[str]
    interval: Callable[[PollIntervals], float]


POLLED_LISTS = (
    PolledList(
        "nodes",
        "/nodes",
        {"states": ",".join(("RUNNING", *BROKEN_STATES))},
        parse_nodes,
        lambda cluster: cluster.nodes,
        nodes_changed,
        frozenset(translate.NODE_METRICS),
        lambda intervals: intervals.nodes,
    ),
    PolledList(
        "queues",
        "/scheduler",
        {},
        translate.queues,
        lambda cluster: cluster.queues,
        QueuesChanged,
        frozenset(),
        lambda intervals: intervals.queues,
    ),
    PolledList(
        "apps",
        "/apps",
        {"states": UNFINISHED_STATES, "deSelects": OMITTED_FIELDS},
        translate.apps,
        lambda cluster: cluster.apps,
        AppsChanged,
        frozenset(translate.METRICS),
        lambda intervals: intervals.apps,
    ),
)
