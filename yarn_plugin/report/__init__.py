"""Self-contained HTML pages from results and journals: one file, no network, for screen (light and dark) and print.

A page is made of plain dataclasses: a `Page` of `Section`s of blocks. Blocks: `Text`, `KeyFigures`, `Table`, `Entries`,
`Details`, `SideBySide`, `Code`, and the charts `TimeChart`, `Gantt`, `BarChart`, `ColumnChart`, `Distribution`,
`CurveChart`, `ParallelChart`, `PlaneChart`, `TreeChart`. Every text is escaped; every chart has a description and a
table of its values.
"""

from yarn_plugin.report.axes import Axis, axis_of
from yarn_plugin.report.bars import BarChart, ColumnChart, ColumnSeries
from yarn_plugin.report.curves import Curve, CurveChart
from yarn_plugin.report.distribution import Distribution, Sample
from yarn_plugin.report.figure import Key, Span
from yarn_plugin.report.gantt import Bar, Gantt, Mark, Row
from yarn_plugin.report.moments import Moment
from yarn_plugin.report.page import (
    Code,
    Details,
    Entries,
    Entry,
    KeyFigure,
    KeyFigures,
    Page,
    Section,
    SideBySide,
    Text,
    render,
    write,
)
from yarn_plugin.report.parallel import ParallelChart, Strand
from yarn_plugin.report.plane import PlaneChart, Point
from yarn_plugin.report.table import Badge, Column, Figure, Meter, Table, table_of
from yarn_plugin.report.timechart import Series, TimeChart
from yarn_plugin.report.tree import Node, TreeChart

__all__ = [
    "Axis",
    "Badge",
    "Bar",
    "BarChart",
    "Code",
    "Column",
    "ColumnChart",
    "ColumnSeries",
    "Curve",
    "CurveChart",
    "Details",
    "Distribution",
    "Entries",
    "Entry",
    "Figure",
    "Gantt",
    "Key",
    "KeyFigure",
    "KeyFigures",
    "Mark",
    "Meter",
    "Moment",
    "Node",
    "Page",
    "ParallelChart",
    "PlaneChart",
    "Point",
    "Row",
    "Sample",
    "Section",
    "Series",
    "SideBySide",
    "Span",
    "Strand",
    "Table",
    "Text",
    "TimeChart",
    "TreeChart",
    "axis_of",
    "render",
    "table_of",
    "write",
]
