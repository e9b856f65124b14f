"""Plans as blocks: sources joined by conditions, with outer, semi and anti joins to other relations beside them.

Inner joins, filters and projections leave no trace but their conditions: this is what makes plans comparable that join
in different orders and filter at different places.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from qoop.equivalence.expression import Expr, columns, subqueries


@dataclass(eq=False)
class Source:
    """A table, or the result of an operator that is no join, as a source of a block.

    `key`: what the operator does, over the columns of its inputs. `alias`: the query's name for it, if it has one.
    `functions`: the aggregates or window functions that it evaluates.
    """

    identity: int
    kind: str
    key: tuple[Any, ...]
    inputs: tuple["Relation", ...] = ()
    alias: str = ""
    functions: tuple[Expr, ...] = ()


@dataclass(eq=False)
class Side:
    """An outer, semi or anti join of a block's rows to a relation; `condition` reads both."""

    identity: int
    kind: str
    relation: "Relation"
    condition: frozenset[Expr]


@dataclass(eq=False)
class Block:
    """Sources, all joined; the conditions that their rows meet; and the joins beside them.

    Every condition commutes with every side that it does not read, so that neither has a place.
    """

    sources: list[Source] = field(default_factory=list)
    conditions: set[Expr] = field(default_factory=set)
    sides: list[Side] = field(default_factory=list)

    @property
    def is_one_row(self) -> bool:
        """Whether it is one row, which reads nothing: a SELECT without FROM."""
        return not (self.sources or self.conditions or self.sides)

    def joined_with(self, other: "Block") -> "Block":
        """The inner join of two blocks, without a condition."""
        return Block(self.sources + other.sources, self.conditions | other.conditions, self.sides + other.sides)

    def parts(self) -> "list[Source | Side]":
        """The sources and the joins beside them."""
        return [*self.sources, *self.sides]

    def identities(self) -> Iterator[int]:
        """The sources and sides that the block's columns come from."""
        yield from (source.identity for source in self.sources)
        yield from (side.identity for side in self.sides)


@dataclass(eq=False)
class Relation:
    """A block and the expressions over it that make up the rows."""

    block: Block
    outputs: tuple[Expr, ...]

    def expressions(self) -> list[Any]:
        """What its own operators compute, without those of its inputs."""
        block = self.block
        of_sources = [part for source in block.sources for part in (source.key, source.functions)]
        return [self.outputs, tuple(block.conditions), *(side.condition for side in block.sides), *of_sources]

    def subqueries(self) -> "list[Relation]":
        """The subqueries in these expressions."""
        return [found for expr in self.expressions() for found in subqueries(expr)]

    def free_columns(self) -> Iterator[Expr]:
        """The columns of enclosing blocks that a correlated subquery reads."""
        own = set(self.block.identities())
        yield from (column for column in self._columns() if column[1] not in own)

    def _columns(self) -> Iterator[Expr]:
        for expr in (*self.outputs, *self.block.conditions):
            yield from columns(expr)
        for side in self.block.sides:
            for expr in side.condition:
                yield from columns(expr)
            yield from side.relation.free_columns()
        for source in self.block.sources:
            inner: set[int] = set()
            for relation in source.inputs:
                inner.update(relation.block.identities())
                yield from relation.free_columns()
            yield from (column for column in columns(source.key) if column[1] not in inner)
