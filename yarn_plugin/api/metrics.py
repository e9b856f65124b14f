"""Metrics for Prometheus, computed from the arbiter's state at each scrape."""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from yarn_plugin.api import translate
from yarn_plugin.api.lease_metrics import lease_metrics
from yarn_plugin.decide.membership import snapshot
from yarn_plugin.decide.pools.share import Member
from yarn_plugin.decide.state import State

TYPE = CONTENT_TYPE_PLAIN_0_0_4

OTHERS = "other"
"""The label for the sum over applications without metrics of their own."""

COUNTERS = {
    "commands_failed": "Commands to the ResourceManager that failed",
    "inputs_set_aside": "Events that failed and were skipped",
    "items_unreadable": "Nodes and applications in the ResourceManager's answers that could not be read",
    "journal_failures": "Events refused because the journal could not be written",
    "leaves_swept": "Queues of ended applications whose weights were removed",
    "looks_failed": "Polls of the ResourceManager that failed",
    "mass_disappearances": "Polls in which many known nodes or applications were missing (each was repeated)",
    "observations_refused": "Changes of single nodes or applications that made the arbiter fail and were skipped",
    "outcomes_lost": "Results of commands or computations that made the arbiter fail",
    "pools_stopped": "Failures of controllers, each of which stopped its pool until a retry",
    "queues_refused": "Queue weights that the ResourceManager refused",
    "tasks_failed": "Computations of controllers that failed",
    "tasks_lost": "Computations of controllers whose worker process was lost",
    "weights_reconciled": "Queue weights restored after another program had changed them",
}
"""The meanings of the arbiter's own counters, by name."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What the metrics are computed from.

    `now`: in the arbiter's time. `counters`: the arbiter's own counters, by name. `refused`: requests, by reason.
    `last_poll_age`: seconds; None before the first poll. `apps`: the number of applications with metrics of their own.
    """

    state: State
    now: float
    inputs: int
    connections: int
    streams: int
    streams_cut_off: int
    counters: Mapping[str, float]
    refused: Mapping[str, int]
    journal_writable: bool
    last_poll_age: float | None
    apps: int


def render(figures: Figures) -> str:
    """The text of /metrics."""
    registry = CollectorRegistry()
    registry.register(_Collector(figures))
    return generate_latest(registry).decode()


class _Collector:
    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        figures, state = self._figures, self._figures.state
        yield _gauge("manager_up", "1 while a ResourceManager answers", float(not state.manager_error))
        yield _counter(
            "inputs",
            "Events processed (API calls, ResourceManager polls, timers) since the journal was created",
            figures.inputs,
        )
        yield _gauge("weights_refused", "1 while queue weights cannot be written", _refused(state))
        yield from self._service()
        yield from self._arbiter()
        yield from self._pools()
        yield from lease_metrics(state, figures.now)
        yield self._shares()

    def _service(self) -> Iterator[Metric]:
        figures = self._figures
        yield _gauge("connections", "Open connections", figures.connections)
        yield _gauge("streams", "Open event streams", figures.streams)
        yield _counter("streams_cut_off", "Event streams ended because they were not read", figures.streams_cut_off)
        refused = CounterMetricFamily("yarn_arbiter_requests_refused", "Requests refused by reason", labels=["reason"])
        for reason, count in sorted(figures.refused.items()):
            refused.add_metric([reason], count)
        yield refused

    def _arbiter(self) -> Iterator[Metric]:
        figures = self._figures
        for name, value in sorted(figures.counters.items()):
            yield _counter(name, f"{COUNTERS.get(name, name)}, since the arbiter started", value)
        yield _gauge("journal_writable", "1 while the journal is writable", float(figures.journal_writable))
        if figures.last_poll_age is not None:
            yield _gauge(
                "last_look_age_seconds",
                "Seconds since the last complete poll of the ResourceManager",
                figures.last_poll_age,
            )
        enforcement = GaugeMetricFamily(
            "yarn_arbiter_enforcement", "1 for the enforcement mode in effect, else 0", labels=["mode"]
        )
        present = translate.mode(figures.state)
        for mode in translate.MODES:
            enforcement.add_metric([mode], float(mode == present))
        yield enforcement

    def _pools(self) -> Iterator[Metric]:
        apps = GaugeMetricFamily("yarn_arbiter_pool_apps", "Applications in the pool", labels=["pool"])
        amounts = GaugeMetricFamily(
            "yarn_arbiter_pool_capacity", "Pool capacity by resource (memory in MiB)", labels=["pool", "resource"]
        )
        stopped = GaugeMetricFamily(
            "yarn_arbiter_pool_stopped", "1 while the pool is stopped because its controller failed", labels=["pool"]
        )
        for pool in self._figures.state.pools:
            seen = snapshot(self._figures.state, pool, self._figures.now)
            apps.add_metric([pool.name], len(seen.claims))
            for name, amount in seen.capacity:
                amounts.add_metric([pool.name, name], amount)
            pool_state = self._figures.state.pool_states.get(pool.name)
            stopped.add_metric([pool.name], float(pool_state is not None and pool_state.failure is not None))
        yield apps
        yield amounts
        yield stopped

    def _shares(self) -> Metric:
        shares = GaugeMetricFamily(
            "yarn_arbiter_app_share",
            "Fraction of the pool (kind: current use, guarantee, entitlement)",
            labels=["app", "user", "kind"],
        )
        state = self._figures.state
        own = heapq.nlargest(
            self._figures.apps, state.members, key=lambda app: state.members[app].share.grant.entitlement_fraction
        )
        for app in own:
            for kind, fraction in _fractions(state.members[app]).items():
                shares.add_metric([app, _user(state, app), kind], fraction)
        others: dict[str, float] = defaultdict(float)
        for app in state.members.keys() - set(own):
            for kind, fraction in _fractions(state.members[app]).items():
                others[kind] += fraction
        for kind, fraction in others.items():
            shares.add_metric([OTHERS, "", kind], fraction)
        return shares


def _fractions(member: Member) -> dict[str, float]:
    grant = member.share.grant
    return {
        "current": grant.current,
        "guarantee": grant.guarantee_fraction,
        "entitlement": grant.entitlement_fraction,
    }


def _user(state: State, app: str) -> str:
    known = state.registered.get(app) or state.cluster.apps.get(app)
    return known.user if known else ""


def _refused(state: State) -> float:
    return 0.0 if state.enforcement.error is None else 1.0


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"yarn_arbiter_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    counted = CounterMetricFamily(f"yarn_arbiter_{name}", text)
    counted.add_metric([], value)
    return counted
