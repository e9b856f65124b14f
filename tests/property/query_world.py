"""Queries to replan, and a world that runs their stages: outcomes, losses and shares come in any order."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from qoop.estimate.cost import CostModel
from qoop.estimate.statistics import ColumnStatistics, TableStatistics
from qoop.parsing.statement import parse_statement
from qoop.planner import plan
from qoop.plans.candidates import CutPolicy
from qoop.plans.plan import BLOCK_RESULT, RESULT
from qoop.replan import commands, events
from qoop.replan.decision import Rules
from qoop.replan.machine import step
from qoop.replan.state import State

TEXTS = (
    "SELECT a.x FROM a, b, c, d WHERE a.k = b.k AND b.m = c.m AND c.x = d.x",
    "SELECT a.x FROM a, b, c, d, e WHERE a.k = b.k AND a.m = c.m AND a.x = d.x AND a.z = e.z",
    "WITH v AS (SELECT a.k, sum(b.x) AS s FROM a, b, c WHERE a.k = b.k AND b.m = c.m GROUP BY a.k)"
    " SELECT v.k, w.s FROM v, v w, d, e WHERE v.k = w.k AND v.k = d.k AND d.m = e.m",
    "SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.m = c.m"
    " UNION ALL SELECT d.k FROM d, e, a WHERE d.k = e.k AND e.m = a.m",
    "SELECT a.k, f.x FROM a JOIN b ON a.k = b.k JOIN c ON c.k = a.k JOIN d ON d.m = b.m"
    " LEFT JOIN f ON f.k = c.k AND f.k = a.k",
)


class Known:
    """Tables of which only their sizes are known."""

    def __init__(self, rows):
        self._rows = rows

    def columns(self, table):
        return dict.fromkeys(("k", "m", "x", "z"), "int") if table in "abcdef" else None

    def statistics(self, table):
        rows = float(self._rows["abcdef".index(table)])
        columns = {name: ColumnStatistics(max(rows / part, 1.0)) for part, name in ((1, "k"), (4, "m"), (30, "x"))}
        return TableStatistics(rows, rows * 40, columns)


def planned(text, rows):
    """A query over tables of these sizes, with stages wherever there can be some."""
    known = Known(rows)
    return plan(parse_statement(text), known, known.statistics, CutPolicy(everywhere=True), CostModel())


sizes = st.lists(st.sampled_from((10, 1_000, 50_000, 1_000_000, 30_000_000)), min_size=6, max_size=6)


def begin(made, rules=None):
    """The state before the first event; a dozen candidates will do."""
    return State(made.plans[:12], made.estimator, made.estimator, rules or Rules())


@dataclass
class QueryWorld:
    """Running stages and stored outputs of an engine that obeys every command; checks each command."""

    state: State
    now: float = 100.0
    running: set = field(default_factory=set)
    kept: set = field(default_factory=set)
    stopping: set = field(default_factory=set)
    ways: dict = field(default_factory=dict)
    parts: dict = field(default_factory=dict)
    as_written: bool = False
    ended: list = field(default_factory=list)
    took: list = field(default_factory=list)

    def take(self, event, later=0.1):
        """Feed an event, obey what is commanded, and check it."""
        self.now += later
        before = self.state
        self.state, told = step(self.state, self.now, event)
        self.took.append((self.now, event, told))
        for command in told:
            self._obey(before, command)
        self._check()

    def _obey(self, before, command):
        match command:
            case commands.StartStage(stage, number, inputs, _, kept):
                assert not self.ended
                assert self.state.phase == "running", "nothing is started while a switch waits"
                assert kept or number == self.state.current
                assert not kept or (number, inputs, kept) == self.parts[stage], "it runs as it did"
                self.ways[stage] = (number, inputs)
                assert stage not in self.running | self.kept, "no stage twice"
                assert set(inputs) <= self.kept, "inputs are finished"
                assert all(self._is_part(one, stage) for one in inputs), "only what is equivalent to a part is reused"
                self.running.add(stage)
            case commands.CancelStages(stages):
                assert set(stages) <= self.running
                self.stopping |= set(stages)
            case commands.RunAsWritten():
                self.as_written = True
                self.stopping |= self.running - {RESULT}
                self.running.add(RESULT)
            case commands.Finish() | commands.Fail():
                self.ended.append(command)
            case commands.Note(decision):
                self._weigh(before, decision)

    def _is_part(self, one, stage):
        """Whether an output is the join of a part of what the stage joins, or the result of a block that it reads."""
        inside = self.state.estimator.query.computed_inside(stage.block)
        if one.block == stage.block and stage.relations != BLOCK_RESULT:
            return one.relations != BLOCK_RESULT and one.relations & ~stage.relations == 0
        return one.relations == BLOCK_RESULT or one.block in inside

    def _weigh(self, before, decision):
        if not decision.switched or decision.won_by == "forced":
            return
        now, then = decision.seconds[decision.before], decision.seconds[decision.plan]
        assert now - then >= max(before.rules.min_gain, before.rules.hysteresis * now) - 0.01, "it is worth a switch"

    def _check(self):
        state = self.state
        if state.phase in ("running", "switching"):
            assert set(state.running) == self.running
            assert set(state.ready) == self.kept
            assert state.awaiting_cancel == self.stopping & self.running
            assert (state.phase == "switching") == bool(state.awaiting_cancel)
            if state.share is not None:
                assert self.running, "something always runs until the end"
        assert len(self.ended) <= 1
        assert (state.phase in ("done", "failed")) == bool(self.ended)

    def finish(self, stage, rows=1000.0, seconds=1.0):
        self.running.discard(stage)
        self.stopping.discard(stage)
        self.parts.pop(stage, None)
        if stage != RESULT:
            self.kept.add(stage)
        self.take(events.StageFinished(stage, rows, rows * 8, seconds, seconds), seconds)

    def fail(self, stage, retry=True):
        self.parts.pop(stage, None)
        self.running.discard(stage)
        self.stopping.discard(stage)
        self.take(events.StageFailed(stage, "an executor was lost", retry))

    def stopped(self, stage, kept=0.0):
        self.running.discard(stage)
        self.stopping.discard(stage)
        self.parts.pop(stage, None)
        if kept:
            self.parts[stage] = (*self.ways[stage], kept)
        self.take(events.StageCancelled(stage, kept, kept * 10 or None))

    def lose(self, stage):
        self.kept.discard(stage)
        self.parts = {other: part for other, part in self.parts.items() if stage not in (other, *part[1])}
        self.take(events.CheckpointLost(stage, "its executors are gone"))

    def end(self):
        """Let everything finish. Returns how many stages that took."""
        for count in range(200):
            if self.ended:
                return count
            stage = min(self.running)
            if stage in self.stopping:
                self.stopped(stage)
            else:
                self.finish(stage)
        raise AssertionError("the query does not end")


def share(slots, seq=None):
    return events.ShareChanged(float(slots), None, f"{slots} slots", 0.0, seq)


def started(world, slots=4):
    """A world whose query was planned and has its first share."""
    world.take(events.Planned(len(world.state.plans), 1))
    world.take(share(slots))
    return world
