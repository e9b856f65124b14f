"""Metrics of a search for Prometheus, computed at each scrape."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from themis_agent.local.progress import status
from themis_agent.view.answers import Answered
from themis_agent.view.snapshot import Snapshot

TYPE = CONTENT_TYPE_PLAIN_0_0_4

STATUSES = ("waiting", "running", "stopping", "paused", "complete", "pruned", "failed", "stopped")


def render(shown: Snapshot, answered: Mapping[str, Answered]) -> str:
    """The text of /metrics. `answered`: the agent's answers since it started, by kind."""
    registry = CollectorRegistry()
    registry.register(_Metrics(shown, answered))
    return generate_latest(registry).decode()


class _Metrics(Collector):
    def __init__(self, shown: Snapshot, answered: Mapping[str, Answered]) -> None:
        self._shown, self._answered = shown, answered

    def collect(self) -> Iterator[Metric]:
        yield from self._search()
        yield from self._trials()
        yield from self._gpus()
        yield from self._answers()

    def _search(self) -> Iterator[Metric]:
        app, state = self._shown.app, self._shown.state
        info = GaugeMetricFamily(
            "themis_agent_search", "The search; always 1", labels=["name", "algorithm", "metric", "direction"]
        )
        info.add_metric([app.name, app.algorithm, app.metric, app.direction], 1.0)
        yield info
        yield _gauge("ended", "1 if the search is over and nothing runs any more", float(state.finished))
        yield _gauge("age_seconds", "Seconds since the search began", self._shown.at - self._shown.began)
        best = state.best
        if best is not None:
            yield _gauge("best_metric", "The best last metric of a trial", state.metric(best) or 0.0)

    def _trials(self) -> Iterator[Metric]:
        state, history = self._shown.state, self._shown.history
        trials = list(state.trials.values())
        found = [status(one) for one in trials]
        gauge = GaugeMetricFamily("themis_agent_trials", "Trials by status", labels=["status"])
        for name in STATUSES:
            gauge.add_metric([name], found.count(name))
        yield gauge
        risky = [one for one in trials if one.store_problem]
        yield _gauge("checkpoints_at_risk", "Trials whose checkpoints cannot be stored now", len(risky))
        steps = sum(max(one.step - (one.checkpoint or 0.0), 0.0) for one in risky)
        yield _gauge("steps_at_risk", "Steps of those trials after their newest stored checkpoints", steps)
        yield _counter("starts", "Starts of trials, moves and restarts included", history.counts["starts"])
        yield _counter("crashes", "Commands of trials that ended with an error", history.counts["crashes"])
        yield _counter("steps_lost", "Steps executed after the newest checkpoint when a run ended",
                       sum(one.lost_steps for one in trials))  # fmt: skip
        yield _counter("gpu_seconds", "GPU seconds that trials have had", self._shown.gpu_s())

    def _gpus(self) -> Iterator[Metric]:
        state = self._shown.state
        held, busy = state.gpus.keys(), state.busy
        revoked = {cell for lease in state.leases.values() for cell in lease.revoked}
        gauge = GaugeMetricFamily(
            "themis_agent_gpus", "GPUs that are held: busy, idle, or revoked and to be vacated", labels=["state"]
        )
        for name, cells in (("busy", busy & held), ("idle", held - busy), ("revoked", revoked)):
            gauge.add_metric([name], len(cells))
        yield gauge
        yield _gauge("leases", "Leases that are held", len(state.leases))
        if self._shown.rho is not None:
            text = "Finish-time fairness with what is held, as last answered; infinite without progress"
            yield _gauge("rho", text, self._shown.rho)

    def _answers(self) -> Iterator[Metric]:
        counts = self._shown.history.counts
        answers = CounterMetricFamily(
            "themis_agent_answers", "Answers to questions of the arbiter since the search began", labels=["kind"]
        )
        for kind in ("estimate", "bid"):
            answers.add_metric([kind], counts[f"{kind}s"])
        yield answers
        late = CounterMetricFamily(
            "themis_agent_answers_late", "Answers too late to be sent since the agent started", labels=["kind"]
        )
        times = SummaryMetricFamily(
            "themis_agent_answer_seconds", "From a question to its answer since the agent started", labels=["kind"]
        )
        for kind, one in sorted(self._answered.items()):
            late.add_metric([kind], one.late)
            times.add_metric([kind], one.count, one.seconds)
        yield late
        yield times


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"themis_agent_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    counted = CounterMetricFamily(f"themis_agent_{name}", text)
    counted.add_metric([], value)
    return counted
