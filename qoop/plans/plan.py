"""Candidate plans: which stages compute a query, in which order, and what each reads."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

from qoop.as_written.causes import AsWrittenCause, Excess, TooMuch
from qoop.errors import CannotSplitError
from qoop.plans.graph import JoinGraph, RelationSet
from qoop.plans.predicate import Column
from qoop.plans.trees import Join, Tree, joins

BLOCK_RESULT: RelationSet = 0
"""Stands for the result of a block, in place of a set of its relations."""


class StageId(NamedTuple):
    """What a stage computes: the join of a set of relations of a block, or the block's result.

    Stages of a query with the same id are equivalent (QOOP section 2.3.4): any two join trees over the same relations
    of a block give the same rows and columns (see `JoinGraph`).
    """

    block: str
    relations: RelationSet


def view_name(stage: StageId) -> str:
    """The view name of a stage's output."""
    return stage.block if stage.relations == BLOCK_RESULT else f"{stage.block}__{stage.relations:x}"


class StageName(NamedTuple):
    """A stage by the aliases of the relations that it joins; none for the result of a block.

    For records: which bit stands for a relation may change from version to version.
    """

    block: str
    aliases: tuple[str, ...]


class BlockShape(NamedTuple):
    """How a block is computed, for records: the aliases that each of its joins joins, and those of each cut."""

    block: str
    joins: tuple[tuple[str, ...], ...]
    cuts: tuple[tuple[str, ...], ...]


PlanShape = tuple[BlockShape, ...]
"""A plan, for records: its planned blocks."""

PREFIX = "qoop_"
"""How the names of blocks and of the views of stages start."""

ROOT = f"{PREFIX}result"
"""The name of the block that is a query's result."""

AS_WRITTEN = "as written"
"""The signature of a query's plan that is the query as the user wrote it."""

RESULT = StageId(ROOT, BLOCK_RESULT)
"""The stage whose output is the query's result, in every plan."""


MAX_FRAGMENTS = 10_000
"""How many blocks a stage may compute. CTEs that each read the one before twice double it: Spark computes each anew."""


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a block's result; `column`: the core column that it passes on unchanged, if any."""

    name: str
    column: Column | None


@dataclass(frozen=True)
class Block:
    """A block as the planner sees it.

    `graph`: its inner-join core; None if it has none that can be reordered, and `cause` says why. `outer_sources`: the
    tables and blocks that it reads outside its core. `keys`: the core columns that it groups by; None if it does not
    group. `shared`: it has several readers, and its result is computed once and stored. `copied`: it has several
    readers, and each computes it itself, so its core is not cut into stages. `readers`: how many it has.
    """

    name: str
    graph: JoinGraph | None
    cause: AsWrittenCause | None
    outer_sources: frozenset[str]
    outputs: tuple[Output, ...]
    keys: tuple[Column, ...] | None
    is_union: bool = False
    shared: bool = False
    copied: bool = False
    readers: int = 1

    @property
    def is_planned(self) -> bool:
        """Whether it has a choice of join trees, and may be cut into stages."""
        return self.graph is not None and len(self.graph.relations) > 1 and not self.copied

    def sources(self) -> frozenset[str]:
        """The tables and blocks that it reads."""
        if self.graph is None:
            return self.outer_sources
        return self.outer_sources.union(*self.graph.sources)


@dataclass(frozen=True)
class Query:
    """The blocks of a query in topological order; the last is the result (`ROOT`)."""

    blocks: Mapping[str, Block]

    def name_of(self, stage: StageId) -> StageName:
        """A stage by the aliases of its relations."""
        block = self.blocks.get(stage.block)
        graph = block.graph if block is not None else None
        return StageName(stage.block, graph.aliases(stage.relations) if graph is not None else ())

    def stage_of(self, name: StageName) -> StageId | None:
        """The stage of a name; None if the query has no such block or relations."""
        block = self.blocks.get(name.block)
        if block is None or not name.aliases:
            return StageId(name.block, BLOCK_RESULT) if block is not None else None
        if block.graph is None or not block.graph.bit.keys() >= set(name.aliases):
            return None
        return StageId(name.block, block.graph.set_of(name.aliases))

    def computed_inside(self, block: str) -> frozenset[str]:
        """A block and the blocks that are computed inside it, because their results are not stored."""
        found = {block}
        # Readers come after what they read.
        for name in reversed(list(self.blocks)):
            if name in found:
                read = self.blocks[name].sources() & self.blocks.keys()
                found |= {other for other in read if not self.blocks[other].shared}
        return frozenset(found)

    @cached_property
    def planned(self) -> tuple[str, ...]:
        """The blocks that have a choice of join trees."""
        return tuple(name for name, block in self.blocks.items() if block.is_planned)

    @property
    def shared_groupings(self) -> frozenset[str]:
        """The blocks that group and have several readers."""
        return frozenset(name for name, block in self.blocks.items() if block.shared and block.keys is not None)


@dataclass(frozen=True)
class BlockPlan:
    """How one block is computed: its join tree, and the subtrees that are stages of their own."""

    tree: Tree
    cuts: frozenset[RelationSet]

    @cached_property
    def joins(self) -> dict[RelationSet, Join]:
        """The joins of the tree, by their relations."""
        return {join.relations: join for join in joins(self.tree)}


class StageFragment(NamedTuple):
    """A block's join tree, or a subtree of it, as one stage computes it.

    `tree`: None for a block that is not planned. `inputs`: the subtrees that are read from the outputs of other stages.
    """

    block: str
    tree: Tree | None
    inputs: frozenset[RelationSet]

    @property
    def key(self) -> tuple[str, int, frozenset[RelationSet]]:
        """Equal for fragments that do the same work; trees are compared by identity, since plans share them."""
        return self.block, id(self.tree), self.inputs


class StageContent(NamedTuple):
    """What a stage computes (its own fragment, then those of the blocks inside it) and which outputs it reads."""

    fragments: tuple[StageFragment, ...]
    reads: frozenset[StageId]


@dataclass(frozen=True)
class Plan:
    """A candidate plan: how each planned block is computed.

    `as_written`: Spark runs the query as the user wrote it, as a single stage that reads no output of another; the
    trees, which have no cuts, only say what that is expected to cost.
    """

    query: Query
    block_plans: Mapping[str, BlockPlan]
    as_written: bool = False

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for equal plans."""
        parts = sorted(self.block_plans.items())
        return self.as_written, *((name, frozenset(part.joins), part.cuts) for name, part in parts)

    @cached_property
    def shape(self) -> PlanShape:
        """The plan for records: like `key`, but equal in later versions if blocks and aliases keep their names."""

        def named(block: str, sets: Iterable[RelationSet]) -> tuple[tuple[str, ...], ...]:
            return tuple(sorted(tuple(sorted(self.query.name_of(StageId(block, one)).aliases)) for one in sets))

        blocks = sorted(self.block_plans.items())
        return tuple(BlockShape(name, named(name, part.joins), named(name, part.cuts)) for name, part in blocks)

    @cached_property
    def signature(self) -> str:
        """Tells the plan from others of its query in records."""
        if self.as_written:
            return AS_WRITTEN
        return blake2b(repr([tuple(block) for block in self.shape]).encode(), digest_size=8).hexdigest()

    def stage_tree(self, stage: StageId) -> Tree | None:
        """The join tree that a stage computes; None for a block that is not planned."""
        part = self.block_plans.get(stage.block)
        if part is None:
            return None
        return part.tree if stage.relations == BLOCK_RESULT else part.joins[stage.relations]

    def stages(self, ready: frozenset[StageId] = frozenset()) -> dict[StageId, frozenset[StageId]]:
        """The stages to run, in topological order, and for each the stages that it reads, without those in `ready`.

        Stages in `ready` have finished, under any plan; each replaces the subtree over its relations.
        """
        reads_of: dict[StageId, frozenset[StageId]] = {}

        def visit(stage: StageId) -> None:
            if stage in reads_of or stage in ready:
                return
            reads = self.content(stage, ready).reads
            for other in sorted(reads):
                visit(other)
            reads_of[stage] = reads - ready

        visit(RESULT)
        return reads_of

    def reads(self, stage: StageId, ready: frozenset[StageId] = frozenset()) -> frozenset[StageId]:
        """The stages whose outputs a stage reads; blocks whose results are not stored are computed inside the stage."""
        return self.content(stage, ready).reads

    def content(self, stage: StageId, ready: frozenset[StageId] = frozenset()) -> StageContent:
        """What a stage computes and reads once the stages in `ready` have finished.

        Raises:
            CannotSplitError: it computes too many blocks.
        """
        if self.as_written:
            ready = frozenset()
        known = self._contents.get((stage, ready))
        if known is None:
            known = self._contents[stage, ready] = self._content(stage, ready)
        return known

    def contains(self, stage: StageId) -> bool:
        """Whether the plan computes what a stage does, as a stage of its own or inside another."""
        if stage.relations == BLOCK_RESULT:
            return stage.block in self.query.blocks
        part = self.block_plans.get(stage.block)
        return part is not None and stage.relations in part.joins

    def computes_same(self, other: "Plan", stage: StageId) -> bool:
        """Whether a stage that is running under the other plan also serves this plan.

        The join of a set of relations always does, whatever its tree. A block's result does only if both plans compute
        the block in the same way: computing it differently is the purpose of a switch.
        """
        if stage.relations != BLOCK_RESULT:
            return True
        if self.as_written or other.as_written:
            return self.as_written and other.as_written
        inside = self.query.computed_inside(stage.block)
        return all(self.block_plans.get(block) == other.block_plans.get(block) for block in inside)

    def reused(self, ready: frozenset[StageId]) -> frozenset[StageId]:
        """The finished stages whose outputs this plan reads."""
        return frozenset(read for stage in self.stages(ready) for read in self.reads(stage, ready) if read in ready)

    @cached_property
    def _computed_once(self) -> frozenset[str]:
        """The blocks that Spark computes once as written: groupings with several readers, and all that is inside them.

        Spark reuses their exchanges; a join without grouping it computes again for each reader.
        """
        found: set[str] = set()
        for name, block in reversed(list(self.query.blocks.items())) if self.as_written else ():
            if name in found or name in self.query.shared_groupings:
                found |= {name, *(block.sources() & self.query.blocks.keys())}
        return frozenset(found)

    def _times_in_one(self, name: str) -> int:
        """How often a block that reads this one computes it: as written, once for each time that it names it.

        Where several blocks read it, each computes it once.
        """
        block = self.query.blocks[name]
        if not self.as_written or not block.shared or name in self._computed_once:
            return 1
        return block.readers if sum(name in other.sources() for other in self.query.blocks.values()) == 1 else 1

    @cached_property
    def _contents(self) -> dict[tuple[StageId, frozenset[StageId]], StageContent]:
        return {}

    def _content(self, stage: StageId, ready: frozenset[StageId]) -> StageContent:
        block = self.query.blocks[stage.block]
        tree = self.stage_tree(stage)
        sources = set(block.outer_sources) if stage.relations == BLOCK_RESULT else set()
        inputs: set[RelationSet] = set()
        if tree is not None:
            leaves = self._walk(block.name, tree, stage.relations, ready, inputs)
        else:
            leaves = list(range(len(block.graph.relations))) if block.graph else []
        for index in leaves:
            assert block.graph is not None
            sources |= block.graph.sources[index]
        fragments = [StageFragment(block.name, tree, frozenset(inputs))]
        reads = {StageId(block.name, relations) for relations in inputs}
        for name in sorted(sources & self.query.blocks.keys()):
            result = StageId(name, BLOCK_RESULT)
            if self.query.blocks[name].shared and not self.as_written:
                reads.add(result)
            else:
                inner = self.content(result, ready)
                known = {one.block for one in fragments} & self._computed_once
                new = [one for one in inner.fragments if one.block not in known]
                times = self._times_in_one(name)
                if len(fragments) + len(new) * times > MAX_FRAGMENTS:
                    raise CannotSplitError(TooMuch(Excess.CTES, MAX_FRAGMENTS))
                fragments += new * times
                reads |= inner.reads
        return StageContent(tuple(fragments), frozenset(reads))

    def _walk(
        self, block: str, tree: Tree, top: RelationSet, ready: frozenset[StageId], inputs: set[RelationSet]
    ) -> list[int]:
        """The relations that a tree reads directly; subtrees read from stage outputs are added to `inputs`."""
        cuts = self.block_plans[block].cuts
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
    """The subtrees to cut: join inputs, themselves joins, for which `is_worth(subtree, other input)` holds."""
    found = set()
    for join in joins(tree):
        for part, other in ((join.left, join.right), (join.right, join.left)):
            if isinstance(part, Join) and is_worth(part, other):
                found.add(part.relations)
    return frozenset(found)
