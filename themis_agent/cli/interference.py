"""`themis-agent interference`: measure, predict and show how much kinds of training slow each other down on a GPU."""

import math
import os
from collections.abc import Iterable, Mapping
from itertools import combinations_with_replacement
from pathlib import Path

import click

from themis_agent.interference.kinds import Kind, read_kinds
from themis_agent.interference.measuring import Device, EndedError, Times, steps_per_s
from yarn_plugin import console
from yarn_plugin.errors import BadInputError
from yarn_plugin.sharing import Interference, Pair, Profile
from yarn_plugin.sharing.file import read_interference, write_interference
from yarn_plugin.sharing.prediction import is_installed, over_splits, with_predictions

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_LIMIT = click.option(
    "--max-slowdown",
    type=console.Number(0, 100),
    default=0.2,
    show_default=True,
    help="Limit of slowdowns, as in the pool's settings.",
)

ALONE = "log_steps_per_s"
"""The number of a kind that is measured."""


@click.group(context_settings=console.CONTEXT)
def interference() -> None:
    """Find out how much kinds of training slow each other down on one GPU, for pools that share GPUs.

    \b
    Measure:      themis-agent interference measure kinds.toml --out pairs.json
    How it looks: themis-agent interference show pairs.json
    Predict:      themis-agent interference fit pairs.json --out predicted.json

    docs/sharing.md describes the files.
    """


@interference.command(context_settings=console.CONTEXT)
@click.argument("kinds_file", type=_FILE, metavar="KINDS.toml")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("pairs.json"), show_default=True,
              help="File of the pairs. What it has already is not measured again.")  # fmt: skip
@click.option("--gpu", type=click.IntRange(0, 4096), default=0, show_default=True, help="Number of the GPU.")
@click.option("--core", type=click.IntRange(0, 4096), help="Pin to this core instead, where there is no GPU.")
@click.option("--seconds", type=console.Number(0.5, 3600), default=15.0, show_default=True,
              help="Length of each measurement.")  # fmt: skip
@click.option("--warm-up", type=console.Number(0, 3600), default=5.0, show_default=True,
              help="Seconds before it in which all run.")  # fmt: skip
def measure(kinds_file: Path, out: Path, gpu: int, core: int | None, seconds: float, warm_up: float) -> None:
    """Run each kind of training alone, then each pair side by side, and write their slowdowns.

    A pair of which one fails, such as for lack of memory, is left out: such kinds may not share a GPU. If it is
    interrupted, run it again: it continues where it stopped.
    """
    kinds = read_kinds(kinds_file)
    if core is not None and core not in os.sched_getaffinity(0):
        usable = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        raise BadInputError("--core", core, f"must be one of the cores that this process may use: {usable}")
    known = read_interference(f"{str(out)!r}", out) if out.exists() else Interference()
    device, times, directory = Device(gpu, core), Times(warm_s=warm_up, measure_s=seconds), kinds_file.absolute().parent
    for kind in kinds:
        if ALONE not in known.kinds.get(kind.name, Profile()).numbers:
            (alone,) = steps_per_s([kind], device, times, directory)
            known = _with_alone(known, kind, alone)
            write_interference(out, known)
        console.out.print(f"{kind.name} alone: {_alone(known, kind.name):.3g} steps/s")
    there = known.slowdowns()
    for a, b in combinations_with_replacement(kinds, 2):
        if (a.name, b.name) in there and (b.name, a.name) in there:
            continue
        try:
            speeds = steps_per_s([a, b], device, times, directory)
        except EndedError as problem:
            console.out.print(f"{a.name} beside {b.name}: may not share: {problem}")
            continue
        known = _with_pair(known, (a.name, b.name), speeds)
        write_interference(out, known)
        slowdowns = known.slowdowns()
        console.out.print(
            f"{a.name} beside {b.name}: {slowdowns[a.name, b.name]:.0%}, {slowdowns[b.name, a.name]:.0%} slower"
        )
    console.out.print(f"pairs: {out}")


def _with_alone(known: Interference, kind: Kind, steps_per_s: float) -> Interference:
    numbers = {**kind.numbers, ALONE: math.log(steps_per_s)}
    return Interference({**known.kinds, kind.name: Profile(numbers, kind.family)}, known.pairs)


def _alone(known: Interference, name: str) -> float:
    return math.exp(known.kinds[name].numbers[ALONE])


def _with_pair(known: Interference, names: tuple[str, str], speeds: Iterable[float]) -> Interference:
    """With the slowdowns of both. Of a kind beside itself it is the mean of the two."""
    slower = [max(_alone(known, name) / speed - 1, 0.0) for name, speed in zip(names, speeds, strict=True)]
    a, b = names
    measured = {(a, a): sum(slower) / 2} if a == b else {(a, b): slower[0], (b, a): slower[1]}
    kept = tuple(pair for pair in known.pairs if (pair.kind, pair.beside) not in measured)
    return Interference(known.kinds, (*kept, *(Pair(*both, value) for both, value in measured.items())))


@interference.command(context_settings=console.CONTEXT)
@click.argument("pairs_file", type=_FILE, metavar="PAIRS.json")
@_LIMIT
def show(pairs_file: Path, max_slowdown: float) -> None:
    """Print the slowdown of each kind (row) beside each other (column), and which pairs may share a GPU."""
    known = read_interference(f"{str(pairs_file)!r}", pairs_file)
    slowdowns, names = known.slowdowns(), sorted(known.kinds)
    rows = [(name, *(_shown(slowdowns, name, other) for other in names)) for name in names]
    console.out.print(console.table("slowdown, in percent", ("kind", *(f"#beside {name}" for name in names)), rows))
    pairs = list(combinations_with_replacement(names, 2))
    worst = [max(slowdowns.get(both, math.inf), slowdowns.get(both[::-1], math.inf)) for both in pairs]
    may = sum(slowdown <= max_slowdown for slowdown in worst)
    console.out.print(f"{may} of {len(pairs)} pairs slow each other down by at most {max_slowdown:.0%}")


def _shown(slowdowns: Mapping[tuple[str, str], float], kind: str, beside: str) -> str:
    return f"{slowdowns[kind, beside]:.0%}" if (kind, beside) in slowdowns else "-"


@interference.command(context_settings=console.CONTEXT)
@click.argument("pairs_file", type=_FILE, metavar="PAIRS.json")
@_LIMIT
@click.option("--splits", type=click.IntRange(1, 1000), default=20, show_default=True, help="Number of random splits.")
@click.option("--confidence", type=console.Number(0.5, 0.99), default=0.95, show_default=True,
              help="Fraction of the predicted pairs that is to be within the limit.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Also write the pairs with those that are predicted to share well.")  # fmt: skip
def fit(pairs_file: Path, max_slowdown: float, splits: int, confidence: float, out: Path | None) -> None:
    """Predict slowdowns of pairs from profiles, and print how well that works on pairs that were left out.

    For each confidence: how many of the pairs within the limit were admitted, and how many of the admitted exceed it.
    """
    if not is_installed():
        raise BadInputError("scikit-learn", "missing", "must be installed, as pip install 'yarn-plugin[sharing]' does")
    known = read_interference(f"{str(pairs_file)!r}", pairs_file)
    try:
        found = over_splits(known, max_slowdown, splits)
        enlarged = with_predictions(known, max_slowdown, confidence) if out is not None else known
    except ValueError as problem:
        raise BadInputError("PAIRS.json", str(pairs_file), f"must have more pairs of kinds: {problem}") from None
    rows = [
        (f"{level:.0%}", one.admitted, one.violating, f"{one.violating_fraction:.1%}", f"{one.found_fraction:.1%}")
        for level, one in found.admissions.items()
    ]
    columns = ("confidence", "#admitted", "#violating", "#violating, of the admitted", "#admitted, of the admissible")
    console.out.print(console.table(f"{splits} splits, slowdown at most {max_slowdown:g}", columns, rows))
    errors = [
        (name, f"{found.seen[name]:.1%}", f"{found.median[name]:.1%}", f"{found.unseen[name]:.1%}", found.chosen[name])
        for name in found.seen
    ]
    titles = ("regression", "#mean error", "#median", "#of kinds without pairs", "#chosen")
    console.out.print(console.table("error of the time of a step", titles, errors))
    if out is not None:
        write_interference(out, enlarged)
        console.out.print(f"{len(enlarged.pairs) - len(known.pairs)} slowdowns are predicted; pairs: {out}")
