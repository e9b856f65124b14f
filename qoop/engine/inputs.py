"""What a query reads, by Spark's optimised plan: after partitions were pruned, without running a job."""

import re
from collections import Counter
from itertools import islice
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from qoop.engine.catalogue import COSTLY
from qoop.engine.connection import without_delay
from qoop.engine.scala import items, leaves
from qoop.estimate.gate import Inputs

MAX_FIELDS = 10_000
"""How many columns of an operator Spark prints."""

MAX_LEAVES = 200
"""How many tables are looked at; those of a query that names more count as one of unknown size."""

MAX_FILES = 50
"""How many files are listed to learn a size; a table of more files counts as one of unknown size."""

UNKNOWN_BYTES = 2.0**62
"""Sizes from which on Spark means that it knows none (spark.sql.defaultSizeInBytes)."""

READS_ALL = COSTLY - {"Join"}
"""Operators that read all rows before they return the first; a join need not read its larger side."""

COLUMN = re.compile(r"#(\d+)")
SIZE = re.compile(r"Statistics\(sizeInBytes=([\d.E+]+) (\w+)")
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
OPERATOR = re.compile(r"^[\s:+-]*(\w+)", re.MULTILINE)


def read_inputs(frame: DataFrame, enough: float) -> Inputs:
    """The inputs of a query; a table of unknown size is listed until `enough` bytes were found."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    without_delay(frame.sparkSession)
    plan.stats()
    text = _printed(plan)
    # Columns of the result need not be named by an operator.
    named = Counter(COLUMN.findall(text) + COLUMN.findall(str(plan.output().toString())))
    found = list(islice(leaves(plan), MAX_LEAVES + 1))
    sizes = [_bytes_read(leaf, named, frame, enough) for leaf in found[:MAX_LEAVES]]
    return Inputs((*sizes, *(None for _ in found[MAX_LEAVES:])), _stops_early(text))


def _printed(plan: Any) -> str:
    """A plan as Spark prints it, with all columns."""
    try:
        return str(plan.treeString(False, False, MAX_FIELDS, False, False))
    except Py4JError:
        # Spark 4.0 has one parameter less.
        return str(plan.treeString(False, False, MAX_FIELDS, False))


def _stops_early(text: str) -> bool:
    """Whether a plan is a limit over operators that do not have to read all of their input."""
    operators = OPERATOR.findall(text)
    return operators[:1] in (["GlobalLimit"], ["LocalLimit"]) and not READS_ALL.intersection(operators)


def _bytes_read(leaf: Any, named: Counter[str], frame: DataFrame, enough: float) -> float | None:
    """The bytes of the columns of a leaf that other operators name."""
    text = str(leaf.verboseStringWithSuffix(MAX_FIELDS))
    if not SIZE.search(text):
        # Of what Spark does not need to know the size of, such as the right side of a semi join.
        leaf.stats()
        text = str(leaf.verboseStringWithSuffix(MAX_FIELDS))
    size = _printed_size(text)
    if size is None or size >= UNKNOWN_BYTES:
        size = _listed_bytes(leaf, frame, enough)
    columns = COLUMN.findall(text)
    if size is None or not columns:
        return size
    return size * sum(named[column] > 1 for column in columns) / len(columns)


def _printed_size(text: str) -> float | None:
    """The size in the statistics that Spark prints after an operator, to three digits."""
    printed = SIZE.findall(text)
    if not printed:
        return None
    number, unit = printed[-1]
    return float(number) * 1024.0 ** UNITS.index(unit)


def _listed_bytes(leaf: Any, frame: DataFrame, enough: float) -> float | None:
    """The size of a leaf's files; None if it has none, or so many that it is not worth knowing."""
    try:
        paths = _paths(leaf)
        configuration = frame.sparkSession._jsparkSession.sessionState().newHadoopConf()
        found, files = 0.0, 0
        for path in paths:
            listed = path.getFileSystem(configuration).listFiles(path, True)
            while found < enough and listed.hasNext():
                found += float(listed.next().getLen())
                files += 1
                if files > MAX_FILES:
                    return None
    except Py4JError:
        # What cannot be listed now fails when Spark reads it, or is of an unknown size.
        return None
    return found if paths else None


def _paths(leaf: Any) -> list[Any]:
    """The directories and files of a table; none if Spark does not read it by a list of files."""
    if str(leaf.getClass().getSimpleName()) != "LogicalRelation":
        return []
    relation = leaf.relation()
    if str(relation.getClass().getSimpleName()) != "HadoopFsRelation":
        return []
    return list(items(relation.location().rootPaths()))
