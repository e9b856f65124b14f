"""Why a query runs as written, and what would change that, in plain English: here alone causes become words."""

from collections.abc import Sequence
from typing import assert_never

from qoop.as_written.causes import (
    AsWrittenCause,
    CannotPin,
    Construct,
    Different,
    Excess,
    Measured,
    NotFaster,
    NothingLarge,
    NothingToReorder,
    NotOptimised,
    NotPinned,
    NotRepeatable,
    NotUnderstood,
    Off,
    OtherCatalog,
    OtherNullability,
    OtherPath,
    PlanningFailed,
    SlowerBefore,
    StopsEarly,
    TooMuch,
    TooMuchStored,
    TooSmall,
    Unreadable,
    Unrepeatable,
    Unsupported,
    UntypedCause,
    WrittenBefore,
)
from yarn_plugin.quantities import count

UNSUPPORTED: dict[Construct, tuple[str, str]] = {
    Construct.NO_QUERY: ("the statement has no query that can be planned", "only queries are planned"),
    Construct.COMMAND: ("the planner does not support this kind of statement", "only queries are planned"),
    Construct.NOT_SELECT: ("the statement is not a SELECT", "only queries are planned"),
    Construct.MEANING_IN_STATEMENT: (
        "the query means something only as part of the statement",
        "write the values instead of DEFAULT",
    ),
    Construct.READS_TARGET: (
        "one of the statement's queries may read what another one stores",
        "write a statement for each INSERT",
    ),
    Construct.RECURSIVE_CTE: ("the query has a recursive CTE", "store its rows in a table first"),
    Construct.CORRELATED_CTE: (
        "CTE {about} refers to columns of the enclosing query",
        "move what it reads of the enclosing query to the SELECT that reads the CTE",
    ),
    Construct.HINT: ("the query has hints, which refer to its joins as written", "leave the hints out"),
    Construct.PARAMETER: ("the query has a parameter, {about}", "write the value, or give it as args="),
    Construct.VARIABLE: (
        "the query reads the session variable {about}, of whose type, or as NULL, no literals are written",
        "write its value, or declare it as an integer, STRING, BOOLEAN or DATE",
    ),
    Construct.TABLE_FUNCTION: (
        "the query reads a table function, {about}",
        "store its rows in a table, or make it a temporary view of one",
    ),
    Construct.LATERAL: (
        "the planner does not support a lateral join ({about})",
        "write LATERAL VIEW explode(...) in a subquery of its own, or a join",
    ),
    Construct.CLAUSE: ("the planner does not support a clause of the query ({about})", "write it as a subquery"),
    Construct.NO_FROM: ("a SELECT without FROM has no joins", "nothing; it has nothing to plan"),
    Construct.JOIN_TYPE: (
        "{about} JOIN cannot be reordered",
        "write RIGHT JOIN as LEFT JOIN, and what is joined to a FULL JOIN as a subquery",
    ),
    Construct.SOURCE: (
        "the planner does not support one of the sources in FROM",
        "put the source into a subquery or a view",
    ),
    Construct.NATURAL_JOIN: ("the planner does not support NATURAL and USING joins", "write the condition with ON"),
    Construct.ALWAYS_FALSE: ("a filter of the query is always false", "nothing; Spark reads nothing for it"),
    Construct.SET_OPERATION: (
        "a {about} itself has no joins to reorder",
        "nothing; its branches are planned if they have joins",
    ),
    Construct.FEW_TABLES: ("fewer than two tables are inner-joined", "nothing; there is no order to choose"),
    Construct.SAME_ALIAS: ("two tables of one SELECT have the alias {about}", "give each table an alias of its own"),
    Construct.SAME_NAME: (
        "after splitting, tables {about} would have the same name",
        "read one of them by a temporary view with another name",
    ),
    Construct.SAME_COLUMN: ("after splitting, two columns would be named {about}", "rename one of the columns"),
    Construct.RESERVED_NAME: (
        "{about}: names that start with qoop_ are reserved by the planner, and _qoop_core",
        "rename it",
    ),
    Construct.WHOLE_ROW: ("{about} uses a whole row (*) as a value", "name the columns"),
    Construct.BINARY_LITERAL: (
        "a binary literal (X'...') cannot be compared",
        "write unhex('...')",
    ),
    Construct.JSON_OPTIONS: (
        "the query has options of to_json, which plans cannot be compared by",
        "leave the options out",
    ),
    Construct.NOT_REPRODUCED: (
        "the planner cannot reproduce {about}",
        "write it with other functions, or in a view",
    ),
    Construct.NAMES: (
        "the query's names could not be resolved: {about}",
        "qualify the columns with the aliases of their tables",
    ),
    Construct.INNER_ORDER: (
        "an ORDER BY inside the query means nothing to those who read its rows from files",
        "leave it out, or store stage outputs on the executors, without --checkpoint",
    ),
}
"""The words of each construct, and what to write instead."""

EXCESS: dict[Excess, tuple[str, str]] = {
    Excess.TEXT: (
        "the text of the query is too long for the planner: over {limit:,} expressions",
        "join with a table of values instead of listing them",
    ),
    Excess.NESTING: ("the query is nested too deeply for the planner", "name its inner queries in WITH"),
    Excess.JOINS: (
        "the query has too many ways to join its tables for the planner to compare",
        "join some of the tables in a CTE that groups or has DISTINCT, or store a part",
    ),
    Excess.CTES: ("the query computes its CTEs more than {limit:,} times", "store a CTE in a table"),
}

NOT_REPEATABLE: dict[Unrepeatable, tuple[str, str]] = {
    Unrepeatable.EXPRESSION: (
        "the query has an expression that is not deterministic",
        "store the rows that it makes in a table",
    ),
    Unrepeatable.NAMED_EXPRESSION: (
        "{about} must be evaluated once for the whole query",
        "store the rows that it makes in a table",
    ),
    Unrepeatable.MOMENT_IN_TEXT: (
        "a text that stands for the current date or time has another value each time",
        "write current_date() or current_timestamp()",
    ),
}

VIEW_OF_FILES = "read the files by a temporary view of this session"

NOT_PINNED: dict[NotPinned, tuple[str, str]] = {
    NotPinned.NO_FILES: (
        "{about} is not read by a list of files, so stages could see other rows",
        "store its rows as Parquet or ORC files",
    ),
    NotPinned.FILE_BLOCKS: (
        "how files are divided among tasks (_metadata.file_block...) depends on the plan",
        "leave the columns out",
    ),
    NotPinned.MANY_PARTITIONS: (
        "{about} has {value} partitions, which would all be listed",
        "read the partitions that are wanted by a temporary view of their folders",
    ),
    NotPinned.TWO_LISTS: (
        "files under {about} are read by two lists of them, as some were added between two reads",
        "run it again, or make the view of the older read again",
    ),
    NotPinned.TWO_OPTIONS: ("{about} is read with two sets of options", "read it with the same options everywhere"),
    NotPinned.NAME_AND_VIEW: (
        "{about} is read by two lists of its files, as a name and in a view",
        "read it by its name alone, or make the view again",
    ),
    NotPinned.LISTED_EACH_TIME: (
        "files under {about} are listed each time that the query names them; read them by a view",
        VIEW_OF_FILES,
    ),
    NotPinned.LISTED_ANEW: ("files under {about} have been listed anew", "run it again"),
    NotPinned.FILES_SKIPPED: (
        "{about} is on, so stages could skip other files than the query as written",
        "set it to false",
    ),
    NotPinned.MALFORMED_ROWS: (
        "which rows of {about} are malformed depends on the columns that are read",
        "store its rows as Parquet files, or read CSV in mode FAILFAST or PERMISSIVE",
    ),
    NotPinned.NULL_STRUCTS: (
        "{about} is on, so which structs are NULL depends on the fields that are read",
        "set it to false",
    ),
    NotPinned.SMALL_CACHE: (
        "{about}: is {value}; too few for the lists of files of this query's tables",
        "set it to 1000, Spark's default",
    ),
    NotPinned.CACHE_EXPIRES: (
        "{about}: is {value}; after these seconds stages would list other files",
        "set it to -1, Spark's default",
    ),
    NotPinned.CACHED_ROWS: (
        "it reads rows of files in Spark's cache, which change when the files do",
        "uncache the table",
    ),
    NotPinned.SESSION_VIEW: (
        "{about}: write a temporary view's name without {value}",
        "write the name alone",
    ),
    NotPinned.GLOBAL_VIEW: (
        "the files of {about}, a view of all sessions, may be listed anew",
        VIEW_OF_FILES,
    ),
    NotPinned.SUBQUERY_OF_VIEW: (
        "the files that {about} reads in a subquery may be listed anew",
        "write the subquery in the query instead of the view",
    ),
    NotPinned.HIVE_TABLE: (
        "the files of {about}, a table of Hive's, would be listed by each stage",
        "store its rows as Parquet or ORC files (USING parquet)",
    ),
}

PLAN_ALWAYS = "--plan always (spark.qoop.plan=always) plans it all the same"


def text(cause: AsWrittenCause) -> str:
    """Why a query runs as written, as a clause, without a capital letter or a full stop."""
    match cause:
        case Off():
            return "replanning is off"
        case TooSmall(seconds, worth):
            return f"Spark is expected to need {seconds:.1f} s for it, and planning pays off above {worth:.1f} s"
        case StopsEarly():
            return "it returns any rows up to its limit, so Spark can stop early"
        case SlowerBefore(planned, written, left):
            return f"planned runs took {_and(planned)} s, as written {written:.1f} s; {_again(left)}"
        case WrittenBefore(left):
            return f"when it was last planned, it ran as written too; {_again(left)}"
        case Measured(planned, written, when):
            return f"planned runs took {_and(planned)} s{_measured(written, when)}"
        case NotFaster():
            return "no plan is expected to finish earlier than the query as written"
        case NotOptimised():
            return "Spark fails to optimise the query as written"
        case Unsupported(construct, about):
            return UNSUPPORTED[construct][0].format(about=about)
        case NothingToReorder(blocks):
            return "; ".join(sorted({text(block) for block in blocks})) or "the query has no joins"
        case NothingLarge():
            return "no intermediate result is joined with another large input, so splitting the query would not pay off"
        case TooMuch(excess, limit):
            return EXCESS[excess][0].format(limit=limit)
        case NotRepeatable(what, about):
            return NOT_REPEATABLE[what][0].format(about=about)
        case CannotPin(why, about, value):
            return NOT_PINNED[why][0].format(about=about, value=value)
        case OtherCatalog(catalog):
            return f"the session's current catalog is {catalog}; stages run in spark_catalog"
        case OtherPath(path, True):
            return f"on the session's SQL path ({path}) tables come before {OUTPUTS}"
        case OtherPath():
            return f"the session's SQL path has no {OUTPUTS}"
        case Different(""):
            return "the plan could not be shown to be equivalent to the query as written"
        case Different(problem):
            return f"the plan cannot be compared with the query as written: {problem}"
        case OtherNullability():
            return "the plan's columns may be NULL where those of the query as written may not, or the reverse"
        case TooMuchStored(stored, limit):
            return f"the outputs of stages take {_mb(stored)}, more than {_mb(limit)} (spark.qoop.maxStored)"
        case NotUnderstood(problem):
            return f"the planner does not support the query: {problem}"
        case PlanningFailed(problem):
            return f"the planner failed: {problem}"
        case Unreadable(said) | UntypedCause(said):
            return said
    assert_never(cause)


def remedy(cause: AsWrittenCause) -> str | None:
    """What would change it, as a clause; None if that is not known."""
    match cause:
        case Off():
            return "--plan auto or always (spark.qoop.plan)"
        case TooSmall() | StopsEarly():
            return f"more data or fewer slots; {PLAN_ALWAYS}"
        case SlowerBefore() | WrittenBefore() | Measured() | NotFaster():
            return PLAN_ALWAYS
        case NotOptimised():
            return "mend what Spark's message says; of joins without a condition, spark.sql.crossJoin.enabled=true"
        case Unreadable():
            return "write it as the planner can parse it, or in a view"
        case Unsupported(construct):
            return UNSUPPORTED[construct][1]
        case NothingToReorder(blocks):
            return "; ".join(sorted({UNSUPPORTED[block.construct][1] for block in blocks})) or "joins of several tables"
        case NothingLarge():
            return "larger tables, or a cut everywhere (--plan always)"
        case TooMuch(excess):
            return EXCESS[excess][1]
        case NotRepeatable(what):
            return NOT_REPEATABLE[what][1]
        case CannotPin(why):
            return NOT_PINNED[why][1]
        case OtherCatalog():
            return "USE spark_catalog, and name the tables of the other catalog in full"
        case OtherPath():
            return "SET PATH with system.session first"
        case Different() | OtherNullability():
            return "write the part that is named otherwise, or store its rows in a table"
        case TooMuchStored():
            return "a larger spark.qoop.maxStored, if the disks have room"
        case NotUnderstood():
            return "write the names as the catalog has them, or read the table by a view"
        case PlanningFailed():
            return "nothing; report it as a fault, with the message"
        case UntypedCause():
            return None
    assert_never(cause)


OUTPUTS = "system.session, where stages have their outputs"


def with_remedy(cause: AsWrittenCause) -> str:
    """Why a query runs as written, and what would change that, in one line."""
    changes = remedy(cause)
    return text(cause) + (f" (what would change it: {changes})" if changes else "")


def _again(left: int) -> str:
    return f"planned again after {count(left, 'more run')}"


def _measured(written: float | None, when: str) -> str:
    if written is None:
        return "; as written, it was not measured yet"
    return f", as written {written:.1f} s {'before they were made' if when == 'before-planned' else 'long ago'}"


def _and(seconds: Sequence[float]) -> str:
    return " and ".join(f"{one:.1f}" for one in seconds)


def _mb(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"
