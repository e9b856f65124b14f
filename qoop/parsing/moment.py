"""The moment of a query: what `current_date`, `current_timestamp` and the like are in all of its stages."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlglot import exp

from qoop.equivalence.translate import stands_for_moment
from qoop.parsing.spark_sql import DIALECT

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TIME_DIGITS = 6
"""The digits of `current_time()` below a second, as of a literal."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The time at which a query counts as run. `local`: in the session's time zone. `time`: the same with an offset."""

    local: datetime
    time: datetime

    @property
    def date_text(self) -> str:
        """The local date as in a literal."""
        return self.local.date().isoformat()

    @property
    def time_text(self) -> str:
        """The local time of day, as in a literal that Spark has read: without zeros at its end."""
        text = self.local.time().isoformat()
        return text.rstrip("0") if "." in text else text

    @property
    def local_text(self) -> str:
        """The local date and time, in the same form."""
        return f"{self.date_text} {self.time_text}"

    @property
    def micros(self) -> int:
        """The time in microseconds since the epoch, which are the same in every time zone."""
        return (self.time - EPOCH) // timedelta(microseconds=1)

    @property
    def local_micros(self) -> int:
        """The local date and time in microseconds since the local one of 1970."""
        return (self.local - EPOCH.replace(tzinfo=None)) // timedelta(microseconds=1)


def reads_moment(query: exp.Expr) -> bool:
    """Whether a query reads the current date or time."""
    return any(_reads(node) for node in query.walk())


def names_moment(query: exp.Expr) -> bool:
    """Whether a query has a literal such as DATE 'today', which Spark's parser evaluates in each stage anew."""
    return any(
        stands_for_moment(cast.this.name, cast.to.sql(DIALECT).lower())
        for cast in query.find_all(exp.Cast)
        if cast.this.is_string
    )


def at_moment(query: exp.Query, moment: Moment) -> exp.Query:
    """A copy of a query with the current date and time as literals, the same for all stages."""

    def fold(node: exp.Expr) -> exp.Expr:
        if not _reads(node):
            return node
        match node:
            case exp.CurrentDate():
                return _literal(moment.date_text, exp.DType.DATE)
            case exp.Localtimestamp():
                return _literal(moment.local_text, exp.DType.TIMESTAMPNTZ)
            case exp.CurrentTime():
                return _literal(moment.time_text, exp.DType.TIME)
        return exp.func("timestamp_micros", exp.Literal.number(moment.micros), dialect=DIALECT)

    folded = query.copy().transform(fold)
    assert isinstance(folded, exp.Query)
    return folded


def _literal(text: str, kind: exp.DType) -> exp.Cast:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType(this=kind))


def _reads(node: exp.Expr) -> bool:
    """Whether an expression is the current date or time."""
    match node:
        case exp.CurrentTime():
            digits = node.args.get("this")
            return digits is None or (isinstance(digits, exp.Literal) and digits.name == str(TIME_DIGITS))
        case exp.CurrentDate() | exp.CurrentTimestamp() | exp.Localtimestamp():
            return not node.args.get("this")
        case exp.Anonymous():
            return node.name.lower() == "now" and not node.expressions
    return False
