"""Spark's listings of files: how they are found in plans, copied, and put in the place of others."""

import re
import uuid
from collections.abc import Callable, Collection
from typing import Any

from pyspark.sql import SparkSession

from qoop.computed_once import computed_once
from qoop.engine.connection import java_class, without_delay
from qoop.engine.scala import items, sequence
from qoop.engine.session import CATALYST

SOURCES = "org.apache.spark.sql.execution.datasources"

AS_LISTED = "as-listed-by-qoop"
"""The scheme of the paths of copies for frames (`AsListed`), which no application writes to."""

LISTED = re.compile(r"^\w*FileStatus\{path=(.*?); isDirectory=(?:true|false); ", re.MULTILINE | re.DOTALL)
"""A path, as Hadoop prints what it knows of a file."""


def file_index(leaf: Any) -> Any:
    """The listing of the files that a leaf reads; None if it has none that stays the same."""
    if str(leaf.getClass().getSimpleName()) != "LogicalRelation":
        return None
    relation = leaf.relation()
    if str(relation.getClass().getSimpleName()) != "HadoopFsRelation":
        return None
    index = relation.location()
    return index if str(index.getClass().getSimpleName()) in ("InMemoryFileIndex", "CatalogFileIndex") else None


def identity_of(session: SparkSession, value: Any) -> int:
    """What tells a Java object from others that are equal to it."""
    return int(java_class(session._jvm, "java.lang.System").identityHashCode(value))


def paths_listed(index: Any, session: SparkSession) -> list[str]:
    """The paths of the files of an index."""
    return first_listed(index, session)[1]


def first_listed(index: Any, session: SparkSession, most: int | None = None) -> tuple[int, list[str]]:
    """How many files an index has, and their paths, or of many the first.

    They are fetched at once: a call for each takes 0.1 ms, and there may be thousands.
    """
    without_delay(session)
    if str(index.getClass().getSimpleName()) == "CatalogFileIndex":
        index = index.filterPartitions(sequence(session._jvm, []))
    files = index.allFiles()
    count = int(files.size())
    fetched = files if most is None or count <= most else files.take(most)
    return count, LISTED.findall(str(fetched.mkString("\n")))


def with_copies(plan: Any, copied: Callable[[Any], Any], jvm: Any) -> Any:
    """A plan with copies of the relations of its files, if they are copied; the plan itself if none is."""
    if file_index(plan) is not None:
        relation = copied(plan.relation())
        if relation is None:
            return plan
        return plan.copy(relation, plan.output(), plan.catalogTable(), plan.isStreaming(), plan.stream())
    children = [*items(plan.children())]
    replaced = [with_copies(child, copied, jvm) for child in children]
    if all(new is old for new, old in zip(replaced, children, strict=True)):
        return plan
    # First with others: Spark keeps children that are equal to the new ones, as listings of the same folders are.
    others = [java_class(jvm, f"{CATALYST}.plans.logical.OneRowRelation")() for _ in children]
    return plan.withNewChildren(sequence(jvm, others)).withNewChildren(sequence(jvm, replaced))


def with_listing(index: Any, relation: Any, session: SparkSession) -> Any:
    """A relation with another listing, for a session."""
    return java_class(session._jvm, f"{SOURCES}.HadoopFsRelation")(
        index,
        relation.partitionSchema(),
        relation.dataSchema(),
        relation.bucketSpec(),
        relation.fileFormat(),
        relation.options(),
        session._jsparkSession,
    )


def rooted(partitions: Any, paths: Any) -> Any:
    """A listing of partitions, with the folder of their table in place of their own.

    By it Spark tells whether what it keeps of one of Hive's tables is of the table's present folder.
    """
    _set_field(partitions, "rootPaths", paths)
    return partitions


def _set_field(index: Any, name: str, value: Any, inherited: bool = False) -> None:
    """Set a field of a listing that nobody else has yet."""
    kind = index.getClass()
    field = (kind.getSuperclass() if inherited else kind).getDeclaredField(name)
    field.setAccessible(True)
    field.set(index, value)


class Copier:
    """Copies listings by their fields: Spark's own constructor would list the files again."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm

    def copy(self, index: Any) -> Any:
        """A copy with the same files, folders and partitions."""
        return self._kryo.copyShallow(index)

    @computed_once
    def _kryo(self) -> Any:
        kryo = java_class(self._jvm, "com.esotericsoftware.kryo.Kryo")()
        kryo.setInstantiatorStrategy(java_class(self._jvm, "org.objenesis.strategy.StdInstantiatorStrategy")())
        return kryo


class AsListed:
    """Copies of listings, which Spark does not list anew, for a frame that also reads the outputs of stages.

    Spark does so, whoever has the listing, when an application writes below its folders and what reads them is cached.
    The frame would then have some tables as they are now, and outputs made from others as they were.

    Args:
        own: the identities of listings that the query as written reads, which are not copied.
    """

    def __init__(self, session: SparkSession, own: Collection[int]) -> None:
        self._session, self._jvm, self._own, self._copier = session, session._jvm, own, Copier(session._jvm)
        self._copies: dict[int, Any] = {}

    def relation(self, relation: Any) -> Any:
        """A relation with such a copy; None for one that is not copied."""
        index = relation.location()
        identity = identity_of(self._session, index)
        if identity in self._own:
            return None
        if identity not in self._copies:
            self._copies[identity] = self._copy(index)
        return with_listing(self._copies[identity], relation, self._session)

    def _copy(self, index: Any) -> Any:
        # Before it is copied: the partitions are inferred from its folders when Spark first asks for them.
        is_partitioned = not index.partitionSpec().partitionColumns().isEmpty()
        copy = self._copier.copy(index)
        # With no two copies, and no folder, in common: Spark takes listings of the same folders for equal.
        path, mark = java_class(self._jvm, "org.apache.hadoop.fs.Path"), uuid.uuid4().hex[:8]
        own = [path(AS_LISTED, mark, str(root.toUri().getPath())) for root in items(index.rootPaths())]
        _set_field(copy, "rootPaths", sequence(self._jvm, own))
        if not is_partitioned and not copy.recursiveFileLookup():
            # All files in it, not only those directly in its folders.
            files = index.leafFiles().clone()
            for extra in items(index.leafFiles().values().toSet().diff(index.allFiles().toSet()).toSeq()):
                files.remove(extra.getPath())
            _set_field(copy, "cachedLeafFiles", files)
            _set_field(copy, "recursiveFileLookup", True, inherited=True)
        return copy
