"""Statements that store the rows of a query: what decides where, and their execution with the rows of a plan."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from qoop.engine.connection import java_class
from qoop.engine.listings import file_index
from qoop.engine.scala import items, leaves, sequence
from qoop.engine.session import frame_of, is_on, parser_of, sql_path
from qoop.engine.snapshot import SAME_EACH_TIME
from qoop.errors import QoopError

FILES = {"parquet", "orc", "csv", "json", "text", "avro"}
"""Sources whose rows Spark writes as files."""

COMMITTERS = (
    "spark.sql.sources.commitProtocolClass",
    "spark.sql.sources.outputCommitterClass",
    "spark.sql.parquet.output.committer.class",
)
"""Settings of how written files are committed."""


WRITE_SETTINGS = (
    "spark.sql.sources.partitionOverwriteMode",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.sources.default",
    "spark.sql.legacy.createHiveTableByDefault",
    "spark.sql.hive.convertCTAS",
    "spark.sql.session.timeZone",
    "spark.sql.timestampType",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.defaultColumn.useNullsForMissingDefaultValues",
    "spark.sql.charAsVarchar",
    "spark.sql.legacy.charVarcharAsString",
    "spark.sql.caseSensitive",
    "spark.sql.ansi.enabled",
)
"""Settings of which rows a statement replaces, how values are converted, and what kind of table is created."""


COLLATIONS = "spark.sql.collation.schemaLevel.enabled"
"""The setting under which databases may have a collation."""


def statements_as_written(spark: SparkSession, text: str) -> "list[StatementAsWritten]":
    """The statements in a text that store rows, in order: several where it inserts those of one source several times.

    Raises:
        pyspark.errors.PySparkException: Spark rejects the text.
    """
    plan, ctes = parser_of(spark).parsePlan(text), None
    if _kind(plan) == "UnresolvedWith":
        plan, ctes = plan.child(), plan
    plans = items(plan.children()) if _kind(plan) == "Union" else (plan,)
    return [StatementAsWritten(spark, _with_ctes(spark, one, ctes)) for one in plans]


def _with_ctes(spark: SparkSession, statement: Any, ctes: Any) -> Any:
    """A statement with CTEs (or None) that stand before it in its query instead."""
    if ctes is None or (query := _query_of(statement)) is None:
        return statement if ctes is None else ctes
    within = ctes.withNewChildren(sequence(spark._jvm, [query]))
    return statement.withNewChildren(sequence(spark._jvm, [*[*items(statement.children())][:-1], within]))


def _kind(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _query_of(plan: Any) -> Any:
    """The query of a statement as Spark parses it; None if it has none that can be replaced."""
    children = plan.children()
    try:
        query = plan.child() if _kind(plan) == "InsertIntoDir" else plan.query()
    except Py4JError:
        return None
    return query if children.size() and children.last().equals(query) else None


def may_read_each_other(statements: "Sequence[StatementAsWritten]", queries: Sequence[DataFrame]) -> bool:
    """Whether one of several queries may read what another's statement stores: Spark lists all files before."""
    stored = [one.folder for one in statements]
    read: list[str | None] = []
    for query in queries:
        for leaf in leaves(query._jdf.queryExecution().analyzed()):
            index = file_index(leaf)
            if index is not None:
                read += [str(path) for path in items(index.rootPaths())]
            elif _kind(leaf) not in SAME_EACH_TIME:
                read.append(None)
    if None in stored or None in read:
        return True
    within = [f"{path}/".startswith(f"{other}/") for path in stored for other in read]
    return any(within) or any(f"{other}/".startswith(f"{path}/") for path in stored for other in read)


class StatementAsWritten:
    """A statement that stores the rows of a query, as Spark parses it.

    Args:
        plan: Spark's parse of it.
    """

    def __init__(self, spark: SparkSession, plan: Any) -> None:
        self._spark, self._plan = spark, plan
        self._resolved_by: Mapping[str, str] = {}

    @property
    def query(self) -> Any:
        """Spark's parse of its query; None if it has none that can be replaced.

        Of a query in CREATE TABLE AS, Spark gives texts the collation of the database; by itself it has others.
        """
        if is_on(self._spark, COLLATIONS, "false") and not self._inserts():
            return None
        return _query_of(self._plan)

    def _inserts(self) -> bool:
        return _kind(self._plan).startswith("Insert")

    def check(self) -> None:
        """Have Spark analyse it without executing it, so that errors appear before any work is done.

        Raises:
            pyspark.errors.PySparkException: Spark rejects the statement.
        """
        self._resolved_by = self._resolving(self._plan)

    @property
    def is_atomic(self) -> bool:
        """Whether Spark stores no row if computing one fails: it writes files, and shows them when all are written."""
        plan = self._analysed(self._plan)
        kind = _kind(plan)
        if kind == "CreateDataSourceTableAsSelectCommand":
            provider = plan.table().provider()
            return provider.isDefined() and str(provider.get()).lower() in FILES and self._commits_last()
        return kind == "InsertIntoHadoopFsRelationCommand" and self._commits_last()

    @property
    def folder(self) -> str | None:
        """The folder that it writes to, if that is known; below it are the partitions."""
        plan = self._analysed(self._plan)
        return str(plan.outputPath()) if _kind(plan) == "InsertIntoHadoopFsRelationCommand" else None

    def _commits_last(self) -> bool:
        """Whether Spark moves the files of all tasks at the end; not if the user has chosen how they are committed."""
        state = self._spark._jsparkSession.sessionState()
        if any(state.conf().contains(name) for name in COMMITTERS):
            return False
        return str(state.newHadoopConf().get("mapreduce.fileoutputcommitter.algorithm.version")) == "1"

    def _analysed(self, statement: Any) -> Any:
        state = self._spark._jsparkSession.sessionState()
        skip = java_class(self._spark._jvm, "org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
        execution = state.executePlan(statement, skip)
        execution.assertAnalyzed()
        return execution.analyzed()

    def _resolving(self, statement: Any) -> dict[str, str]:
        """What decides which table it stores rows in, and which partitions it replaces."""
        catalogs = self._spark._jsparkSession.sessionState().catalogManager()
        current = {
            "the current catalog": str(catalogs.currentCatalog().name()),
            "the current database": ".".join(map(str, catalogs.currentNamespace())),
            "the SQL path": sql_path(self._spark),
            "the table": self._target(self._analysed(statement)),
        }
        return current | {name: self._spark.conf.get(name) or "" for name in WRITE_SETTINGS}

    def _target(self, analysed: Any) -> str:
        """What a statement stores rows in: the place of files, columns with their defaults, and options, if known."""
        kind = _kind(analysed)
        if kind == "InsertIntoHadoopFsRelationCommand":
            known = analysed.catalogTable()
            columns = known.get().schema().json() if known.isDefined() else analysed.outputColumnNames().mkString(", ")
            return f"{analysed.outputPath()} with {columns}"
        if kind == "InsertIntoHiveTable":
            table = analysed.table()
            return f"{table.location()} with {table.schema().json()}"
        if kind == "InsertIntoDataSourceCommand" and analysed.logicalRelation().catalogTable().isDefined():
            table = analysed.logicalRelation().catalogTable().get()
            options = sorted(str(one.toString()) for one in items(table.storage().properties().toSeq()))
            # They may have a password.
            digest = blake2b("\n".join(options).encode(), digest_size=8).hexdigest()
            return f"{table.identifier().unquotedString()} with {table.schema().json()} and options {digest}"
        return kind

    def execute(self, rows: DataFrame) -> None:
        """Execute it, once checked, with these rows in place of its query's.

        Raises:
            QoopError: it would be resolved differently than when the query began; nothing is stored.
        """
        children = [*items(self._plan.children())]
        children[-1] = rows._jdf.queryExecution().logical()
        statement = self._plan.withNewChildren(sequence(self._spark._jvm, children))
        for name, now in self._resolving(statement).items():
            before = self._resolved_by[name]
            if now != before:
                raise QoopError(
                    f"{name}: was {before!r} when the statement began, and is {now!r}; nothing was stored; run it again"
                )
        frame_of(self._spark, statement)
