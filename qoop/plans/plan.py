"""Candidate plans: which stages compute a query, in which order, and what each reads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from qoop.plans.graph import JoinGraph, RelationSet
from qoop.plans.predicate import Column
from qoop.plans.trees import Join, Tree, joins

BLOCK_RESULT: RelationSet = 0
"""Stands for everything that a block computes, not for a set of its relations."""


class StageId(NamedTuple):
    """What a stage computes: the join of a set of relations of a block, or the block's whole result.

    Within a query this is also what makes two stages equivalent (QOOP, section 2.3.4): any two trees over the same
    relations of a block give the same rows and columns (see `JoinGraph`).
    """

    block: str
    relations: RelationSet


ROOT = "qoop_result"
"""The name of the block that is a query's result."""

RESULT = StageId(ROOT, BLOCK_RESULT)
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
        return self.around.union(*(relation.sources for relation in self.graph.relations))


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
class BlockPlan:
    """How one block is computed: its join tree, and the inner parts of it that are stages of their own."""

    tree: Tree
    cuts: frozenset[RelationSet]

    @cached_property
    def joins(self) -> dict[RelationSet, Join]:
        """The joins of the tree, by their relations."""
        return {join.relations: join for join in joins(self.tree)}


class StageFragment(NamedTuple):
    """A block's join tree (or a part of it) as one stage computes it.

    `inputs`: the parts of it that are read from the outputs of other stages. `tree`: None for a block that is not
    planned.
    """

    block: str
    tree: Tree | None
    inputs: frozenset[RelationSet]

    @property
    def key(self) -> tuple[str, int, frozenset[RelationSet]]:
        """What makes two pieces the same work; trees are told apart as objects, plans share them."""
        return self.block, id(self.tree), self.inputs


class StageContent(NamedTuple):
    """What a stage does: its pieces (its own, then those of blocks computed inside it), and what it reads."""

    pieces: tuple[StageFragment, ...]
    reads: frozenset[StageId]


@dataclass(frozen=True)
class Plan:
    """A candidate plan: a part for each planned block."""

    query: Query
    parts: Mapping[str, BlockPlan]

    @cached_property
    def key(self) -> tuple[tuple[str, frozenset[RelationSet], frozenset[RelationSet]], ...]:
        """What makes two plans the same."""
        return tuple((name, frozenset(part.joins), part.cuts) for name, part in sorted(self.parts.items()))

    def stage_tree(self, stage: StageId) -> Tree | None:
        """The part of the join tree that a stage computes; None for a block that has no tree."""
        part = self.parts.get(stage.block)
        if part is None:
            return None
        return part.tree if stage.relations == BLOCK_RESULT else part.joins[stage.relations]

    def stages(self, ready: frozenset[StageId] = frozenset()) -> dict[StageId, frozenset[StageId]]:
        """The stages to run, and for each the stages it reads (those in `ready` left out), each after those it reads.

        Stages in `ready` have been run, by whatever plan, and stand in wherever the tree has their relations.
        """
        found: dict[StageId, frozenset[StageId]] = {}

        def visit(stage: StageId) -> None:
            if stage in found or stage in ready:
                return
            reads = self.reading(stage, ready).reads
            for other in sorted(reads):
                visit(other)
            found[stage] = reads - ready

        visit(RESULT)
        return found

    def reads(self, stage: StageId, ready: frozenset[StageId] = frozenset()) -> frozenset[StageId]:
        """The stage results that a stage reads; blocks that are not kept are computed inside the stage."""
        return self.reading(stage, ready).reads

    def reading(self, stage: StageId, ready: frozenset[StageId] = frozenset()) -> StageContent:
        """What a stage does and reads when these stages have been run."""
        known = self._readings.get((stage, ready))
        if known is None:
            known = self._readings[stage, ready] = self._read(stage, ready)
        return known

    def computes_same(self, other: "Plan", stage: StageId) -> bool:
        """Whether a stage that is running under the other plan is what this plan would run.

        The join of a set is, whatever tree computes it. A block's result is only where all parts in it are the same:
        computing it another way is what a switch is for.
        """
        if stage.relations != BLOCK_RESULT:
            return True
        inside = self.query.inside(stage.block)
        return all(self.parts.get(block) == other.parts.get(block) for block in inside)

    def reused(self, ready: frozenset[StageId]) -> frozenset[StageId]:
        """Which of the stages that have been run this plan reads."""
        return frozenset(read for stage in self.stages(ready) for read in self.reads(stage, ready) if read in ready)

    @cached_property
    def _readings(self) -> dict[tuple[StageId, frozenset[StageId]], StageContent]:
        return {}

    def _read(self, stage: StageId, ready: frozenset[StageId]) -> StageContent:
        block = self.query.blocks[stage.block]
        tree = self.stage_tree(stage)
        sources = set(block.around) if stage.relations == BLOCK_RESULT else set()
        inputs: set[RelationSet] = set()
        if tree is not None:
            leaves = self._walk(block.name, tree, stage.relations, ready, inputs)
        else:
            leaves = list(range(len(block.graph.relations))) if block.graph else []
        for index in leaves:
            assert block.graph is not None
            sources |= block.graph.relations[index].sources
        pieces = [StageFragment(block.name, tree, frozenset(inputs))]
        reads = {StageId(block.name, relations) for relations in inputs}
        for name in sorted(sources & self.query.blocks.keys()):
            whole = StageId(name, BLOCK_RESULT)
            if self.query.blocks[name].shared:
                reads.add(whole)
            else:
                inner = self.reading(whole, ready)
                pieces += inner.pieces
                reads |= inner.reads
        return StageContent(tuple(pieces), frozenset(reads))

    def _walk(
        self, block: str, tree: Tree, top: RelationSet, ready: frozenset[StageId], inputs: set[RelationSet]
    ) -> list[int]:
        """The relations that a tree reads in place; what it reads of stages is added to `inputs`."""
        cuts = self.parts[block].cuts
        leaves: list[int] = []
        pending = [tree]
        while pending:
            part = pending.pop()
            relations = part.relations
            if relations != top and (relations in cuts or StageId(block, relations) in ready):
                inputs.add(relations)
            elif isinstance(part, Join):
                pending += (part.right, part.left)
            else:
                leaves.append(relations.bit_length() - 1)
        return leaves


def cuts_where(tree: Tree, is_worth: Callable[[Join, Tree], bool]) -> frozenset[RelationSet]:
    """The inner parts of a tree to cut: those that go into a join for which `is_worth(part, other side)` holds."""
    found = set()
    for join in joins(tree):
        for part, other in ((join.left, join.right), (join.right, join.left)):
            if isinstance(part, Join) and is_worth(part, other):
                found.add(part.relations)
    return frozenset(found)
