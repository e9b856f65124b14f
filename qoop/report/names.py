"""Names of stages in a report: a short name in the order of their first run, and what they compute."""

from collections.abc import Iterable, Iterator
from functools import cached_property

from qoop.plans.plan import BLOCK_RESULT, PREFIX, RESULT, ROOT, StageId, view_name
from qoop.report.record import CandidatePlan, JoinNode, QueryRecord


class Names:
    """The names of one query's stages, plans and blocks.

    `colours`: the number of each plan's colour, first of those that ran stages, then of others that were chosen; plans
    beyond the distinguishable colours are drawn in grey.
    """

    def __init__(self, record: QueryRecord) -> None:
        self._plans = record.header.plans
        self._relations = {view: aliases for plan in self._plans for view, aliases in _stages_of(plan)}
        ran = list(dict.fromkeys(attempt.stage for attempt in record.attempts))
        numbered = [stage for stage in ran if stage != RESULT]
        self._short = {view_name(stage): f"S{number}" for number, stage in enumerate(numbered, 1)}
        self._first_inputs = {view_name(attempt.stage): attempt.inputs for attempt in reversed(record.attempts)}
        self.ran = ran
        worked = [attempt.plan for attempt in record.attempts if attempt.plan is not None]
        self.colours = {plan: number for number, plan in enumerate(dict.fromkeys([*worked, *record.plans_used]))}
        self.ran_under = {
            view_name(attempt.stage): attempt.plan for attempt in record.attempts if attempt.outcome == "finished"
        }

    def short(self, stage: StageId | str) -> str:
        """The short name of a stage that ran, such as "S3" or "result"; empty for one that did not."""
        view = stage if isinstance(stage, str) else view_name(stage)
        return "result" if view == ROOT else self._short.get(view, "")

    def all_short(self, stages: Iterable[StageId]) -> str:
        """Sorted short names of stages; of those that never ran, what they compute."""
        names = {self.short(stage) or self.relations(stage) for stage in stages}
        return ", ".join(sorted(names, key=lambda name: (len(name), name)))

    def relations(self, stage: StageId) -> str:
        """What a stage computes: the relations that it joins, or the block whose result it is."""
        if stage.relations == BLOCK_RESULT:
            return "the result" if stage == RESULT else f"all of {self.block(stage.block)}"
        joined = "+".join(self._ordered(stage.block, self._relations.get(view_name(stage), frozenset())))
        return f"{self.block(stage.block)}: {joined}" if self._several_blocks else joined

    def label(self, stage: StageId) -> str:
        """The short name, and what the stage adds to the outputs that it read in its first run."""
        view = view_name(stage)
        inputs = self._first_inputs.get(view, ())
        known = [self._relations.get(view_name(read), frozenset()) for read in inputs]
        own = self._relations.get(view, frozenset()).difference(*known)
        parts = [self.short(read) for read in inputs] + self._ordered(stage.block, own)
        if stage.relations == BLOCK_RESULT:
            name = "result" if stage == RESULT else f"{self.short(stage)}  {self.block(stage.block)}"
            return f"{name}: from {' + '.join(parts)}" if parts else name
        return f"{self.short(stage)}  {' + '.join(parts)}"

    def block(self, name: str) -> str:
        """The display name of a block."""
        return "result" if name == ROOT else name.removeprefix(PREFIX)

    def order(self, block: str, alias: str) -> int:
        """The position of an alias in its block, as far as the journal shows it."""
        return self._places.get((block, alias), 0)

    def _ordered(self, block: str, aliases: Iterable[str]) -> list[str]:
        return sorted(aliases, key=lambda alias: (self.order(block, alias), alias))

    @cached_property
    def _several_blocks(self) -> bool:
        return len({block for plan in self._plans for block in plan.trees}) > 1

    @cached_property
    def _places(self) -> dict[tuple[str, str], int]:
        """The bit of each alias in sets of relations, derived from the stages with it and those without."""
        bits: dict[tuple[str, str], int] = {}
        all_aliases: dict[str, set[str]] = {}
        for plan in self._plans:
            for block, tree in plan.trees.items():
                all_aliases.setdefault(block, set()).update(leaves(tree))
        for view, aliases in self._relations.items():
            block, _, relations = view.rpartition("__")
            if block not in all_aliases:
                continue
            for alias in all_aliases[block]:
                mask = int(relations, 16)
                bits[block, alias] = bits.get((block, alias), -1) & (mask if alias in aliases else ~mask)
        return {of: possible & -possible for of, possible in bits.items()}


def leaves(tree: JoinNode | str) -> Iterator[str]:
    """The aliases of a tree, from left to right."""
    if isinstance(tree, str):
        yield tree
    else:
        for side in tree.join:
            yield from leaves(side)


def _stages_of(plan: CandidatePlan) -> Iterator[tuple[str, frozenset[str]]]:
    """The views of a plan's stages, with the relations that each joins."""
    pending: list[JoinNode | str] = list(plan.trees.values())
    while pending:
        tree = pending.pop()
        if isinstance(tree, JoinNode):
            pending += tree.join
            if tree.stage is not None:
                yield tree.stage, frozenset(leaves(tree))
