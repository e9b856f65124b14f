"""One version of each table for all stages of a query.

Spark lists a table's files when it resolves the table's name, and each stage resolves the names in its text. So the
listings that Spark made for the query as written are given to the session of the stages. Tables that Spark does not
read by such a listing make a query run as written, unless it reads them as of a version (`table_versions`).
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from qoop.as_written.causes import CannotPin, Construct, NotPinned, Unsupported
from qoop.engine.connection import java_class
from qoop.engine.listings import (
    SOURCES,
    AsListed,
    Copier,
    file_index,
    identity_of,
    paths_listed,
    rooted,
    with_copies,
    with_listing,
)
from qoop.engine.persisted import define_view
from qoop.engine.scala import items, leaves, printed, sequence, stored_rows
from qoop.engine.session import CATALYST, frame_of
from qoop.engine.table_versions import is_at_version
from qoop.errors import RunsAsWrittenError
from qoop.plans.plan import PREFIX

CACHED = "spark.sql.filesourceTableRelationCacheSize"

MAX_PARTITIONS = 20_000
"""Of tables with more partitions none are listed."""

CACHED_FOR_EACH = 4
"""How many relations Spark must have room for, for each table: the room is divided into several parts."""

EXPIRY = "spark.sql.metadataCacheTTLSeconds"

SAME_EACH_TIME = {
    "LocalRelation", "LogicalRDD", "ExternalRDD", "Range", "OneRowRelation", "EmptyRelation", "CommandResult",
    "InMemoryRelation", "CTERelationRef",
}  # fmt: skip
"""Leaves of plans that hold or make their rows themselves."""


NULL_STRUCTS = "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing"

READING_SETTINGS = {
    "ignoreCorruptFiles": "spark.sql.files.ignoreCorruptFiles",
    "ignoreMissingFiles": "spark.sql.files.ignoreMissingFiles",
    "columnNameOfCorruptRecord": "spark.sql.columnNameOfCorruptRecord",
}
"""Settings of how files are read, by the options of a table that take their place."""

SKIPPING = ("ignoreCorruptFiles", "ignoreMissingFiles")

READ_IN_ONE_GO = ("JsonFileFormat", "XmlFileFormat")
"""Spark's readers that may leave out, or fill with NULL, a whole row for a part of it that they do not understand.

Whether they meet that part depends on the columns that they read, and on the filters that they apply meanwhile.
"""


OF_BLOCKS = re.compile(
    r"\.file_block_|_metadata#\d+L?(?!\.(file_(path|name|size|modification_time)|row_index)\b)", re.IGNORECASE
)
"""Columns of how Spark divides files among tasks, as it prints them, or all that it knows of a row's file.

How it divides them depends on all that a plan reads of a table.
"""

RELATION = "Relation "
"""What is in the line of a table, which has all columns."""


class NoSnapshotError(RunsAsWrittenError):
    """A table cannot be read in one version by several stages; the message says which, and why."""


def files_read(written: DataFrame) -> list[Any]:
    """The leaves of a query that read files.

    Called before its tables are sampled, as a sample of what is then refused may take longer than the query: of a table
    in another database, all rows.

    Raises:
        NoSnapshotError: something that it reads cannot be read in one version.
    """
    refuse_cached_files(written)
    lines = printed(written._jdf.queryExecution().analyzed()).splitlines()
    if any(OF_BLOCKS.search(line) for line in lines if RELATION not in line):
        raise NoSnapshotError(CannotPin(NotPinned.FILE_BLOCKS))
    session, leaves, counted = written.sparkSession, [], set[int]()
    settings = reading_settings(session)
    for leaf in _leaves(written):
        if str(leaf.getClass().getSimpleName()) in SAME_EACH_TIME:
            continue
        index = file_index(leaf)
        if index is None and is_at_version(leaf):
            continue
        if index is None:
            raise NoSnapshotError(CannotPin(NotPinned.NO_FILES, _name(leaf)))
        _refuse_rows_by_columns(leaf, settings)
        if str(index.getClass().getSimpleName()) == "CatalogFileIndex":
            identity = identity_of(session, index)
            if identity not in counted:
                _refuse_many_partitions(leaf.catalogTable(), session)
            counted.add(identity)
        leaves.append(leaf)
    return leaves


def _refuse_many_partitions(table: Any, session: SparkSession) -> None:
    """Refuse tables whose partitions take long to list: stages would have all, and Spark may need only a few."""
    if not table.isDefined():
        return
    name, anything = table.get().identifier(), java_class(session._jvm, "scala.Option").empty()
    count = session._jsparkSession.sessionState().catalog().listPartitionNames(name, anything).size()
    if count > MAX_PARTITIONS:
        raise NoSnapshotError(CannotPin(NotPinned.MANY_PARTITIONS, str(name.unquotedString()), str(count)))


def pin_tables(read: Sequence[Any], session: SparkSession, named: Mapping[str, DataFrame]) -> list[tuple[Any, Any]]:
    """Make the stages read the files that were listed for the query as written.

    Listings are copied: when the user's session writes to a table, Spark changes the listing that this session has.

    Args:
        read: what the query as written, analysed in the user's session, reads of files (`files_read`).
        session: the session that stages run in; its temporary views are redefined.
        named: the tables and views that the query names, as the user's session resolved them another time.

    Returns:
        Pairs of leaves, as in the query as written and as stages read them.

    Raises:
        NoSnapshotError: a table has no such listing.
    """
    _refuse_names_of_stages(session)
    stored: set[int] | None = None
    listings = _Listings(session, {identity_of(session, leaf.relation().location()) for leaf in read})
    pairs: dict[int, tuple[Any, Any]] = {}
    pinned: set[str] = set()
    listed: dict[str, tuple[int, Any]] = {}
    for leaf in read:
        index = leaf.relation().location()
        identity = identity_of(session, index)
        # Spark takes listings of the same folders for equal, in whatever order.
        places = "\n".join(sorted(str(index.rootPaths().mkString("\n")).splitlines()))
        first, known = listed.setdefault(places, (identity, index))
        if identity != first and not _lists_the_same(known, index, session):
            raise NoSnapshotError(CannotPin(NotPinned.TWO_LISTS, _paths(index)))
        if leaf.catalogTable().isDefined():
            table = str(leaf.catalogTable().get().identifier().unquotedString())
            if identity in pairs:
                if not leaf.relation().options().equals(pairs[identity][0].relation().options()):
                    raise NoSnapshotError(CannotPin(NotPinned.TWO_OPTIONS, table))
                continue
            if table in pinned:
                raise NoSnapshotError(CannotPin(NotPinned.NAME_AND_VIEW, table))
            pinned.add(table)
            pairs[identity] = (leaf, _kept(leaf, listings, session))
            continue
        if stored is None:
            found = (file_index(other) for frame in named.values() for other in _leaves(frame))
            stored = {identity_of(session, other) for other in found if other is not None}
        if identity not in stored:
            raise NoSnapshotError(CannotPin(NotPinned.LISTED_EACH_TIME, _paths(index)))
    if pinned:
        _refuse_forgetting(session, len(pinned))
    for name, frame in named.items():
        _redefine(name, frame, listings, session)
    return list(pairs.values())


def reading_settings(session: SparkSession) -> dict[str, str]:
    """The session's settings of how files are read, by the names of the options that take their place."""
    settings = {option.lower(): session.conf.get(setting) or "" for option, setting in READING_SETTINGS.items()}
    # No option takes its place, and Spark 4.0 does not have it.
    return settings | {NULL_STRUCTS.lower(): session.conf.get(NULL_STRUCTS, "false") or ""}


def _refuse_rows_by_columns(leaf: Any, settings: Mapping[str, str]) -> None:
    """Refuse files of which Spark skips other rows if it reads other columns: a stage may read more than the query."""
    relation = leaf.relation()
    # One by one: their values may have any characters.
    given = {str(one._1()).strip().lower(): str(one._2()).strip() for one in items(relation.options().toSeq())}
    options = {**settings, **given}
    skipping = next((name for name in SKIPPING if options[name.lower()].lower() == "true"), None)
    if skipping is not None:
        raise NoSnapshotError(CannotPin(NotPinned.FILES_SKIPPED, skipping))
    kind = str(relation.fileFormat().getClass().getSimpleName())
    if kind in READ_IN_ONE_GO or (kind == "CSVFileFormat" and _csv_depends_on_columns(relation, options)):
        raise NoSnapshotError(CannotPin(NotPinned.MALFORMED_ROWS, _name(leaf)))
    if kind == "ParquetFileFormat" and options[NULL_STRUCTS.lower()].lower() == "true":
        raise NoSnapshotError(CannotPin(NotPinned.NULL_STRUCTS, NULL_STRUCTS))


def _csv_depends_on_columns(relation: Any, options: Mapping[str, str]) -> bool:
    columns = {str(name).lower() for name in relation.dataSchema().names()}
    return (
        options.get("mode", "").upper() == "DROPMALFORMED"
        or options["columnnameofcorruptrecord"].lower() in columns
        # It looks back for a delimiter in the value, which is not kept of columns that are not read.
        or options.get("unescapedquotehandling", "").upper() == "BACK_TO_DELIMITER"
    )


def _refuse_names_of_stages(session: SparkSession) -> None:
    """A view of the user's that reads one with the name of a stage would read the stage's output."""
    found = session._jsparkSession.sessionState().catalog().listLocalTempViews(f"{PREFIX}*")
    if found.size():
        raise NoSnapshotError(Unsupported(Construct.RESERVED_NAME, f"temporary view {found.head().table()}"))


def _refuse_forgetting(session: SparkSession, tables: int) -> None:
    """Refuse settings by which Spark may forget the relations that are kept for a session, and list files anew."""
    size = session.conf.get(CACHED) or ""
    if size.strip().isdigit() and int(size) < CACHED_FOR_EACH * tables:
        raise NoSnapshotError(CannotPin(NotPinned.SMALL_CACHE, CACHED, size))
    seconds = session.conf.get(EXPIRY, "-1") or "-1"
    if not seconds.strip().startswith("-"):
        raise NoSnapshotError(CannotPin(NotPinned.CACHE_EXPIRES, EXPIRY, seconds))


def refuse_cached_files(frame: DataFrame) -> None:
    """Refuse rows of files in Spark's cache: when any session writes to their table, Spark computes them again.

    Rows that the frame's own plan holds, such as those of stage outputs and of earlier answers, are not in that cache.

    Raises:
        NoSnapshotError: the frame would read such rows.
    """
    session = frame.sparkSession
    if session._jsparkSession.sharedState().cacheManager().isEmpty():
        return
    execution = frame._jdf.queryExecution()
    own = {identity_of(session, rows) for rows in stored_rows(execution.analyzed())}
    for rows in stored_rows(execution.withCachedData()):
        if identity_of(session, rows) in own:
            continue
        if any(file_index(made_from) is not None for made_from in leaves(rows.cacheBuilder().logicalPlan())):
            raise NoSnapshotError(CannotPin(NotPinned.CACHED_ROWS))


class _Listings:
    """Copies of the listings of tables; each is copied once. `read`: the identities of those that the query reads."""

    def __init__(self, session: SparkSession, read: Collection[int]) -> None:
        self._session, self._read = session, read
        self.jvm: Any = session._jvm
        self._copies: dict[int, Any] = {}
        self._copier = Copier(self.jvm)

    def copied(self, relation: Any) -> Any:
        """A relation with a copy of its listing; partitions that Spark has not listed are listed."""
        return with_listing(self._copy(relation.location()), relation, self._session)

    def _copy(self, index: Any) -> Any:
        identity = identity_of(self._session, index)
        if identity not in self._read:
            raise NoSnapshotError(CannotPin(NotPinned.LISTED_ANEW, _paths(index)))
        if identity not in self._copies:
            if str(index.getClass().getSimpleName()) == "CatalogFileIndex":
                self._copies[identity] = rooted(index.filterPartitions(sequence(self.jvm, [])), index.rootPaths())
            else:
                self._copies[identity] = self._copier.copy(index)
        return self._copies[identity]


def _redefine(name: str, frame: DataFrame, listings: _Listings, session: SparkSession) -> None:
    """Let a temporary view of the session read copies of its listings.

    Raises:
        NoSnapshotError: its files would be listed each time, or its listing may change.
    """
    state, plan = session._jsparkSession.sessionState(), frame._jdf.queryExecution().analyzed()
    parts = [str(part) for part in items(state.sqlParser().parseMultipartIdentifier(name))]
    if [part.lower() for part in parts[:-1]] in (["session"], ["system", "session"]):
        raise NoSnapshotError(CannotPin(NotPinned.SESSION_VIEW, name, ".".join(parts[:-1])))
    of_session = len(parts) == 1 and state.catalog().getTempView(parts[0]).isDefined()
    of_all_sessions = len(parts) == 2 and parts[0].lower() == session.conf.get("spark.sql.globalTempDatabase")
    if not of_session and not of_all_sessions:
        return
    replaced = with_copies(plan, listings.copied, listings.jvm)
    if of_session and replaced is not plan:
        # By its name without quotes, which `define_view` does not expect.
        state.catalog().dropTempView(parts[0])
        define_view(name, frame_of(session, replaced))
    elif replaced is not plan:
        raise NoSnapshotError(CannotPin(NotPinned.GLOBAL_VIEW, name))
    if any(
        file_index(leaf) is not None for part in items(plan.subqueriesAll()) for leaf in items(part.collectLeaves())
    ):
        raise NoSnapshotError(CannotPin(NotPinned.SUBQUERY_OF_VIEW, name))


def _leaves(frame: DataFrame) -> Iterator[Any]:
    return leaves(frame._jdf.queryExecution().analyzed())


def _kept(leaf: Any, listings: _Listings, session: SparkSession) -> Any:
    """A catalogue table's relation, kept for the session's stages.

    Raises:
        NoSnapshotError: Spark does not take what is kept of one of Hive's tables for the same as the table.
    """
    relation, table = listings.copied(leaf.relation()), leaf.catalogTable()
    # Not with the columns of the leaf: it has none of the notes any more by which Spark pads values of CHAR.
    kept = getattr(java_class(session._jvm, f"{SOURCES}.LogicalRelation$"), "MODULE$").apply(relation, table.get())
    keep(kept, session)
    if is_hives(kept):
        name = str(table.get().identifier().quotedString())
        found = [file_index(other) for other in _leaves(session.table(name))]
        if [identity_of(session, one) for one in found] != [identity_of(session, relation.location())]:
            raise NoSnapshotError(CannotPin(NotPinned.HIVE_TABLE, name))
    return kept


def is_hives(relation: Any) -> bool:
    """Whether a relation is one of Hive's tables: Spark lists it anew when the metastore has other columns or files."""
    provider = relation.catalogTable().get().provider()
    return bool(provider.isDefined()) and str(provider.get()).lower() == "hive"


def showing_sources(frame: DataFrame, written: DataFrame) -> DataFrame:
    """The frame, with the files that the query as written reads in its plan, where Spark looks for them.

    What it reads itself, it reads as it was listed, whatever Spark is told to list anew, or to cache. Spark refuses to
    overwrite what a frame reads, but does not look behind stored rows. The files are in anti-joins with nothing, which
    Spark drops as it optimises the plan. They are around a leaf: around the whole plan, Spark would push a limit below
    them, and drop the query's order there.
    """
    plan, session = frame._jdf.queryExecution().commandExecuted(), frame.sparkSession
    sources = {identity_of(session, index): leaf for leaf in _leaves(written) if (index := file_index(leaf))}
    as_listed = with_copies(plan, AsListed(session, sources).relation, session._jvm)
    if as_listed is plan and not stored_rows(plan):
        return frame
    return frame_of(session, _with_sources(as_listed, [*sources.values()], session._jvm))


def _with_sources(plan: Any, sources: Sequence[Any], jvm: Any) -> Any:
    """A plan whose first leaf is joined with nothing of each source."""
    children = [*items(plan.children())]
    if children:
        return plan.withNewChildren(sequence(jvm, [_with_sources(children[0], sources, jvm), *children[1:]]))
    for source in sources:
        nothing = java_class(jvm, f"{CATALYST}.expressions.Literal").FalseLiteral()
        empty = java_class(jvm, f"{CATALYST}.plans.logical.Filter")(nothing, source.newInstance())
        anti = getattr(java_class(jvm, f"{CATALYST}.plans.LeftAnti$"), "MODULE$")
        without = java_class(jvm, "scala.Option").empty()
        hint = java_class(jvm, f"{CATALYST}.plans.logical.JoinHint").NONE()
        plan = java_class(jvm, f"{CATALYST}.plans.logical.Join")(plan, empty, anti, without, hint)
    return plan


def keep(relation: Any, session: SparkSession) -> None:
    """Make a session read a catalogue table as this relation, instead of resolving its name once more."""
    identifier = relation.catalogTable().get().identifier()
    parts = (identifier.catalog().get(), identifier.database().get(), identifier.table())
    name = java_class(session._jvm, "org.apache.spark.sql.catalyst.QualifiedTableName")(*parts)
    session._jsparkSession.sessionState().catalog().cacheTable(name, relation)


def _name(leaf: Any) -> str:
    return f"a table ({str(leaf.simpleString(4))[:60]})"


def _paths(index: Any) -> str:
    return ", ".join(str(path) for path in items(index.rootPaths()))[:200]


def _lists_the_same(index: Any, other: Any, session: SparkSession) -> bool:
    """Whether two listings of the same folders have the same files: Spark may take what it reads by one for both."""
    if index.sizeInBytes() != other.sizeInBytes():
        return False
    return {*paths_listed(index, session)} == {*paths_listed(other, session)}
