"""Progress of a running query on the terminal: stages, decisions, warnings and a summary, one line each."""

import contextlib
import time

from rich.console import Console

from qoop.plans.plan import view_name
from qoop.replan.causes import NewShare
from qoop.replan.commands import CancelStages, Command, Note, RunAsWritten, SetExecutors, StartStage
from qoop.replan.decision import Decision
from qoop.replan.events import Event
from qoop.run import wording
from qoop.run.query_run import Outcome
from yarn_plugin.control_characters import escape_controls
from yarn_plugin.quantities import count


class ProgressLines:
    """Prints progress, each line with the seconds since the start. `warn` may be called from any thread."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()

    def warn(self, line: str) -> None:
        """Print a warning."""
        self._print(f"warning: {line}")

    def show(self, told: Event | Command) -> None:
        """Print an event or a command of the planner, if it matters to the user."""
        match told:
            case Note(decision) if _is_worth_a_line(decision):
                self._print(f"{_outcome(decision)}: {wording.why(decision.cause)}; {wording.verdict(decision)}")
            case StartStage(stage, plan, _, attempt, kept):
                again = f", attempt {attempt + 1}" if attempt else ""
                started = f"resumed, {kept:.0%} of it is stored" if kept else "started"
                self._print(f"stage {view_name(stage)} of plan {plan} {started}{again}")
            case CancelStages(stages):
                self._print(f"cancelled {', '.join(map(view_name, stages))}")
            case SetExecutors(executors, _):
                self._print(f"requesting {count(executors, 'executor')} in total")
            case RunAsWritten(cause):
                self._print(f"running as written, in one stage: {wording.why(cause)}")

    def summary(self, outcome: Outcome) -> None:
        """Print what happened to the plans, how long the query took, and what was run, reused and lost."""
        counts = outcome.counts
        if outcome.decisions:
            self._print(f"what happened: {wording.story(outcome.decisions)}")
        failures = [f"{count(counts.failed, 'stage')} failed"] if counts.failed else []
        failures += [f"{count(counts.lost, 'output')} lost"] if counts.lost else []
        self._print(
            f"done in {outcome.seconds:.1f} s{_estimate(outcome)}: {count(outcome.join_trees, 'join tree')}, "
            f"{count(counts.stages, 'stage')} run, {count(counts.switches, 'plan switch', 'plan switches')} "
            f"({count(counts.reused, 'output')} reused, {counts.unused} unused, "
            f"{count(counts.cancelled, 'stage')} cancelled)" + "".join(f", {failure}" for failure in failures)
        )

    def _print(self, line: str) -> None:
        # The reader of stderr may have gone; the query continues.
        with contextlib.suppress(OSError):
            elapsed = f"[{time.monotonic() - self._started:6.1f} s]"
            self._console.print(f"{elapsed} {escape_controls(line)}", markup=False, soft_wrap=True)


def _estimate(outcome: Outcome) -> str:
    """What the first plan was expected to take, if there was one."""
    return f" (estimate: {outcome.decisions[0].expected:.1f} s)" if outcome.decisions else ""


def _outcome(decision: Decision) -> str:
    if decision.before is None:
        return f"chose plan {decision.plan}"
    return f"switched to plan {decision.plan}" if decision.switched else f"kept plan {decision.plan}"


def _is_worth_a_line(decision: Decision) -> bool:
    """Whether it is the first decision, a switch, or one that kept the plan although the share changed."""
    return decision.before is None or decision.switched or isinstance(decision.cause, NewShare)
