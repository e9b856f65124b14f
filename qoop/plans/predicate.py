"""Predicates in the form that the estimator reads, beside the SQL that runs."""

from dataclasses import dataclass
from typing import NamedTuple

Literal = int | float | str | bool
"""Dates and timestamps are ISO strings."""


class Column(NamedTuple):
    """A column of a relation of one block; generated SQL uses its `output` name, which is unique in the block."""

    relation: str
    name: str

    @property
    def output(self) -> str:
        """The name of this column in everything derived from its relation."""
        return f"{self.relation}__{self.name}"


@dataclass(frozen=True, slots=True)
class Compare:
    """column op literal; op is one of = <> < <= > >=."""

    column: Column
    op: str
    value: Literal


@dataclass(frozen=True, slots=True)
class CompareColumns:
    """column op column + offset."""

    left: Column
    op: str
    right: Column
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class InList:
    """column IN (literals)."""

    column: Column
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """column LIKE pattern."""

    column: Column
    pattern: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """column IS NULL."""

    column: Column


@dataclass(frozen=True, slots=True)
class AllOf:
    """Conjunction."""

    parts: tuple["Form", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Disjunction."""

    parts: tuple["Form", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Negation."""

    part: "Form"


@dataclass(frozen=True, slots=True)
class Opaque:
    """A condition that only Spark can evaluate."""


Form = Compare | CompareColumns | InList | Like | IsNull | AllOf | AnyOf | Not | Opaque


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition: its SQL over output names, the columns of the block that it reads, and its form.

    `is_equijoin`: it equates expressions over two relations, so a hash join can use it.
    `blocks`: the blocks that subqueries in it read.
    """

    sql: str
    columns: frozenset[Column]
    form: Form
    is_equijoin: bool = False
    blocks: frozenset[str] = frozenset()

    def relations(self) -> frozenset[str]:
        """The aliases of the relations that it reads."""
        return frozenset(column.relation for column in self.columns)
