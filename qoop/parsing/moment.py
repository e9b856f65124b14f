"""The moment of a query: what `current_date` and `current_timestamp` are in all of its stages."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from sqlglot import exp

from qoop.parsing.spark_sql import DIALECT


@dataclass(frozen=True, slots=True)
class Moment:
    """The time at which a query counts as run. `date`: the day in the session's time zone. `time`: with an offset."""

    date: date
    time: datetime

    @property
    def date_text(self) -> str:
        """The date as in a literal."""
        return self.date.isoformat()

    @property
    def micros(self) -> int:
        """The time in microseconds since the epoch, which are the same in every time zone."""
        return (self.time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def reads_moment(query: exp.Expr) -> bool:
    """Whether a query reads the current date or time."""
    return any(_is_date(node) or _is_time(node) for node in query.walk())


def at_moment(query: exp.Query, moment: Moment) -> exp.Query:
    """A copy of a query with the current date and time as literals, the same for all stages."""

    def fold(node: exp.Expr) -> exp.Expr:
        if _is_date(node):
            return exp.Cast(this=exp.Literal.string(moment.date_text), to=exp.DataType.build("date"))
        if _is_time(node):
            return exp.func("timestamp_micros", exp.Literal.number(moment.micros), dialect=DIALECT)
        return node

    folded = query.copy().transform(fold)
    assert isinstance(folded, exp.Query)
    return folded


def _is_date(node: exp.Expr) -> bool:
    return isinstance(node, exp.CurrentDate) and not node.args.get("this")


def _is_time(node: exp.Expr) -> bool:
    is_now = isinstance(node, exp.Anonymous) and node.name.lower() == "now" and not node.expressions
    return is_now or (isinstance(node, exp.CurrentTimestamp) and not node.args.get("this"))
