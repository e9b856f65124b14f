"""Trials of earlier searches, from which a search learns before its own: `warm_start` of its file.

A source is the directory of a search of this machine, its `webhdfs://` URL, or a study in an Optuna storage, as
URL#STUDY. What is read is kept in the folder of the search, so that it does not depend on the source any more.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from themis_agent.app_file import AppFile
from themis_agent.dimensions import Parameters, is_in
from themis_agent.local import stored_folder
from themis_agent.local.folder import Folder, folder_at
from yarn_plugin.errors import BadInputError, describe

FILE = "earlier.json"


@dataclass(frozen=True, slots=True)
class Earlier:
    """A trial of an earlier search."""

    parameters: Parameters
    metric: float


def read(app: AppFile, directory: Path) -> list[Earlier]:
    """The trials of all sources that fit into the space of a search. `directory`: of its file.

    Raises:
        BadInputError: a source holds none, or none that fits.
    """
    found = []
    for source in app.warm_start:
        trials = list(_of_study(app, source) if "#" in source else _of_search(app, source, directory))
        fitting = [one for one in trials if _fits(app, one.parameters)]
        if not fitting:
            has = f"{len(trials)} trials with a metric, none of them within [space]" if trials else "no such trials"
            raise BadInputError("warm_start", source, f"has {has}")
        found += fitting
    return found


def best_of(app: AppFile, earlier: Sequence[Earlier]) -> list[Earlier]:
    """The best of them, with which the search begins; none if there is none."""
    sign = -1.0 if app.direction == "maximize" else 1.0
    return sorted(earlier, key=lambda one: sign * one.metric)[:1]


def keep(folder: Folder, earlier: Sequence[Earlier]) -> None:
    """Write them into the folder of a search.

    Raises:
        OSError: they cannot be written.
    """
    if earlier:
        folder.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.write(folder.root / FILE, json.dumps([asdict(one) for one in earlier]))


def kept(folder: Folder) -> list[Earlier]:
    """Those in the folder of a search.

    Raises:
        OSError: they cannot be read.
    """
    try:
        return [Earlier(**one) for one in json.loads(folder.read(folder.root / FILE))]
    except FileNotFoundError:
        return []


def _of_search(app: AppFile, source: str, directory: Path) -> Iterator[Earlier]:
    folder = folder_at(source if stored_folder.is_url(source) else directory / source)
    if not folder.exists:
        raise BadInputError("warm_start", source, "holds no search; give its directory, or URL#STUDY of Optuna")
    earlier, state = folder.load()[0], folder.state()
    if (earlier.metric, earlier.direction) != (app.metric, app.direction):
        other = f"{earlier.direction}s {earlier.metric}"
        raise BadInputError("warm_start", source, f"{other}, and this search {app.direction}s {app.metric}")
    for trial in state.trials.values():
        metric = state.metric(trial)
        if metric is not None and trial.fate != "failed" and not trial.violated:
            yield Earlier(json.loads(trial.parameters or "{}"), metric)


def _of_study(app: AppFile, source: str) -> Iterator[Earlier]:
    import optuna

    url, _, name = source.rpartition("#")
    try:
        study = optuna.load_study(study_name=name, storage=url)
        trials, directions = study.get_trials(deepcopy=False), [one.name.lower() for one in study.directions]
    except KeyError:
        raise BadInputError("warm_start", source, f"the storage has no study {name!r}") from None
    except Exception as problem:  # noqa: BLE001 - whatever a storage's driver raises
        raise BadInputError("warm_start", source, describe(problem)) from None
    if directions != [app.direction]:
        raise BadInputError(
            "warm_start", source, f"its study {', '.join(directions)}s, and this search {app.direction}s"
        )
    for trial in trials:
        if trial.state is optuna.trial.TrialState.COMPLETE and trial.value is not None:
            yield Earlier(trial.params, trial.value)


def _fits(app: AppFile, parameters: Parameters) -> bool:
    """Whether a trial of the search could have these values."""
    wanted = {
        name
        for name, one in app.space.items()
        if all(other in parameters and parameters[other] == value for other, value in one.when.items())
    }
    return wanted == parameters.keys() and all(
        is_in(value, app.space[name].model_dump()) for name, value in parameters.items()
    )
