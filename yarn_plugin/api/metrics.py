"""Figures for Prometheus, read off the arbiter's state at each scrape."""

import time
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.events import Event
from yarn_plugin.decide.membership import snapshot
from yarn_plugin.decide.state import State
from yarn_plugin.journal.intake import Decided

TYPE = CONTENT_TYPE_PLAIN_0_0_4


def render(state: State, history: Sequence[Decided[Event, Command]], streams: int) -> str:
    """The text of /metrics."""
    registry = CollectorRegistry()
    registry.register(_Reading(state, history, streams))
    return generate_latest(registry).decode()


class _Reading:
    def __init__(self, state: State, history: Sequence[Decided[Event, Command]], streams: int) -> None:
        self._state, self._history, self._streams = state, history, streams

    def collect(self) -> Iterator[Metric]:
        state = self._state
        yield _gauge("yarn_arbiter_manager_up", "1 while a ResourceManager answers", float(not state.manager_error))
        yield _gauge("yarn_arbiter_streams", "Open event streams", self._streams)
        last = self._history[-1].seq if self._history else 0
        inputs = CounterMetricFamily("yarn_arbiter_inputs", "Inputs decided on since the journal began")
        inputs.add_metric([], last)
        yield inputs
        yield _gauge("yarn_arbiter_weights_refused", "1 while queue weights could not be written", _refused(state))
        yield from self._pools()
        yield from self._shares()

    def _pools(self) -> Iterator[Metric]:
        apps = GaugeMetricFamily("yarn_arbiter_pool_apps", "Applications that share the pool", labels=["pool"])
        amounts = GaugeMetricFamily(
            "yarn_arbiter_pool_capacity", "What the pool divides, in YARN's units", labels=["pool", "resource"]
        )
        for pool in self._state.pools:
            seen = snapshot(self._state, pool, time.time())
            apps.add_metric([pool.name], len(seen.claims))
            for name, amount in seen.capacity:
                amounts.add_metric([pool.name, name], amount)
        yield apps
        yield amounts

    def _shares(self) -> Iterator[Metric]:
        shares = GaugeMetricFamily(
            "yarn_arbiter_app_share", "Fraction of the pool, by kind", labels=["app", "user", "kind"]
        )
        for app, member in self._state.members.items():
            registration = self._state.registered.get(app)
            running = self._state.cluster.apps.get(app)
            user = registration.user if registration else running.user if running else ""
            grant = member.share.grant
            shares.add_metric([app, user, "current"], grant.current)
            shares.add_metric([app, user, "guarantee"], grant.guarantee_fraction)
            shares.add_metric([app, user, "entitlement"], grant.entitlement_fraction)
        yield shares


def _refused(state: State) -> float:
    return 0.0 if state.enforcement.error is None else 1.0


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
