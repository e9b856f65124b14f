"""A page about the communication of a job: a timeline for each channel, planned beside measured."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from themis_agent.communication.capture import Seen, What, iteration_of, typical
from themis_agent.communication.costs import CostTable
from themis_agent.communication.formats import Trace
from themis_agent.communication.iteration import Iteration
from themis_agent.communication.plan import Plan
from themis_agent.communication.planning import problem_of
from themis_agent.communication.schedule import COMPUTE, REPLAYED, Entry, Place, Timeline, graph, replay
from yarn_plugin.report import Bar, Column, Gantt, KeyFigure, KeyFigures, Page, Row, Section, Span, Table, Text

_MS = 1000.0


@dataclass(frozen=True)
class Shown:
    """What a page is made from: the trace of one process, and, if there are, its costs and plan."""

    trace: Trace
    costs: CostTable | None
    plan: Plan | None


def page(shown: Shown) -> Page:
    """The page."""
    iterations = shown.trace.iterations
    in_order = typical([one for one in iterations if not one.version])
    under_plan = [one for one in iterations if one.version]
    sections: list[Section] = []
    base = in_order or typical(iterations)
    blocks: list[Gantt | Text | Table] = []
    if shown.plan is not None and shown.costs is not None and base:
        timeline = _planned(iteration_of(base), shown.costs, shown.plan)
        blocks.append(_of_timeline("Planned: one iteration", timeline, shown.plan))
    if under_plan:
        blocks.append(_of_seen("Measured under the plan: the median iteration", _median(under_plan)))
    if in_order:
        blocks.append(_of_seen("Measured in the order of the program: the median iteration", _median(in_order)))
    sections.append(Section("Timelines", tuple(blocks) or (Text("No iteration was seen."),)))
    if base:
        sections.append(Section("Operations", (_operations(base[0], shown.plan),)))
    if shown.costs is not None:
        sections.append(Section("Costs", (_costs(shown.costs),)))
    trace = shown.trace
    return Page(
        title="Communication of a training job",
        subtitle=f"As rank {trace.rank} of {trace.ranks} saw it: {len(iterations)} iterations",
        sections=tuple(sections),
        top=(KeyFigures(tuple(_key_figures(shown, in_order, under_plan))),),
    )


def _key_figures(shown: Shown, in_order: Sequence[Seen], under_plan: Sequence[Seen]) -> list[KeyFigure]:
    found = []
    if in_order:
        found.append(KeyFigure("In order", f"{_median_ms(in_order):.1f} ms", f"{len(in_order)} iterations, median"))
    if under_plan:
        found.append(KeyFigure("Planned", f"{_median_ms(under_plan):.1f} ms", f"{len(under_plan)} iterations, median"))
    if shown.plan is not None:
        found.append(KeyFigure("Predicted", f"{shown.plan.period_s * _MS:.1f} ms", "by the plan"))
    return found


def _median_ms(seen: Sequence[Seen]) -> float:
    return statistics.median(one.seconds for one in seen) * _MS


def _median(seen: Sequence[Seen]) -> Seen:
    return sorted(seen, key=lambda one: one.seconds)[len(seen) // 2]


def _planned(iteration: Iteration, costs: CostTable, plan: Plan) -> Timeline | None:
    problem = problem_of(iteration, costs)
    if len(plan.operations) != len(iteration.operations):
        return None
    chosen = {}
    for task, option in zip(iteration.operations, plan.options, strict=True):
        chosen[task] = next((one.motifs for one in problem.choices[task] if one.option == option), None)
    if any(motifs is None for motifs in chosen.values()):
        return None
    under = graph(iteration, {task: motifs or () for task, motifs in chosen.items()}, problem.channels, costs.overlap)
    sequence = tuple(
        tuple(Entry(Place(iteration.operations[turn.operation], turn.step), turn.lag) for turn in turns)
        for turns in plan.turns
    )
    return replay(under, REPLAYED, sequence)


def _of_timeline(title: str, timeline: Timeline | None, plan: Plan) -> Gantt | Text:
    if timeline is None:
        return Text("The plan is for other operations than the trace has.", "warning")
    under, middle = timeline.graph, REPLAYED // 2
    began = min(timeline.starts[middle][node] for node in under.computing)
    ended = timeline.finish(middle)
    rows: dict[int, list[Bar]] = {lane: [] for lane in range(under.channels + 1)}
    tasks = sorted({place.task for node, place in enumerate(under.places) if under.lanes[node] != COMPUTE})
    for iteration in range(REPLAYED):
        for node, place in enumerate(under.places):
            start, end = timeline.starts[iteration][node], timeline.ends[iteration][node]
            if end <= began or start >= ended or end <= start:
                continue
            if under.lanes[node] == COMPUTE:
                rows[COMPUTE].append(Bar((start - began) * _MS, (end - began) * _MS, "", None, detail="computation"))
            else:
                number = tasks.index(place.task)
                name = f"{plan.operations[number].kind} {number}"
                rows[under.lanes[node]].append(Bar((start - began) * _MS, (end - began) * _MS, name, number % 6))
    return Gantt(title, _rows(rows), time="milliseconds", span=Span(0.0, (ended - began) * _MS))


def _of_seen(title: str, seen: Seen) -> Gantt:
    rows: dict[int, list[Bar]] = {COMPUTE: []}
    begun: dict[tuple[int, int], float] = {}
    since, waiting = 0.0, False
    for event in sorted(seen.events, key=lambda one: one.at):
        match event.what:
            case What.BEGIN:
                begun[event.operation, event.step] = event.at
            case What.END:
                operation = seen.operations[event.operation]
                name = f"{operation.kind} {event.operation}"
                start = begun.get((event.operation, event.step), event.at)
                bar = Bar(start * _MS, event.at * _MS, name, event.operation % 6)
                rows.setdefault(event.channel + 1, []).append(bar)
            case What.WAIT if not waiting:
                rows[COMPUTE].append(Bar(since * _MS, event.at * _MS, detail="computation"))
                waiting = True
            case What.GO_ON:
                since, waiting = event.at, False
    if not waiting:
        rows[COMPUTE].append(Bar(since * _MS, seen.seconds * _MS, detail="computation, and waits that are not seen"))
    return Gantt(title, _rows(rows), time="milliseconds", span=Span(0.0, seen.seconds * _MS))


def _rows(bars: dict[int, list[Bar]]) -> tuple[Row, ...]:
    return tuple(
        Row("computation" if lane == COMPUTE else f"channel {lane - 1}", tuple(bars[lane])) for lane in sorted(bars)
    )


def _operations(seen: Seen, plan: Plan | None) -> Table:
    names = (Column("#", True, 0), Column("operation"), Column("elements", True, 0), Column("type"))
    planned = plan.options if plan is not None and plan.operations == seen.operations else None
    rows = tuple(
        (number, str(one.kind), one.elements, one.dtype, str(planned[number]) if planned else "")
        for number, one in enumerate(seen.operations)
    )
    return Table((*names, Column("planned as")), rows, caption="Operations of an iteration")


def _costs(costs: CostTable) -> Table:
    columns = (Column("operation"), Column("channel"), Column("bytes", True, 0), Column("ms", True, 3))
    rows = tuple(
        (
            str(curve.kind) if not curve.destinations else f"{curve.kind} to {curve.destinations}",
            costs.channels[curve.channel],
            size,
            seconds * _MS,
        )
        for curve in costs.curves
        for size, seconds in zip(curve.bytes, curve.seconds, strict=True)
    )
    beside = "; ".join(" ".join(f"{factor:.2f}" for factor in row) for row in costs.overlap)
    return Table(
        columns, rows, caption=f"Measured among {costs.ranks} processes", note=f"Overlap of channels: {beside}"
    )
