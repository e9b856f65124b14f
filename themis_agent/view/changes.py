"""What a decision has changed, in plain sentences. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from themis_agent.agent.cell_names import is_slot
from themis_agent.agent.events import (
    ArbiterListens,
    ArbiterRefused,
    Event,
    Granted,
    LauncherEnded,
    LeaseEnded,
    LeasesRead,
    Restarted,
    Revoked,
    Suspended,
)
from themis_agent.agent.settings import VIOLATED
from themis_agent.agent.state import Attempt, Fate, State, TrialState
from yarn_plugin.quantities import NOTHING, count, number

Tone = Literal["plain", "good", "bad", "warn"]


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened to a trial, or to the search itself (`trial` ""), as a sentence without its subject.

    `fate`: the fate that it describes, if it does. `at`: in the journal's time; `wall`: seconds since the epoch.
    """

    trial: str
    text: str
    tone: Tone = "plain"
    fate: Fate | None = None
    last_lines: tuple[str, ...] = ()
    at: float = 0.0
    wall: float = 0.0


def changes(before: State, after: State, event: Event, at: float, metric: str) -> Iterator[Change]:
    """The changes between two states, by one event. `metric`: the name of what trials report."""
    yield from _of_search(before, after, event, at)
    for name, trial in after.trials.items():
        old = before.trials[name]
        if old is not trial:
            yield from _of_attempt(old, trial, after, event, at)
            yield from _of_store(old, trial)
            yield from _of_fate(after, old, trial, metric)


def metric_text(value: float | None) -> str:
    """A metric of any magnitude, with four digits."""
    if value is not None and abs(value) >= VIOLATED:
        return "a violated constraint"
    return NOTHING if value is None else f"{value:.4g}"


def gpus(cells: tuple[str, ...]) -> str:
    """GPUs by their names, such as `node-1/3`; or slots of cores, which a trial has in place of one."""
    shown = ", ".join(cells[:8])
    kind = "slot" if cells and all(map(is_slot, cells)) else "GPU"
    return f"{count(len(cells), kind)} ({shown}{', ...' if len(cells) > 8 else ''})"


def steps(low: float, high: float) -> str:
    """The steps after `low`, up to `high`."""
    return f"step {high:g} is lost" if high == low + 1 else f"steps {low + 1:g} to {high:g} are lost"


def _of_search(before: State, after: State, event: Event, at: float) -> Iterator[Change]:
    match event:
        case Granted() if event.lease not in before.granted:
            until = "" if event.until is None else f" for {number(max(event.until - at, 0.0))} s"
            yield Change("", f"was granted {gpus(tuple(gpu.cell for gpu in event.gpus))}{until}")
        case Revoked() if event.lease in before.leases:
            cells = event.cells or tuple(gpu.cell for gpu in before.leases[event.lease].gpus)
            yield Change("", f"must vacate {gpus(cells)} within {number(max(event.by - at, 0.0))} s", "warn")
        case LeaseEnded() if event.lease in before.leases:
            cells = event.cells or tuple(gpu.cell for gpu in before.leases[event.lease].gpus)
            yield Change("", f"no longer holds {gpus(cells)}: the lease has ended")
        case Restarted():
            yield Change("", f"went on with a new agent; {count(len(event.running), 'launcher')} still ran", "warn")
            if before.outcome is not None and after.outcome is None:
                yield Change("", f"goes on, although it was over: {before.outcome.reason}", "good")
        case ArbiterRefused():
            problem = f"the arbiter does not listen to it: {event.problem}"
            yield Change("", f"gets no more GPUs, starts no trials: {problem}", "bad")
        case ArbiterListens():
            yield Change("", "is listened to by the arbiter again", "good")
        case Suspended():
            yield Change("", "is being suspended: trials save checkpoints and end", "warn")
    yield from _given_back(before, after, event)
    if after.outcome is not None and before.outcome is None:
        yield Change("", f"is over: {after.outcome.reason}", "good" if after.outcome.succeeded else "bad")


def _given_back(before: State, after: State, event: Event) -> Iterator[Change]:
    """GPUs that the search gave back itself."""
    if isinstance(event, LeaseEnded):
        return
    held = {gpu.cell for lease in before.leases.values() for gpu in lease.gpus}
    held |= (
        {gpu.cell for gpu in event.gpus} if isinstance(event, Granted) and event.lease not in before.granted else set()
    )
    gone = held - {gpu.cell for lease in after.leases.values() for gpu in lease.gpus}
    revoked = {cell for lease in before.leases.values() for cell in lease.revoked}
    revoked |= set(event.cells) if isinstance(event, Revoked) else set()
    if isinstance(event, Revoked) and not event.cells:
        revoked |= gone
    if gone and isinstance(event, LeasesRead | Restarted):
        yield Change("", f"no longer holds {gpus(tuple(sorted(gone)))}: the arbiter does not lease them to it any more")
        return
    for cells, why in ((gone & revoked, "they are vacated"), (gone - revoked, "no trial can use them any more")):
        if cells:
            yield Change("", f"gave back {gpus(tuple(sorted(cells)))}: {why}")


def _of_attempt(old: TrialState, new: TrialState, after: State, event: Event, at: float) -> Iterator[Change]:
    before, now = old.attempt, new.attempt
    if before is not None and (now is None or now.epoch != before.epoch):
        yield from _ended(old, new, before, event, after)
    if now is not None and now.epoch > old.epoch:
        again = f" again (start {now.epoch})" if now.epoch > 1 else ""
        origin = "from the beginning" if new.checkpoint is None else f"from the checkpoint of step {new.checkpoint:g}"
        yield Change(new.id, f"started{again} on {gpus(now.cells)}{f', {origin}' if again else ''}")
    elif before is not None and now is not None:
        if now.stop_by is not None and before.stop_by is None and now.reason in _WHY_STOPPED:
            text = f"was asked to stop within {number(max(now.stop_by - at, 0.0))} s: {_WHY_STOPPED[now.reason]}"
            yield Change(new.id, text)
        if now.killed and not before.killed:
            yield Change(new.id, "did not end in time: its launchers are being killed", "bad")


_WHY_STOPPED = {
    "moved": "it moves to other GPUs",
    "revoked": "its GPUs are no longer held",
    "suspended": "the agent is being suspended",
}


def _ended(old: TrialState, new: TrialState, attempt: Attempt, event: Event, after: State) -> Iterator[Change]:
    """How a run of a trial ended; that it failed for good is said with its fate."""
    itself = attempt.ended_itself or attempt.stop_by is None
    code = attempt.exit_code if attempt.ended_itself else event.code if isinstance(event, LauncherEnded) else None
    killed = isinstance(event, LauncherEnded) and event.killed
    goes_on = new.fate in ("training", "paused")
    lost = new.lost_steps - old.lost_steps
    stored = 0.0 if new.checkpoint is None else new.checkpoint
    more = f"; {steps(stored, stored + lost)}" if lost else ""
    if not itself:
        if killed:
            yield Change(new.id, f"ignored SIGTERM and was killed after the grace period{more}", "bad")
        elif goes_on:
            yield Change(new.id, f"stopped at step {new.step:g}{more}", "warn" if lost else "plain")
    elif attempt.silent or (isinstance(event, LauncherEnded) and event.silent):
        return
    elif code is None:
        yield Change(new.id, f"lost its launcher, container or machine{more}", "warn")
    elif code == 0 and new.ran_out and not old.ran_out:
        goal = f" of {after.settings.max_steps}" if old.step < after.settings.max_steps else ""
        text = f"ended by itself at step {old.step:g}{goal}, with exit code 0"
        yield Change(new.id, f"{text}: it competes with what it has reached" if goal else text)
    elif code == 0:
        yield Change(new.id, f"ended its command at step {old.step:g}")
    elif goes_on:
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        retries = after.settings.retries
        tries = f"crash {new.crashes} of {retries} that {'is' if retries == 1 else 'are'} allowed"
        lines = attempt.last_lines or (event.last_lines if isinstance(event, LauncherEnded) else ())
        yield Change(new.id, f"crashed {how}, {tries}{more}", "warn", last_lines=lines)


def _of_store(old: TrialState, new: TrialState) -> Iterator[Change]:
    if new.store_problem and new.store_problem != old.store_problem:
        risk = "all that it trains" if new.checkpoint is None else f"what it trains after step {new.checkpoint:g}"
        yield Change(new.id, f"cannot store checkpoints; at risk: {risk}. {new.store_problem}", "warn")
    elif old.store_problem and not new.store_problem and new.checkpoint is not None:
        yield Change(new.id, f"can store checkpoints again; the newest is of step {new.checkpoint:g}")


def _of_fate(after: State, old: TrialState, new: TrialState, metric: str) -> Iterator[Change]:
    ranked = _ranked(new, after, metric) if new.ranking is not old.ranking else ""
    if new.rung > old.rung and old.fate != "failed":
        more = "" if new.fate == "pruned" else ranked
        yield Change(new.id, f"was promoted to rung {new.rung}, until step {new.until:g}{more}", "good", "training")
    if new.fate == old.fate:
        return
    value = f"{metric} {metric_text(after.metric(new))}"
    match new.fate:
        case "paused":
            reached = f"reached the end of rung {new.rung} at step {new.until:g}"
            text = f"{'is ranked at the end of its rung' if new.ran_out else reached} with {value}"
            others = f"for the other trials of bracket {new.bracket}"
            until = "to be among the best there" if after.settings.algorithm == "asha" else others
            yield Change(new.id, f"{text}; it waits {until}", fate="paused")
        case "pruned" if after.settings.algorithm == "curve_stopping":
            best = after.best
            known = "" if best is None else f", {metric_text(after.metric(best))} of {best.id}"
            text = f"was pruned at step {new.step:g}: its curve will not reach the best {metric} so far{known}"
            yield Change(new.id, text, fate="pruned")
        case "pruned":
            text = f"was pruned at step {new.step:g}{ranked}"
            yield Change(new.id, text, fate="pruned")
        case "complete":
            yield Change(new.id, f"is complete at step {new.step:g} with {value}", "good", "complete")
        case "failed":
            yield Change(new.id, f"failed at step {new.step:g}: {new.error}", "bad", "failed", new.last_lines)
        case "stopped":
            yield Change(new.id, f"was stopped at step {new.step:g} with the search", fate="stopped")
        case "training" if old.fate == "failed":
            yield Change(new.id, f"is tried again, in rung {new.rung}, until step {new.until:g}")
        case "training":
            pass


def _ranked(trial: TrialState, after: State, metric: str) -> str:
    """How a trial compared with the others of its rung when that had ended."""
    ranking = trial.ranking
    if ranking is None:
        return ""
    sign = -1.0 if after.settings.maximize else 1.0

    def shown(loss: float | None) -> str:
        return metric_text(None if loss is None else sign * loss)

    text = (
        f": number {ranking.place} of {ranking.trials} in rung {ranking.phase} of bracket {trial.bracket} by {metric},"
        f" {shown(ranking.loss)}"
    )
    if ranking.place <= ranking.kept:
        return text
    best = "the best goes on, with" if ranking.kept == 1 else f"the best {ranking.kept} go on, the last of them with"
    return f"{text}; {best} {shown(ranking.bar)}"
