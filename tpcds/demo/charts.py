"""A scene of the demo as charts on one axis of time: the cluster, the shares, the stages of each query."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from qoop.report import Axis, QueryRecord, share_chart, stages_chart
from tpcds.demo.record import AppSample, Sample, Scene
from yarn_plugin.report import Details, Moment, Section, Series, Text, TimeChart
from yarn_plugin.report.markup import Block

GUTTER = 240.0
"""Space to the left of every chart, so that all have the same axis of time."""

COLOURS = {"A": 4, "B": 3}
"""Of applications: not those that the first plans have. Other applications are grey."""


@dataclass(frozen=True, slots=True)
class SceneRecord:
    """A scene with what was recorded of it; journals by the names of runs."""

    name: str
    scene: Scene
    samples: tuple[Sample, ...]
    journals: Mapping[str, QueryRecord]

    @property
    def axis(self) -> Axis:
        """From the submission of the first query to the last end."""
        first = self.scene.runs[0]
        return Axis(first.submitted_at, max(run.ended_at for run in self.scene.runs), f"{first.name} was submitted")


def scene_section(title: str, staged: SceneRecord) -> Section:
    """The charts of a scene."""
    blocks: list[Block] = [*_cluster(staged)]
    for run in staged.scene.runs:
        record = staged.journals.get(run.name)
        if record is None:
            blocks.append(Text(f"{run.name} left no journal.", "warning"))
            continue
        name = f"Stages of {run.name} (query {run.query})"
        blocks.append(stages_chart(record, name, staged.axis))
        share = share_chart(record, f"Slots, executors and stages of {run.name}", staged.axis)
        blocks.append(share if run.name == "A" and run.switching else Details(share.title, (share,)))
    return Section(title, tuple(blocks))


def _cluster(staged: SceneRecord) -> list[Block]:
    if not staged.samples:
        return [Text("No samples of the cluster were kept.", "warning")]
    apps = list(dict.fromkeys(app.name for sample in staged.samples for app in sample.apps))
    vcores = max(sample.vcores for sample in staged.samples)
    memory = max(sample.memory_mb for sample in staged.samples) / 1024
    charts = [
        _stacked("memory in containers", "GB", staged, apps, lambda app: app.memory_mb / 1024, memory),
        _stacked("vcores in containers", "vcores", staged, apps, lambda app: app.vcores, vcores),
    ]
    # What is short decides what an application can have, so it is shown first.
    short, other = sorted(charts, key=_fullest, reverse=True)
    return [short, Details(other.title, (other,)), _shares(staged, apps)]


def _fullest(chart: TimeChart) -> float:
    """The largest fraction of the capacity in use."""
    used = (sum(value or 0.0 for _, value in at) for at in zip(*(one.points for one in chart.series), strict=True))
    return max(used, default=0.0) / chart.limit[0] if chart.limit and chart.limit[0] else 0.0


def _stacked(
    what: str, unit: str, staged: SceneRecord, apps: list[str], value: Callable[[AppSample], float], capacity: float
) -> TimeChart:
    series = (Series(name, _points(staged, name, value, 0.0), COLOURS.get(name)) for name in apps)
    return TimeChart(
        f"Cluster use: {what}",
        unit,
        tuple(series),
        kind="stacked",
        span=staged.axis.span,
        moments=tuple(_moments(staged)),
        limit=(capacity, "capacity"),
        gutter=GUTTER,
        height=150.0,
        time=staged.axis.label,
    )


def _shares(staged: SceneRecord, apps: list[str]) -> TimeChart:
    series = []
    for name in apps:
        guaranteed = Series(f"{name}: guaranteed", _points(staged, name, lambda app: app.guarantee), COLOURS.get(name))
        entitled = Series(
            f"{name}: entitled", _points(staged, name, lambda app: app.entitlement), COLOURS.get(name), dashed=True
        )
        told = [guaranteed] if guaranteed.points == entitled.points else [guaranteed, entitled]
        series += [one for one in told if any(value is not None for _, value in one.points)]
    return TimeChart(
        "Share told to each application",
        "share of the pool",
        tuple(series),
        span=staged.axis.span,
        moments=tuple(_moments(staged)),
        percent=True,
        gutter=GUTTER,
        height=130.0,
        time=staged.axis.label,
    )


def _points(
    staged: SceneRecord, name: str, value: Callable[[AppSample], float | None], absent: float | None = None
) -> tuple[tuple[float, float | None], ...]:
    """What an application had at each sample within the scene's time, `absent` where it was not there."""
    points, axis = [], staged.axis
    for sample in staged.samples:
        at = axis(sample.at)
        if axis.span.start <= at <= axis.span.end:
            there = next((app for app in sample.apps if app.name == name), None)
            points.append((at, value(there) if there else absent))
    return tuple(points)


def _moments(staged: SceneRecord) -> Iterator[Moment]:
    """When queries came, began to work and went; the first submission aside: it is the axis's begin."""
    for place, run in enumerate(staged.scene.runs):
        if place:
            yield Moment(staged.axis(run.submitted_at), f"{run.name} submitted")
        if run.name in staged.journals:
            yield Moment(staged.axis(staged.journals[run.name].began), f"{run.name} begins")
        if run.ended_at < staged.axis.end:
            yield Moment(staged.axis(run.ended_at), f"{run.name} ended")
