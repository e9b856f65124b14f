"""The page of a search: the best trial, all trials, curves, rungs, GPUs, fairness, failures, and what happened."""

import json
import math
from collections.abc import Iterator, Sequence
from datetime import datetime

from themis_agent.agent.state import TrialState
from themis_agent.local.progress import cost, status, summary
from themis_agent.validation import gpu_time, plan
from themis_agent.view.changes import Change, metric_text
from themis_agent.view.charts import curves, gpus
from themis_agent.view.comparison import comparison
from themis_agent.view.fairness import fairness
from themis_agent.view.parameters import parameters
from themis_agent.view.snapshot import Snapshot, clock, duration
from yarn_plugin.quantities import count, number
from yarn_plugin.report import (
    Badge,
    Code,
    Column,
    Details,
    Entries,
    Entry,
    Figure,
    KeyFigure,
    KeyFigures,
    Meter,
    Page,
    Section,
    Table,
    Text,
)
from yarn_plugin.report.markup import Block
from yarn_plugin.report.table import Cell, Tone

MAX_TRIALS = 500
"""Trials in the table: the best ones."""

MAX_VIOLATED = 5
"""Trials that are named because they violate a constraint."""

MAX_PARAMETERS = 12
"""Parameters with a column of their own."""

MAX_CHANGES = 200
"""Entries of what happened: the latest."""

TONES: dict[str, Tone] = {
    "running": "good",
    "complete": "accent",
    "failed": "bad",
    "stopping": "warn",
}


def page(
    shown: Snapshot,
    standing: str,
    made: str,
    reload_s: int | None = None,
    other: tuple[str, Snapshot] | None = None,
) -> Page:
    """The page. `standing`: how the search stands, in a sentence; `reload_s`: how often a browser loads it again;
    `other`: the name of another search, and that one, to compare with.
    """
    app = shown.app
    began = datetime.fromtimestamp(shown.wall - (shown.at - shown.began)).strftime("%Y-%m-%d %H:%M:%S")
    sections = [
        Section("Best trial", tuple(_best(shown))),
        Section("Trials", (_trials(shown),)),
        Section("Curves", (curves(shown),)),
        Section("Parameters", tuple(parameters(shown))),
        Section("Comparison", tuple(comparison(shown, other[1], (app.name, other[0])))) if other is not None else None,
        Section("Rungs", (_rungs(shown),)) if app.algorithm in ("hyperband", "successive_halving", "asha") else None,
        Section("GPUs", gpus(shown)),
        Section("Fairness", fairness(shown)) if shown.history.rhos or shown.history.bids else None,
        Section("Failures", (_failures(shown),)),
        Section("What happened", tuple(_happened(shown))),
        Section("The search", tuple(_search(shown))),
    ]
    return Page(
        title=app.name,
        subtitle=f"{app.algorithm.replace('_', ' ')}, {count(app.trial_count, 'trial')} of at most "
        f"{count(app.max_steps, 'step')}; began {began}",
        sections=tuple(one for one in sections if one is not None),
        top=tuple(_top(shown, standing)),
        made=made,
        reload_s=reload_s,
    )


def _top(shown: Snapshot, standing: str) -> Iterator[Block]:
    state, history = shown.state, shown.history
    yield Text(standing, "lead")
    if not history.complete:
        yield Text("The journal was compacted: curves, runs and events before that are not shown.", "warning")
    best = state.best
    figures = []
    if best is not None:
        figures.append(
            KeyFigure(
                f"best {shown.app.metric}", metric_text(state.metric(best)), f"{best.id}, step {best.step:g}", "accent"
            )
        )
    ended = sum(one.fate in ("complete", "pruned", "failed", "stopped") for one in state.trials.values())
    figures.append(KeyFigure("trials that have ended", f"{ended} of {len(state.trials)}", summary(state)))
    if not state.finished:
        held, busy = state.gpus, state.busy
        figures.append(KeyFigure("GPUs in use", f"{len(busy & held.keys())} of {len(held)}", "held"))
    figures.append(KeyFigure("time", duration(shown.at - shown.began), gpu_time(shown.gpu_s() / 3600)))
    if shown.rho is not None:
        is_bounded = math.isfinite(shown.rho)
        above = "above 1: it ends later than with an equal part of the pool"
        note = f"finish-time fairness; {above if is_bounded else 'without GPUs it makes no progress'}"
        figures.append(KeyFigure("rho", number(shown.rho) if is_bounded else "unbounded", note))
    risky = [one for one in state.trials.values() if one.store_problem]
    if risky:
        figures.append(KeyFigure("trials with checkpoints at risk", str(len(risky)), risky[0].store_problem, "bad"))
    lost = sum(one.lost_steps for one in state.trials.values())
    if lost:
        figures.append(
            KeyFigure("steps lost", number(lost), f"after the newest checkpoint of a run: {cost(state)}", "warn")
        )
    yield KeyFigures(tuple(figures))


def _best(shown: Snapshot) -> Iterator[Block]:
    best = shown.state.best
    if best is None:
        yield Text("No trial has reported yet.", "muted")
        return
    where = "" if best.checkpoint is None else f" Its newest checkpoint is of step {best.checkpoint:g}."
    value = f"{shown.app.metric} {number(shown.state.metric(best), 6)}"
    yield Text(f"{best.id}: {value} at step {best.step:g}, {status(best)}.{where}")
    rows = tuple((name, str(value)) for name, value in _parameters(best).items())
    yield Table((Column("parameter"), Column("value")), rows)


def _trials(shown: Snapshot) -> Table:
    names = list(shown.app.space)[:MAX_PARAMETERS]
    metrics = metrics_of(shown)
    ranked = shown.ranked()
    columns = (Column("trial"), Column("status"), Column("bracket", True), Column("rung", True), Column("step"),
               Column(shown.app.metric, True), *(Column(name, True) for name in metrics), Column("GPUs", True),
               Column("starts", True), Column("checkpoint", True), Column("GPU time, s", True, 0),
               *(Column(name, _is_numeric(shown, name)) for name in names))  # fmt: skip
    rows = tuple(_trial(shown, one, names, metrics) for one in ranked[:MAX_TRIALS])
    violated = [f"{one.id} ({one.violated})" for one in ranked if one.violated]
    notes = [f"The best {MAX_TRIALS} of {len(ranked)} trials."] if len(ranked) > MAX_TRIALS else []
    if len(shown.app.space) > len(names):
        notes.append(f"{len(names)} of {len(shown.app.space)} parameters.")
    more = f" and {len(violated) - MAX_VIOLATED} more" if len(violated) > MAX_VIOLATED else ""
    if violated:
        notes.append(f"Constraints do not hold of {', '.join(violated[:MAX_VIOLATED])}{more}.")
    return Table(columns, rows, note=" ".join(notes) or None)


def metrics_of(shown: Snapshot) -> list[str]:
    """The further metrics that trials have reported, by name."""
    return sorted({name for one in shown.state.trials.values() for name, _ in one.others})


def _trial(shown: Snapshot, trial: TrialState, names: Sequence[str], metrics: Sequence[str]) -> tuple[Cell, ...]:
    parameters, of, now = _parameters(trial), shown.app.max_steps, status(trial)
    step = Meter(trial.step, of, f"{trial.step:g} of {of:g}")
    held = len(trial.attempt.cells) if trial.attempt is not None else None
    return (
        trial.id,
        Badge(now, TONES.get(now, "plain")),
        trial.bracket,
        trial.rung,
        step,
        _value(shown.state.metric(trial)),
        *(_value(dict(trial.others).get(name)) for name in metrics),
        held,
        trial.epoch,
        trial.checkpoint,
        trial.attained_gpu_s(shown.at),
        *(_value(parameters.get(name)) for name in names),
    )


def _value(value: object) -> Cell:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None if value is None else str(value)
    return Figure(value, f"{value:.4g}" if isinstance(value, float) else str(value))


def _is_numeric(shown: Snapshot, name: str) -> bool:
    return shown.app.space[name].type != "categorical"


def _parameters(trial: TrialState) -> dict[str, object]:
    found: dict[str, object] = json.loads(trial.parameters or "{}")
    return found


def _rungs(shown: Snapshot) -> Table:
    names = ("running", "stopping", "waiting", "paused", "pruned", "complete", "failed", "stopped")
    rows = []
    for rung in plan(shown.app):
        trials = [one for one in shown.state.trials.values() if one.bracket == rung.bracket]
        here = [status(one) for one in trials if one.rung == rung.rung]
        promoted = sum(one.rung > rung.rung for one in trials)
        counts = [promoted, *(here.count(name) for name in names)]
        cells: list[Cell] = [one or None for one in counts]
        rows.append((rung.bracket, rung.rung, rung.until, rung.trials, *cells))
    columns = ("bracket", "rung", "until step", "planned", "promoted", *names)
    others = "it is among the best there" if shown.app.algorithm == "asha" else "the others of its bracket are there"
    note = f"paused: at the end of its rung, until {others}."
    return Table(tuple(Column(name, True) for name in columns), tuple(rows), note=note)


def _failures(shown: Snapshot) -> Block:
    failed = [one for one in shown.history.changes if one.tone == "bad" and one.trial]
    failed += [one for one in shown.history.changes if one.last_lines and one.tone != "bad"]
    entries = tuple(_entry(shown, one) for one in sorted(failed, key=lambda one: one.at)[-MAX_CHANGES:])
    return Entries(entries, empty="Nothing has failed.")


def _happened(shown: Snapshot) -> Iterator[Block]:
    found = shown.history.changes[-MAX_CHANGES:]
    if len(found) < len(shown.history.changes):
        yield Text(f"The latest {len(found)} of {len(shown.history.changes)} events.", "muted")
    yield Entries(tuple(_entry(shown, one) for one in reversed(found)))


def _entry(shown: Snapshot, change: Change) -> Entry:
    word = (
        "promoted"
        if change.fate == "training"
        else change.fate or ("problem" if change.tone in ("bad", "warn") else "event")
    )
    blocks = (Code("\n".join(change.last_lines)),) if change.last_lines else ()
    return Entry(
        f"+{duration(change.at - shown.began)}",
        f"{change.trial or 'The search'} {change.text}",
        Badge(word, change.tone),
        clock(change.wall, shown.wall),
        blocks,
    )


def _search(shown: Snapshot) -> Iterator[Block]:
    app = shown.app
    yield Code(" ".join(app.words))
    rows = tuple((name, _range(one.model_dump(exclude_unset=True))) for name, one in app.space.items())
    yield Table((Column("parameter"), Column("values")), rows)
    hidden = {"space", "command", "environment", "storage", "enqueue", "data"}
    fields = app.model_dump(mode="json", exclude=hidden, exclude_none=True)
    told = tuple((name, json.dumps(value)) for name, value in fields.items())
    yield Details("All settings", (Table((Column("field"), Column("value")), told),))


def _range(dimension: dict[str, object]) -> str:
    kind = dimension.pop("type")
    return f"{kind}: " + ", ".join(f"{name} {json.dumps(value)}" for name, value in dimension.items())
