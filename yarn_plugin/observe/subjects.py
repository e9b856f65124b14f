"""What is watched: the lists that a ResourceManager has of its nodes, queues and applications."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from yarn_plugin.decide.events import AppsChanged, QueuesChanged
from yarn_plugin.model.cluster import ClusterView
from yarn_plugin.observe import translate
from yarn_plugin.observe.answers import Reading
from yarn_plugin.observe.broken import BROKEN_STATES
from yarn_plugin.observe.changes import Observation, nodes_changed

UNFINISHED = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
LEFT_OUT = "resourceRequests,timeouts,appNodeLabelExpression,amNodeLabelExpression"
NODE_FIGURES = frozenset(translate.FIGURES[12:])


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
class Subject:
    """One of the lists that are watched. `moved_by`: the figures that move when it does."""

    name: str
    path: str
    asked: Mapping[str, str]
    read: Callable[[Any], Reading[Any]]
    known: Callable[[ClusterView], Mapping[str, Any]]
    event: Callable[[tuple[Any, ...], tuple[str, ...]], Observation]
    moved_by: frozenset[str]
    every: Callable[[PollIntervals], float]


SUBJECTS = (
    Subject(
        "nodes",
        "/nodes",
        {"states": ",".join(("RUNNING", *BROKEN_STATES))},
        translate.nodes,
        lambda cluster: cluster.nodes,
        nodes_changed,
        NODE_FIGURES,
        lambda intervals: intervals.nodes,
    ),
    Subject(
        "queues",
        "/scheduler",
        {},
        translate.queues,
        lambda cluster: cluster.queues,
        QueuesChanged,
        frozenset(),
        lambda intervals: intervals.queues,
    ),
    Subject(
        "apps",
        "/apps",
        {"states": UNFINISHED, "deSelects": LEFT_OUT},
        translate.apps,
        lambda cluster: cluster.apps,
        AppsChanged,
        frozenset(translate.FIGURES),
        lambda intervals: intervals.apps,
    ),
)
