"""The searches of the demo over time: who held which GPU, how many, and finish-time fairness. Pure."""

from collections import defaultdict
from collections.abc import Iterable

from tpcds.demo.searches.record import Lease, SearchesRecord
from tpcds.demo.searches.told import Told
from yarn_plugin.report import Bar, Gantt, Key, Moment, Row, Series, Span, TimeChart
from yarn_plugin.report.figure import colour

GUTTER = 130.0
TIME = "seconds since the first submission"
HOW = {"bid": "won by its bid", "leftover": "leftover", "kept": "nobody else wanted it", "policy": "by policy"}


class Times:
    """Seconds since the first submission."""

    def __init__(self, record: SearchesRecord) -> None:
        self._start = min((one.submitted_at for one in record.searches), default=record.began_at)
        ends = [one.ended_at for one in record.searches] + ([record.query.ended_at] if record.query else [])
        self.end = self(max(ends, default=record.ended_at))

    def __call__(self, at: float) -> float:
        """A time on the axis."""
        return max(at - self._start, 0.0)

    @property
    def span(self) -> Span:
        """From the first submission to the last end."""
        return Span(0.0, self.end)


def colours(record: SearchesRecord) -> dict[str, int]:
    """The colour of each search, by its name."""
    return {one.name: place for place, one in enumerate(record.searches)}


def leases_chart(told: Told, times: Times) -> Gantt:
    """Who held which GPU. A lease that is won again goes on in the same bar."""
    rows: dict[str, list[Bar]] = defaultdict(list)
    by_name = colours(told.record)
    for lease in told.record.rounds.leases:
        rows[lease.cell].append(_bar(told, times, lease, by_name))
    if told.record.query is not None:
        run = told.record.query
        detail = f"query {run.query}, in the pool sql, on nodes without GPUs"
        rows[f"query {run.query}"] = [Bar(times(run.submitted_at), times(run.ended_at), "sql", None, detail=detail)]
    legend = [Key(name, "block", colour(place)) for name, place in by_name.items()]
    return Gantt(
        "Who held which GPU",
        tuple(Row(label, tuple(bars)) for label, bars in sorted(rows.items(), key=lambda row: _in_order(row[0]))),
        (*legend, Key("a leftover", "faint", colour(None))),
        tuple(_moments(told, times)),
        TIME,
        times.span,
        GUTTER,
    )


def _bar(told: Told, times: Times, lease: Lease, by_name: dict[str, int]) -> Bar:
    name, hows = told.name(lease.app), [win.how for win in lease.wins]
    won = ", ".join(f"round {win.round}: {HOW.get(win.how or '', 'no result')}" for win in lease.wins)
    end = times.end if lease.end is None else times(lease.end)
    detail = f"{name}, lease {lease.lease}\n{won}"
    is_leftover = hows[:1] == ["leftover"]
    return Bar(times(lease.start), end, name, by_name.get(name), "faint" if is_leftover else "solid", detail)


def _in_order(label: str) -> tuple[bool, str]:
    """GPUs first, by machine and number; then the query."""
    return "/" not in label, label


def held_chart(told: Told, times: Times) -> TimeChart:
    """How many GPUs each search held."""
    gpus = told.record.gpu_nodes * told.record.gpus_per_node
    by_name = colours(told.record)
    series = tuple(
        Series(name, _level(times, (one for one in told.record.rounds.leases if told.name(one.app) == name)), place)
        for name, place in by_name.items()
    )
    return TimeChart(
        "GPUs held by each search", "GPUs", series, "stacked", TIME, times.span, tuple(_moments(told, times)),
        (float(gpus), "all GPUs"), gutter=GUTTER, height=140.0,
    )  # fmt: skip


def _level(times: Times, leases: Iterable[Lease]) -> tuple[tuple[float, float], ...]:
    steps: dict[float, int] = defaultdict(int)
    for lease in leases:
        steps[times(lease.start)] += 1
        if lease.end is not None:
            steps[times(lease.end)] -= 1
    points, level = [(0.0, 0.0)], 0
    for at in sorted(steps):
        level += steps[at]
        points.append((at, float(level)))
    return (*points, (times.end, float(level)))


def rho_chart(told: Told, times: Times) -> TimeChart:
    """Each search's rho at every round, as the arbiter knew it; no value: unbounded, or not there."""
    by_name = colours(told.record)
    ends = {one.app: one.ended_at for one in told.record.rounds.apps}
    series = []
    for app, name in told.names.items():
        points: list[tuple[float, float | None]] = [
            (times(one.at), dict(one.rhos)[app]) for one in told.record.rounds.rounds if app in dict(one.rhos)
        ]
        ended = ends.get(app)
        points += [(times(ended), None)] if ended is not None else []
        series.append(Series(name, tuple(points), by_name.get(name)))
    return TimeChart(
        "Finish-time fairness at each round", "rho", tuple(series), "step", TIME, times.span,
        tuple(_moments(told, times)), (1.0, "as with a part of its own"), gutter=GUTTER, height=150.0,
    )  # fmt: skip


def _moments(told: Told, times: Times) -> Iterable[Moment]:
    for one in told.auctions:
        bids = f"{len(one.bids)} bid{'s' if len(one.bids) != 1 else ''}"
        yield Moment(times(one.at), f"round {one.round}", bids, "share" if len(one.bids) >= 2 else "plain")
