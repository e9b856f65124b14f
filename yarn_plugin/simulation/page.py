"""The page of simulations of a workload, of every kind: key figures, the table, and what was measured over time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from yarn_plugin.quantities import number
from yarn_plugin.report import (
    BarChart,
    Column,
    Distribution,
    KeyFigure,
    KeyFigures,
    Page,
    Sample,
    Section,
    Table,
    Text,
    table_of,
)
from yarn_plugin.report.markup import Block
from yarn_plugin.simulation.figures import training_figures
from yarn_plugin.simulation.outcome import JobOutcome, Outcome, jain, quantile
from yarn_plugin.simulation.result import Result, colour
from yarn_plugin.simulation.time_charts import fragmentation_chart, gpu_chart, rounds_chart, usage_chart

MAX_LISTED = 20
"""Applications or jobs listed: the slowest."""

SHOWN_QUANTILE = 0.99
"""Larger values are shown as this quantile in a distribution, as outliers would squeeze the rest of it."""


@dataclass(frozen=True, slots=True)
class Key:
    """A figure of a whole simulation. `best`: which of several policies' is a key figure."""

    label: str
    of: Callable[[Outcome], float | None]
    unit: str = ""
    digits: int | None = None
    best: Literal["lowest", "highest"] = "lowest"


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of those that ended. `unit_s`: where it is a time, the seconds of its unit."""

    title: str
    unit: str
    of: Callable[[Outcome], Sequence[float]]
    unit_s: float = 1.0
    goal: tuple[float, str] | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """What the page of a kind of workload shows. `note`: on its table. `measures`: drawn as distributions. `largest`:
    the title of the list of those that come first by `rank`. `unit`: of its times, of `unit_s` seconds."""

    title: str
    note: str
    keys: tuple[Key, ...]
    measures: tuple[Measure, ...]
    largest: str
    rank: tuple[Column, Callable[[Outcome], Sequence[float]]]
    unit: str = "s"
    unit_s: float = 1.0


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _slowdowns(outcome: Outcome) -> list[float]:
    return [job.slowdown for job in outcome.ended if job.slowdown is not None]


_COMPLETION = Measure("Completion times", "seconds", lambda one: one.times)
_USE = Key("cluster utilisation", lambda one: 100 * one.utilisation, "%", 0, "highest")
_MEAN = Key("mean completion time", lambda one: _mean(one.times), " s", 0)

CONTAINERS = Kind(
    "Cluster simulation",
    "Completion times in seconds, from arrival to end. Slowdown: completion time relative to running alone on the "
    "whole cluster. Fairness: Jain's index of the slowdowns.",
    (
        Key("applications ended", lambda one: len(one.ended), best="highest"),
        _MEAN,
        Key("mean slowdown", lambda one: _mean(_slowdowns(one)), digits=2),
        Key("fairness", lambda one: jain(_slowdowns(one)) if one.ended else None, digits=2, best="highest"),
        _USE,
    ),
    (
        _COMPLETION,
        Measure("Slowdowns", "completion time relative to running alone", _slowdowns),
    ),
    "Largest slowdowns",
    (Column("slowdown", True, 2), _slowdowns),
)  # fmt: skip

JOBS = Kind(
    "Jobs",
    "Later: jobs that wait more than a minute longer than in a private cluster, by how long in all, and at most. "
    "Lost: what preempted jobs held, in vain. Spread: the standard deviation over users of the progress of their "
    "running jobs, as its mean over time. Fragmentation: the mean fraction of nodes that could not take a guaranteed "
    "job of all their GPUs.",
    (
        Key("mean wait", lambda one: _mean(one.waits), " s", 0),
        _MEAN,
        _USE,
    ),
    (
        Measure("Waits", "seconds", lambda one: one.waits),
        _COMPLETION,
    ),
    "Longest waits",
    (Column("wait, s", True, 1), lambda one: one.waits),
)

TRAINING = Kind(
    "Training workload",
    "rho of a job: its completion time, divided by its time alone and by the average contention during its life. rho "
    "of an application: by equation 3.2 of Themis. Placement: the mean of 1 / slowdown.",
    (
        Key("max rho of a job", lambda one: max(one.job_rhos, default=None), digits=2),
        Key("mean completion time", lambda one: training_figures(one).avg_jct_job, " min"),
        Key("GPU time", lambda one: one.gpu_s / 60, " GPU min"),
    ),
    (
        Measure("Finish-time fairness of jobs", "rho", lambda one: one.job_rhos, goal=(1.0, "fair")),
        Measure("Finish-time fairness of applications (equation 3.2)", "rho",
                lambda one: [rho for _, rho in one.app_rhos], goal=(1.0, "fair")),
        Measure("Completion times of jobs", "minutes", lambda one: one.times, 60.0),
    ),
    "Largest rho",
    (Column("rho", True, 2), lambda one: one.job_rhos),
    "min",
    60.0,
)  # fmt: skip


def page(
    kind: Kind,
    runs: Sequence[Result],
    about: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    notes: Sequence[str] = (),
) -> Page:
    """The page of simulations of one workload. `about`: the files and the settings. `columns`, `rows`, `notes`: what
    the terminal shows. Charts of one simulation show the first seed of each policy."""
    first = list({run.policy: run for run in reversed(runs)}.values())[::-1]
    sections: dict[str, Sequence[Block]] = {
        "Cluster use over time": [usage_chart(run.outcome) for run in first if run.outcome.groups],
        "Policies": _policies(kind, runs) if len(first) > 1 else [],
        "Distributions": [_distribution(one, runs) for one in kind.measures],
        "GPUs": [block for run in first if run.outcome.holdings
                 for block in gpu_chart(_name(run, runs), run.outcome.holdings)],
        "Fragmentation": fragmentation_chart(first),
        "Rounds": [block for run in first for block in rounds_chart(_name(run, runs), run.outcome)],
        kind.largest: [_largest(kind, _name(run, runs), run.outcome) for run in first],
    }  # fmt: skip
    return Page(
        title=kind.title,
        subtitle=about,
        top=(_key_figures(kind, runs), table_of(columns, rows, kind.note), *(Text(note, "muted") for note in notes)),
        sections=tuple(Section(title, tuple(blocks)) for title, blocks in sections.items() if blocks),
    )


def _name(run: Result, runs: Sequence[Result]) -> str:
    """What tells it from the others of the page."""
    return run.name if len({one.seed for one in runs}) > 1 else str(run.policy)


def _means(key: Key, runs: Sequence[Result]) -> list[tuple[str, float]]:
    """The mean of a figure over the seeds of each policy."""
    found: dict[str, list[float]] = {}
    for run in runs:
        value = key.of(run.outcome)
        if value is not None:
            found.setdefault(str(run.policy), []).append(value)
    return [(policy, fmean(values)) for policy, values in found.items()]


def _key_figures(kind: Kind, runs: Sequence[Result]) -> KeyFigures:
    """Of a policy alone, its figures; of several, the best by each."""
    shown = []
    for key in kind.keys:
        means = _means(key, runs)
        if means:
            policy, value = (min if key.best == "lowest" else max)(means, key=lambda pair: pair[1])
            label, note = (f"{key.best} {key.label}", policy) if len(means) > 1 else (key.label, "")
            shown.append(KeyFigure(label, f"{number(value, key.digits)}{key.unit}", note))
    return KeyFigures(tuple(shown))


def _policies(kind: Kind, runs: Sequence[Result]) -> list[BarChart]:
    over = ", mean over seeds" if len({run.seed for run in runs}) > 1 else ""
    return [
        BarChart(f"{key.label[0].upper()}{key.label[1:]}{over}", key.unit.strip() or key.label,
                 tuple(_means(key, runs)), digits=key.digits)
        for key in kind.keys
    ]  # fmt: skip


def _distribution(measure: Measure, runs: Sequence[Result]) -> Distribution:
    """A series for each group of applications, or for each policy. Times and slowdowns have outliers, and are clipped;
    what has a goal is not."""
    values: dict[str, list[float]] = {}
    for run in runs:
        found = [value / measure.unit_s for value in measure.of(run.outcome)]
        if run.outcome.groups:
            values = {group: [] for group in run.outcome.groups}
            for job, value in zip(run.outcome.ended, found, strict=True):
                values[job.group].append(value)
        else:
            values.setdefault(str(run.policy), []).extend(found)
    title, every = measure.title, [value for of_one in values.values() for value in of_one]
    if measure.goal is None and len(every) > 1 / (1 - SHOWN_QUANTILE):
        highest = quantile(every, SHOWN_QUANTILE)
        title = f"{title} (the top 1 % is clipped to {number(highest)})"
        values = {name: [min(value, highest) for value in of_one] for name, of_one in values.items()}
    samples = tuple(Sample(name, tuple(of_one), colour(place)) for place, (name, of_one) in enumerate(values.items()))
    return Distribution(title, measure.unit, samples, measure.goal)


def _largest(kind: Kind, name: str, outcome: Outcome) -> Table:
    """The slowest; of what some kinds do not have, the columns that are empty are left out."""
    column, of_all = kind.rank
    known = ((value, job) for value, job in zip(of_all(outcome), outcome.ended, strict=True) if value > 0)
    ranked = sorted(known, key=lambda pair: -pair[0])[:MAX_LISTED]

    def times(label: str, of: Callable[[JobOutcome], float | None]) -> tuple[Column, Sequence[float | None]]:
        values = [of(job) for _, job in ranked]
        shown = [None if value is None else value / kind.unit_s for value in values]
        return Column(f"{label}, {kind.unit}", True, 1), shown

    columns: list[tuple[Column, Sequence[str | float | None]]] = [
        (Column("name"), [job.name for _, job in ranked]),
        (Column("group"), [job.group for _, job in ranked]),
        (Column("user"), [job.user for _, job in ranked]),
        (column, [value for value, _ in ranked]),
        times("arrived", lambda job: job.arrived_at),
        times("wait for application master", lambda job: job.started_at and job.started_at - job.arrived_at),
        times("completion", lambda job: job.completion_s),
        times("alone", lambda job: job.alone_s),
        (Column("GPUs", True), [job.gpus for _, job in ranked]),
        (Column("moves", True), [job.moves for _, job in ranked]),
        (Column("preempted", True), [job.preempted for _, job in ranked]),
    ]
    used = [(column, cells) for column, cells in columns if any(cells)]
    rows = tuple(zip(*(cells for _, cells in used), strict=True))
    return Table(tuple(column for column, _ in used), rows, caption=name, empty=f"{name}: none.")
