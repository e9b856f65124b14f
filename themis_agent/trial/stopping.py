"""When a launcher stops its gang, and why. Pure."""

from dataclasses import dataclass

from themis_agent.trial.wire import Answer, EndCause


@dataclass(frozen=True, slots=True)
class Stop:
    """SIGTERM now, SIGKILL at `kill_at`; an upload may last until `over_at`. Seconds on the clock of `wanted`."""

    cause: EndCause
    kill_at: float
    over_at: float
    upload: bool = True


def wanted(
    now: float,
    answer: Answer | None,
    silent_s: float,
    signalled: bool,
    grace_s: float,
    orphan_s: float,
    unreported_s: float = 0.0,
    report_timeout_s: float = 0.0,
) -> Stop | None:
    """Whether to stop the gang now. `now`: on a clock that nobody sets. `silent_s`: for how long the agent has not
    answered; `signalled`: by SIGTERM. `unreported_s`: for how long the gang has reported nothing, of
    `report_timeout_s` (0: it may for ever).

    With a time of the agent, the upload ends then, and the processes do not have more than `grace_s`. Otherwise the
    upload may last as long again as the grace period.
    """
    if answer is not None and answer.superseded:
        return Stop("superseded", now, now, upload=False)
    if answer is not None and answer.stop_in_s is not None:
        over_at = max(now, now - silent_s + answer.stop_in_s)
        return Stop("stopped", min(now + grace_s, over_at), over_at, upload=not answer.final)
    if signalled:
        return Stop("stopped", now + grace_s, now + 2 * grace_s)
    if silent_s > orphan_s:
        return Stop("agent_away", now + grace_s, now + 2 * grace_s)
    if 0 < report_timeout_s < unreported_s:
        return Stop("silent", now + grace_s, now + grace_s, upload=False)
    return None
