"""The arbiter from its journal alone: the same inputs again, to explain what it did or to check that it would again."""

from dataclasses import dataclass
from pathlib import Path

from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.events import Event
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.pools.registry import STANDARD
from yarn_plugin.decide.state import State
from yarn_plugin.drive.journaling import past as past_of
from yarn_plugin.errors import ReportedError
from yarn_plugin.journal.intake import Decided
from yarn_plugin.journal.records import find_damage, read_records


class ReplayError(ReportedError):
    """The journal cannot be replayed."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A journal decided on again. `different`: how many decisions this program would take otherwise now.

    `set_aside`: on how many inputs nothing could be decided. `dropped`: what is not whole, and was not read.
    """

    state: State
    inputs: int
    different: int
    set_aside: int
    dropped: str | None
    history: tuple[Decided[Event, Command], ...]


def replay(journal: Path, registry: Registry = STANDARD) -> Replayed:
    """Decide again on every input of a journal. Writes nothing, so an arbiter may be using it.

    Raises:
        JournalError: it is of a later version.
        ReplayError: there is no journal, or it is something else.
    """
    expected = "an arbiter's is `journal` in its --state folder"
    try:
        damage = find_damage(journal)
        past = past_of(registry)
        past.take_all(read_records(journal))
    except OSError as problem:
        raise ReplayError(f"journal {str(journal)!r}: {problem.strerror}; {expected}") from None
    if not past.seq and damage is not None:
        raise ReplayError(f"journal {str(journal)!r}: it holds something else than a journal; {expected}")
    past.decide_waiting()
    dropped = None if damage is None else str(damage)
    return Replayed(past.state, past.replayed, past.different, past.set_aside, dropped, tuple(past.history))
