"""The charts and tables of a figure, from the results of its simulations."""

from collections.abc import Sequence
from statistics import fmean

from yarn_plugin.quantities import number
from yarn_plugin.report import BarChart, ColumnChart, ColumnSeries, Distribution, Sample
from yarn_plugin.report.markup import Block
from yarn_plugin.simulation.paper_figures.claims import MEASURES, Results
from yarn_plugin.simulation.paper_figures.intervals import interval
from yarn_plugin.simulation.paper_figures.record import Record
from yarn_plugin.simulation.paper_figures.specification import Case, ChartSection, Measure, Paper, Value, moved
from yarn_plugin.simulation.paper_figures.training_case import TrainingCase, TrainingSize
from yarn_plugin.simulation.paper_figures.training_charts import training_blocks
from yarn_plugin.simulation.result import colour

FULL = "paper"
"""The size of a workload as the paper has it."""


class Charts:
    """Draws one figure. `base`: its simulation with the first seed, from which the others differ."""

    def __init__(self, paper: Paper, base: Case, results: Results, seeds: Sequence[int]) -> None:
        self._paper, self._base, self._results, self._seeds = paper, base, results, seeds

    def blocks(self, chart: ChartSection) -> list[Block]:
        """What a chart or table of the file shows."""
        match chart.kind:
            case "distribution":
                return [self._distribution(chart)]
            case "bars":
                return [self._bars(chart)]
            case "columns":
                return [self._columns(chart)]
        full = self._paper.sizes[FULL]
        assert isinstance(self._base, TrainingCase) and isinstance(full, TrainingSize), f"no chart {chart.kind}"
        values = tuple(value for listed in chart.by.values() for value in self._paper.listed(listed))
        return training_blocks(chart.kind, self._base, self._runs, full, values)

    def _runs(self, case: Case) -> list[Record]:
        """The results of a case with every seed."""
        return [self._results[moved(case, {"seed": seed})] for seed in self._seeds]

    def _at(self, name: str, value: Value) -> list[Record]:
        return self._runs(moved(self._base, {name: value}))

    def _series(self, chart: ChartSection) -> tuple[str, tuple[Value, ...]]:
        """A field, and its values."""
        ((name, values),) = chart.series.items()
        return name, self._paper.listed(values)

    def _distribution(self, chart: ChartSection) -> Distribution:
        name, values = self._series(chart)
        samples = []
        for place, value in enumerate(values):
            runs = self._at(name, value)
            if chart.values is None:
                found = [score for run in runs for score in run.scores]
            else:
                found = [app[chart.values] for run in runs for app in run.apps.values()]
            clipped = found if chart.clip is None else [min(one, chart.clip) for one in found]
            samples.append(Sample(str(value), tuple(clipped), colour(place)))
        return Distribution(chart.title, chart.unit, tuple(samples))

    def _bars(self, chart: ChartSection) -> BarChart:
        """A measure of each of a series, with its interval beside it."""
        label, measure = MEASURES[_given(chart.measure)]
        name, values = self._series(chart)
        means = [(str(value), interval([measure(run) for run in self._at(name, value)])) for value in values]
        notes = tuple("" if one.low is None else f"({number(one.low, 2)} to {number(one.high, 2)})" for _, one in means)
        bars = tuple((value, one.mean) for value, one in means)
        return BarChart(f"{label}, mean over seeds", label, bars, notes, digits=2)

    def _columns(self, chart: ChartSection) -> ColumnChart:
        """A measure at each value of a field, for each of a series."""
        label, measure = MEASURES[_given(chart.measure)]
        name, values = self._series(chart)
        ((field, points),) = chart.by.items()
        at = self._paper.listed(points)
        series = tuple(
            ColumnSeries(
                chart.labels[place] if chart.labels else str(value),
                tuple(fmean(map(measure, self._runs(moved(self._base, {name: value, field: point})))) for point in at),
                colour(place),
            )
            for place, value in enumerate(values)
        )
        title = f"{label}{f' by {chart.x_label}' if chart.x_label else ''}, mean over seeds"
        names = tuple(chart.label.format(point) for point in at)
        return ColumnChart(title, label, names, series, x_label=chart.x_label, digits=2)


def _given(measure: Measure | None) -> Measure:
    assert measure is not None, "the chart has no measure"
    return measure
