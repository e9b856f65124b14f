"""The work of joins, scans and stages, in seconds of one core at nominal speed."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from qoop.estimate.cardinality import Cardinalities, PrunedCardinalities
from qoop.plans.graph import RelationSet
from qoop.plans.trees import Leaf, Tree


@dataclass(frozen=True, slots=True)
class CostModel:
    """Core seconds per row or byte, fitted to stages of TPC-DS queries at scale 1 on Spark 4.3 (warm, 2 cores).

    The fit is within a factor of 1.4 of measured stages (geometric mean). Only ratios matter to a choice; the speed of
    the machine is calibrated as stages finish. Scans are cheap compared with processing their rows.

    `scan_row`, `scan_value`: reading a row, and each column of it. `file_seconds`: opening a file. `probe_row`,
    `build_row`, `result_row`: a hash join. `group_row`: aggregating a row. `shuffle_row`, `shuffle_byte`: writing,
    fetching and sorting a side that is not broadcast. `read_byte`, `write_byte`: reading and writing a stage's output.
    `broadcast_bytes`: the largest side that is broadcast. `stage_seconds`: the driver's fixed time for a stage;
    `exchange_seconds`: for each of its shuffles or broadcasts that waits for another; `concurrent_seconds`: for each
    that others run beside. `task_bytes`: input bytes of one task, which bounds parallelism.
    """

    scan_row: float = 5.0e-9
    scan_value: float = 2.0e-9
    file_seconds: float = 1.5e-3
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
    concurrent_seconds: float = 0.02
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


IN_PLAN_ROWS, IN_PLAN_BYTES = 10_000.0, 1024.0 * 1024.0
"""How much of an output is put into the plans of its readers: it travels with each of their tasks."""

Rows = Cardinalities | PrunedCardinalities

JoinWork = tuple[float, int]
"""The core seconds of a join, and the exchanges that it needs."""


class JoinCosts:
    """The work of joining two sets of relations, without the work below them; cached."""

    def __init__(self, rows: Rows, model: CostModel) -> None:
        self._rows, self._model = rows, model
        self._known: dict[tuple[RelationSet, RelationSet, RelationSet | None], JoinWork] = {}

    def seconds(self, left: RelationSet, right: RelationSet) -> float:
        """The core seconds of a join, if Spark knows the size of both sides, as it does of stage outputs."""
        return self(left, right)[0]

    def __call__(self, left: RelationSet, right: RelationSet, seen: tuple[float, float] | None = None) -> JoinWork:
        """The work of a join; `seen`: the bytes by which Spark plans, of the left and of the right side."""
        if seen is None:
            seen = (_bytes(self._rows, left), _bytes(self._rows, right))
        build = None
        if min(seen) <= self._model.broadcast_bytes:
            build = min((seen[0], left), (seen[1], right))[1]
        sides = (left, right) if left < right else (right, left)
        known = self._known.get((*sides, build))
        if known is None:
            known = self._known[(*sides, build)] = _join(self._rows, self._model, *sides, build)
        return known


def seen_bytes(rows: Rows, index: int) -> float:
    """The bytes of a table as Spark sees them before it runs: of the columns that are read, whatever the filters.

    Spark scales the size of the files by the widths of the columns (SizeInBytesOnlyStatsPlanVisitor).
    """
    table, columns = rows.base(index), rows.graph.relations[index].columns
    if not table.columns:
        return table.bytes
    width = 8.0 + sum(table.column(name).width for name in columns)
    return table.bytes * min(width / (8.0 + sum(column.width for column in table.columns.values())), 1.0)


class Part(NamedTuple):
    """What a stage computes on the way: the bytes by which Spark plans, and the exchanges that it waits for.

    Spark takes the size of a join to be the product of its sides', so only tables, stored outputs and what is made of
    very small tables are known to be small; the true size is known once all of its inputs have been shuffled.
    """

    seen_bytes: float
    steps: int


MAX_BYTES = 1e30
"""Upper limit of the sizes by which Spark is assumed to plan."""

NOTHING_INSIDE: Mapping[str, Part] = MappingProxyType({})


@dataclass
class WorkSum:
    """The work of a stage, summed over its fragments.

    `steps`: the exchanges on its longest chain, each of which waits for the one before. `result_bytes`: those of its
    largest result.
    """

    core_seconds: float = 0.0
    exchanges: int = 0
    steps: int = 0
    read_bytes: float = 0.0
    result_bytes: float = 0.0

    def add_tree(
        self,
        tree: Tree,
        inputs: frozenset[RelationSet],
        rows: Cardinalities,
        joins: JoinCosts,
        model: CostModel,
        inside: Mapping[str, Part] = NOTHING_INSIDE,
    ) -> Part:
        """Add the joins of a tree; subtrees in `inputs` are only read, blocks in `inside` are computed here too."""
        pruners = _pruners(tree, inputs, rows, model)
        if pruners:
            pruned = PrunedCardinalities(rows, pruners)
            part = self._add(tree, inputs, pruned, JoinCosts(pruned, model), model, inside)
        else:
            part = self._add(tree, inputs, rows, joins, model, inside)
        self.result_bytes = max(self.result_bytes, _bytes(rows, tree.relations))
        self.steps = max(self.steps, part.steps)
        return part

    def _add(
        self,
        tree: Tree,
        inputs: frozenset[RelationSet],
        rows: Rows,
        joins: JoinCosts,
        model: CostModel,
        inside: Mapping[str, Part],
    ) -> Part:
        if tree.relations in inputs:
            size = _bytes(rows, tree.relations)
            self.add_read(rows.rows(tree.relations) * model.scan_row + size * model.read_byte, size)
            return Part(size, 0)
        if isinstance(tree, Leaf):
            self.add_read(*_scan(rows, model, tree.relations))
            index = tree.relations.bit_length() - 1
            return inside.get(rows.graph.relations[index].source) or Part(seen_bytes(rows, index), 0)
        left, right = (self._add(side, inputs, rows, joins, model, inside) for side in (tree.left, tree.right))
        seconds, exchanges = joins(tree.left.relations, tree.right.relations, (left.seen_bytes, right.seen_bytes))
        self.core_seconds += seconds
        self.exchanges += exchanges
        steps = max(left.steps, right.steps) + 1 if exchanges > 1 else max(left.steps, right.steps, 1)
        return Part(min(left.seen_bytes * right.seen_bytes, MAX_BYTES), steps)

    def add_read(self, core_seconds: float, size: float) -> None:
        """Add a read of `size` bytes."""
        self.core_seconds += core_seconds
        self.read_bytes += size

    def work(self, model: CostModel) -> Work:
        """The work of the whole stage."""
        tasks = max(self.read_bytes, self.result_bytes) / model.task_bytes
        beside = max(self.exchanges - self.steps, 0)
        fixed = model.stage_seconds + self.steps * model.exchange_seconds + beside * model.concurrent_seconds
        return Work(self.core_seconds, fixed, max(tasks, 1.0))


def _pruners(
    tree: Tree, inputs: frozenset[RelationSet], rows: Cardinalities, model: CostModel
) -> dict[int, RelationSet]:
    """By which relations in a stage Spark skips partitions of the tables that it scans there, by their indices.

    It does so where a table, or what has been joined with it, meets a small filtered relation that it broadcasts, or
    the rows of a stored one in its plan, at a column that partitions the table (dynamic partition pruning).
    """
    if not rows.prior.partitioned or tree.relations in inputs or isinstance(tree, Leaf):
        return {}
    found = _pruners(tree.left, inputs, rows, model) | _pruners(tree.right, inputs, rows, model)
    for side, other in ((tree.left, tree.right), (tree.right, tree.left)):
        if not _prunes(other, inputs, rows, model):
            continue
        for columns in rows.graph.joining_classes(side.relations, other.relations):
            read = rows.graph.representative(columns, side.relations)
            index = rows.graph.index(read.relation)
            if read.name in rows.base(index).partitioned_by and _scans(side, inputs, 1 << index):
                found[index] = found.get(index, 0) | other.relations
    return found


def _prunes(tree: Tree, inputs: frozenset[RelationSet], rows: Cardinalities, model: CostModel) -> bool:
    """Whether Spark may skip partitions of a table by a side that it is joined with."""
    index = tree.relations.bit_length() - 1
    if tree.relations in inputs:
        return rows.rows(tree.relations) <= IN_PLAN_ROWS and _bytes(rows, tree.relations) <= IN_PLAN_BYTES
    if not isinstance(tree, Leaf) or tree.relations & rows.prior.partitioned:
        return False
    return bool(rows.graph.relations[index].filters) and seen_bytes(rows, index) <= model.broadcast_bytes


def _scans(tree: Tree, inputs: frozenset[RelationSet], table: RelationSet) -> bool:
    """Whether a stage scans a table, instead of reading an output with its rows."""
    if tree.relations in inputs or not tree.relations & table:
        return False
    return isinstance(tree, Leaf) or _scans(tree.left, inputs, table) or _scans(tree.right, inputs, table)


def _scan(rows: Rows, model: CostModel, relation: RelationSet) -> tuple[float, float]:
    """The core seconds of scanning and filtering a relation, and the bytes read."""
    index = relation.bit_length() - 1
    table, columns = rows.base(index), rows.graph.relations[index].columns
    fraction = rows.scanned(index)
    size = table.rows * sum(table.column(name).width for name in columns)
    seconds = table.rows * (model.scan_row + model.scan_value * len(columns)) + table.files * model.file_seconds
    return fraction * seconds, fraction * size


def _bytes(rows: Rows, relations: RelationSet) -> float:
    return rows.rows(relations) * rows.width(relations)


def _join(rows: Rows, model: CostModel, left: RelationSet, right: RelationSet, build: RelationSet | None) -> JoinWork:
    """The work of a join. `build`: the side that Spark broadcasts; None if it shuffles both."""
    small, large = sorted((left, right), key=rows.rows)
    result = rows.rows(left | right) * model.result_row
    if build is not None:
        small, large = build, left if build == right else right
    hash_join = rows.rows(small) * model.build_row + rows.rows(large) * model.probe_row + result
    if not rows.graph.are_joined(left, right):
        return hash_join + rows.rows(small) * rows.rows(large) * model.probe_row, 1
    if build is not None:
        return hash_join, 1
    shuffled_rows = rows.rows(small) + rows.rows(large)
    shuffled_bytes = _bytes(rows, small) + _bytes(rows, large)
    return hash_join + shuffled_rows * model.shuffle_row + shuffled_bytes * model.shuffle_byte, 2
