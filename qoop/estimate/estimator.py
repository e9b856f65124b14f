"""Estimates for whole plans: the rows and the work of each stage."""

from collections.abc import Mapping

from qoop.estimate.calibration import Calibration
from qoop.estimate.cardinality import Cardinalities, result_statistics
from qoop.estimate.cost import MAX_BYTES, CostModel, JoinCosts, Part, Work, WorkSum
from qoop.estimate.packing import Task
from qoop.estimate.prior import Prior
from qoop.estimate.statistics import UNKNOWN, TableStatistics, with_rows
from qoop.plans.graph import JoinGraph
from qoop.plans.plan import BLOCK_RESULT, RESULT, Plan, Query, StageFragment, StageId
from qoop.plans.trees import JoinCost, left_deep


class Estimator:
    """Estimates the rows and work of a query's stages from statistics and measured stages. Immutable.

    Args:
        tables: statistics of the base tables, by name.
        counted: true row counts of finished stages, also those of earlier runs over the same data.
        calibration: the measured speed of the machine.
        pessimism: see `Cardinalities`.
        priors: those of an earlier estimator of the same query, reused where their inputs are unchanged.
    """

    def __init__(
        self,
        query: Query,
        tables: Mapping[str, TableStatistics],
        model: CostModel,
        counted: Mapping[StageId, float] | None = None,
        calibration: Calibration | None = None,
        pessimism: float = 0.0,
        priors: Mapping[str, Prior] | None = None,
    ) -> None:
        self.query, self.model, self.calibration, self._pessimism = (
            query,
            model,
            calibration or Calibration(),
            pessimism,
        )
        self._base_tables = tables
        self._tables = dict(tables)
        self.counted = dict(counted or {})
        self._old_priors = dict(priors or {})
        self._priors: dict[str, Prior] = {}
        self.rows: dict[str, Cardinalities] = {}
        self._joins: dict[str, JoinCosts] = {}
        self._works: dict[object, Work] = {}
        for name in query.blocks:
            self._add_block(name)

    def updated(self, counted: Mapping[StageId, float], calibration: Calibration) -> "Estimator":
        """An estimator with these further row counts and this calibration."""
        return self._rebuilt({**self.counted, **counted}, calibration, self._pessimism)

    def with_pessimism(self, pessimism: float) -> "Estimator":
        """An estimator that assumes more rows than expected from uncertain filters and joins (or fewer, below 0)."""
        return self._rebuilt(self.counted, self.calibration, pessimism)

    def with_model(self, model: CostModel) -> "Estimator":
        """An estimator with other costs of the same work."""
        return Estimator(
            self.query, self._base_tables, model, self.counted, self.calibration, self._pessimism, self._priors
        )

    def _rebuilt(self, counted: Mapping[StageId, float], calibration: Calibration, pessimism: float) -> "Estimator":
        return Estimator(self.query, self._base_tables, self.model, counted, calibration, pessimism, self._priors)

    def join_cost(self, block: str) -> JoinCost:
        """The cost function for the joins of a block."""
        return self._joins[block].seconds

    def stage_uncertainty(self, stage: StageId) -> float:
        """The standard deviation of the logarithm of a stage's row count."""
        rows = self.rows.get(stage.block)
        if rows is None:
            return 1.0
        return rows.uncertainty(stage.relations or rows.graph.all_relations)

    def stage_rows(self, stage: StageId) -> float:
        """Estimated rows of a stage's output."""
        if stage.relations == BLOCK_RESULT:
            return self._tables[stage.block].rows
        return self.rows[stage.block].rows(stage.relations)

    def work(self, plan: Plan, stage: StageId, ready: frozenset[StageId] = frozenset()) -> Work:
        """The work of one stage of a plan, including the blocks that are computed inside it."""
        fragments = plan.content(stage, ready).fragments
        key = (stage, tuple(fragment.key for fragment in fragments))
        known = self._works.get(key)
        if known is None:
            known = self._works[key] = self._work(stage, fragments)
        return known

    def tasks(self, plan: Plan, ready: frozenset[StageId] = frozenset()) -> list[Task[StageId]]:
        """The unfinished stages of a plan, as tasks to pack."""
        return [Task(stage, after, self.work(plan, stage, ready)) for stage, after in plan.stages(ready).items()]

    def _work(self, stage: StageId, fragments: tuple[StageFragment, ...]) -> Work:
        total = WorkSum()
        order = {name: place for place, name in enumerate(self.query.blocks)}
        inside: dict[str, Part] = {}
        # Those of inner blocks first: the outer ones wait for them.
        for fragment in sorted(fragments, key=lambda one: order[one.block]):
            whole = stage.relations == BLOCK_RESULT or fragment.block != stage.block
            inside[fragment.block] = self._add_fragment(total, fragment, whole, inside)
        if stage != RESULT:
            total.core_seconds += self.stage_rows(stage) * self._width(stage) * self.model.write_byte
        return self.calibration.apply(total.work(self.model))

    def _add_block(self, name: str) -> None:
        block = self.query.blocks[name]
        rows = None
        if block.graph is not None:
            prior = self._prior(name, block.graph)
            counted = {stage.relations: count for stage, count in self.counted.items() if stage.block == name}
            counted.pop(BLOCK_RESULT, None)
            rows = self.rows[name] = Cardinalities(prior, counted, self._pessimism)
            self._joins[name] = JoinCosts(rows, self.model)
            self._priors[name] = prior
        self._tables[name] = result_statistics(block, rows, self._tables)
        result = self.counted.get(StageId(name, BLOCK_RESULT))
        if result is not None:
            self._tables[name] = with_rows(self._tables[name], max(result, 1.0))

    def _prior(self, name: str, graph: JoinGraph) -> Prior:
        tables = {relation.source: self._tables.get(relation.source, UNKNOWN) for relation in graph.relations}
        old = self._old_priors.get(name)
        return old.with_tables(tables) if old is not None else Prior(graph, tables)

    def _add_fragment(self, total: WorkSum, fragment: StageFragment, whole: bool, inside: Mapping[str, Part]) -> Part:
        """Add a fragment's work. `whole`: it is a block to its result, not only a part of its core."""
        name, block = fragment.block, self.query.blocks[fragment.block]
        rows, part = self.rows.get(name), Part(0.0 if block.is_union else 1.0, 0)
        if rows is not None:
            tree = fragment.tree or left_deep(len(rows.graph.relations))
            part = total.add_tree(tree, fragment.inputs, rows, self._joins[name], self.model, inside)
        return self._add_outside_core(total, name, part, inside) if whole else part

    def _add_outside_core(self, total: WorkSum, name: str, core: Part, inside: Mapping[str, Part]) -> Part:
        """Add the work of a block outside its core: joins with other tables, grouping."""
        block, model = self.query.blocks[name], self.model
        seen, steps = core
        for source in sorted(block.outer_sources):
            table = self._tables.get(source, UNKNOWN)
            scan = table.rows * (model.scan_row + 3 * model.scan_value + model.probe_row)
            total.add_read(scan + table.files * model.file_seconds, table.rows * 24.0)
            other = inside.get(source) or Part(table.bytes, 0)
            seen = seen + other.seen_bytes if block.is_union else seen * other.seen_bytes
            steps = max(steps, other.steps)
        if block.keys is not None and block.graph is not None:
            total.core_seconds += self.rows[name].rows(block.graph.all_relations) * model.group_row
            total.exchanges += 1
            steps += 1
            seen = seen if block.keys else 8.0 * len(block.outputs)
        total.steps = max(total.steps, steps)
        return Part(min(seen, MAX_BYTES), steps)

    def _width(self, stage: StageId) -> float:
        if stage.relations == BLOCK_RESULT:
            return 8.0 * len(self.query.blocks[stage.block].outputs)
        return self.rows[stage.block].width(stage.relations)
