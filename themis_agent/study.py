"""A search as a program or a notebook sees it: its best trial, a table of all, its page, an Optuna study."""

import html
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themis_agent.agent.state import State
from themis_agent.local.driver import Result, result
from themis_agent.local.folder import Folder
from themis_agent.local.progress import status
from themis_agent.view.changes import metric_text
from themis_agent.view.explanation import standing
from themis_agent.view.journal_reader import JournalReader
from themis_agent.view.snapshot import Snapshot, clock
from yarn_plugin.errors import BadInputError

if TYPE_CHECKING:
    import optuna

SHOWN = 20
"""The most trials in the table of a notebook."""


@dataclass(frozen=True)
class Trial:
    """A trial as it stands. `status`: as `themis-agent status` says it. `metric`: at its last report, at `step`; None
    without one. `metrics`: its further ones. `gpu_s`: GPU seconds that it has had. `error`: why it failed; ""
    otherwise."""

    name: str
    status: str
    step: float
    metric: float | None
    parameters: dict[str, Any]
    metrics: dict[str, float]
    gpu_s: float
    error: str = ""


@dataclass(frozen=True)
class Study(Result):
    """See the module. `trials`: the best metric first. `name`, `metric_name`: of the search. `place`: its folder."""

    name: str = ""
    metric_name: str = ""
    place: str = ""
    trials: tuple[Trial, ...] = field(default=(), repr=False)

    def table(self) -> list[dict[str, Any]]:
        """A row for each trial, the best first, with a column for each parameter: for `pandas.DataFrame`, say."""
        return [_row(self.metric_name, one) for one in self.trials]

    def export(self, directory: str | Path, trial: str | None = None) -> Path:
        """Copy the newest checkpoint of a trial, by default of the best one, into a directory; returns it there.

        Raises:
            BadInputError: there is no such trial.
            StoreError: it has stored no checkpoint, or the store cannot be read.
        """
        folder = Folder(Path(self.place))
        state, name = folder.state(), trial or self.best
        if name is None or name not in state.trials:
            raise BadInputError("trial", name, f"must be one of {', '.join(list(state.trials)[:5])}, ...")
        step = folder.export(folder.load()[0], state.trials[name], Path(directory))
        return Path(directory) / f"step-{step}"

    def report(self, path: str | Path) -> Path:
        """Write the page of the search as one file; returns its path."""
        from themis_agent.view.page import page
        from yarn_plugin.report import write

        shown = _shown(Folder(Path(self.place)))
        write(page(shown, standing(shown, False), f"As of {clock(shown.wall, 0.0)}."), Path(path))
        return Path(path)

    def optuna(self) -> "optuna.Study":
        """The search as an Optuna study in memory, for Optuna's plots and importances."""
        from themis_agent.optuna_study import study_of

        shown = _shown(Folder(Path(self.place)))
        return study_of(shown.app, shown.state, shown.history.curves)

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.reason}"]
        if self.best is not None:
            values = ", ".join(f"{name} = {_text(value)}" for name, value in self.parameters.items())
            lines.append(f"best: {self.best}, {self.metric_name} {metric_text(self.metric)} with {values}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """For a notebook."""
        return as_html(str(self), self.metric_name, self.trials)


def read(folder: Folder) -> Study:
    """The search of a folder, as it stands.

    Raises:
        BadInputError: the folder holds no search that has begun.
    """
    app, state = folder.load()[0], folder.state()
    found = asdict(result(state))
    return Study(**found, name=app.name, metric_name=app.metric, place=str(folder), trials=trials_of(state))


def trials_of(state: State) -> tuple[Trial, ...]:
    """The trials of a search, the best metric first, those without one last."""
    ordered = sorted(state.trials.values(), key=lambda one: (one.loss is None, one.loss or 0.0, one.number))
    return tuple(
        Trial(
            one.id,
            status(one),
            one.step,
            state.metric(one),
            json.loads(one.parameters or "{}"),
            dict(one.others),
            one.gpu_s,
            one.error,
        )
        for one in ordered
    )


def as_html(title: str, metric: str, trials: tuple[Trial, ...]) -> str:
    """A line, and a table of the trials, for a notebook."""
    rows = [_row(metric, one) for one in trials[:SHOWN]]
    columns = list(dict.fromkeys(name for row in rows for name in row if name not in ("gpu_s", "error")))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    cells = "".join(
        f"<tr>{''.join(f'<td>{html.escape(_text(row.get(name)))}</td>' for name in columns)}</tr>" for row in rows
    )
    more = f"<p>The best {SHOWN} of {len(trials)} trials.</p>" if len(trials) > SHOWN else ""
    lines = "<br>".join(map(html.escape, title.splitlines()))
    return f"<p>{lines}</p><table><tr>{head}</tr>{cells}</table>{more}"


def _row(metric: str, trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial.name,
        "status": trial.status,
        "step": trial.step,
        metric: trial.metric,
        **trial.metrics,
        **trial.parameters,
        "gpu_s": trial.gpu_s,
        "error": trial.error,
    }


def _text(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _shown(folder: Folder) -> Snapshot:
    app, _ = folder.load()
    reader = JournalReader(folder.journal, app.metric, folder.refresh)
    reader.advance()
    if reader.state is None:
        raise BadInputError("DIR", str(folder), "holds no search that has begun")
    return Snapshot(app, reader.state, reader.history, reader.at, reader.wall)
