"""What a terminal shows of a search."""

import json
from collections import Counter

from rich.console import RenderableType

from themis_agent.agent.searching import typical_step_s
from themis_agent.agent.state import State, TrialState
from themis_agent.app_file import AppFile
from themis_agent.trial.reading.numbering import Steps
from themis_agent.view.changes import metric_text
from yarn_plugin import console
from yarn_plugin.quantities import NOTHING, count, number

SHOWN = 20
"""The most trials that are shown: those that run, then the best ones."""


def status(trial: TrialState) -> str:
    """What a trial does now."""
    if trial.fate == "training":
        return "waiting" if trial.attempt is None else "stopping" if trial.is_stopping else "running"
    return trial.fate


def parameters_of(trial: TrialState) -> str:
    """The parameters of a trial on one line."""
    found = json.loads(trial.parameters or "{}")
    return " ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in found.items()
    )


def progress(app: AppFile, state: State, shown: int = SHOWN) -> RenderableType:
    """A table of the trials: of so many at most."""
    trials = sorted(state.trials.values(), key=_order)
    rows = [
        (
            one.id,
            status(one),
            f"{one.bracket}.{one.rung}",
            f"{one.step:g}/{one.until:g}",
            metric_text(state.metric(one)),
            len(one.attempt.cells) if one.attempt is not None else NOTHING,
            parameters_of(one),
        )
        for one in trials[:shown]
    ]
    columns = ("trial", "status", "rung", "#step", f"#{app.metric}", "#GPUs", "parameters")
    return console.table(f"{app.name}: {summary(state)}", columns, rows)


def reading(state: State) -> str:
    """What is read from the logs of trials, and where steps come from; "" if nothing is."""
    found = Counter(text for one in state.trials.values() if (text := what_is_read(one)))
    said = [f"{text} ({count(times, 'trial')})" if len(found) > 1 else text for text, times in found.most_common()]
    return f"read from the logs: {'; '.join(said)}" if said else ""


def what_is_read(trial: TrialState) -> str:
    """What is read from the log of a trial; "" if nothing is."""
    return f"{trial.read.name}, {_STEPS[trial.read.steps]}" if trial.read is not None else ""


_STEPS = {
    Steps.STEPS: "steps as printed",
    Steps.EPOCHS: "epochs as steps",
    Steps.COUNTED: "steps counted",
    Steps.REPORTED: "steps reported",
}


def as_json(state: State) -> dict[str, object]:
    """The trials for a program."""
    trials = [
        {
            "trial": one.id,
            "status": status(one),
            "bracket": one.bracket,
            "rung": one.rung,
            "step": one.step,
            "metric": state.metric(one),
            "metrics": dict(one.others),
            "violated": one.violated or None,
            "gpus": len(one.attempt.cells) if one.attempt is not None else 0,
            "starts": one.epoch,
            "checkpoint": one.checkpoint,
            "lost_steps": one.lost_steps,
            "store_problem": one.store_problem or None,
            "read": {"name": one.read.name, "steps": one.read.steps.value} if one.read is not None else None,
            "parameters": json.loads(one.parameters or "null"),
            "parent": one.parent or None,
            "error": one.error or None,
            "last_lines": list(one.last_lines),
        }
        for one in state.trials.values()
    ]
    return {"finished": state.finished, "outcome": state.outcome.reason if state.outcome else None, "trials": trials}


def summary(state: State) -> str:
    """How many trials do what."""
    statuses = [status(one) for one in state.trials.values()]
    return ", ".join(f"{statuses.count(name)} {name}" for name in sorted(set(statuses)))


def _order(trial: TrialState) -> tuple[bool, bool, float, int]:
    unknown = trial.loss is None
    return trial.attempt is None, unknown, 0.0 if trial.loss is None else trial.loss, trial.number


_NOTHING_STORED = "no trial has stored a checkpoint: a promoted one trains again from step 0"


def cost(state: State) -> str:
    """What the steps that were lost have cost so far."""
    lost = sum(one.lost_steps for one in state.trials.values())
    return f"{count(lost, 'step')} lost so far, about {number(lost * typical_step_s(state), 1)} GPU s"


class Changes:
    """What to say about each decision: a line for each trial whose status has changed, and the log of a failed one."""

    def __init__(self, state: State | None) -> None:
        self._is_warned = False
        self._problems: dict[str, str] = {}
        self._read = "" if state is None else reading(state)
        self._lost = {} if state is None else {name: one.lost_steps for name, one in state.trials.items()}
        self._known = {} if state is None else {name: status(one) for name, one in state.trials.items()}

    def lines(self, state: State) -> list[str]:
        """The lines after a decision."""
        said = []
        if (read := reading(state)) != self._read:
            said.append(read)
            self._read = read
        for trial in state.trials.values():
            now = status(trial)
            if now != self._known.get(trial.id, "waiting"):
                metric = f", {metric_text(state.metric(trial))}" if trial.loss is not None else ""
                more = f": {trial.error}" if now == "failed" else ""
                said.append(f"{trial.id} {now} at step {trial.step:g}{metric}{more}")
                said += [f"    {line}" for line in trial.last_lines] if now == "failed" else []
            self._known[trial.id] = now
            if trial.lost_steps > self._lost.get(trial.id, 0.0):
                stored = "nothing" if trial.checkpoint is None else f"step {trial.checkpoint:g}"
                lost = count(trial.lost_steps - self._lost.get(trial.id, 0.0), "step")
                said.append(f"{trial.id}: {lost} lost when it ended; stored: {stored}")
                if not self._is_warned and not any(one.checkpoint for one in state.trials.values()):
                    self._is_warned = True
                    said.append(f"{_NOTHING_STORED}; {cost(state)}")
                self._lost[trial.id] = trial.lost_steps
            if trial.store_problem != self._problems.get(trial.id, ""):
                self._problems[trial.id] = trial.store_problem
                stored = "nothing" if trial.checkpoint is None else f"step {trial.checkpoint:g}"
                if trial.store_problem:
                    said.append(f"{trial.id}: {trial.store_problem}; at risk: what it trains after {stored}")
        return said
