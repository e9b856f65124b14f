"""The outcome of a simulation: each application, the cluster over time, and their figures as table, text and JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from statistics import fmean
from typing import Any

from yarn_plugin.quantities import count


@dataclass(frozen=True, slots=True)
class AppOutcome:
    """The outcome of one application; times in seconds. `started_at`: when its master started; None if it never did.

    `alone_s`: its runtime alone on the whole cluster. `figures`: its own metrics.
    """

    name: str
    group: str
    user: str
    weight: float
    arrived_at: float
    started_at: float | None
    finished_at: float | None
    alone_s: float
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def completion_s(self) -> float | None:
        """Seconds from arrival to end (job completion time, JCT); None if the application has not ended."""
        return None if self.finished_at is None else self.finished_at - self.arrived_at

    @property
    def slowdown(self) -> float | None:
        """The completion time relative to running alone."""
        return None if self.completion_s is None else self.completion_s / max(self.alone_s, 1e-9)


@dataclass(frozen=True, slots=True)
class Usage:
    """The fraction of the cluster's dominant resource that each group of applications uses from a time on."""

    at: float
    fractions: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Holding:
    """A GPU leased to an application (`group`: its name in the workload) without a break."""

    gpu: str
    app: str
    group: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a simulation.

    `inputs`: number of events that the arbiter processed. `usage`: fractions in the order of `groups`.
    """

    apps: tuple[AppOutcome, ...]
    groups: tuple[str, ...]
    usage: tuple[Usage, ...]
    inputs: int
    shares_sent: int
    weights_written: int
    containers_signalled: int
    ended_at: float

    @property
    def finished(self) -> tuple[AppOutcome, ...]:
        """The applications that have ended."""
        return tuple(app for app in self.apps if app.finished_at is not None)

    def finished_in(self, group: str) -> tuple[AppOutcome, ...]:
        """The applications of a group that have ended."""
        return tuple(app for app in self.finished if app.group == group)

    def utilisation(self) -> float:
        """The mean fraction of the cluster in use, from start to end."""
        last = Usage(max(self.ended_at, self.usage[-1].at), ()) if self.usage else None
        spans = list(zip(self.usage, [*self.usage[1:], last], strict=True)) if last is not None else []
        seconds = sum(end.at - start.at for start, end in spans)
        return sum(sum(start.fractions) * (end.at - start.at) for start, end in spans) / seconds if seconds else 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of applications that have ended. `jain_slowdown`: Jain's index of their slowdowns (1: all equal)."""

    apps: int
    mean_s: float
    p50_s: float
    p95_s: float
    mean_slowdown: float
    p95_slowdown: float
    jain_slowdown: float


def summary(apps: Sequence[AppOutcome]) -> Summary | None:
    """The figures of applications; None if none of them has ended."""
    times = [app.completion_s for app in apps if app.completion_s is not None]
    slow = [app.slowdown for app in apps if app.slowdown is not None]
    if not times:
        return None
    return Summary(len(times), fmean(times), quantile(times, 0.5), quantile(times, 0.95), fmean(slow),
                   quantile(slow, 0.95), jain(slow))  # fmt: skip


def jain(values: Iterable[float]) -> float:
    """Jain's index of fairness, (sum x)^2 / (n sum x^2): 1 if all are equal, 1/n if one has everything.

    Jain, Chiu and Hawe, DEC-TR-301 (1984).
    """
    known = list(values)
    squares = sum(value * value for value in known)
    return sum(known) ** 2 / (len(known) * squares) if squares else 1.0


def quantile(values: Iterable[float], fraction: float) -> float:
    """The smallest value that at least this fraction of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(ceil(fraction * len(ordered)) - 1, 0)]


ALL = "all"


def mean_figures(apps: tuple[AppOutcome, ...]) -> dict[str, float]:
    """The means of the applications' own metrics, by name."""
    names = dict.fromkeys(name for app in apps for name in app.figures)
    return {name: fmean(app.figures[name] for app in apps if name in app.figures) for name in names}


def summaries(outcome: Outcome) -> Iterator[tuple[str, Summary | None, tuple[AppOutcome, ...]]]:
    """Each group, and then all applications, with their figures; None for a group in which none has ended."""
    for group in outcome.groups:
        yield group, summary(outcome.finished_in(group)), outcome.finished_in(group)
    if len(outcome.groups) > 1:
        yield ALL, summary(outcome.finished), outcome.finished


def columns(outcome: Outcome) -> tuple[str, ...]:
    """The columns of the table."""
    own = mean_figures(outcome.finished)
    return ("group", "#ended", "#mean s", "#p50 s", "#p95 s", "#mean slowdown", "#p95 slowdown", "#fairness",
            *(f"#{name.replace('_', ' ')}" for name in own))  # fmt: skip


def rows(outcome: Outcome) -> list[tuple[object, ...]]:
    """The rows of the table: one per group, and one for all."""
    own = list(mean_figures(outcome.finished))
    table: list[tuple[object, ...]] = []
    for group, stats, apps in summaries(outcome):
        if stats is None:
            table.append((group, 0, *("-" for _ in range(6 + len(own)))))
            continue
        means = mean_figures(apps)
        times = (f"{value:.1f}" for value in (stats.mean_s, stats.p50_s, stats.p95_s))
        rest = (f"{value:.2f}" for value in (stats.mean_slowdown, stats.p95_slowdown, stats.jain_slowdown))
        table.append(
            (group, stats.apps, *times, *rest, *(f"{means[name]:.2f}" if name in means else "" for name in own))
        )
    return table


def totals(outcome: Outcome, wall_s: float) -> list[str]:
    """Figures of the whole simulation, a line each."""
    written, killed = count(outcome.weights_written, "time"), count(outcome.containers_signalled, "container")
    lines = [
        f"{outcome.ended_at:,.0f} s simulated in {wall_s:.1f} s; cluster utilisation {outcome.utilisation():.1%}",
        f"the arbiter processed {count(outcome.inputs, 'event')}, sent {count(outcome.shares_sent, 'notification')}, "
        f"wrote queue weights {written} and killed {killed}",
    ]
    if left := len(outcome.apps) - len(outcome.finished):
        lines.append(f"{count(left, 'application')} did not end: the resources they wait for never become free")
    return lines


def figures(outcome: Outcome, wall_s: float, policy: str | None, seed: int) -> dict[str, Any]:
    """All figures, for `--json`. Only `wall_s` differs from run to run."""
    return {
        "policy": policy,
        "seed": seed,
        "wall_s": wall_s,
        "simulated_s": outcome.ended_at,
        "utilisation": outcome.utilisation(),
        "inputs": outcome.inputs,
        "shares_told": outcome.shares_sent,
        "weights_written": outcome.weights_written,
        "containers_signalled": outcome.containers_signalled,
        "groups": {
            group: {**(asdict(stats) if stats is not None else {"apps": 0}), "figures": mean_figures(apps)}
            for group, stats, apps in summaries(outcome)
        },
        "applications": [
            {**asdict(app), "completion_s": app.completion_s, "slowdown": app.slowdown} for app in outcome.apps
        ],
    }
