"""What the user sees of a running query: a line for each stage, each decision that matters, and a summary."""

import contextlib
import time

from rich.console import Console

from qoop.parsing.render import view_name
from qoop.replan.causes import NewShare
from qoop.replan.commands import CancelStages, Command, Note, RunAsWritten, SetExecutors, StartStage
from qoop.replan.decision import Decision
from qoop.run import wording
from qoop.run.query_run import Outcome
from yarn_plugin.console import printable


class ProgressLines:
    """Prints to a console, as long as anybody reads there; `warn` is called from several threads."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()

    def warn(self, line: str) -> None:
        """A warning."""
        self._print(f"warning: {line}")

    def watch(self, command: Command) -> None:
        """A command that the planner gave."""
        match command:
            case Note(decision) if _matters(decision):
                what = "switch" if decision.switched else "plan"
                self._print(f"{what} {decision.plan}: {wording.why(decision.cause)}: {wording.verdict(decision)}")
            case StartStage(stage, plan, _, attempt):
                again = f", attempt {attempt + 1}" if attempt else ""
                self._print(f"stage {view_name(stage)} of plan {plan} started{again}")
            case CancelStages(stages):
                self._print(f"cancelled {', '.join(map(view_name, stages))}")
            case SetExecutors(executors, _):
                self._print(f"{executors} executors from now on")
            case RunAsWritten(cause):
                self._print(f"one stage: {wording.why(cause)}")

    def summary(self, outcome: Outcome) -> None:
        """What became of the query."""
        tally = outcome.tally
        mishaps = ((tally.failed, "failed"), (tally.lost, "outputs lost"))
        self._print(
            f"done in {outcome.seconds:.1f} s: {outcome.join_trees} join trees, {tally.stages} stages, "
            f"{tally.switches} switches ({tally.reused} stages reused, {tally.cancelled} cancelled, "
            f"{tally.backtracked} left behind)" + "".join(f", {many} {what}" for many, what in mishaps if many)
        )

    def _print(self, line: str) -> None:
        shown = printable(line)
        with contextlib.suppress(OSError):
            self._console.print(f"[{time.monotonic() - self._began:6.1f} s] {shown}", markup=False, soft_wrap=True)


def _matters(decision: Decision) -> bool:
    """Whether a decision is worth a line: the first, a switch, and a plan that is kept although the share changed."""
    return decision.before is None or decision.switched or isinstance(decision.cause, NewShare)
