"""A mirror of a search in an Optuna study, for dashboards and plots. The agent's journal is the truth.

Trials stand there with their states, parameters and intermediate values, and with the user attributes `themis_trial`,
`themis_search`, `bracket`, `rung` and, of failed ones, `error`. A failed trial that is tried again is another one
there. Searches of one name share a study, NAME, if they have the same direction and space; else those of each kind have
one of their own: NAME-2, NAME-3, ... Writing is idempotent and happens in a thread of its own: a storage that is away
delays the mirror and stops nothing.
"""

import itertools
import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import optuna
from optuna.trial import TrialState as StudyState

from themis_agent.agent.events import Event, Reported
from themis_agent.agent.state import State, TrialState
from themis_agent.app_file import AppFile
from themis_agent.dimensions import Parameters
from themis_agent.parameter_draws import distributions
from yarn_plugin.errors import describe
from yarn_plugin.journal.records import read_records

log = logging.getLogger("themis_agent")

NAME = "themis_trial"
"""The user attribute with the id of a trial."""

SEARCH = "themis_search"
"""The user attribute with the id of its search: trials of all searches have the same names."""

RETRY_S, MAX_RETRY_S = 1.0, 60.0

_ENDED: Mapping[str, StudyState] = {
    "complete": StudyState.COMPLETE,
    "pruned": StudyState.PRUNED,
    "stopped": StudyState.PRUNED,
    "failed": StudyState.FAIL,
}

Values = dict[str, dict[int, float]]


class StudyMirror:
    """Follows the decisions of an agent. `url`: of any storage that Optuna takes. `search`: its id. `study_name`: of
    the study that it is written into."""

    def __init__(self, url: str, app: AppFile, search: str) -> None:
        self._url, self._app, self._search = url, app, search
        self.study_name = app.name
        self._study: optuna.Study | None = None
        self._numbers: dict[str, int] = {}
        self._written: dict[str, TrialState] = {}
        self._state: State | None = None
        self._values: Values = {}
        self._changed = threading.Condition()
        self._closing = self._is_current = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="study", daemon=True)
        self._thread.start()

    def take(self, event: Event, state: State) -> None:
        """Follow an event with the state after it; returns at once."""
        with self._changed:
            self._state, self._is_current = state, False
            if isinstance(event, Reported) and event.metric is not None:
                self._values.setdefault(event.trial, {})[int(event.step)] = event.metric
            self._changed.notify_all()

    def catch_up(self, journal: Path, state: State | None) -> None:
        """Take what happened before, by the journal of an agent: it may not have been written. None: nothing did."""
        for record in read_records(journal) if state is not None else ():
            event = record.get("event", {})
            if state is not None and event.get("type") == "event/Reported":
                known = {name: event[name] for name in ("trial", "epoch", "step", "metric")}
                self.take(Reported(**known), state)

    def close(self, wait_s: float) -> bool:
        """Wait so long at most until all is written; whether it is."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(wait_s)
        return self._is_current or self._state is None

    def _run(self) -> None:
        retry_s = RETRY_S
        while True:
            with self._changed:
                while self._is_current or self._state is None:
                    if self._closing:
                        return
                    self._changed.wait()
                state, values, self._values, self._is_current = self._state, self._values, {}, True
            try:
                self._write(state, values)
            except Exception as problem:  # noqa: BLE001 - whatever a storage's driver raises
                self._restore(values)
                self._warn(problem)
                time.sleep(retry_s)
                retry_s = min(2 * retry_s, MAX_RETRY_S)
                continue
            self._failing, retry_s = False, RETRY_S

    def _restore(self, values: Values) -> None:
        """What could not be written is written again."""
        with self._changed:
            for trial, seen in values.items():
                self._values[trial] = {**seen, **self._values.get(trial, {})}
            self._is_current = False
        # What was written before the storage went away may be lost with it.
        self._study = None
        self._written.clear()

    def _warn(self, problem: Exception) -> None:
        if not self._failing:
            log.warning("storage: %s; the search goes on; writing is tried again until it ends", describe(problem))
        self._failing = True

    def _write(self, state: State, values: Values) -> None:
        study = self._study or self._open()
        for trial in state.trials.values():
            seen = values.get(trial.id, {})
            if trial.parameters is None or (not seen and _same(self._written.get(trial.id), trial)):
                continue
            if trial.id not in self._numbers:
                self._create(study, trial)
            self._update(study, state, trial, seen)
            self._written[trial.id] = trial

    def _open(self) -> optuna.Study:
        name, reason = self._app.name, ""
        for number in itertools.count(2):
            study = optuna.create_study(
                storage=self._url, study_name=name, direction=self._app.direction, load_if_exists=True
            )
            trials = study.get_trials(deepcopy=False)
            difference = next(self._differences(study, trials), None)
            if difference is None:
                break
            reason = reason or f"as that called {name} has another {difference}"
            name = f"{self._app.name}-{number}"
        if name != self.study_name:
            log.warning("storage: written into the study %s, %s", name, reason)
        self.study_name = name
        self._numbers = self._numbers_in(study)
        self._study = study
        return study

    def _differences(self, study: optuna.Study, trials: Sequence[optuna.trial.FrozenTrial]) -> Iterator[str]:
        """What keeps trials of this search from being compared with those of a study."""
        if [one.name.lower() for one in study.directions] != [self._app.direction]:
            yield f"direction, {', '.join(one.name.lower() for one in study.directions)}"
        mine = distributions(self._app.space, self._app.space)
        for trial in trials:
            for name, distribution in trial.distributions.items():
                if mine.get(name, distribution) != distribution:
                    yield f"range of {name}, {distribution}"

    def _create(self, study: optuna.Study, trial: TrialState) -> None:
        parameters: Parameters = json.loads(trial.parameters or "{}")
        study.add_trial(
            optuna.create_trial(
                state=StudyState.RUNNING,
                params=parameters,
                distributions=distributions(self._app.space, parameters),
                user_attrs={NAME: trial.id, SEARCH: self._search},
            )
        )
        self._numbers |= self._numbers_in(study)

    def _numbers_in(self, study: optuna.Study) -> dict[str, int]:
        """The numbers of this search's trials in the study. Earlier versions did not write whose they are."""
        found = ((one.number, one.user_attrs) for one in study.get_trials() if NAME in one.user_attrs)
        return {known[NAME]: number for number, known in found if known.get(SEARCH, self._search) == self._search}

    def _update(self, study: optuna.Study, state: State, trial: TrialState, seen: Mapping[int, float]) -> None:
        stored = study.get_trials(deepcopy=False)[self._numbers[trial.id]]
        ended = _ENDED.get(trial.fate)
        if stored.state.is_finished():
            if stored.state is ended:
                return
            # It has ended there, and is tried again.
            self._create(study, trial)
            stored = study.get_trials(deepcopy=False)[self._numbers[trial.id]]
        written = optuna.Trial(study, stored._trial_id)
        for step, value in sorted(seen.items()):
            if step not in stored.intermediate_values:
                written.report(value, step)
        attributes = {"bracket": trial.bracket, "rung": trial.rung, "error": trial.error or None}
        for name, attribute in attributes.items():
            if stored.user_attrs.get(name) != attribute:
                written.set_user_attr(name, attribute)
        if ended is not None and trial.attempt is None:
            metric = state.metric(trial) if ended is StudyState.COMPLETE else None
            study.tell(stored.number, metric, ended, skip_if_finished=True)


def study_of(app: AppFile, state: State, curves: Mapping[str, Sequence[tuple[float, float]]]) -> optuna.Study:
    """A search as a study in memory. `curves`: (step, metric) of each trial."""
    study = optuna.create_study(study_name=app.name, direction=app.direction)
    for trial in state.trials.values():
        if trial.parameters is None:
            continue
        parameters: Parameters = json.loads(trial.parameters)
        ended, metric = _ENDED.get(trial.fate, StudyState.RUNNING), state.metric(trial)
        study.add_trial(
            optuna.create_trial(
                state=StudyState.FAIL if ended is StudyState.COMPLETE and metric is None else ended,
                params=parameters,
                distributions=distributions(app.space, parameters),
                value=metric if ended is StudyState.COMPLETE else None,
                intermediate_values={int(step): value for step, value in curves.get(trial.id, ())},
                user_attrs={NAME: trial.id, "bracket": trial.bracket, "rung": trial.rung},
            )
        )
    return study


def _same(written: TrialState | None, trial: TrialState) -> bool:
    """Whether nothing has changed that the study shows."""
    return written is not None and all(
        getattr(written, name) == getattr(trial, name) for name in ("fate", "bracket", "rung", "error", "attempt")
    )
