"""The arbiter on a journal: its step, timers and tags, and the epoch of its ids. The same for every driver."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from yarn_plugin.decide.arbiter import BUILT_IN, step
from yarn_plugin.decide.commands import Command
from yarn_plugin.decide.events import Configured, EpochBegan, Event, TimerFired
from yarn_plugin.decide.pools.controller import NoControllerError, Registry
from yarn_plugin.decide.state import State
from yarn_plugin.decide.step_cache import StepCache
from yarn_plugin.drive.registry import journal_tags
from yarn_plugin.files import write_private
from yarn_plugin.journal.clock import Clock
from yarn_plugin.journal.codec import Codec
from yarn_plugin.journal.durable import Durable
from yarn_plugin.journal.intake import Intake, StateMachine
from yarn_plugin.journal.records import JournalError, Record, Records
from yarn_plugin.journal.replay import Replay
from yarn_plugin.model.journaled import Mutable, parts_of

ArbiterIntake = Intake[State, Event, Command]


def open_intake(journal: Records, clock: Clock, registry: Registry = BUILT_IN) -> ArbiterIntake:
    """The arbiter, recovered from a journal.

    Raises:
        JournalError: the journal cannot be used, for example because it names a controller that is not installed.
    """
    policy: Durable[State, Event, Command] = Durable(journal_tags(registry), journal)
    return Intake(_machine(registry), policy, clock, _resumes)


def arbiter_replay(registry: Registry = BUILT_IN) -> Replay[State, Event, Command]:
    """The arbiter in its initial state, for replaying the records of a journal."""
    return Replay(_machine(registry), journal_tags(registry))


def _machine(registry: Registry) -> StateMachine[State, Event, Command]:
    checked = replace(registry, check=Codec(journal_tags(registry)).check)
    return StateMachine(partial(_step, cache=StepCache(checked)), State(), _next_timer, TimerFired, _changed_in_place)


def _step(state: State, seq: int, at: float, event: Event, cache: StepCache) -> tuple[State, tuple[Command, ...]]:
    """The arbiter's step. A missing controller is an error of the whole journal: skipping its inputs would lose state.

    Raises:
        JournalError: the controller of a pool is not installed.
    """
    try:
        return step(state, seq, at, event, cache)
    except NoControllerError as problem:
        raise JournalError(f"journal: event {seq}: {problem}; install the package that provides it") from None


def _next_timer(state: State) -> float | None:
    return state.timer


def _resumes(event: Event) -> bool:
    return isinstance(event, Configured | EpochBegan)


def _changed_in_place(state: State) -> Iterable[Mutable]:
    return [part for kept in state.pool_states.values() for part in parts_of(kept.state)]


def begin_epoch(state_dir: Path, known: int, lost: Iterable[Record]) -> int:
    """Start a new series of ids: a number above `known`, those in lost records, and the last one started.

    The number is stored beside the journal, so that a lost journal never leads to a series that was used before.
    """
    epoch = max([known, last_epoch(state_dir), *_epochs(lost)]) + 1
    write_private(_file(state_dir), f"{epoch}\n")
    return epoch


def _file(state_dir: Path) -> Path:
    return state_dir / "epoch"


def last_epoch(state_dir: Path) -> int:
    """The series started last, even if the journal does not contain it yet; 0 before the first."""
    try:
        text = _file(state_dir).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _epochs(records: Iterable[Record]) -> list[int]:
    parts = [part for record in records for part in (record.get("event"), record.get("state"))]
    found = [part.get("epoch") for part in parts if isinstance(part, dict)]
    return [epoch for epoch in found if isinstance(epoch, int)]
