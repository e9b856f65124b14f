"""Draws the parameters of trials, with Optuna's samplers.

The parameters of a trial depend on the seed and its number, and with the sampler `tpe` on the trials that have ended:
so a restarted agent draws the same again.
"""

import json
import warnings
from collections.abc import Iterable, Mapping

import optuna

from themis_agent.agent.commands import SampleTrial
from themis_agent.agent.events import Sampled
from themis_agent.agent.state import State, TrialState
from themis_agent.app_file import AnyDimension, AppFile, CategoricalDimension, FloatDimension, IntDimension, Parameters

optuna.logging.set_verbosity(optuna.logging.ERROR)

Distributions = dict[str, optuna.distributions.BaseDistribution]


def sample(app: AppFile, number: int, state: State) -> Parameters:
    """The parameters of the trial with this number, from 0."""
    seed = (app.seed * 1_000_003 + number) % 2**32
    study = optuna.create_study(direction=app.direction, sampler=_sampler(app, seed))
    if app.sampler == "tpe":
        study.add_trials(
            [_ended(app, state, one) for one in state.trials.values() if one.fate in ("complete", "pruned")]
        )
    if number < len(app.enqueue):
        study.enqueue_trial(app.enqueue[number])
    return suggested(study.ask(), app.space)


def sampled(app: AppFile, command: SampleTrial, state: State) -> Sampled:
    """What came of the command: the parameters of its trial."""
    return Sampled(command.trial, json.dumps(sample(app, command.number, state)))


def _sampler(app: AppFile, seed: int) -> optuna.samplers.BaseSampler:
    if app.sampler == "random":
        return optuna.samplers.RandomSampler(seed)
    return optuna.samplers.TPESampler(seed=seed, constant_liar=False)


def suggested(trial: optuna.Trial, space: Mapping[str, AnyDimension]) -> Parameters:
    """A value for each parameter of a space whose condition holds."""
    found: Parameters = {}
    for name in in_order(space):
        dimension = space[name]
        if any(other not in found or found[other] != value for other, value in dimension.when.items()):
            continue
        match dimension:
            case FloatDimension():
                found[name] = trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log)
            case IntDimension():
                found[name] = trial.suggest_int(name, dimension.low, dimension.high, log=dimension.log)
            case CategoricalDimension():
                found[name] = trial.suggest_categorical(name, dimension.choices)  # type: ignore[assignment]
    return found


def in_order(space: Mapping[str, AnyDimension]) -> list[str]:
    """The parameters of a space, each after those that its condition looks at."""
    ordered: list[str] = []

    def add(names: Iterable[str]) -> None:
        for name in names:
            if name not in ordered:
                add(space[name].when)
                ordered.append(name)

    add(space)
    return ordered


def distributions(space: Mapping[str, AnyDimension], parameters: Iterable[str]) -> Distributions:
    """The distributions of these parameters, as Optuna stores them."""
    return {name: _distribution(space[name]) for name in parameters}


def _distribution(dimension: AnyDimension) -> optuna.distributions.BaseDistribution:
    match dimension:
        case FloatDimension():
            return optuna.distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)
        case IntDimension():
            return optuna.distributions.IntDistribution(dimension.low, dimension.high, log=dimension.log)
        case CategoricalDimension():
            return optuna.distributions.CategoricalDistribution(dimension.choices)


def _ended(app: AppFile, state: State, trial: TrialState) -> optuna.trial.FrozenTrial:
    parameters: Parameters = json.loads(trial.parameters or "{}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.create_trial(
            params=parameters, distributions=distributions(app.space, parameters), value=state.metric(trial)
        )
