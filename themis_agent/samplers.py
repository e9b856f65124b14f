"""Optuna's samplers by name, with their options: those that need nothing but a seed and the trials that have ended."""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import optuna

from yarn_plugin.errors import describe
from yarn_plugin.spelling import near

_SAMPLERS: Mapping[str, Callable[..., optuna.samplers.BaseSampler]] = {
    "random": optuna.samplers.RandomSampler,
    "tpe": optuna.samplers.TPESampler,
    "gp": optuna.samplers.GPSampler,
    "qmc": optuna.samplers.QMCSampler,
}
_OURS = {"seed", "constraints_func", "gamma", "weights", "categorical_distance_func", "independent_sampler"}
"""Options that are not for a file: the seed is that of the search, and functions cannot be written down."""


def make(name: str, options: Mapping[str, Any], seed: int) -> optuna.samplers.BaseSampler:
    """A sampler. Raises whatever Optuna does for wrong options."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return _SAMPLERS[name](seed=seed, **_quiet(name), **options)


def problems(name: str, options: Mapping[str, Any]) -> Iterator[str]:
    """Why a sampler cannot be used with these options."""
    if name not in _SAMPLERS:
        return
    known = [one for one in inspect.signature(_SAMPLERS[name]).parameters if one not in _OURS]
    unknown = [one for one in options if one not in known]
    for one in unknown:
        yield f"sampler_options.{one}: unknown key{near(one, known) or f'; {name} has {chr(44).join(known)}'}"
    if unknown:
        return
    try:
        make(name, options, 0)
    except ImportError as problem:
        yield f"sampler {name!r}: needs {problem.name or 'a package'}, which is not installed"
    except Exception as problem:  # noqa: BLE001 - whatever Optuna raises for a value
        yield f"sampler_options: {describe(problem).partition(': ')[2]}"


def _quiet(name: str) -> dict[str, Any]:
    # What Optuna would warn of concerns studies of its own.
    return {"warn_independent_sampling": False, "warn_asynchronous_seeding": False} if name == "qmc" else {}
