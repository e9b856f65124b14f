"""The arbiter from its journal alone: the same inputs again, to explain what it did or to check that it would again."""

from dataclasses import dataclass
from pathlib import Path

from yarn_plugin.decide import commands, events
from yarn_plugin.decide.arbiter import step
from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.events import Event
from yarn_plugin.decide.state import State
from yarn_plugin.errors import ReportedError
from yarn_plugin.journal.intake import Decided, Intake
from yarn_plugin.journal.records import RecordFile

TYPES = (*events.Event.__args__, *commands.Command.__args__)


class ReplayError(ReportedError):
    """The journal cannot be replayed."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A journal decided on again. `different`: how many decisions this program would take otherwise now."""

    state: State
    inputs: int
    different: int
    dropped: str | None
    history: tuple[Decided[Event, Command], ...]


def replay(journal: Path) -> Replayed:
    """Decide again on every input of a journal that no arbiter is using.

    Raises:
        JournalError: it is in use.
        ReplayError: there is no journal.
    """
    if not journal.is_file():
        raise ReplayError(f"journal {str(journal)!r}: no such file; an arbiter's is `journal` in its --state folder")
    records = RecordFile(journal)
    try:
        intake: Intake[State, Event, Command] = Intake(step, State(), TYPES, records, clock=_no_clock)
    finally:
        records.close()
    return Replayed(intake.state, intake.replayed, intake.different, records.dropped, tuple(intake.history))


def _no_clock() -> float:
    raise AssertionError("a replay takes no new input")
