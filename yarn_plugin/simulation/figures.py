"""The figures of simulations, made of their outcomes: as text, for tables, and as JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from statistics import fmean, median
from typing import Any

from yarn_plugin.quantities import count
from yarn_plugin.simulation.outcome import JobOutcome, Outcome, jain, quantile

ALL = "all"

LATER_S = 60.0
"""A job that waits so much longer than in a private cluster counts."""


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


def summary(apps: Sequence[JobOutcome]) -> Summary | None:
    """The figures of applications; None if none of them has ended."""
    times = [app.completion_s for app in apps if app.completion_s is not None]
    slow = [app.slowdown for app in apps if app.slowdown is not None]
    if not times:
        return None
    return Summary(len(times), fmean(times), quantile(times, 0.5), quantile(times, 0.95), fmean(slow),
                   quantile(slow, 0.95), jain(slow))  # fmt: skip


def mean_figures(apps: tuple[JobOutcome, ...]) -> dict[str, float]:
    """The means of the applications' own metrics, by name."""
    names = dict.fromkeys(name for app in apps for name in app.figures)
    return {name: fmean(app.figures[name] for app in apps if name in app.figures) for name in names}


def summaries(outcome: Outcome) -> Iterator[tuple[str, Summary | None, tuple[JobOutcome, ...]]]:
    """Each group, and then all applications, with their figures; None for a group in which none has ended."""
    for group in outcome.groups:
        yield group, summary(outcome.ended_in(group)), outcome.ended_in(group)
    if len(outcome.groups) > 1:
        yield ALL, summary(outcome.ended), outcome.ended


def group_columns(outcome: Outcome) -> tuple[str, ...]:
    """The columns of the table."""
    own = mean_figures(outcome.ended)
    return ("group", "#ended", "#mean s", "#p50 s", "#p95 s", "#mean slowdown", "#p95 slowdown", "#fairness",
            *(f"#{name.replace('_', ' ')}" for name in own))  # fmt: skip


def group_rows(outcome: Outcome) -> list[tuple[object, ...]]:
    """The rows of the table: one per group, and one for all."""
    own = list(mean_figures(outcome.ended))
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
        f"{outcome.ended_at:,.0f} s simulated in {wall_s:.1f} s; cluster utilisation {outcome.utilisation:.1%}",
        f"the arbiter processed {count(outcome.inputs, 'event')}, sent {count(outcome.shares_sent, 'notification')}, "
        f"wrote queue weights {written} and killed {killed}",
    ]
    if outcome.unfinished:
        lines.append(
            f"{count(outcome.unfinished, 'application')} did not end: the resources they wait for never become free"
        )
    return lines


def record(outcome: Outcome, wall_s: float, policy: str | None, seed: int) -> dict[str, Any]:
    """All figures, for `--json`. Only `wall_s` differs from run to run."""
    return {
        "policy": policy,
        "seed": seed,
        "wall_s": wall_s,
        "simulated_s": outcome.ended_at,
        "utilisation": outcome.utilisation,
        "inputs": outcome.inputs,
        "shares_told": outcome.shares_sent,
        "weights_written": outcome.weights_written,
        "containers_signalled": outcome.containers_signalled,
        "groups": {
            group: {**(asdict(stats) if stats is not None else {"apps": 0}), "figures": mean_figures(apps)}
            for group, stats, apps in summaries(outcome)
        },
        "applications": [
            {"name": app.name, "group": app.group, "user": app.user, "weight": app.weight, "arrived_at": app.arrived_at,
             "started_at": app.started_at, "finished_at": app.ended_at, "alone_s": app.alone_s, "figures": app.figures,
             "completion_s": app.completion_s, "slowdown": app.slowdown}
            for app in outcome.jobs
        ],
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class JobFigures:
    """Figures of the jobs that ended. `worst_percent_s`: the mean completion time of the longest percent of them.

    Beside private clusters: `later` jobs waited more than a minute longer, `later_s` in all, `worst_later_s` at most.
    None where there is nothing to compare with.
    """

    jobs: int
    unfinished: int
    mean_completion_s: float | None
    worst_percent_s: float | None
    mean_wait_s: float | None
    preempted: int
    lost_gpu_s: float
    later: int | None = None
    later_s: float | None = None
    worst_later_s: float | None = None


def job_figures(jobs: Sequence[JobOutcome], private: Mapping[int, JobOutcome] | None) -> JobFigures:
    """The figures of some jobs. `private`: the same jobs in private clusters, by number."""
    times = sorted(job.completion_s for job in jobs if job.completion_s is not None)
    waits = [job.wait_s for job in jobs if job.wait_s is not None]
    later = None if private is None else _later(jobs, private)
    return JobFigures(
        jobs=len(times),
        unfinished=len(jobs) - len(times),
        mean_completion_s=fmean(times) if times else None,
        worst_percent_s=fmean(times[-ceil(len(times) / 100) :]) if times else None,
        mean_wait_s=fmean(waits) if waits else None,
        preempted=sum(job.preempted > 0 for job in jobs),
        lost_gpu_s=sum(job.lost_gpu_s for job in jobs),
        later=None if later is None else len(later),
        later_s=None if later is None else sum(later),
        worst_later_s=None if later is None else max(later, default=0.0),
    )


def _later(jobs: Iterable[JobOutcome], private: Mapping[int, JobOutcome]) -> list[float]:
    """By how many seconds jobs waited longer, of those that waited more than a minute longer."""
    found = []
    for job in jobs:
        alone = private[job.number].wait_s
        if job.wait_s is not None and alone is not None and job.wait_s - alone > LATER_S:
            found.append(job.wait_s - alone)
    return found


@dataclass(frozen=True, slots=True)
class TrainingFigures:
    """The figures of a simulation of training applications (Themis, thesis, section 3.6.1); times in minutes.

    `max_rho`, `median_rho`, `jain`: of the jobs' finish-time fairness. `max_rho_app`: of the applications'. Jobs that
    did not end have none.
    """

    max_rho: float | None
    median_rho: float | None
    max_rho_app: float | None
    jain: float | None
    avg_jct_job: float | None
    avg_jct_app: float | None
    makespan: float
    gpu_time: float
    placement_score: float
    rounds: int
    mean_bidders: float | None


def training_figures(outcome: Outcome) -> TrainingFigures:
    """The figures of a simulation of training applications."""
    rhos, bidders = outcome.job_rhos, [one.bidders for one in outcome.rounds if one.offered]
    return TrainingFigures(
        max_rho=max(rhos, default=None),
        median_rho=median(rhos) if rhos else None,
        max_rho_app=max((rho for _, rho in outcome.app_rhos), default=None),
        jain=jain(rhos) if rhos else None,
        avg_jct_job=fmean(outcome.times) / 60 if outcome.times else None,
        avg_jct_app=fmean(outcome.app_times) / 60 if outcome.app_times else None,
        makespan=outcome.makespan / 60,
        gpu_time=outcome.gpu_s / 60,
        placement_score=outcome.placement_score,
        rounds=len(outcome.rounds),
        mean_bidders=fmean(bidders) if bidders else None,
    )
