"""A scenario of the demo as charts on one time axis: the cluster, the shares, the stages of each query."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from qoop.report import Axis, QueryRecord, share_chart, stages_chart
from tpcds.demo.record import AppSample, Sample, Scenario
from yarn_plugin.report import Details, Moment, Section, Series, Text, TimeChart
from yarn_plugin.report.markup import Block

GUTTER = 240.0
"""Space to the left of every chart, so that their time axes align."""

COLOURS = {"A": 4, "B": 3}
"""Colours of applications, different from those of the first plans; other applications are grey."""


@dataclass(frozen=True, slots=True)
class ScenarioRecord:
    """A scenario with its samples, and its journals by the names of runs."""

    name: str
    scenario: Scenario
    samples: tuple[Sample, ...]
    journals: Mapping[str, QueryRecord]

    @property
    def axis(self) -> Axis:
        """From the submission of the first query to the last end."""
        first = self.scenario.runs[0]
        return Axis(first.submitted_at, max(run.ended_at for run in self.scenario.runs), f"{first.name} was submitted")


def scenario_section(title: str, recorded: ScenarioRecord) -> Section:
    """The charts of a scenario."""
    blocks: list[Block] = [*_cluster(recorded)]
    for run in recorded.scenario.runs:
        record = recorded.journals.get(run.name)
        if record is None:
            blocks.append(Text(f"{run.name} recorded no events: it has no journal.", "warning"))
            continue
        name = f"Stages of {run.name} (query {run.query})"
        blocks.append(stages_chart(record, name, recorded.axis))
        share = share_chart(record, f"Slots, executors and stages of {run.name}", recorded.axis)
        blocks.append(share if run.name == "A" and run.switching else Details(share.title, (share,)))
    return Section(title, tuple(blocks))


def _cluster(recorded: ScenarioRecord) -> list[Block]:
    if not recorded.samples:
        return [Text("The cluster was not sampled in this run.", "warning")]
    apps = list(dict.fromkeys(app.name for sample in recorded.samples for app in sample.apps))
    vcores = max(sample.vcores for sample in recorded.samples)
    memory = max(sample.memory_mb for sample in recorded.samples) / 1024
    charts = [
        _stacked("allocated memory", "GiB", recorded, apps, lambda app: app.memory_mb / 1024, memory),
        _stacked("allocated vcores", "vcores", recorded, apps, lambda app: app.vcores, vcores),
    ]
    # The scarcer resource limits what an application can get, so it is shown first.
    scarce, other = sorted(charts, key=_peak_use, reverse=True)
    return [scarce, Details(other.title, (other,)), _shares(recorded, apps)]


def _peak_use(chart: TimeChart) -> float:
    """The largest fraction of the capacity in use at any time."""
    samples = zip(*(series.points for series in chart.series), strict=True)
    used = (sum(value or 0.0 for _, value in sample) for sample in samples)
    return max(used, default=0.0) / chart.limit[0] if chart.limit and chart.limit[0] else 0.0


def _stacked(
    what: str,
    unit: str,
    recorded: ScenarioRecord,
    apps: list[str],
    value: Callable[[AppSample], float],
    capacity: float,
) -> TimeChart:
    series = (Series(name, _points(recorded, name, value, 0.0), COLOURS.get(name)) for name in apps)
    return TimeChart(
        f"Cluster use: {what}",
        unit,
        tuple(series),
        kind="stacked",
        span=recorded.axis.span,
        moments=tuple(_moments(recorded)),
        limit=(capacity, "capacity"),
        gutter=GUTTER,
        height=150.0,
        time=recorded.axis.label,
    )


def _shares(recorded: ScenarioRecord, apps: list[str]) -> TimeChart:
    series = []
    for name in apps:
        guaranteed = Series(
            f"{name}: guaranteed", _points(recorded, name, lambda app: app.guarantee), COLOURS.get(name)
        )
        entitled = Series(
            f"{name}: entitled", _points(recorded, name, lambda app: app.entitlement), COLOURS.get(name), dashed=True
        )
        shown = [guaranteed] if guaranteed.points == entitled.points else [guaranteed, entitled]
        series += [line for line in shown if any(value is not None for _, value in line.points)]
    return TimeChart(
        "Share of each application, as sent by the arbiter",
        "share of the pool",
        tuple(series),
        span=recorded.axis.span,
        moments=tuple(_moments(recorded)),
        percent=True,
        gutter=GUTTER,
        height=130.0,
        time=recorded.axis.label,
    )


def _points(
    recorded: ScenarioRecord, name: str, value: Callable[[AppSample], float | None], absent: float | None = None
) -> tuple[tuple[float, float | None], ...]:
    """An application's value at each sample of the scenario; `absent` where it was not running."""
    points, axis = [], recorded.axis
    for sample in recorded.samples:
        at = axis(sample.at)
        if axis.span.start <= at <= axis.span.end:
            found = next((app for app in sample.apps if app.name == name), None)
            points.append((at, value(found) if found else absent))
    return tuple(points)


def _moments(recorded: ScenarioRecord) -> Iterator[Moment]:
    """When queries were submitted, started and ended; not the first submission, where the axis starts."""
    for place, run in enumerate(recorded.scenario.runs):
        if place:
            yield Moment(recorded.axis(run.submitted_at), f"{run.name} submitted")
        if run.name in recorded.journals:
            yield Moment(recorded.axis(recorded.journals[run.name].started), f"{run.name} starts")
        if run.ended_at < recorded.axis.end:
            yield Moment(recorded.axis(run.ended_at), f"{run.name} ended")
