"""What earlier runs of a query say of how to run it, and what a run adds to that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from qoop.as_written.causes import AsWrittenCause
from qoop.estimate.guard import Guard, PastRun, PlanTime, Verdict, busy_part
from qoop.estimate.speed import NOMINAL, Line
from qoop.planner import NOTHING_FOUND, Findings, PlannedQuery
from qoop.plans.plan import Plan, StageName
from qoop.run.past_runs import PastRuns
from qoop.run.query_run import Outcome
from qoop.run.runs_here import RunsHere


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has ended.

    `planned`: its candidate plans; None if it had none. `planning_s`: the seconds after which it had them, or turned
    out to have none; None: it was not to be planned. `on_trial`: it began to measure the query as written. `is_late`:
    it was stopped by its timeout. `factor`: its estimates relative to those at nominal speed, which are recorded.
    """

    outcome: Outcome
    planned: PlannedQuery | None
    planning_s: float | None
    on_trial: bool
    is_late: bool = False
    factor: float = 1.0

    @property
    def kinds(self) -> set[bool]:
        """In which ways it ran: planned (True), as written (False)."""
        planned = {True} if self.planning_s is not None else set()
        return planned | ({False} if self.outcome.as_written or self.was_tried else set())

    @property
    def first_plan(self) -> Plan | None:
        """The plan that it began with and that its time says something of; None if there is none."""
        return None if self.outcome.stopped_planning else self._chosen(0)

    @property
    def given_up(self) -> set[str]:
        """The signature of the plan that it gave up, or that took too long: of several the latest."""
        latest, ended = self._chosen(-1), self.outcome.given_up or self.is_late
        return {latest.signature} if latest is not None and ended else set()

    @property
    def was_tried(self) -> bool:
        """Whether it was tried as written to the end, or until that was late; not if a trial of it was hopeless."""
        began_as_written = bool(self.outcome.decisions) and self._chosen(0) is None
        if not self.on_trial or not began_as_written:
            return False
        was_late = any(one.won_by == "late trial" for one in self.outcome.decisions)
        return self.outcome.as_written or (was_late and not self.outcome.stopped_planning)

    def _chosen(self, place: int) -> Plan | None:
        """The plan of its first (0) or latest (-1) decision; None if that is the query as written, or there is none."""
        if self.planned is None or not self.outcome.decisions:
            return None
        plan = self.planned.plans[self.outcome.decisions[place].plan]
        return None if plan.as_written else plan


class EarlierRuns:
    """The earlier runs of one query: those of this process, and after `consult` those that are recorded.

    `findings`: what they tell the planner. `measured`: what its plans took. `trial`: it is to be tried as written.

    Args:
        guard: None: no runs are compared.
        here: the runs of this process.
        query: identifies the query roughly, for those.
        slots: its share when it begins.
        is_fixed: whether the share stays as it is.
        line: what runs take on this machine. Recorded estimates are at nominal speed.
    """

    def __init__(
        self, guard: Guard | None, here: RunsHere, query: int, slots: float, is_fixed: bool, line: Line = NOMINAL
    ) -> None:
        self._line = line
        self._guard, self._here, self._query, self._slots, self._is_fixed = guard, here, query, slots, is_fixed
        self.findings = NOTHING_FOUND
        self.measured: Mapping[str, PlanTime] = {}
        self.trial: Verdict | None = None
        self._record: PastRuns | None = None
        self._keeps_rows = False
        self._busy_part: float | None = None
        self._bytes: float | None = None

    def reads(self, sizes: Sequence[float | None]) -> None:
        """Take what the query reads, by table, in bytes: runs of this process that read other amounts do not count."""
        known = [size for size in sizes if size is not None]
        self._bytes = sum(known) if len(known) == len(sizes) else None

    @property
    def seconds(self) -> float | None:
        """What it may take as written, by its runs in this process; None if that is not known."""
        return self._here.seconds(self._query, self._slots, self._bytes) if self._guard is not None else None

    @property
    def needs_core_seconds(self) -> bool:
        """Whether the core seconds of this run are to be measured."""
        return self._record is not None and self._busy_part is None

    def consult(self, record: PastRuns, keeps_rows: bool) -> AsWrittenCause | None:
        """Read the record of the query. Returns why it runs as written, if it does without being planned.

        `keeps_rows`: it would be noticed if its data had other rows.
        """
        if self._guard is None:
            return None
        self._record, self._keeps_rows = record, keeps_rows
        is_cold = self._is_first(True) and self._is_first(False)
        past = record.read()
        past = replace(past, runs=tuple(map(self._at_speed, past.runs)))
        runs = past.runs if any(not run.planned for run in past.runs) else (*self._gated_runs(), *past.runs)
        self.measured = self._guard.measured(runs, self._slots, is_cold, past.given_up)
        # Sorted: the record's order changes from run to run, and the plans that were made for these are to be found.
        tried = sorted(shape for signature, shape in past.plans.items() if signature in self.measured)
        self.findings = Findings(past.counted if keeps_rows else {}, tuple(tried), past.given_up)
        verdict = self._guard.verdict(runs, self._slots, is_cold, past.given_up)
        if verdict is None or verdict.trial_s is not None:
            self.trial = verdict
            return None
        self._busy_part = busy_part(past.runs, is_cold)
        return verdict.cause

    def _at_speed(self, run: PastRun) -> PastRun:
        return replace(run, expected=self._line.seconds(run.expected)) if run.expected else run

    def add(self, run: Run, is_alone: bool) -> None:
        """Keep how many rows its stages had and, if nothing else ran at the time, how long the run took."""
        timed = self._timed(run) if is_alone else []
        counted = self._lasting(run)
        began, given_up = run.first_plan, run.given_up
        if self._record is not None and (timed or given_up or not counted.items() <= self.findings.counted.items()):
            self._record.add(timed, counted, {began.signature: began.shape} if began is not None else {}, given_up)
        self._here.add(self._query, *run.kinds)

    def add_late(self, run: Run) -> None:
        """Keep that a plan took so long that the query was stopped: it is not to be run with that plan again."""
        if self._record is not None and run.given_up:
            self._record.add([], self._lasting(run), {}, run.given_up)
        self._here.add(self._query, *run.kinds)

    def _lasting(self, run: Run) -> Mapping[StageName, float]:
        """How many rows the stages of a run had, if they will have as many in the next one."""
        # A query that reads the current time may have other row counts next time.
        is_lasting = self._keeps_rows and run.planned is not None and run.planned.moment is None
        return run.outcome.stage_rows if is_lasting else {}

    def _is_first(self, planned: bool) -> bool:
        """Whether it is the first run of its kind in this process."""
        return not self._here.has_run(self._query, planned)

    def _gated_runs(self) -> list[PastRun]:
        """The latest run as written of a query that was not planned before, as it reads little; it is not recorded."""
        seconds = self._here.seconds(self._query, self._slots, self._bytes)
        if seconds is None:
            return []
        return [PastRun(False, seconds, self._slots, seconds * self._slots, cold=False, early=True)]

    def _timed(self, run: Run) -> list[PastRun]:
        """The times of the run, with planning and, if it ran as written, without.

        A trial that was left because it was late counts as a run as written: that would have taken longer still.
        """
        outcome = run.outcome
        slots, cores = outcome.usage.mean_slots, outcome.usage.core_seconds
        if not slots:
            return []
        if cores is None and self._busy_part is not None:
            cores = self._busy_part * outcome.seconds * slots
        first_planned, first_written = self._is_first(True), self._is_first(False)
        if outcome.as_written and not first_written:
            self._here.add_seconds(self._query, outcome.seconds, slots, self._unused(run), self._bytes)
        if self._record is None or cores is None:
            return []
        runs = []
        if run.planning_s is not None and not run.was_tried:
            # Where the share may change, that of the next run may be any.
            kept = outcome.as_written and self._is_fixed
            planned = PastRun(True, run.planning_s + outcome.seconds, slots, cores, first_planned, kept)
            if (began := run.first_plan) is not None:
                expected, switched = outcome.decisions[0].expected / run.factor, outcome.counts.switches > 0
                planned = replace(planned, plan=began.signature, switched=switched, expected=expected)
            runs.append(planned)
        if outcome.as_written or run.was_tried:
            runs.append(PastRun(False, outcome.seconds, slots, cores, first_written))
        return runs

    def _unused(self, run: Run) -> int:
        """After how many more runs as written the query may be planned for its time, which the gate underestimates."""
        in_vain = run.planning_s is not None and not run.on_trial and self._is_fixed
        return self._guard.interval - 1 if self._guard is not None and in_vain else 0
