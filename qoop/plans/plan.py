"""Candidate plans: which stages compute a query, in which order, and what each reads."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from qoop.plans.graph import JoinGraph, RelationSet, size
from qoop.plans.predicate import Column
from qoop.plans.tree import Join, Tree, joins

WHOLE: RelationSet = 0
"""Stands for everything that a block computes, not for a set of its relations."""


class StageId(NamedTuple):
    """What a stage computes: the join of a set of relations of a block, or the block's whole result.

    Within a query this is also what makes two stages equivalent (002, section 2.3.4): any two trees over the same
    relations of a block give the same rows and columns (see `JoinGraph`).
    """

    block: str
    relations: RelationSet


ROOT = "qoop_result"
"""The name of the block that is a query's result."""

GOAL = StageId(ROOT, WHOLE)
"""The stage whose output is the query's result, in every plan."""


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a block's result; `column` is the core column that it passes on, if it does nothing else."""

    name: str
    column: Column | None


@dataclass(frozen=True)
class Block:
    """A block as the planner sees it.

    `graph`: its inner-join core; None where it has none that we can take apart, and `reason` says why.
    `around`: what it reads outside its core, tables and blocks. `keys`: the core columns that it groups by, None where
    it does not group. `shared`: its result is computed once and kept, because several parts of the query read it.
    `copied`: several parts read it, and each computes it for itself, so its core is not cut into stages.
    """

    name: str
    graph: JoinGraph | None
    reason: str | None
    around: frozenset[str]
    outputs: tuple[Output, ...]
    keys: tuple[Column, ...] | None
    is_union: bool = False
    shared: bool = False
    copied: bool = False

    @property
    def is_planned(self) -> bool:
        """Whether there is a choice of join trees, and stages may be cut."""
        return self.graph is not None and len(self.graph.relations) > 1 and not self.copied

    def sources(self) -> frozenset[str]:
        """The tables and blocks that it reads."""
        if self.graph is None:
            return self.around
        filters = [predicate.blocks for relation in self.graph.relations for predicate in relation.filters]
        return self.around.union({relation.source for relation in self.graph.relations}, *filters)


@dataclass(frozen=True)
class Query:
    """The blocks of a query, each after those it reads; the last is the result (`ROOT`)."""

    blocks: Mapping[str, Block]

    def inside(self, block: str) -> frozenset[str]:
        """A block and those that are computed inside it, because their results are not kept."""
        found = {block}
        for name in self.blocks[block].sources():
            if name in self.blocks and not self.blocks[name].shared:
                found |= self.inside(name)
        return frozenset(found)

    @cached_property
    def planned(self) -> tuple[str, ...]:
        """The blocks that have a choice of join trees."""
        return tuple(name for name, block in self.blocks.items() if block.is_planned)


@dataclass(frozen=True)
class Part:
    """How one block is computed: its join tree, and the inner parts of it that are stages of their own."""

    tree: Tree
    cuts: frozenset[RelationSet]


@dataclass(frozen=True)
class Plan:
    """A candidate plan: a part for each planned block."""

    query: Query
    parts: Mapping[str, Part]

    @cached_property
    def key(self) -> tuple[tuple[str, frozenset[RelationSet], frozenset[RelationSet]], ...]:
        """What makes two plans the same."""
        return tuple(
            (name, frozenset(join.relations for join in joins(part.tree)), part.cuts)
            for name, part in sorted(self.parts.items())
        )

    def stage_tree(self, stage: StageId) -> Tree | None:
        """The part of the join tree that a stage computes; None for a block that has no tree."""
        part = self.parts.get(stage.block)
        if part is None:
            return None
        if stage.relations == WHOLE:
            return part.tree
        return next(join for join in joins(part.tree) if join.relations == stage.relations)

    def stages(self, ready: Collection[StageId] = frozenset()) -> dict[StageId, frozenset[StageId]]:
        """The stages to run, and for each the stages it reads (those in `ready` left out), each after those it reads.

        Stages in `ready` have been run, by whatever plan, and stand in wherever the tree has their relations.
        """
        found: dict[StageId, frozenset[StageId]] = {}

        def visit(stage: StageId) -> None:
            if stage in found or stage in ready:
                return
            reads = self.reads(stage, ready)
            for other in sorted(reads):
                visit(other)
            found[stage] = reads - set(ready)

        visit(GOAL)
        return found

    def reads(self, stage: StageId, ready: Collection[StageId] = frozenset()) -> frozenset[StageId]:
        """The stage results that a stage reads; blocks that are not kept are computed inside the stage."""
        inputs, sources = self.frontier(stage, ready)
        found = set(inputs)
        for name in sources:
            block = self.query.blocks.get(name)
            if block is not None:
                whole = StageId(name, WHOLE)
                found |= {whole} if block.shared else self.reads(whole, ready)
        return frozenset(found)

    def same_way(self, other: "Plan", stage: StageId) -> bool:
        """Whether a stage that is running under the other plan is what this plan would run.

        The join of a set is, whatever tree computes it. A block's result is only where all parts in it are the same:
        computing it another way is what a switch is for.
        """
        if stage.relations != WHOLE:
            return True
        inside = self.query.inside(stage.block)
        return all(self.parts.get(block) == other.parts.get(block) for block in inside)

    def reused(self, ready: Collection[StageId]) -> frozenset[StageId]:
        """Which of the stages that have been run this plan reads."""
        return frozenset(read for stage in self.stages(ready) for read in self.reads(stage, ready) if read in ready)

    def frontier(self, stage: StageId, ready: Collection[StageId] = frozenset()) -> tuple[list[StageId], list[str]]:
        """What a stage reads itself: results of stages of its own block, and tables and blocks by name."""
        block = self.query.blocks[stage.block]
        inputs: list[StageId] = []
        sources = sorted(block.around) if stage.relations == WHOLE else []
        tree = self.stage_tree(stage)
        if tree is not None:
            leaves = self._walk(block.name, tree, stage.relations, ready, inputs)
        else:
            leaves = list(range(len(block.graph.relations))) if block.graph else []
        for index in leaves:
            assert block.graph is not None
            relation = block.graph.relations[index]
            sources.append(relation.source)
            sources += sorted(frozenset().union(*(predicate.blocks for predicate in relation.filters)))
        return inputs, sources

    def inlined(self, stage: StageId, ready: Collection[StageId] = frozenset()) -> frozenset[str]:
        """The other blocks that a stage computes inside itself."""
        found: set[str] = set()
        for name in self.frontier(stage, ready)[1]:
            block = self.query.blocks.get(name)
            if block is not None and not block.shared:
                found |= {name} | self.inlined(StageId(name, WHOLE), ready)
        return frozenset(found)

    def is_input(self, block: str, relations: RelationSet, ready: Collection[StageId]) -> bool:
        """Whether a part of a block's tree is read from a stage's output, not computed in place."""
        return relations in self.parts[block].cuts or StageId(block, relations) in ready

    def _walk(
        self, block: str, tree: Tree, top: RelationSet, ready: Collection[StageId], inputs: list[StageId]
    ) -> list[int]:
        """The relations that a tree reads in place; what it reads of stages is added to `inputs`."""
        leaves: list[int] = []
        pending = [tree]
        while pending:
            part = pending.pop()
            if part.relations != top and self.is_input(block, part.relations, ready):
                inputs.append(StageId(block, part.relations))
            elif isinstance(part, Join):
                pending += (part.right, part.left)
            else:
                leaves.append(part.relations.bit_length() - 1)
        return leaves


def cuts_where(tree: Tree, is_worth: Callable[[Join, Tree], bool]) -> frozenset[RelationSet]:
    """The inner parts of a tree to cut: those that go into a join for which `is_worth(part, other side)` holds."""
    found = set()
    for join in joins(tree):
        for part, other in ((join.left, join.right), (join.right, join.left)):
            if isinstance(part, Join) and is_worth(part, other):
                found.add(part.relations)
    return frozenset(found)


def largest(sets: Collection[RelationSet]) -> list[RelationSet]:
    """Sets of relations, larger ones first."""
    return sorted(sets, key=lambda relations: (-size(relations), relations))
