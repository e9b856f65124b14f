"""The join graph of a block: relations, equality classes, and predicates over several relations."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from qoop.plans.predicate import Column, Predicate

RelationSet = int
"""Relations of one graph as bits: bit i is the graph's relation i."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A base table or another block's result, under an alias.

    `columns`: the columns that the block reads. `filters`: conditions that read this relation alone. `on`: those of the
    left join by which it is joined to one other relation; none if it is inner-joined.
    """

    alias: str
    source: str
    is_block: bool
    columns: tuple[str, ...]
    filters: tuple[Predicate, ...]
    on: tuple[Predicate, ...] = ()

    @property
    def is_optional(self) -> bool:
        """Whether rows of the others stay that have no match in it."""
        return bool(self.on)


@dataclass(frozen=True)
class JoinGraph:
    """The core of a SELECT: inner joins, and left joins of one relation to one other of the core.

    `classes`: equality classes of columns, transitively closed; each joins the relations that it touches.
    `predicates`: any other condition that reads several relations. `retained`: columns that are read outside the core.

    Any two trees over the same relations give the same rows and columns: filters are always pushed to the leaves, one
    equality of each class is applied, each predicate applies at the first join that covers its relations, and the
    output columns of a set of relations depend on the set alone. A left-joined relation is a leaf that is joined to a
    set with the relation that its condition reads (`can_join`). No other condition of the core reads it, so its join
    commutes with all others.
    """

    relations: tuple[Relation, ...]
    classes: tuple[frozenset[Column], ...]
    predicates: tuple[Predicate, ...]
    retained: frozenset[Column]

    @cached_property
    def all_relations(self) -> RelationSet:
        """All relations."""
        return (1 << len(self.relations)) - 1

    @cached_property
    def sources(self) -> tuple[frozenset[str], ...]:
        """The tables and blocks that each relation reads, including those in subqueries of its filters."""
        return tuple(
            frozenset({relation.source}).union(*(predicate.blocks for predicate in relation.filters))
            for relation in self.relations
        )

    @cached_property
    def bit(self) -> dict[str, int]:
        """The bit of each relation, by alias."""
        return {relation.alias: 1 << i for i, relation in enumerate(self.relations)}

    def index(self, relation: str) -> int:
        """The place of a relation, by alias."""
        return self.bit[relation].bit_length() - 1

    @cached_property
    def class_sets(self) -> tuple[RelationSet, ...]:
        """The relations that each class touches."""
        return tuple(self.set_of(column.relation for column in members) for members in self.classes)

    @cached_property
    def predicate_sets(self) -> tuple[RelationSet, ...]:
        """The relations that each predicate reads."""
        return tuple(self.set_of(predicate.relations()) for predicate in self.predicates)

    @cached_property
    def joining_sets(self) -> tuple[RelationSet, ...]:
        """The sets of relations joined by an equality: of each class, and of each equijoin predicate."""
        predicates = (*self.predicates, *(one for relation in self.relations for one in relation.on))
        equations = [self.set_of(one.relations()) for one in predicates if one.is_equijoin]
        return (*self.class_sets, *equations)

    @cached_property
    def optional(self) -> dict[RelationSet, RelationSet]:
        """For each left-joined relation, the other one that its condition reads."""
        return {
            self.bit[relation.alias]: self.set_of(alias for one in relation.on for alias in one.relations())
            & ~self.bit[relation.alias]
            for relation in self.relations
            if relation.is_optional
        }

    def can_join(self, left: RelationSet, right: RelationSet) -> bool:
        """Whether the join of two sets is one of a tree: each left-joined relation comes to what it is joined to."""
        if not self.optional:
            return True
        one, other = self._waiting(left), self._waiting(right)
        if one and other:
            return False
        alone, rest = (left, right) if one else (right, left)
        return not (one or other) or (alone in self.optional and bool(self.optional[alone] & rest))

    def _waiting(self, relations: RelationSet) -> bool:
        """Whether a set has a left-joined relation without the one that it is joined to."""
        return any(one & relations and not other & relations for one, other in self.optional.items())

    @cached_property
    def neighbours(self) -> tuple[RelationSet, ...]:
        """For each relation, the relations joined to it by an equality."""
        found = [0] * len(self.relations)
        for touched in self.joining_sets:
            for i in members(touched):
                found[i] |= touched & ~(1 << i)
        return tuple(found)

    def set_of(self, aliases: Iterable[str]) -> RelationSet:
        """The set of these aliases."""
        result = 0
        for alias in aliases:
            result |= self.bit[alias]
        return result

    def aliases(self, relations: RelationSet) -> tuple[str, ...]:
        """The aliases in a set, in the order of the graph."""
        return tuple(self.relations[i].alias for i in members(relations))

    def reach(self, relations: RelationSet) -> RelationSet:
        """The relations outside the set that an equality joins to one in it."""
        found = 0
        for i in members(relations):
            found |= self.neighbours[i]
        return found & ~relations

    def components(self) -> tuple[RelationSet, ...]:
        """The connected components of the graph over its equalities, in its order."""
        left, parts = self.all_relations, []
        while left:
            part = left & -left
            while grown := self.reach(part):
                part |= grown
            parts.append(part)
            left &= ~part
        return tuple(parts)

    def are_joined(self, left: RelationSet, right: RelationSet) -> bool:
        """Whether an equality connects two sets."""
        return any(touched & left and touched & right for touched in self.joining_sets)

    def joining_classes(self, left: RelationSet, right: RelationSet) -> Iterator[frozenset[Column]]:
        """The classes that have a column on either side."""
        for members_, touched in zip(self.classes, self.class_sets, strict=True):
            if touched & left and touched & right:
                yield members_

    def joining_predicates(self, left: RelationSet, right: RelationSet) -> Iterator[Predicate]:
        """The predicates that apply to the join of both sides, and to neither side alone."""
        both = left | right
        for predicate, touched in zip(self.predicates, self.predicate_sets, strict=True):
            if touched & ~both == 0 and touched & ~left and touched & ~right:
                yield predicate

    def representative(self, members_: frozenset[Column], relations: RelationSet) -> Column:
        """The column that stands for a class within a set of relations."""
        return min(column for column in members_ if self.bit[column.relation] & relations)

    def outputs(self, relations: RelationSet) -> tuple[Column, ...]:
        """The output columns of a set of relations: those that are read outside it. Depends on the set alone."""
        needed = {column for column in self.retained if self.bit[column.relation] & relations}
        for members_, touched in zip(self.classes, self.class_sets, strict=True):
            if touched & relations and touched & ~relations:
                needed.add(self.representative(members_, relations))
        for predicate, touched in zip(self.predicates, self.predicate_sets, strict=True):
            if touched & ~relations:
                needed |= {column for column in predicate.columns if self.bit[column.relation] & relations}
        for one, other in self.optional.items():
            if bool(one & relations) != bool(other & relations):
                on = self.relations[one.bit_length() - 1].on
                read = (column for predicate in on for column in predicate.columns)
                needed |= {column for column in read if self.bit[column.relation] & relations}
        return tuple(sorted(needed))


def members(relations: RelationSet) -> Iterator[int]:
    """The indices in a set, ascending."""
    while relations:
        low = relations & -relations
        yield low.bit_length() - 1
        relations ^= low


def size(relations: RelationSet) -> int:
    """How many relations a set has."""
    return relations.bit_count()
