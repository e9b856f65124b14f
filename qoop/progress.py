"""What the user sees of a running query: a line for each stage, each decision that matters, and a summary."""

import contextlib
import time

from rich.console import Console

from qoop.replan.commands import CancelStages, Command, Note, RunAsWritten, SetExecutors, StartStage
from qoop.run import Outcome
from qoop.sql.render import view_of
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
            case Note(decision) if decision.won_by != "kept" or "share" in decision.cause:
                what = "switch" if decision.switched else "plan"
                self._print(f"{what} {decision.plan}: {decision.cause}: {decision.reason}")
            case StartStage(stage, plan, _, attempt):
                again = f", attempt {attempt + 1}" if attempt else ""
                self._print(f"stage {view_of(stage)} of plan {plan} started{again}")
            case CancelStages(stages):
                self._print(f"cancelled {', '.join(map(view_of, stages))}")
            case SetExecutors(executors, _):
                self._print(f"{executors} executors from now on")
            case RunAsWritten(reason):
                self._print(f"one stage: {reason}")

    def summary(self, outcome: Outcome) -> None:
        """What became of the query."""
        tally = outcome.tally
        self._print(
            f"done in {outcome.seconds:.1f} s: {outcome.join_trees} join trees, {tally.stages} stages, "
            f"{tally.switches} switches ({tally.reused} stages reused, {tally.cancelled} cancelled, "
            f"{tally.backtracked} left behind)"
        )

    def _print(self, line: str) -> None:
        shown = printable(line)
        with contextlib.suppress(OSError):
            self._console.print(f"[{time.monotonic() - self._began:6.1f} s] {shown}", markup=False, soft_wrap=True)
