"""Stories of one query: each event goes through the replanning machine, and its commands make the trace.

Events (`at TIME` in front; else at the time of the line before):

    tables a=30000000 b=1000        how many rows the tables have, whose columns are k, m, x, z
    rules hysteresis=0.1 min_gain=0 force=1
    query SELECT ...                is planned, with a stage wherever there can be one
    share SLOTS [executors=N] [seq=N] [by=TIME] [REASON]        away REASON         executors N [slots=N]
    finished STAGE [rows=N or rows=xFACTOR] [seconds=S]         cancelled STAGE     lost STAGE
    failed STAGE [for-good] REASON                              timer (happens at the time that was set)

A stage is named after the relations that it joins (`a+b`), with its block in front where that is not the result's
(`v:a+b`), or after its block alone where it makes the block's result (`v`, `result`). And `show`: the phase, the plan,
running stages with their progress, stored outputs with their rows, counters.
"""

import shlex

from qoop.estimate.cost import CostModel
from qoop.estimate.statistics import ColumnStatistics, TableStatistics
from qoop.parsing.statement import parse_statement
from qoop.planner import plan
from qoop.plans.candidates import CutPolicy
from qoop.plans.plan import BLOCK_RESULT, PREFIX, RESULT, ROOT, StageId
from qoop.replan import commands, events
from qoop.replan.decision import Rules
from qoop.replan.machine import step
from qoop.replan.state import State
from tests.scenario.story import cause_value


class QueryStory:
    """Plays scenes, one after the other."""

    def __init__(self):
        self.now, self.timer, self.lines = 0.0, None, []
        self.rules, self.state, self.sizes = Rules(), None, {}

    def play(self, scene):
        """The trace of a scene."""
        self.lines = []
        for line in scene.lines:
            if line.startswith("query "):
                self._query(line.removeprefix("query "))
                continue
            words = shlex.split(line, comments=True)
            if words[:1] == ["at"]:
                self.now, words = float(words[1]), words[2:]
            if words:
                options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
                plain = [word for word in words[1:] if "=" not in word]
                getattr(self, "_" + words[0])(*plain, **options)
        return self.lines

    # The planner's view of the tables.

    def columns(self, table):
        return dict.fromkeys(("k", "m", "x", "z"), "int") if table in self.sizes else None

    def statistics(self, table):
        rows = self.sizes[table]
        columns = {name: ColumnStatistics(max(rows / part, 1.0)) for part, name in ((1, "k"), (4, "m"), (30, "x"))}
        return TableStatistics(rows, rows * 40, columns)

    # Events.

    def _tables(self, **sizes):
        self.sizes = {name: float(rows) for name, rows in sizes.items()}

    def _rules(self, hysteresis="0.15", min_gain="0.3", force="0"):
        self.rules = Rules(hysteresis=float(hysteresis), min_gain=float(min_gain), force=force == "1")

    def _query(self, text):
        made = plan(parse_statement(text), self, self.statistics, CutPolicy(everywhere=True), CostModel())
        self.blocks = made.text.query.blocks
        self.state = State(made.plans, made.estimator, made.estimator, self.rules)
        self._feed(events.Planned(len(made.plans), made.join_trees))

    def _share(self, slots, *why, executors=None, seq=None, by=None):
        count = None if executors is None else int(executors)
        when = self.now if by is None else float(by)
        reason = " ".join(why) or f"{slots} slots"
        self._feed(events.ShareChanged(float(slots), count, reason, when, None if seq is None else int(seq)))

    def _finished(self, name, rows="x1", seconds=None):
        stage = self._stage(name)
        running = self.state.running.get(stage)
        assert running is not None, f"{name} does not run"
        estimated = self.state.estimator.stage_rows(stage)
        count = estimated * float(rows[1:]) if rows.startswith("x") else float(rows)
        took = float(seconds) if seconds else running.work.seconds(self.state.share.slots)
        self._feed(events.StageFinished(stage, count, count * 8, took, running.work.core_seconds))

    def _cancelled(self, name):
        self._feed(events.StageCancelled(self._stage(name)))

    def _lost(self, name):
        self._feed(events.CheckpointLost(self._stage(name), "its executors are gone"))

    def _failed(self, name, *why):
        for_good = why[:1] == ("for-good",)
        self._feed(events.StageFailed(self._stage(name), " ".join(why[for_good:]), retry=not for_good))

    def _executors(self, count, slots=None):
        self._feed(events.ExecutorsChanged(int(count), None if slots is None else float(slots)))

    def _away(self, *why):
        self._feed(events.ArbiterAway(" ".join(why)))

    def _timer(self):
        assert self.timer is not None, "no timer is set"
        self.now = max(self.now, self.timer)
        self._feed(events.TimerFired())

    def _show(self):
        state = self.state
        running = ", ".join(f"{self._name(stage)} {one.done:.0%}" for stage, one in sorted(state.running.items()))
        outputs = ", ".join(f"{self._name(stage)} {rows:,.0f}" for stage, rows in sorted(state.ready.items()))
        self.lines.append(f"  {state.phase} plan={state.current} running=[{running}] outputs=[{outputs}]")
        counts = state.counts
        self.lines.append(
            f"  stages={counts.stages} switches={counts.switches} reused={counts.reused}"
            f" cancelled={counts.cancelled} unused={counts.unused}"
        )

    def _feed(self, event):
        self.state, issued = step(self.state, self.now, event)
        lines = [self._command(one) for one in issued]
        self.lines += [f"{self.now:g} {line}" for line in lines] or [f"{self.now:g} nothing"]

    # Commands.

    def _command(self, one):
        match one:
            case commands.StartStage(stage, number, inputs, attempt):
                reads = f" inputs=[{', '.join(map(self._name, inputs))}]" if inputs else ""
                again = f" attempt={attempt + 1}" if attempt else ""
                return f"start {self._name(stage)} plan={number}{reads}{again}"
            case commands.CancelStages(stages):
                return f"cancel {', '.join(map(self._name, stages))}"
            case commands.SetExecutors(count, by):
                return f"executors {count} by={by:g}"
            case commands.ConfirmVacated(seq):
                return f"vacated seq={seq}"
            case commands.RunAsWritten(cause):
                return f"run-as-written cause={self._cause(cause)}"
            case commands.SetTimer(at):
                self.timer = at
                return f"timer {at:g}"
            case commands.Note(decision):
                return self._decision(decision)
            case commands.Fail(cause):
                return f"fail cause={self._cause(cause)}"
            case commands.Finish():
                return "finish"
        raise AssertionError(one)

    def _decision(self, decision):
        """A decision with the estimates that it rests on."""
        before, plan = decision.before, decision.plan
        kept_or_switched = f"keep plan={plan}" if before == plan else f"switch plan={before}->{plan}"
        chosen = f"first plan={plan}" if before is None else kept_or_switched
        compared = sorted({plan, decision.fastest} | ({before} - {None}))
        seconds = " ".join(f"seconds[{number}]={decision.seconds[number]:.1f}" for number in compared)
        won_by = f" won_by={decision.won_by.replace(' ', '-')}" if decision.switched else ""
        needed = "" if decision.needed is None else f" needed={decision.needed:.1f}"
        return f"{chosen} slots={decision.slots:g} {seconds}{needed}{won_by} cause={self._cause(decision.cause)}"

    def _cause(self, cause):
        """The value of a cause; a stage in it by its name."""
        return cause_value(cause, self._name)

    def _name(self, stage):
        if stage == RESULT:
            return "result"
        block = "" if stage.block == ROOT else stage.block.removeprefix(PREFIX)
        if stage.relations == BLOCK_RESULT:
            return block
        joined = "+".join(self.blocks[stage.block].graph.aliases(stage.relations))
        return f"{block}:{joined}" if block else joined

    def _stage(self, name):
        block, colon, joined = name.rpartition(":")
        if name == "result":
            return RESULT
        if not colon and "+" not in name:
            return StageId(PREFIX + name, BLOCK_RESULT)
        block = PREFIX + block if colon else ROOT
        return StageId(block, self.blocks[block].graph.set_of(joined.split("+")))
