"""Tables that have versions, of Delta Lake and Iceberg: all that a query reads of one is read as of one version.

They have no listing of files that another session could be given. Reading the analysed leaf of such a table again
reads its latest rows, so the version is in the texts: in those of the stages, and in the query as written, of which
Spark itself reads each table whenever it comes to it.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from qoop.engine.scala import leaves
from qoop.engine.session import plain_sql, syntax_of
from qoop.parsing.spark_sql import USUAL, Syntax
from qoop.parsing.table_versions import TableName, at_versions, tables_in

EXTENSIONS = "spark.sql.extensions"

WITH_VERSIONS = ("io.delta.sql.DeltaSparkSessionExtension", "IcebergSparkSessionExtensions")
"""Extensions of Spark whose tables have versions."""


class TableVersions:
    """The versions that a query reads of its tables."""

    def __init__(self, versions: Mapping[TableName, str] | None = None, syntax: Syntax = USUAL) -> None:
        self._versions, self._syntax = versions or {}, syntax

    def __bool__(self) -> bool:
        """Whether a table has one."""
        return bool(self._versions)

    def in_text(self, text: str) -> str:
        """The text of a stage, or of the query, that reads these versions."""
        return at_versions(text, self._syntax, self._versions) if self._versions else text


def latest_versions(written: DataFrame, text: str) -> TableVersions:
    """The present versions of those tables of a query that have any; `written`: the query as Spark has analysed it."""
    spark = written.sparkSession
    if not any(name in (spark.conf.get(EXTENSIONS, "") or "") for name in WITH_VERSIONS):
        return TableVersions()
    if all(_latest(leaf) is None for leaf in leaves(written._jdf.queryExecution().analyzed())):
        return TableVersions()
    syntax, versions = syntax_of(spark), {}
    for name, as_named in tables_in(text, syntax).items():
        # A name that only the query's own text gives a meaning is none.
        with suppress(PySparkException, Py4JJavaError):
            version = _latest(plain_sql(spark, f"TABLE {as_named}")._jdf.queryExecution().analyzed())
            if version is not None:
                versions[name] = version
    return TableVersions(versions, syntax)


def is_at_version(leaf: Any) -> bool:
    """Whether a leaf of a plan reads a table as of a version."""
    try:
        match _kind(leaf):
            case "LogicalRelation":
                return bool(leaf.relation().location().isTimeTravelQuery())
            case "DataSourceV2Relation":
                return bool(leaf.timeTravelSpec().isDefined())
    except Py4JError:
        # Another kind of relation, or Spark 4.0, whose plans do not say it.
        pass
    return False


def identity_at_version(leaf: Any) -> str | None:
    """What tells the rows of one of Iceberg's tables as of a version, in any session; None of other leaves.

    Each session has catalogs of its own, so Spark takes the same table in two of them for two tables.
    """
    try:
        if _kind(leaf) == "DataSourceV2Relation" and leaf.timeTravelSpec().isDefined():
            return f"{leaf.table().table().location()} {leaf.timeTravelSpec().get().toString()}"
    except Py4JError:
        pass
    return None


def _latest(plan: Any) -> str | None:
    """The version of the table that is all of a plan; None if it has none, such as one of Iceberg's without rows."""
    while _kind(plan) in ("SubqueryAlias", "Project") and not plan.children().isEmpty():
        plan = plan.child()
    try:
        match _kind(plan):
            case "LogicalRelation":
                return str(plan.relation().location().snapshotAtAnalysis().version())
            case "DataSourceV2Relation":
                snapshot = plan.table().table().currentSnapshot()
                return None if snapshot is None else str(snapshot.snapshotId())
    except Py4JError:
        pass
    return None


def _kind(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())
