"""Steps of the values in a log: those that it says, if they rise; else its epochs, if they are whole; else a count.

A step that starts again from where it began goes on rising: it counts within an epoch. One that goes back to somewhere
between is old. A process that was started again from a checkpoint begins where the reading of the log was then
(`saved`): the steps that it repeats have the numbers that they had before.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from themis_agent.trial.reading.place import NOWHERE, Place

MAX_STEPS = 10**12
"""Steps are below this: names of checkpoints have 12 digits."""

_STUCK = 2
"""A step that stays the same this many times does not rise."""

_NOTICED = 8
"""The most steps that may have been read between a checkpoint and its discovery."""


class Steps(StrEnum):
    """Where the steps come from. `reported`: by the script itself, which calls `report`."""

    STEPS = "steps"
    EPOCHS = "epochs"
    COUNTED = "counted"
    REPORTED = "reported"


@dataclass(frozen=True, slots=True)
class Number:
    """The step of a value, and where it comes from. `is_old`: it is not after the one before."""

    step: int
    steps: Steps
    is_old: bool


@dataclass(slots=True)
class _Position:
    """`last`: the latest step; -1: none yet. `kind`: what `raw`, the latest number of the log, is: 1 a step, 2 an
    epoch. `base`: what is added to it; `first`: where it began to rise; `total`: of its bar; `epoch`: of it. `zero`: 1
    if epochs count from 0. `no_steps`, `no_epochs`: 1 if those of the log do not rise."""

    last: int = -1
    kind: int = 0
    raw: int | None = None
    base: int = 0
    first: int = 0
    total: int | None = None
    epoch: int | None = None
    zero: int = 0
    no_steps: int = 0
    no_epochs: int = 0


_KINDS = {1: Steps.STEPS, 2: Steps.EPOCHS}
_STEP, _EPOCH = 1, 2


def is_step(step: int) -> bool:
    """Whether a trial can have such a step."""
    return 0 <= step < MAX_STEPS


class Numbering:
    """See the module. `resumed`: the step of the checkpoint that the process began from; None: from scratch."""

    def __init__(self, resumed: int | None = None, saved: Mapping[str, int | None] | None = None) -> None:
        known = {one.name: saved[one.name] for one in fields(_Position) if saved and one.name in saved}
        self._at = _Position(**known)  # type: ignore[arg-type]
        self._resumed, self._knows = resumed, bool(known)
        if resumed is not None and (not known or self._at.last - _NOTICED < resumed <= self._at.last):
            self._at.last = resumed
        self._may_go_back = resumed is not None
        self._header: Place = NOWHERE
        self._same = 0
        self._value: float | None = None

    def save(self) -> dict[str, int | None]:
        """Where the reading is, to go on from a checkpoint that is made now."""
        return {one.name: getattr(self._at, one.name) for one in fields(_Position)}

    def pass_by(self, place: Place, header: Place) -> None:
        """A line without a value. `header`: what it says of the values below it."""
        at = self._at
        if header.epoch is not None:
            self._header = header
        elif header.step is not None:
            self._header = Place(step=header.step, epoch=self._header.epoch)
        self._note_zero(place.epoch)
        is_bar = (
            place.redrawn and place.epoch is None and at.epoch is None and at.kind == _STEP and place.total == at.total
        )
        if is_bar and place.step is not None and at.raw is not None and place.step < at.raw:
            self._go_on_from(place.step, None)
            at.raw = place.step

    def passed(self, place: Place) -> int | None:
        """The step of a line without a value; None: it is not certain, as in an evaluation, or not after the latest
        one."""
        at, raw = self._at, place.step
        if at.kind != _STEP or at.raw is None or raw is None or not is_step(raw):
            return None
        if place.total is not None and place.epoch is not None and place.epoch.is_integer():
            raw += max(int(place.epoch) - 1 + at.zero, 0) * place.total
        elif place.epoch not in (None, at.epoch):
            return None
        step = at.base + raw
        return step if raw > at.raw and place.total == at.total and is_step(step) else None

    def number(self, place: Place, value: float) -> Number:
        """The step of a value there."""
        place = self._with_header(place)
        self._note_zero(place.epoch)
        epoch = int(place.epoch) if place.epoch is not None and place.epoch.is_integer() else None
        step, steps = None, Steps.COUNTED
        for kind, raw in self._candidates(place, epoch):
            step, steps = self._take(kind, raw, place, epoch, value), _KINDS[kind]
            if step is not None:
                break
        else:
            step, steps = max(self._at.last, 0) + 1, Steps.COUNTED
        self._value = value
        is_old = step <= self._at.last and not self._may_go_back
        if not is_old:
            self._at.last, self._may_go_back = step, False
        return Number(step, steps, is_old)

    def _with_header(self, place: Place) -> Place:
        """A value that does not say where it is belongs to the step or epoch of a line above; to a step once."""
        header, self._header = self._header, Place(epoch=self._header.epoch)
        if place == NOWHERE:
            return header
        return replace(place, epoch=header.epoch) if place.epoch is None and place.step is not None else place

    def _candidates(self, place: Place, epoch: int | None) -> Iterator[tuple[int, int]]:
        """The numbers of the log that may be steps, and their kinds."""
        at = self._at
        if place.step is not None and is_step(place.step) and not at.no_steps:
            if place.total is None or epoch is None:
                yield _STEP, place.step
            else:
                self._guess_zero(place.step, place.total, epoch)
                yield _STEP, max(epoch - 1 + at.zero, 0) * place.total + place.step
        if place.epoch is not None and not at.no_epochs:
            if epoch is None or not is_step(epoch):
                at.no_epochs = 1
            else:
                yield _EPOCH, epoch + at.zero

    def _take(self, kind: int, raw: int, place: Place, epoch: int | None, value: float) -> int | None:
        """The step by a number of the log; None: that does not rise."""
        at = self._at
        if at.kind != kind:
            at.kind, at.raw = kind, None
        is_next = epoch is not None and at.epoch is not None and epoch > at.epoch and place.total is None
        if at.raw is None:
            at.base, at.first = self._first_base(kind, raw, place, epoch), raw
        elif raw == at.raw and not (is_next and kind == _STEP):
            return at.base + raw if self._may_be_same(kind, place, value) else None
        elif raw <= at.raw:
            if self._begins_again(raw, place, epoch, is_next):
                self._go_on_from(raw, epoch)
            elif not self._may_go_back:
                return at.base + raw
        at.raw, at.total, at.epoch, self._same = raw, place.total, epoch, 0
        return at.base + raw if self._may_go_back else max(at.base + raw, at.last + 1)

    def _first_base(self, kind: int, raw: int, place: Place, epoch: int | None) -> int:
        """What is added to the first number that a process says."""
        if self._resumed is None:
            return 1 if place.index and raw == 0 else 0
        if self._knows or kind == _EPOCH or raw > self._resumed:
            return 0
        if place.total is not None:
            return self._resumed // place.total * place.total if epoch is None else 0
        return self._resumed if epoch is not None and epoch > 1 else 0

    def _may_be_same(self, kind: int, place: Place, value: float) -> bool:
        """Whether another value at the same number may belong to the same step; otherwise, numbers do not rise."""
        at = self._at
        if kind == _EPOCH:
            at.no_epochs = int(value != self._value)
            return not at.no_epochs
        self._same += 0 if place.redrawn else 1
        at.no_steps = int(self._same >= _STUCK or (self._same > 0 and place.index))
        return not at.no_steps

    def _begins_again(self, raw: int, place: Place, epoch: int | None, is_next: bool) -> bool:
        at = self._at
        if is_next and at.kind == _STEP:
            return True
        if epoch is not None and epoch == at.epoch:
            # Another bar within the epoch, or the same one, which is emptied for the next.
            return False
        if self._may_go_back:
            was_at_end = at.base > 0 or (at.total is not None and (at.raw or 0) >= at.total)
            return epoch is None and raw <= at.first and was_at_end
        return raw <= at.first or (place.total is not None and epoch is None)

    def _go_on_from(self, raw: int, epoch: int | None) -> None:
        """Numbers that begin again are after those before."""
        at = self._at
        at.base += at.total if at.total is not None and epoch is None else (at.raw or 0)
        at.first = raw

    def _note_zero(self, epoch: float | None) -> None:
        if epoch == 0 and self._resumed is None and self._at.raw is None:
            self._at.zero = 1

    def _guess_zero(self, raw: int, total: int, epoch: int) -> None:
        """Whether epochs count from 0 follows from the step of the checkpoint, if nothing else is known."""
        if self._resumed is not None and not self._knows and self._at.raw is None:
            after = {zero: (epoch - 1 + zero) * total + raw - self._resumed for zero in (0, 1)}
            self._at.zero = min(after, key=lambda zero: (after[zero] <= 0, abs(after[zero])))
