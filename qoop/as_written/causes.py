"""Why a query runs as written: a closed list of values. `qoop.as_written.wording` renders them, and what would change
each; docs/planned.md lists them all.

`kind` names a cause in journals, independent of its class name. Fields with words in them quote the user's text, Spark,
or the comparison of plans.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Construct(StrEnum):
    """What the text has that the planner does not take apart. `about` of `Unsupported` is quoted in parentheses."""

    NO_QUERY = "no-query"
    COMMAND = "command"
    NOT_SELECT = "not-select"
    MEANING_IN_STATEMENT = "meaning-in-statement"
    READS_TARGET = "reads-target"
    RECURSIVE_CTE = "recursive-cte"
    CORRELATED_CTE = "correlated-cte"
    HINT = "hint"
    PARAMETER = "parameter"
    VARIABLE = "variable"
    TABLE_FUNCTION = "table-function"
    LATERAL = "lateral"
    CLAUSE = "clause"
    NO_FROM = "no-from"
    JOIN_TYPE = "join-type"
    SOURCE = "source"
    NATURAL_JOIN = "natural-join"
    ALWAYS_FALSE = "always-false"
    SET_OPERATION = "set-operation"
    FEW_TABLES = "few-tables"
    SAME_ALIAS = "same-alias"
    SAME_NAME = "same-name"
    SAME_COLUMN = "same-column"
    RESERVED_NAME = "reserved-name"
    WHOLE_ROW = "whole-row"
    BINARY_LITERAL = "binary-literal"
    JSON_OPTIONS = "json-options"
    NOT_REPRODUCED = "not-reproduced"
    NAMES = "names"
    INNER_ORDER = "inner-order"


class Excess(StrEnum):
    """What a query has too much of for the planner."""

    TEXT = "text"
    NESTING = "nesting"
    JOINS = "joins"
    CTES = "ctes"


class Unrepeatable(StrEnum):
    """What has another value each time that it is evaluated."""

    EXPRESSION = "expression"
    NAMED_EXPRESSION = "named-expression"
    MOMENT_IN_TEXT = "moment-in-text"


class NotPinned(StrEnum):
    """Why a table cannot be read in one version by several stages."""

    NO_FILES = "no-files"
    FILE_BLOCKS = "file-blocks"
    MANY_PARTITIONS = "many-partitions"
    TWO_LISTS = "two-lists"
    TWO_OPTIONS = "two-options"
    NAME_AND_VIEW = "name-and-view"
    LISTED_EACH_TIME = "listed-each-time"
    LISTED_ANEW = "listed-anew"
    FILES_SKIPPED = "files-skipped"
    MALFORMED_ROWS = "malformed-rows"
    NULL_STRUCTS = "null-structs"
    SMALL_CACHE = "small-cache"
    CACHE_EXPIRES = "cache-expires"
    CACHED_ROWS = "cached-rows"
    SESSION_VIEW = "session-view"
    GLOBAL_VIEW = "global-view"
    SUBQUERY_OF_VIEW = "subquery-of-view"
    HIVE_TABLE = "hive-table"


@dataclass(frozen=True, slots=True)
class Off:
    """Replanning is off."""

    kind: Literal["off"] = "off"


@dataclass(frozen=True, slots=True)
class TooSmall:
    """Spark is expected to need `seconds` for it; planning pays off above `worth`."""

    seconds: float
    worth: float
    kind: Literal["too-small"] = "too-small"


@dataclass(frozen=True, slots=True)
class StopsEarly:
    """It returns any rows up to its limit, so Spark can stop early."""

    kind: Literal["stops-early"] = "stops-early"


@dataclass(frozen=True, slots=True)
class SlowerBefore:
    """Its latest planned runs took `planned` seconds, and `written` as written; `left`: runs until it is planned."""

    planned: tuple[float, ...]
    written: float
    left: int
    kind: Literal["slower-before"] = "slower-before"


@dataclass(frozen=True, slots=True)
class WrittenBefore:
    """When it was last planned, it ran as written too; `left`: runs until it is planned again."""

    left: int
    kind: Literal["written-before"] = "written-before"


@dataclass(frozen=True, slots=True)
class Measured:
    """It is tried as written, to compare that with its planned runs. `written`: what that took `when`, in seconds."""

    planned: tuple[float, ...]
    written: float | None = None
    when: Literal["never", "before-planned", "long-ago"] = "never"
    kind: Literal["measured"] = "measured"


@dataclass(frozen=True, slots=True)
class NotFaster:
    """No plan is expected to finish earlier than the query as written."""

    kind: Literal["not-faster"] = "not-faster"


@dataclass(frozen=True, slots=True)
class NotOptimised:
    """Spark fails to optimise the query, so that it is left to raise the error."""

    kind: Literal["not-optimised"] = "not-optimised"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The planner cannot parse the text, though Spark may. `problem`: the parser's message."""

    problem: str
    kind: Literal["unreadable"] = "unreadable"


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The text has a construct that the planner does not take apart. `about`: which one, as written."""

    construct: Construct
    about: str = ""
    kind: Literal["unsupported"] = "unsupported"


@dataclass(frozen=True, slots=True)
class NothingLarge:
    """No intermediate result is joined with another large input."""

    kind: Literal["nothing-large"] = "nothing-large"


@dataclass(frozen=True, slots=True)
class TooMuch:
    """It has more of something than the planner takes; `limit`: how much that is, if it is counted."""

    excess: Excess
    limit: int | None = None
    kind: Literal["too-much"] = "too-much"


@dataclass(frozen=True, slots=True)
class NotRepeatable:
    """Part of it has another value each time. `about`: the expression, as written."""

    what: Unrepeatable
    about: str = ""
    kind: Literal["not-repeatable"] = "not-repeatable"


@dataclass(frozen=True, slots=True)
class NothingToReorder:
    """None of its blocks has joins to reorder, each for a cause of its own."""

    blocks: tuple[Unsupported, ...] = ()
    kind: Literal["nothing-to-reorder"] = "nothing-to-reorder"


@dataclass(frozen=True, slots=True)
class CannotPin:
    """Several stages could read other rows of a table. `about`: the table, view, folder or setting; `value`: its."""

    why: NotPinned
    about: str = ""
    value: str = ""
    kind: Literal["cannot-pin"] = "cannot-pin"


@dataclass(frozen=True, slots=True)
class OtherCatalog:
    """The session's current catalog is not the one that stages run in."""

    catalog: str
    kind: Literal["other-catalog"] = "other-catalog"


@dataclass(frozen=True, slots=True)
class OtherPath:
    """On the session's SQL path, temporary views are not looked up first."""

    path: str
    has_session: bool
    kind: Literal["other-path"] = "other-path"


@dataclass(frozen=True, slots=True)
class Different:
    """A plan could not be shown to compute the query. `problem`: what the comparison met; empty: they differ."""

    problem: str = ""
    kind: Literal["different"] = "different"


@dataclass(frozen=True, slots=True)
class OtherNullability:
    """The plan's columns may be NULL where those of the query as written may not, or the reverse."""

    kind: Literal["other-nullability"] = "other-nullability"


@dataclass(frozen=True, slots=True)
class TooMuchStored:
    """The outputs of stages take more bytes than the limit."""

    stored: float
    limit: float
    kind: Literal["too-much-stored"] = "too-much-stored"


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """Spark accepts the query and the planner does not, such as a name that it does not find."""

    problem: str
    kind: Literal["not-understood"] = "not-understood"


@dataclass(frozen=True, slots=True)
class PlanningFailed:
    """The planner raised an exception. `problem`: the exception."""

    problem: str
    kind: Literal["planning-failed"] = "planning-failed"


@dataclass(frozen=True, slots=True)
class UntypedCause:
    """A cause in an early journal, which recorded only its sentence."""

    text: str
    kind: Literal["said"] = "said"


AsWrittenCause = (
    Off
    | TooSmall
    | StopsEarly
    | SlowerBefore
    | WrittenBefore
    | Measured
    | NotFaster
    | NotOptimised
    | Unreadable
    | Unsupported
    | NothingToReorder
    | NothingLarge
    | TooMuch
    | NotRepeatable
    | CannotPin
    | OtherCatalog
    | OtherPath
    | Different
    | OtherNullability
    | TooMuchStored
    | NotUnderstood
    | PlanningFailed
    | UntypedCause
)
"""Why a query runs as written."""
