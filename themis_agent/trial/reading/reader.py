"""Reads one script's log, line by line."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from themis_agent.trial.reading.metric import Metric, Value, other_names
from themis_agent.trial.reading.numbering import Numbering, Steps, is_step
from themis_agent.trial.reading.numbers import parsed, whole
from themis_agent.trial.reading.pairs import Table, of_mapping
from themis_agent.trial.reading.place import NOWHERE, OUT_OF_RANGE, Place, header_of, place_of, split_bar
from themis_agent.trial.reading.times import iteration_s

MAX_NAMES = 8
"""Names of other metrics that are kept, to say what the log has instead."""

FORMATS = "`{0}: 0.5`, `{0}=0.5`, `'{0}': 0.5`, `{0} 0.5`, lines of JSON, tables, and what report() reports"
"""What is read, for a metric."""

_WEAKER = (Steps.STEPS, Steps.EPOCHS, Steps.COUNTED)


@dataclass(frozen=True, slots=True)
class Source:
    """What is read: the name under which the metric stands in the log, and where the steps come from."""

    name: str
    steps: Steps


@dataclass(frozen=True, slots=True)
class Reading:
    """What a line tells. `value`: of the metric, at `step`; it may be NaN or infinite. A step without one is
    counted like those with one."""

    step: int | None = None
    value: float | None = None
    iteration_s: float | None = None


class LogReader:
    """See the package. The values that `read` returns have steps that rise.

    `metric`: its name. `pattern`: read this instead; its named groups are `loss`, and `step` and `iteration_s` if it
    has them. `resumed`, `saved`: see `Numbering`. `source`: what has been read so far; None: no value. `held`: the
    value that is held back.
    """

    def __init__(
        self,
        metric: str = "loss",
        pattern: re.Pattern[str] | None = None,
        resumed: int | None = None,
        saved: Mapping[str, int | None] | None = None,
    ) -> None:
        self._metric, self._pattern = Metric(metric), pattern
        self._table = Table(self._metric.is_named)
        self._numbering = Numbering(resumed, saved)
        self._used: Value | None = None
        self._names: list[str] = []
        self._total_without_value: int | None = None
        self._at_ends = False
        self.source: Source | None = None
        self.held: Reading | None = None

    def read(self, line: str) -> tuple[Reading, ...]:
        """What follows from this line. The value at the end of a progress bar, which may draw it again, is held back
        until the next step, or `release`. Before its end a bar may show a step behind the value.

        A metric that a bar shows at its end first is of an evaluation: the bar goes on to show the last one.
        """
        if self._pattern is not None:
            return self._read_pattern(line, self._pattern)
        bar, rest = split_bar(line)
        return (*self._read(bar), *self._read(rest)) if rest else self._read(line)

    def _read(self, line: str) -> tuple[Reading, ...]:
        mapping = of_mapping(line)
        text = self._table.row(line) if mapping is None else mapping
        value = self._value(text) if text is not None else None
        if value is None and mapping is None:
            # The names of a mapping are whole as they are joined: what it nests is not the metric's own.
            text, value = line, self._value(line)
        assert text is not None
        place, seconds = place_of(text), iteration_s(line)
        if value is None:
            return self._pass_by(place, line, seconds)
        return self._taken(place, value.value, value.label, seconds)

    def release(self, has_ended: bool = False) -> tuple[Reading, ...]:
        """The value that is held back; that of an evaluation only at the end of the log, or of the next bar."""
        if self._at_ends and not has_ended:
            return ()
        held, self.held = self.held, None
        return () if held is None else (held,)

    def save(self) -> dict[str, int | None]:
        """Where the reading is: see `Numbering`."""
        return self._numbering.save()

    def nothing_read(self) -> str:
        """Why nothing was read, in words."""
        name = self._metric.name
        if self._pattern is not None:
            return f"loss_pattern {self._pattern.pattern!r} found no value of {name} in its log"
        if self._metric.decimal_comma:
            written = self._metric.decimal_comma
            return f"{name} has decimal commas in its log, such as {written}; write 0.5, or give loss_pattern"
        has = f", which has {', '.join(self._names)}" if self._names else ""
        return f"no {name} in its log{has}; formats read: {FORMATS.format(name)} (docs/trials.md)"

    def _value(self, text: str) -> Value | None:
        """The value in a line: under the name that was read before, or under one that is closer to the metric's."""
        found = min(self._metric.values(text), key=lambda one: one.more, default=None)
        if self._used is None or found is None or found.more < self._used.more:
            self._used = found or self._used
            return found
        return next((one for one in self._metric.values(text) if one.label == self._used.label), None)

    def _pass_by(self, place: Place, line: str, seconds: float | None) -> tuple[Reading, ...]:
        if self.source is None and len(self._names) < MAX_NAMES:
            new = (name for name in other_names(line) if name not in self._names)
            self._names = [*self._names, *dict.fromkeys(new)][:MAX_NAMES]
        self._numbering.pass_by(place, header_of(line))
        if self.source is None and place.redrawn and place.step != place.total:
            self._total_without_value = place.total
        if self.source is None or self.source.steps is not Steps.STEPS:
            return ()
        step = self._numbering.passed(place)
        return () if step is None and seconds is None else (Reading(step, None, seconds),)

    def _taken(self, place: Place, value: float, name: str, seconds: float | None) -> tuple[Reading, ...]:
        if place.step is not None and not is_step(place.step):
            return ()
        is_end = place.redrawn and place.step == place.total
        if self.source is None and is_end and place.total is not None:
            self._at_ends = self._total_without_value == place.total
        if self._at_ends and place.redrawn and not is_end:
            return self.release(has_ended=True)
        number = self._numbering.number(place, value)
        if not is_step(number.step):
            return ()
        weakest = max(number.steps, self.source.steps if self.source else number.steps, key=_WEAKER.index)
        self.source = Source(name, weakest)
        reading = Reading(number.step, value, seconds if weakest is Steps.STEPS else None)
        if number.is_old:
            if self.held is not None and place.redrawn and self.held.step == number.step:
                self.held = reading
            return ()
        before = self.release(has_ended=True)
        if not is_end or not math.isfinite(value):
            return (*before, reading)
        self.held = reading
        return before

    def _read_pattern(self, line: str, pattern: re.Pattern[str]) -> tuple[Reading, ...]:
        match = pattern.search(line)
        groups = match.groupdict() if match else {}
        value = parsed(groups.get("loss") or "")
        place = NOWHERE if "step" in pattern.groupindex else place_of(line)
        if value is None:
            self._numbering.pass_by(place, header_of(line) if "step" not in pattern.groupindex else NOWHERE)
            return ()
        if groups.get("step") is not None:
            step = whole(groups["step"])
            place = Place(OUT_OF_RANGE if step is None else step)
        seconds = parsed(groups.get("iteration_s") or "")
        return self._taken(place, value, f"{self._metric.name} by loss_pattern", seconds)
