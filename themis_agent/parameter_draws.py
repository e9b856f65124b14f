"""Draws the parameters of trials, with Optuna's samplers.

The parameters of a trial depend on the seed and its number, and with the samplers `tpe` and `gp` on the trials that
have ended: so a restarted agent draws the same again.
"""

import json
import random
import warnings
from collections.abc import Iterable, Mapping, Sequence

import optuna

from themis_agent import samplers
from themis_agent.agent.commands import SampleTrial
from themis_agent.agent.events import Sampled
from themis_agent.agent.state import State
from themis_agent.app_file import AppFile
from themis_agent.dimensions import (
    AnyDimension,
    CategoricalDimension,
    FloatDimension,
    IntDimension,
    Parameters,
    Value,
    combinations,
    in_order,
)
from themis_agent.warm_start import Earlier, best_of

optuna.logging.set_verbosity(optuna.logging.ERROR)

Distributions = dict[str, optuna.distributions.BaseDistribution]


def parameters_of(app: AppFile, number: int, state: State, earlier: Sequence[Earlier] = ()) -> Parameters:
    """The parameters of the trial with this number, from 0. `earlier`: the trials of its warm start."""
    enqueued = [*app.enqueue, *(one.parameters for one in best_of(app, earlier))]
    if app.sampler == "grid" and number >= len(app.enqueue):
        found = combinations(app.space)
        return found[(number - len(app.enqueue)) % len(found)]
    # Without what ended, a quasi-random sequence goes on from what was drawn before.
    replays = app.sampler == "qmc"
    seed = app.seed if replays else (app.seed * 1_000_003 + number) % 2**32
    study = optuna.create_study(
        direction=app.direction, sampler=samplers.make(app.sampler, app.sampler_options, seed % 2**32)
    )
    if app.sampler not in ("random", "qmc"):
        study.add_trials([_trial(app, one.parameters, one.metric) for one in earlier])
        study.add_trials(
            [
                _trial(app, json.loads(one.parameters or "{}"), state.metric(one))
                for one in state.trials.values()
                if one.fate in ("complete", "pruned")
            ]
        )
    if number < len(enqueued):
        study.enqueue_trial(enqueued[number])
    for _ in range(number - len(enqueued) if replays else 0):
        trial = study.ask()
        suggest(trial, app.space)
        study.tell(trial, 0.0)
    return suggest(study.ask(), app.space)


def perturbed(app: AppFile, number: int, parent: Parameters) -> Parameters:
    """The parameters of the trial with this number, made from those of another one: numbers are perturbed, and each
    parameter may be drawn anew (Jaderberg et al., "Population Based Training of Neural Networks", 2017, section 4.1).
    """
    seed = (app.seed * 1_000_003 + number) % 2**32
    draws, kept = random.Random(seed), Parameters()
    for name, value in parent.items():
        if draws.random() >= app.variants.resample:
            kept[name] = _scaled(app.space[name], value, app.variants.perturbation ** draws.choice((-1, 1)))
    study = optuna.create_study(sampler=samplers.make("random", {}, seed))
    study.enqueue_trial(kept)
    return suggest(study.ask(), app.space)


def _scaled(dimension: AnyDimension, value: Value, factor: float) -> Value:
    """A number times a factor, within its range; an integer moves by one at least."""
    match dimension:
        case FloatDimension():
            return min(max(float(value) * factor, dimension.low), dimension.high)
        case IntDimension():
            scaled = round(float(value) * factor)
            if scaled == value:
                scaled += 1 if factor > 1 else -1
            return min(max(scaled, dimension.low), dimension.high)
        case CategoricalDimension():
            return value


def draw(app: AppFile, command: SampleTrial, state: State, earlier: Sequence[Earlier] = ()) -> Sampled:
    """Carry out a command: draw the parameters of its trial."""
    if command.parent:
        parent = json.loads(state.trials[command.parent].parameters or "{}")
        return Sampled(command.trial, json.dumps(perturbed(app, command.number, parent)))
    return Sampled(command.trial, json.dumps(parameters_of(app, command.number, state, earlier)))


def suggest(trial: optuna.Trial, space: Mapping[str, AnyDimension]) -> Parameters:
    """A value for each parameter of a space whose condition holds."""
    drawn: Parameters = {}
    for name in in_order(space):
        dimension = space[name]
        if any(other not in drawn or drawn[other] != value for other, value in dimension.when.items()):
            continue
        match dimension:
            case FloatDimension():
                drawn[name] = trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log)
            case IntDimension():
                drawn[name] = trial.suggest_int(name, dimension.low, dimension.high, log=dimension.log)
            case CategoricalDimension():
                drawn[name] = trial.suggest_categorical(name, dimension.choices)  # type: ignore[assignment]
    return drawn


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


def _trial(app: AppFile, parameters: Parameters, metric: float | None) -> optuna.trial.FrozenTrial:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.create_trial(params=parameters, distributions=distributions(app.space, parameters), value=metric)
