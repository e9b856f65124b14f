"""Check that what runs computes what the user wrote: both are analysed by Spark and compared."""

import json
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from qoop.as_written.causes import AsWrittenCause, Different, OtherNullability
from qoop.computed_once import computed_once
from qoop.engine.connection import java_class, without_delay
from qoop.engine.scala import is_cut, items, leaves, objects_in, printed, sequence
from qoop.engine.session import comparing_session
from qoop.engine.snapshot import is_hives, keep
from qoop.engine.table_versions import TableVersions, identity_at_version
from qoop.equivalence.canonical import canonical_text
from qoop.equivalence.exact import is_exact
from qoop.equivalence.expression import Expr
from qoop.equivalence.optimised import IN_FILES, changed_by_optimiser
from qoop.equivalence.repeatable import unrepeatable_part
from qoop.equivalence.spark_tree import UnverifiableError, read_tree
from qoop.equivalence.translate import translate
from qoop.errors import RunsAsWrittenError
from qoop.parsing.moment import TIME_DIGITS, Moment
from yarn_plugin.errors import describe

EXPAND_CLASS = "org.apache.spark.sql.catalyst.plans.logical.Expand"

EXPAND = re.compile(r"^(\d+)[ :+-]*Expand \[", re.MULTILINE)
"""A line of Spark's numbered tree that is the expansion of grouping sets."""


SESSIONS = '"name":"session_window"'
"""The column by which Spark groups rows that are close in time. It takes filters of groups for such of rows."""

CASE = re.compile(r"\b(?:CASE WHEN|END)\b")
"""Where a CASE begins and ends in a printed plan; a column without a name of its own has it as its name."""

MAX_CASES = 10
"""How deeply they may be nested: Spark writes all that a CASE has twice, so each level doubles the text."""

SHARED_VIEW = re.compile(r"^[ :+-]*View \(`[^`]*`\.", re.MULTILINE)
"""A line of a plan that is a view in a database, or one of all sessions; temporary views have single names."""


MIDNIGHTS_S = 900
"""Between two midnights of any time zone there are as many seconds, or a multiple of it.

A view with DATE 'today' has another literal after midnight, in the time zone that it was made in.
"""


class DifferentPlanError(RunsAsWrittenError):
    """A plan is not certain to compute the query as written."""


class Verification:
    """Compares plans of one query, each given as one text, with the query as written.

    Args:
        written: the query as written, analysed in the user's session.
        session: the session that stages run in.
        moment: the moment of the query, which its plans have as literals.
        same: pairs of leaves that read the same, as in the query as written and as in stages (`pin_tables`).
        versions: of tables, which both read as of them.
    """

    def __init__(
        self,
        written: DataFrame,
        session: SparkSession,
        moment: Moment | None = None,
        same: Iterable[tuple[Any, Any]] = (),
        versions: TableVersions | None = None,
    ) -> None:
        self._written, self._stages = written, session
        self._table_versions = versions or TableVersions()
        self._constants = _constants(moment) if moment is not None else {}
        self._same = list(same)
        self._pinned = [pinned for _, pinned in self._same]
        self._lock = threading.Lock()
        self._expected: str | None = None
        self._verdicts: dict[tuple[str, int], AsWrittenCause | None] = {}

    @computed_once
    def _reader(self) -> "_PlanReader":
        return _PlanReader(self._same)

    @computed_once
    def _session(self) -> SparkSession:
        session = comparing_session(self._stages)
        for relation in self._pinned:
            keep(relation, session)
        return session

    @computed_once
    def _printed(self) -> str:
        """The query as written, as Spark prints its plan."""
        return printed(self._written._jdf.queryExecution().analyzed())

    @computed_once
    def _may_change(self) -> bool:
        """Whether other sessions can give a name that the query reads another meaning.

        They can define views anew, all but temporary ones of its session, and change Hive's tables in the metastore.
        """
        plan = self._printed
        return SHARED_VIEW.search(plan) is not None or is_cut(plan) or any(map(is_hives, self._pinned))

    def check(self, text: str, last: bool = False) -> None:
        """Check one plan, each text once, and again after midnight, or if it is the `last` and names may have changed.

        Raises:
            DifferentPlanError: the plan is different, or cannot be compared.
        """
        with self._lock:
            key = text, int(time.time() / MIDNIGHTS_S)
            if key not in self._verdicts or (last and self._may_change):
                self._verdicts[key] = self._difference(text)
            verdict = self._verdicts[key]
        if verdict is not None:
            raise DifferentPlanError(verdict)

    def expected(self) -> str:
        """The canonical text of the query as written.

        Raises:
            UnverifiableError: it has none.
        """
        if self._expected is None:
            self._expected = self._canonical(self._written, self._constants)
        return self._expected

    def _difference(self, text: str) -> AsWrittenCause | None:
        try:
            expected = self.expected()
            made = self._session.sql(self._table_versions.in_text(text))
            nullable = [field.nullable for field in self._written.schema.fields]
            if nullable != [field.nullable for field in made.schema.fields]:
                return OtherNullability()
            if self._canonical(made, {}) != expected:
                return Different()
            return None
        except UnverifiableError as problem:
            return Different(str(problem))
        except Exception as problem:  # noqa: BLE001 - without a comparison the query runs as written
            return Different(describe(problem)[:200])

    def _canonical(self, frame: DataFrame, constants: Mapping[str, Expr]) -> str:
        plan = frame._jdf.queryExecution().analyzed()
        if not plan.deterministic():
            raise UnverifiableError("an expression is not deterministic")
        without_delay(self._session)
        text = _json(plan, self._session._jvm)
        if SESSIONS in text:
            raise UnverifiableError("Spark may filter rows before it puts them into sessions (session_window)")
        nodes = json.loads(text)
        if EXPAND_CLASS in text:
            _add_grouping_sets(nodes, plan)
        relation = translate(read_tree(nodes), self._reader.tables(plan), constants)
        reason = unrepeatable_part(relation) or changed_by_optimiser(relation)
        if reason is not None:
            raise UnverifiableError(reason)
        return canonical_text(relation)


MAY_BE_INEXACT = ("AGGREGATE", "AGGREGATE_EXPRESSION", "DISTINCT_LIKE", "INTERSECT", "EXCEPT")
"""Spark's names for what a plan without inexact values may lack: most stages only join."""


@lru_cache(maxsize=2)
def _patterns(jvm: Any, names: Sequence[str]) -> Any:
    """Spark's objects for these names; kept, since looking them up takes longer than asking a plan for them."""
    patterns = java_class(jvm, "org.apache.spark.sql.catalyst.trees.TreePattern")
    return sequence(jvm, [getattr(patterns, name)() for name in names])


def has_exact_values(frame: DataFrame) -> bool:
    """Whether a frame has the same values, to the last bit, each time that it is computed; False if in doubt."""
    try:
        plan = frame._jdf.queryExecution().analyzed()
        if not plan.containsAnyPattern(_patterns(frame.sparkSession._jvm, MAY_BE_INEXACT)):
            return True
        without_delay(frame.sparkSession)
        return is_exact(read_tree(json.loads(_json(plan, frame.sparkSession._jvm))))
    except Exception:  # noqa: BLE001 - a plan that cannot be read is in doubt
        return False


def _json(plan: Any, jvm: Any) -> str:
    """A plan as Spark writes it.

    Raises:
        UnverifiableError: it would be very long, as it has a CASE within a CASE, and so on.
    """
    if plan.containsAnyPattern(_patterns(jvm, ("CASE_WHEN",))):
        depth = deepest = 0
        text = printed(plan)
        for found in CASE.finditer(text):
            depth = max(depth - 1, 0) if found[0] == "END" else depth + 1
            deepest = max(deepest, depth)
        if deepest > MAX_CASES or is_cut(text):
            raise UnverifiableError(f"more than {MAX_CASES} CASEs are nested in each other")
    return str(plan.toJSON())


def _constants(moment: Moment) -> dict[str, Expr]:
    """What Spark's expressions for the current date and time are in plans."""
    time: Expr = ("call", "MicrosToTimestamp", (("child", 0),), (("literal", "long", str(moment.micros)),))
    return {
        "CurrentDate": ("literal", "date", moment.date_text),
        "CurrentTimestamp": time,
        "Now": time,
        "LocalTimestamp": ("literal", "timestamp_ntz", str(moment.local_micros)),
        f"CurrentTime {TIME_DIGITS}": ("literal", f"time({TIME_DIGITS})", moment.time_text),
    }


class _PlanReader:
    """Numbers the tables that plans read; equal relations have one number."""

    def __init__(self, same: Iterable[tuple[Any, Any]] = ()) -> None:
        self._known: dict[int, list[tuple[str, Any]]] = {}
        for one, other in same:
            relation = other.canonicalized()
            self._known.setdefault(relation.hashCode(), []).append((self._number(one.canonicalized()), relation))

    def tables(self, plan: Any) -> dict[int, str]:
        """The table of each leaf, by the id of its first column."""
        found: dict[int, str] = {}
        for leaf in leaves(plan):
            output = leaf.output()
            if output.size() and leaf.getClass().getSimpleName() != "CTERelationRef":
                first, number = output.head().exprId().id(), self._number(leaf.canonicalized())
                if found.setdefault(first, number) != number:
                    raise UnverifiableError("two tables have the same columns, as a frame and its checkpoint have")
        return found

    def _number(self, relation: Any) -> str:
        if (known_by := identity_at_version(relation)) is not None:
            return known_by
        alike = self._known.setdefault(relation.hashCode(), [])
        for number, known in alike:
            if known.equals(relation):
                return number
        number = f"{relation.hashCode()} {len(alike)}"
        if str(relation.getClass().getSimpleName()) == "LogicalRelation":
            number += IN_FILES
        alike.append((number, relation))
        return number


def _add_grouping_sets(nodes: list[dict[str, Any]], plan: Any) -> None:
    """Add the projections of grouping sets that Spark leaves out of its JSON."""
    incomplete = [node for node in objects_in(nodes) if _is_expand(node) and node.get("projections") is None]
    if not incomplete:
        return
    by_output = {}
    for number in EXPAND.findall(plan.numberedTreeString()):
        operator = plan.apply(int(number))
        rows = [[json.loads(item.toJSON()) for item in items(row)] for row in items(operator.projections())]
        by_output[operator.output().head().exprId().id()] = rows
    for node in incomplete:
        node["projections"] = by_output.get(node["output"][0][0]["exprId"]["id"])


def _is_expand(node: dict[str, Any]) -> bool:
    return node.get("class") == EXPAND_CLASS
