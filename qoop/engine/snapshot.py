"""One version of each table for all stages of a query.

Spark lists a table's files when it resolves the table's name, and each stage resolves the names in its text. So the
listings that Spark made for the query as written are given to the session of the stages, and tables that Spark does not
read by such a listing make a query run as written.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from qoop.engine.connection import java_class
from qoop.engine.scala import items, leaves, sequence
from qoop.errors import QoopError

SOURCES = "org.apache.spark.sql.execution.datasources"

SAME_EACH_TIME = {
    "LocalRelation", "LogicalRDD", "ExternalRDD", "Range", "OneRowRelation", "EmptyRelation", "CommandResult",
    "InMemoryRelation", "CTERelationRef",
}  # fmt: skip
"""Leaves of plans that hold or make their rows themselves."""


class NoSnapshotError(QoopError):
    """A table cannot be read in one version by several stages; the message says which, and why."""


def pin_tables(written: DataFrame, session: SparkSession, named: Iterable[DataFrame]) -> list[tuple[Any, Any]]:
    """Make the stages read the files that were listed for the query as written.

    Args:
        written: the query as written, analysed in the user's session.
        session: the session that stages run in.
        named: the tables and views that the query names, as the user's session resolved them another time.

    Returns:
        Pairs of leaves, as in the query as written and as stages read them.

    Raises:
        NoSnapshotError: a table has no such listing.
    """
    stored: set[int] | None = None
    pairs: dict[int, tuple[Any, Any]] = {}
    for leaf in _leaves(written):
        kind = str(leaf.getClass().getSimpleName())
        if kind in SAME_EACH_TIME:
            continue
        index = file_index(leaf)
        if index is None:
            raise NoSnapshotError(f"{_name(leaf)} has no list of files that all stages could read")
        if leaf.catalogTable().isDefined():
            identity = _identity(session, index)
            if identity not in pairs:
                pairs[identity] = (leaf, _kept(leaf, index, session))
            continue
        if stored is None:
            found = (file_index(other) for frame in named for other in _leaves(frame))
            stored = {_identity(session, other) for other in found if other is not None}
        if _identity(session, index) not in stored:
            raise NoSnapshotError(f"files under {_paths(index)} are listed each time that the query names them")
    return list(pairs.values())


def _leaves(frame: DataFrame) -> Iterator[Any]:
    return leaves(frame._jdf.queryExecution().analyzed())


def file_index(leaf: Any) -> Any:
    """The listing of the files that a leaf reads; None if it has none that stays the same."""
    if str(leaf.getClass().getSimpleName()) != "LogicalRelation":
        return None
    relation = leaf.relation()
    if str(relation.getClass().getSimpleName()) != "HadoopFsRelation":
        return None
    index = relation.location()
    return index if str(index.getClass().getSimpleName()) in ("InMemoryFileIndex", "CatalogFileIndex") else None


def _kept(leaf: Any, index: Any, session: SparkSession) -> Any:
    """A catalogue table's relation, kept for the session's stages; partitions that Spark has not listed are listed."""
    jvm: Any = session._jvm
    relation, table = leaf.relation(), leaf.catalogTable()
    if str(index.getClass().getSimpleName()) == "CatalogFileIndex":
        relation = java_class(jvm, f"{SOURCES}.HadoopFsRelation")(
            index.filterPartitions(sequence(jvm, [])),
            relation.partitionSchema(),
            relation.dataSchema(),
            relation.bucketSpec(),
            relation.fileFormat(),
            relation.options(),
            session._jsparkSession,
        )
    # Not with the columns of the leaf: it has none of the notes any more by which Spark pads values of CHAR.
    kept = getattr(java_class(jvm, f"{SOURCES}.LogicalRelation$"), "MODULE$").apply(relation, table.get())
    keep(kept, session)
    return kept


def keep(relation: Any, session: SparkSession) -> None:
    """Make a session read a catalogue table as this relation, instead of resolving its name once more."""
    identifier = relation.catalogTable().get().identifier()
    parts = (identifier.catalog().get(), identifier.database().get(), identifier.table())
    name = java_class(session._jvm, "org.apache.spark.sql.catalyst.QualifiedTableName")(*parts)
    session._jsparkSession.sessionState().catalog().cacheTable(name, relation)


def _identity(session: SparkSession, value: Any) -> int:
    return int(java_class(session._jvm, "java.lang.System").identityHashCode(value))


def _name(leaf: Any) -> str:
    return f"a table ({str(leaf.simpleString(4))[:60]})"


def _paths(index: Any) -> str:
    return ", ".join(str(path) for path in items(index.rootPaths()))[:200]
