"""What an agent still has to tell the arbiter: in order, and only as long as it is of use."""

from collections import deque
from dataclasses import dataclass

from themis_agent.agent.commands import (
    Command,
    DeclareTrials,
    ReleaseGpus,
    SendBid,
    SendEstimate,
    SendSlowdown,
    SendSpeed,
)

ToArbiter = SendEstimate | SendBid | SendSlowdown | SendSpeed | ReleaseGpus | DeclareTrials


@dataclass(frozen=True, slots=True)
class _Waiting:
    command: ToArbiter
    until: float | None


class Outbox:
    """Times are seconds on a clock that nobody sets. `late`: answers that `next` dropped; take them out."""

    def __init__(self) -> None:
        self._deadlines: dict[str, float] = {}
        self._waiting: deque[_Waiting] = deque()
        self.late: list[ToArbiter] = []

    def expect(self, question: str, until: float) -> None:
        """A question of the arbiter is to be answered until then; asked again, it has a new deadline."""
        self._deadlines[question] = until

    def put(self, command: Command) -> bool:
        """Take a command that is for the arbiter; whether it is. An answer replaces one to the same question, and a
        slowdown or a speed one of the same job, and a declaration an earlier one."""
        if not isinstance(command, ToArbiter):
            return False
        self._waiting = deque(one for one in self._waiting if _about(one.command) != _about(command))
        until = self._deadlines.get(command.id) if isinstance(command, SendEstimate | SendBid) else None
        self._waiting.append(_Waiting(command, until))
        return True

    def next(self, now: float) -> ToArbiter | None:
        """What to send next; answers that are too late are dropped. It stays until `done`."""
        self._deadlines = {question: until for question, until in self._deadlines.items() if until > now}
        while self._waiting and (until := self._waiting[0].until) is not None and until <= now:
            self.late.append(self._waiting.popleft().command)
        return self._waiting[0].command if self._waiting else None

    def done(self, command: ToArbiter) -> None:
        """The arbiter has it, or refuses it."""
        self._waiting = deque(one for one in self._waiting if one.command is not command)


def _about(command: ToArbiter) -> tuple[type, str]:
    """Of two commands about the same, the later one counts."""
    match command:
        case ReleaseGpus():
            return ReleaseGpus, str(id(command))
        case SendSlowdown():
            return SendSlowdown, command.job
        case SendSpeed():
            return SendSpeed, f"{command.trial} {command.lease}"
        case DeclareTrials():
            return DeclareTrials, ""
        case _:
            return SendBid, command.id
