"""What is wrong between the fields of the file that describes a search, also where single ones are invalid."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from themis_agent import command_words
from themis_agent.agent.settings import Constraint
from themis_agent.dimensions import MAX_TRIALS, is_in, range_of
from themis_agent.search import bracket_sizes
from yarn_plugin.quantities import count


def conflicts(given: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong between fields, also of a file whose single fields are not all valid."""
    space = given.get("space")
    dimensions = {name: one for name, one in space.items() if isinstance(one, dict)} if isinstance(space, dict) else {}
    yield from _number_of_trials(given)
    yield from _sharing(given)
    yield from _patterns(given)
    yield from _constraints(given)
    yield from _sampler(given, dimensions)
    yield from _command("command", given.get("command"), dimensions)
    yield from _sides(given, dimensions)
    for name, dimension in dimensions.items():
        yield from _condition(name, dimension, dimensions)
    enqueued = given.get("enqueue")
    enqueued = enqueued if isinstance(enqueued, list | tuple) else ()
    yield from _number_of_enqueued(given, len(enqueued))
    for number, one in enumerate(enqueued, 1):
        if isinstance(one, dict):
            yield from _enqueued(f"enqueue #{number}", one, dimensions)


def _trials_of_hyperband(given: Mapping[str, Any]) -> int | None:
    """How many trials Hyperband needs; None if that cannot be known."""
    steps, eta = given.get("max_steps"), given.get("eta", 3)
    if isinstance(steps, int) and isinstance(eta, int) and steps >= 1 and eta >= 2:
        return sum(size.trials for size in bracket_sizes(steps, eta))
    return None


def _number_of_trials(given: Mapping[str, Any]) -> Iterator[str]:
    algorithm, trials = given.get("algorithm", "hyperband"), given.get("trials")
    if algorithm == "hyperband":
        steps, eta, needed = given.get("max_steps"), given.get("eta", 3), _trials_of_hyperband(given)
        if needed is not None and needed > MAX_TRIALS:
            yield f"max_steps {steps}: Hyperband with eta {eta} needs {needed} trials; must be at most {MAX_TRIALS}"
        elif needed is not None and trials is not None and trials != needed:
            yield f"trials {trials!r}: Hyperband with max_steps {steps} and eta {eta} has {needed}; leave it out"
    elif (
        trials is None
        and given.get("sampler") != "grid"
        and algorithm in ("successive_halving", "asha", "curve_stopping", "population", "plain")
    ):
        yield f"trials: required by the algorithm {algorithm}"
    elif algorithm == "population" and isinstance(trials, int) and trials < 2:
        yield f"trials {trials}: must be at least 2: the algorithm population replaces one by another"
    if algorithm != "population" and given.get("population") is not None:
        yield f"population: only with the algorithm population, not with {algorithm}"


def _sharing(given: Mapping[str, Any]) -> Iterator[str]:
    if given.get("sharing") is None:
        return
    gpus = given.get("gpus_per_trial")
    most = gpus.get("max", 1) if isinstance(gpus, dict) else 1
    if most != 1:
        yield f"gpus_per_trial.max {most!r}: must be 1 with [sharing]: a trial has a part of one GPU"
    if given.get("jobs"):
        yield "jobs: must be left out with [sharing], which declares a job for each trial"
    if given.get("gpu") is not None or given.get("cpu") is not None:
        yield "sharing: must be left out with [gpu] and [cpu]: a trial has a whole GPU, or a slot"


def _number_of_enqueued(given: Mapping[str, Any], enqueued: int) -> Iterator[str]:
    is_hyperband = given.get("algorithm", "hyperband") == "hyperband"
    trials = _trials_of_hyperband(given) if is_hyperband else given.get("trials")
    if isinstance(trials, int) and enqueued > trials:
        advice = "leave some out" if is_hyperband else "raise trials, or leave some out"
        yield f"enqueue: {count(enqueued, 'trial')}, but the search has {trials}; {advice}"


def _patterns(given: Mapping[str, Any]) -> Iterator[str]:
    pattern = given.get("loss_pattern")
    if isinstance(pattern, str):
        try:
            groups = re.compile(pattern).groupindex
        except re.error as problem:
            yield f"loss_pattern {pattern!r}: not a regular expression: {problem}"
            return
        if "loss" not in groups:
            yield f"loss_pattern {pattern!r}: needs a group named loss, such as loss=(?P<loss>[0-9.]+)"


_CONSTRAINT = re.compile(r"\s*(?P<metric>.+?)\s*(?P<kind><=|>=)\s*(?P<limit>\S+)\s*")


def constraint(text: str) -> Constraint:
    """A constraint such as "latency_ms <= 20".

    Raises:
        ValueError: it is none.
    """
    found = _CONSTRAINT.fullmatch(text)
    try:
        limit = float(found["limit"]) if found is not None else math.nan
    except ValueError:
        limit = math.nan
    if found is None or not math.isfinite(limit):
        raise ValueError("must be a metric, <= or >=, and a number, such as 'latency_ms <= 20'")
    return Constraint(found["metric"], limit, found["kind"] == "<=")


def _constraints(given: Mapping[str, Any]) -> Iterator[str]:
    texts, metrics = given.get("constraints"), given.get("metrics")
    known = list(metrics) if isinstance(metrics, list | tuple) else []
    for text in texts if isinstance(texts, list | tuple) else ():
        try:
            name = constraint(str(text)).metric
        except ValueError as problem:
            yield f"constraints {text!r}: {problem}"
            continue
        if name not in known:
            yield f"constraints {text!r}: {name} is not in metrics; it has {', '.join(known) or 'nothing'}"
    if texts and given.get("algorithm") == "curve_stopping":
        yield "constraints: not with curve_stopping, which goes by the curve of the metric alone"


def _sampler(given: Mapping[str, Any], space: Mapping[str, Any]) -> Iterator[str]:
    name, options = given.get("sampler", "random"), given.get("sampler_options")
    if name == "grid":
        for parameter, one in space.items():
            if one.get("type") == "float":
                yield f"space.{parameter}: the sampler grid needs choices, or an int; a float has too many values"
    elif isinstance(name, str) and (name != "random" or options):
        # Optuna takes most of a second to import.
        from themis_agent.samplers import problems

        yield from problems(name, options if isinstance(options, dict) else {})


def _sides(given: Mapping[str, Any], space: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with [gpu] and [cpu] beside each other and the rest."""
    sides = {name: given[name] for name in ("gpu", "cpu") if given.get(name) is not None}
    for name, side in sides.items():
        if isinstance(side, Mapping):
            yield from _command(f"{name}.command", side.get("command"), space)
    if len(sides) == 1:
        (name,) = sides
        other = "cpu" if name == "gpu" else "gpu"
        yield f"{other}: required beside [{name}]; a search that runs on one side alone has neither"
    if not sides:
        return
    gpus = given.get("gpus_per_trial")
    if isinstance(gpus, Mapping) and gpus.get("max", 1) != 1:
        yield f"gpus_per_trial.max {gpus['max']!r}: must be 1 with [gpu] and [cpu]: a trial has one GPU, or a slot"
    if given.get("jobs"):
        yield "jobs: must be left out with [gpu] and [cpu]: each trial is declared as a job"


def _command(field: str, command: object, space: Mapping[str, Any]) -> Iterator[str]:
    is_valid = isinstance(command, str) or (isinstance(command, list) and all(isinstance(one, str) for one in command))
    for problem in command_words.problems(command, space) if is_valid else ():  # type: ignore[arg-type]
        yield f"{field} {command!r}: {problem}"


def _condition(name: str, dimension: Mapping[str, Any], space: Mapping[str, Any]) -> Iterator[str]:
    conditions = dimension.get("when")
    for other, value in conditions.items() if isinstance(conditions, dict) else ():
        if other not in space:
            yield f"space.{name}.when {other!r}: not in [space]"
        elif not is_in(value, space[other]):
            yield f"space.{name}.when.{other} {value!r}: {range_of(space[other])}"
    if name in _needed_by(name, space):
        yield f"space.{name}.when {conditions!r}: depends on itself"


def _needed_by(name: str, space: Mapping[str, Any]) -> set[str]:
    """The parameters that a condition looks at, directly or through theirs."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        conditions = space.get(waiting.pop(), {}).get("when")
        new = [other for other in conditions if other not in found] if isinstance(conditions, dict) else []
        found.update(new)
        waiting += new
    return found


def _enqueued(where: str, parameters: Mapping[str, Any], space: Mapping[str, Any]) -> Iterator[str]:
    for name, value in parameters.items():
        if name not in space:
            yield f"{where}.{name} {value!r}: not in [space]"
        elif not is_in(value, space[name]):
            yield f"{where}.{name} {value!r}: {range_of(space[name])}"
