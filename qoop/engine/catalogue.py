"""Tables of the user's Spark session: their columns and statistics."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import concat, left, length, lit, sha2, when
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from qoop.engine.column_statistics import SIMILAR, catalogue_statistics, rows_and_bytes, with_analysed
from qoop.engine.identity import data_identity, query_identity
from qoop.engine.listings import file_index, first_listed
from qoop.engine.scala import UNKNOWN_BYTES, as_float, items, leaves
from qoop.engine.session import is_on, syntax_of
from qoop.estimate.statistics import UNKNOWN, ColumnStatistics, TableStatistics, Value, distinct_values
from qoop.latest import Latest
from qoop.parsing.spark_sql import Types
from qoop.tables.partitions import partition_statistics
from qoop.tables.statistics import DIGEST, MAX_TEXT, cached_statistics, stored_statistics

SAMPLE_ROWS = 1000

DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
"""Metadata key of the declared type of a `char(n)` or `varchar(n)` column, which Spark reports as string."""

CHEAP = {
    "Expand", "Filter", "Generate", "GlobalLimit", "LocalLimit", "Project", "Sample", "SubqueryAlias", "Union", "View",
}  # fmt: skip
"""Operators that return rows as they read them; others may process all before they return the first."""


MAY_DROP_ALL = {"Filter", "Generate"}
"""Those of them that may read all rows before they return the first, as few rows meet a filter."""

OF_RDDS = ("LogicalRDD", "ExternalRDD")
"""Leaves whose rows are computed by the user's program."""

MAX_FILTERED = 256e6
"""How many bytes a table may have, by Spark's estimate, to be sampled behind a filter: some seconds of reading."""

LOCAL = "file:"

PRUNING = "spark.sql.optimizer.dynamicPartitionPruning.enabled"

MAX_FILES = 50_000
"""The paths of how many files of a table are fetched: those of a million are hundreds of megabytes of text."""

MAX_SAMPLED = 1000
"""The samples of how many tables are kept."""

UNCERTAIN_S = 86_400.0
"""For how many seconds a sample is used in other applications if its table may have other rows by then."""

_sampled: Latest[str, tuple[str, TableStatistics]] = Latest(MAX_SAMPLED)
"""By a table and the settings, the digest of its files and their sample."""


class SparkCatalogue:
    """Looks tables up in a session; results are cached for the life of this object.

    `session`: the session. `syntax`: how it reads SQL.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.session = self._spark = spark
        self.syntax = syntax_of(spark)
        self._frames: dict[str, DataFrame | None] = {}
        self._statistics: dict[str, TableStatistics] = {}

    def columns(self, table: str) -> Types | None:
        """Names and types of a table's or view's columns; None if it does not exist."""
        frame = self._frame(table)
        if frame is None:
            return None
        return {
            self.syntax.folded(field.name): field.metadata.get(DECLARED, field.dataType.simpleString())
            for field in frame.schema.fields
        }

    def statistics(self, table: str) -> TableStatistics:
        """The statistics of a table: from its Parquet files if they are on local disks, else from Spark.

        Those of columns come from Spark's catalogue if they were analysed.
        """
        known = self._statistics.get(table)
        if known is None:
            frame = self._frame(table)
            assert frame is not None
            plan = frame._jdf.queryExecution().optimizedPlan()
            count, paths = _listed(plan, self._spark)
            files = _plain_parquet(paths) if count == len(paths) else []
            found = cached_statistics(files) if files else _by_spark_once(frame)
            if paths and not files:
                found = _counted(found, plan)
            found = replace(_with_partitions(found, frame, plan, paths), files=float(count))
            known = with_analysed(found, catalogue_statistics(plan))
            if not is_on(self._spark, PRUNING):
                known = replace(known, partitioned_by=frozenset())
            if self.syntax.case_sensitive:
                known = _with_exact_names(known, frame.columns)
            self._statistics[table] = known
        return known

    def frames(self) -> dict[str, DataFrame]:
        """The tables and views that were looked up, as Spark resolved them."""
        return {name: frame for name, frame in self._frames.items() if frame is not None}

    def _frame(self, table: str) -> DataFrame | None:
        if table not in self._frames:
            try:
                self._frames[table] = self._spark.table(table)
            except AnalysisException:
                self._frames[table] = None
        return self._frames[table]


@contextmanager
def local_catalogue(properties: Mapping[str, str]) -> Iterator[SparkCatalogue]:
    """The catalogue of a temporary local Spark session, with the user's Spark configuration and more properties."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config(map=dict(properties)).getOrCreate()
    try:
        yield SparkCatalogue(spark)
    finally:
        spark.stop()


def _listed(plan: Any, spark: SparkSession) -> tuple[int, list[str]]:
    """How many files a plan reads, if it does nothing else, and their paths, or of many the first."""
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return 0, []
    try:
        return first_listed(plan.relation().location(), spark, MAX_FILES)
    except Py4JError:
        # Not a relation of files.
        return 0, []


def _with_partitions(known: TableStatistics, frame: DataFrame, plan: Any, paths: Sequence[str]) -> TableStatistics:
    """The statistics of a table with those of the columns that it is partitioned by."""
    names = {str(name).lower() for name in plan.relation().partitionSchema().fieldNames()} if paths else set()
    types = {name.lower(): kind for name, kind in frame.dtypes if name.lower() in names}
    if not types:
        return known
    # A sample is from the partitions of few files.
    sample = {name: values for name, values in known.sample.items() if name not in types}
    columns = known.columns | partition_statistics(paths, types)
    return replace(known, columns=columns, sample=sample, partitioned_by=frozenset(types))


def _plain_parquet(paths: Sequence[str]) -> list[Path]:
    """Parquet files by their paths; empty if one is anything else, or not on a local disk."""
    if not all(path.startswith(LOCAL) for path in paths):
        return []
    files = [Path(path.removeprefix(LOCAL)) for path in paths]
    return files if all(file.suffix == ".parquet" and file.exists() for file in files) else []


def _with_exact_names(known: TableStatistics, names: Sequence[str]) -> TableStatistics:
    """Statistics by the columns' names as they are; without those of columns that only case tells apart."""
    times = Counter(name.lower() for name in names)
    exact = [name for name in names if times[name.lower()] == 1]
    return replace(
        known,
        columns={name: known.columns[name.lower()] for name in exact if name.lower() in known.columns},
        sample={name: known.sample[name.lower()] for name in exact if name.lower() in known.sample},
        partitioned_by=frozenset(name for name in exact if name.lower() in known.partitioned_by),
    )


def _by_spark_once(frame: DataFrame) -> TableStatistics:
    """Statistics from Spark: once until a table's files change, as a sample is a job; each time without files.

    Also in other applications; where only the catalogue lists the files, which may be others by then, for a day.
    """
    listings = [file_index(leaf) for leaf in leaves(frame._jdf.queryExecution().analyzed())]
    if any(listing is None for listing in listings):
        return _by_spark(frame)
    # Spark prints no folders, and views of the same name may read others.
    folders = [str(listing.rootPaths()) for listing in listings]
    table, data = query_identity(frame, *folders), data_identity(frame)
    known = _sampled.get(table)
    if known is None or known[0] != data.digest:
        made = partial(_by_spark, frame)
        name, max_age_s = f"{table}-{data.digest}", math.inf if data.is_complete else UNCERTAIN_S
        known = data.digest, stored_statistics(name, made, max_age_s)
        _sampled.put(table, known)
    return known[1]


def _by_spark(frame: DataFrame) -> TableStatistics:
    """Statistics from the size that Spark estimates and a sample of the first rows."""
    known = frame._jdf.queryExecution().optimizedPlan().stats()
    size = as_float(known.sizeInBytes())
    sampled = _is_plain(frame)
    names, rows = _first_rows(frame) if sampled else ([], [])
    width = 8.0 * max(len(frame.columns), 1)
    count = _row_count(known)
    if count is None:
        all_seen = sampled and len(rows) < SAMPLE_ROWS
        guess = size / width if size < UNKNOWN_BYTES else UNKNOWN.rows
        count = float(len(rows)) if all_seen else max(guess, float(SAMPLE_ROWS))
    sample = {name.lower(): tuple(_plain(row[index]) for row in rows) for index, name in enumerate(names)}
    columns = {name: ColumnStatistics(distinct_values(values, count, None)) for name, values in sample.items()}
    return TableStatistics(count, min(size, count * width * 4), columns, sample)


def _first_rows(frame: DataFrame) -> tuple[list[str], list[Row]]:
    """The names of columns that hold single values, and their values in the first rows.

    Dates and times that Python may not have in some time zone, before the year 2 or after 9998, count as NULL.
    """
    numbered = frame.toDF(*map(str, range(len(frame.columns))))
    names, columns = [], []
    for index, field in enumerate(frame.schema.fields):
        column = numbered[str(index)]
        if isinstance(field.dataType, DateType | TimestampType | TimestampNTZType):
            first, last = (lit(end).cast(field.dataType) for end in ("0002-01-01", "9998-12-31"))
            column = when(column.between(first, last), column)
        elif isinstance(field.dataType, StringType):
            # As those of files are cut: cut texts are equal only if the texts are.
            cut = concat(left(column, lit(MAX_TEXT - DIGEST)), left(sha2(column, 256), lit(DIGEST)))
            column = when(length(column) > MAX_TEXT, cut).otherwise(column)
        elif isinstance(field.dataType, BinaryType):
            column = left(sha2(column, 256), lit(DIGEST))
        elif not isinstance(field.dataType, NumericType | BooleanType):
            continue
        names.append(field.name)
        columns.append(column)
    return names, numbered.select(columns or [lit(True)]).limit(SAMPLE_ROWS).collect()


def _is_plain(frame: DataFrame) -> bool:
    """Whether the first rows are cheap: in a view that sorts, groups, joins or filters they may cost as much as all.

    So may those of an RDD, which a function of the user's may compute.
    """
    plans = [frame._jdf.queryExecution().optimizedPlan()]
    while plans:
        plan = plans.pop()
        children, name = [*items(plan.children())], str(plan.nodeName()).split()[0]
        if children and name not in CHEAP:
            return False
        if str(plan.getClass().getSimpleName()) in OF_RDDS:
            return False
        if name in MAY_DROP_ALL and any(as_float(leaf.stats().sizeInBytes()) > MAX_FILTERED for leaf in leaves(plan)):
            return False
        plans += children
    return True


def _counted(known: TableStatistics, plan: Any) -> TableStatistics:
    """Statistics of a table of files, which Spark's catalogue says more of: how many rows it has for its bytes.

    Spark itself counts no rows unless its cost-based optimiser is on.
    """
    analysed, index = rows_and_bytes(catalogue_statistics(plan)), plan.relation().location()
    # The size of partitions that only the catalogue lists is what it has stored too.
    if analysed is None or str(index.getClass().getSimpleName()) != "InMemoryFileIndex":
        return known
    rows, size = analysed
    listed = as_float(index.sizeInBytes())
    if not size / SIMILAR <= listed <= size * SIMILAR:
        return known
    count = max(rows * listed / size, float(known.sampled))
    columns = {
        name: replace(column, distinct=distinct_values(known.sample[name], count, None))
        if name in known.sample
        else column
        for name, column in known.columns.items()
    }
    return replace(known, rows=count, columns=columns)


def _row_count(known: Any) -> float | None:
    try:
        return as_float(known.rowCount().get())
    except Py4JError:
        return None


def _plain(value: Any) -> Value:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return float(value) if hasattr(value, "as_tuple") else str(value)
