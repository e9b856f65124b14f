"""What a query reads, by Spark's optimised plan: after partitions were pruned, without running a job."""

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from qoop.engine.connection import java_class, without_delay
from qoop.engine.scala import MAX_FIELDS, UNKNOWN_BYTES, items, leaves, printed
from qoop.engine.session import is_on
from qoop.estimate.gate import Inputs
from qoop.latest import Latest

MAX_ASKED = 200
"""Of how many tables Spark is asked for the size, if its plan does not have it; others count as of unknown size.

A table that is read several times in the same way is one of them.
"""

MAX_FILES = 50
"""How many files are listed to learn a size; a table of more files counts as one of unknown size."""

MAX_LISTED, LISTED_S = 1000, 600.0
"""The sizes of how many tables are remembered, and for how many seconds, so that not every query lists them."""

SMALL_LISTED_S = 20.0
"""The same for tables that are small."""


class _Listed(NamedTuple):
    """When a table was listed, and its size; None if it has many files. `whole`: it was listed to its end."""

    at: float
    size: float | None
    whole: bool


_listed: Latest[tuple[str, ...], _Listed] = Latest(MAX_LISTED)

NO_TABLES = ("CTERelationRef", "OneRowRelation", "LocalRelation")
"""Leaves of plans that read no table, as Spark prints them."""

COST_BASED = "spark.sql.cbo.enabled"

LIMIT = re.compile(r"(?:Global|Local)Limit (\d+)\b")
"""A limit, as Spark prints it."""

FEW_ROWS = 100_000
"""A limit to more rows than this may well be one to all."""

READS_ALL = {"Aggregate", "Sort", "Window", "Distinct", "Intersect", "Except", "Repartition", "BatchEvalPython"}
"""Operators that read all rows before they return the first; a join need not read its larger side."""

COLUMN = re.compile(r"#(\d+)")
SIZE = re.compile(r"Statistics\(sizeInBytes=([\d.E+]+) (\w+)(, rowCount=)?")
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
IN_MEMORY = 2.7
"""How many times the size of its files a table has by Spark's cost-based optimiser, which takes rows as in memory.

Of TPC-DS's large tables in Parquet: 2.5 to 3.1.
"""

WHOLE_TABLE = re.compile(r"Relation [^\[\s].*Statistics\(")
"""A table of the catalog that Spark has sized."""

INDENT = re.compile(r"^(?:[:\s]  |[:+]- )*")
"""What Spark prints before an operator: three characters for each level."""

NAME = re.compile(r"\w+")
CACHED = "InMemoryRelation"
"""The one leaf below which Spark prints a plan: that of the rows that it has cached."""


class _Operator(NamedTuple):
    """A line of a printed plan. `number`: its place in the plan, by which Spark finds the operator."""

    number: int
    depth: int
    name: str
    text: str


def read_inputs(frame: DataFrame, enough: float, named: int = 0) -> Inputs:
    """The inputs of a query that names so many tables.

    Spark is asked once for its whole plan, and again only for tables whose size it does not know. One table of
    `enough` bytes, or of a size that cannot be known, settles what becomes of a query that reads all rows: then the
    others may stay unknown.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()
    without_delay(frame.sparkSession)
    _size(plan, frame.sparkSession)
    text = printed(plan, sizes=True)
    operators = list(_operators(text))
    # Columns of the result need not be named by an operator.
    columns = Counter(COLUMN.findall(text) + COLUMN.findall(str(plan.output().toString())))
    early = _stops_early(operators)
    sizes = [(leaf, _bytes_read(leaf.text, columns)) for leaf in _leaves(operators)]
    if early or all(size is None or size < enough for _, size in sizes):
        files, settled = _Files(frame, enough), False
        answers: dict[tuple[str, tuple[bool, ...]], float | None] = {}
        for place, (leaf, size) in enumerate(sizes):
            if size is None and not settled:
                read = tuple(columns[one] > 1 for one in COLUMN.findall(leaf.text))
                # Spark prints neither the folders of a view nor partitions that it has not sized.
                place_of = "" if WHOLE_TABLE.match(leaf.text) else str(place)
                kind = place_of + COLUMN.sub("", leaf.text), read
                if kind not in answers and len(answers) < MAX_ASKED:
                    answers[kind] = _by_asking(plan, leaf, columns, files)
                asked = answers.get(kind)
                sizes[place] = leaf, asked
                settled = not early and (asked is None or asked >= enough)
    return Inputs(tuple(size for _, size in sizes), early, named)


def tables_named(frame: DataFrame) -> int:
    """How many tables a query names, those included that Spark does not read; without those in subqueries."""
    lines = str(frame._jdf.queryExecution().analyzed().collectLeaves().mkString("\n")).splitlines()
    return sum(bool(line) and not line.startswith(NO_TABLES) for line in lines)


def _size(plan: Any, session: SparkSession) -> None:
    """Let Spark size the leaves of a plan and of its subqueries.

    The operators above take its cost-based optimiser long, and when it plans the query it sizes them again.
    """
    union = java_class(plan, "org.apache.spark.sql.catalyst.plans.logical.Union")
    found = union(plan.subqueriesAll().appended(plan), False, False).collectLeaves()
    if is_on(session, COST_BASED, "false"):
        # It takes no union of leaves whose columns differ.
        for leaf in islice(items(found), MAX_ASKED):
            leaf.stats()
    else:
        union(found, False, False).stats()


def _operators(text: str) -> Iterator[_Operator]:
    """The operators of a printed plan, without those of cached plans."""
    cached: int | None = None
    for number, line in enumerate(text.splitlines()):
        indent = INDENT.match(line)
        width = indent.end() if indent else 0
        if cached is not None and width > cached:
            continue
        name = NAME.match(line, width)
        cached = width if name and name[0] == CACHED else None
        yield _Operator(number, width // 3, name[0] if name else "", line[width:])


def _leaves(operators: Sequence[_Operator]) -> list[_Operator]:
    depths = [operator.depth for operator in operators[1:]]
    return [one for one, below in zip(operators, [*depths, 0], strict=True) if one.name and below <= one.depth]


def _stops_early(operators: Sequence[_Operator]) -> bool:
    """Whether a plan is a limit to few rows over operators that do not have to read all of their input."""
    limit = LIMIT.match(operators[0].text) if operators else None
    few = limit is not None and int(limit[1]) <= FEW_ROWS
    return few and not READS_ALL.intersection(operator.name for operator in operators)


def _bytes_read(leaf: str, named: Counter[str], listed: float | None = None) -> float | None:
    """The bytes of the columns of a printed leaf that other operators name; `listed`: all its bytes, if known."""
    size = _printed_size(leaf) if listed is None else listed
    columns = COLUMN.findall(leaf)
    if size is None or size >= UNKNOWN_BYTES:
        return None
    return size * sum(named[column] > 1 for column in columns) / len(columns) if columns else size


def _by_asking(plan: Any, operator: _Operator, named: Counter[str], files: "_Files") -> float | None:
    """The same for a leaf that Spark has not sized, or whose size it does not know."""
    leaf = _found(plan, operator)
    if leaf is None:
        return None
    leaf.stats()
    text = str(leaf.verboseStringWithSuffix(MAX_FIELDS))
    known = _bytes_read(text, named)
    if known is not None:
        return known
    listed = files.bytes_of(leaf)
    # Of a listing that ended early the whole is not known, so no part of it is.
    return listed if listed is None or listed >= files.enough else _bytes_read(text, named, listed)


def _found(plan: Any, operator: _Operator) -> Any:
    """A leaf by its number; by its text if lines and operators differ in number, as after a plan of cached rows."""
    for leaf in chain((plan.apply(operator.number),), leaves(plan)):
        if leaf is not None and str(leaf.verboseStringWithSuffix(MAX_FIELDS)).startswith(operator.text):
            return leaf
    return None


def _printed_size(text: str) -> float | None:
    """The size in the statistics that Spark prints after an operator, to three digits."""
    printed = SIZE.findall(text)
    if not printed:
        return None
    number, unit, rows = printed[-1]
    size = float(number) * 1024.0 ** UNITS.index(unit)
    return size / IN_MEMORY if rows and not text.startswith(CACHED) else size


class _Files:
    """The files of the tables of a query; each table is listed once, however often it is named."""

    def __init__(self, frame: DataFrame, enough: float) -> None:
        self._session, self.enough = frame.sparkSession._jsparkSession, enough
        self._known: dict[tuple[str, ...], float | None] = {}

    def bytes_of(self, leaf: Any) -> float | None:
        """The size of a leaf's files, up to enough; None if it has none, or so many that it is not worth knowing."""
        try:
            paths = _paths(leaf)
            table = tuple(str(path.toString()) for path in paths[:MAX_FILES])
            if not 0 < len(paths) <= MAX_FILES:
                return None
            if table not in self._known:
                self._known[table] = self._listed(paths, table)
        except Py4JError:
            # What cannot be listed now fails when Spark reads it, or is of an unknown size.
            return None
        return self._known[table]

    def _listed(self, paths: Sequence[Any], table: tuple[str, ...]) -> float | None:
        known = _listed.get(table)
        if known is not None and (known.size is None or known.whole or known.size >= self.enough):
            # A table that is small now may be loaded soon.
            is_large = known.size is None or known.size >= self.enough
            if time.monotonic() - known.at < (LISTED_S if is_large else SMALL_LISTED_S):
                return known.size
        found, files = 0.0, 0
        configuration = self._session.sessionState().newHadoopConf()
        for path in paths:
            system = path.getFileSystem(configuration)
            # Its folders are counted before they are entered, which takes a request for each.
            if _has_many(system.listStatusIterator(path)):
                files = MAX_FILES + 1
            else:
                listed = system.listFiles(path, True)
                while files <= MAX_FILES and found < self.enough and listed.hasNext():
                    found += float(listed.next().getLen())
                    files += 1
            if files > MAX_FILES:
                _listed.put(table, _Listed(time.monotonic(), None, whole=False))
                return None
            if found >= self.enough:
                break
        _listed.put(table, _Listed(time.monotonic(), found, whole=found < self.enough))
        return found


def _has_many(entries: Any) -> bool:
    """Whether a directory has more than `MAX_FILES` entries."""
    for _ in range(MAX_FILES):
        if not entries.hasNext():
            return False
        entries.next()
    return bool(entries.hasNext())


def _paths(leaf: Any) -> list[Any]:
    """The directories and files of a table; none if Spark does not read it by a list of files."""
    if str(leaf.getClass().getSimpleName()) != "LogicalRelation":
        return []
    relation = leaf.relation()
    if str(relation.getClass().getSimpleName()) != "HadoopFsRelation":
        return []
    return list(items(relation.location().rootPaths()))
