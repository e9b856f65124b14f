"""The work of joins, scans and stages, in seconds of one core at nominal speed."""

from dataclasses import dataclass

from qoop.estimate.cardinality import Cardinalities
from qoop.plans.graph import RelationSet
from qoop.plans.trees import Leaf, Tree


@dataclass(frozen=True, slots=True)
class CostModel:
    """Core seconds per row or byte, fitted to stages of TPC-DS queries at scale 1 on Spark 4.3 (warm, 2 cores).

    The fit is within a factor of 1.4 of measured stages (geometric mean). Only ratios matter to a choice; the speed of
    the machine is calibrated as stages finish. Scans are cheap compared with processing their rows.

    `scan_row`, `scan_value`: reading a row, and each column of it. `probe_row`, `build_row`, `result_row`: a hash join.
    `group_row`: aggregating a row. `shuffle_row`, `shuffle_byte`: writing, fetching and sorting a side that is not
    broadcast. `read_byte`, `write_byte`: reading and writing a stage's output. `broadcast_bytes`: the largest side that
    is broadcast. `stage_seconds`: the driver's fixed time for a stage; `exchange_seconds`: for each of its shuffles or
    broadcasts. `task_bytes`: input bytes of one task, which bounds parallelism.
    """

    scan_row: float = 5.0e-9
    scan_value: float = 2.0e-9
    probe_row: float = 1.1e-7
    build_row: float = 5.0e-7
    result_row: float = 2.0e-8
    group_row: float = 1.5e-7
    shuffle_row: float = 3.0e-8
    shuffle_byte: float = 9.0e-9
    read_byte: float = 1.0e-9
    write_byte: float = 6.8e-9
    broadcast_bytes: float = 10 * 1024 * 1024
    stage_seconds: float = 0.2
    exchange_seconds: float = 0.07
    task_bytes: float = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Work:
    """`core_seconds`: seconds of one core. `fixed_seconds`: independent of the slots. `tasks`: maximum parallelism."""

    core_seconds: float
    fixed_seconds: float
    tasks: float

    def seconds(self, slots: float) -> float:
        """Its duration alone on this many slots."""
        return self.fixed_seconds + self.core_seconds / max(min(slots, self.tasks), 1e-9)


class JoinCosts:
    """The work of joining two sets of relations, without the work below them; cached."""

    def __init__(self, rows: Cardinalities, model: CostModel) -> None:
        self._rows, self._model = rows, model
        self._known: dict[tuple[RelationSet, RelationSet], tuple[float, int]] = {}

    def seconds(self, left: RelationSet, right: RelationSet) -> float:
        """The core seconds of a join."""
        return self(left, right)[0]

    def __call__(self, left: RelationSet, right: RelationSet) -> tuple[float, int]:
        """The core seconds of a join and the shuffles it needs."""
        sides = (left, right) if left < right else (right, left)
        known = self._known.get(sides)
        if known is None:
            known = self._known[sides] = _join(self._rows, self._model, *sides)
        return known


@dataclass
class WorkSum:
    """The work of a stage, summed over its fragments. `result_bytes`: those of its largest result."""

    core_seconds: float = 0.0
    exchanges: int = 0
    read_bytes: float = 0.0
    result_bytes: float = 0.0

    def add_tree(
        self, tree: Tree, inputs: frozenset[RelationSet], rows: Cardinalities, joins: JoinCosts, model: CostModel
    ) -> None:
        """Add the joins of a tree; subtrees in `inputs` are only read."""
        pending: list[Tree] = [tree]
        while pending:
            part = pending.pop()
            if part.relations in inputs:
                size = rows.rows(part.relations) * rows.width(part.relations)
                self.add_read(rows.rows(part.relations) * model.scan_row + size * model.read_byte, size)
            elif isinstance(part, Leaf):
                self.add_read(*_scan(rows, model, part.relations))
            else:
                seconds, shuffles = joins(part.left.relations, part.right.relations)
                self.core_seconds += seconds
                self.exchanges += shuffles
                pending += (part.left, part.right)
        self.result_bytes = max(self.result_bytes, rows.rows(tree.relations) * rows.width(tree.relations))

    def add_read(self, core_seconds: float, size: float) -> None:
        """Add a read of `size` bytes."""
        self.core_seconds += core_seconds
        self.read_bytes += size

    def work(self, model: CostModel) -> Work:
        """The work of the whole stage."""
        tasks = max(self.read_bytes, self.result_bytes) / model.task_bytes
        fixed = model.stage_seconds + self.exchanges * model.exchange_seconds
        return Work(self.core_seconds, fixed, max(tasks, 1.0))


def _scan(rows: Cardinalities, model: CostModel, relation: RelationSet) -> tuple[float, float]:
    """The core seconds of scanning and filtering a relation, and the bytes read."""
    index = relation.bit_length() - 1
    table, columns = rows.base(index), rows.graph.relations[index].columns
    size = table.rows * sum(table.column(name).width for name in columns)
    return table.rows * (model.scan_row + model.scan_value * len(columns)), size


def _join(rows: Cardinalities, model: CostModel, left: RelationSet, right: RelationSet) -> tuple[float, int]:
    """The core seconds of a join, and its exchanges: a small side is broadcast, two large ones are shuffled."""
    sides = sorted((rows.rows(side), rows.rows(side) * rows.width(side)) for side in (left, right))
    (small_rows, small_bytes), (large_rows, large_bytes) = sides
    result = rows.rows(left | right) * model.result_row
    hash_join = small_rows * model.build_row + large_rows * model.probe_row + result
    if not rows.graph.are_joined(left, right):
        return hash_join + small_rows * large_rows * model.probe_row, 1
    if small_bytes <= model.broadcast_bytes:
        return hash_join, 1
    shuffle = (small_rows + large_rows) * model.shuffle_row + (small_bytes + large_bytes) * model.shuffle_byte
    return hash_join + shuffle, 2
