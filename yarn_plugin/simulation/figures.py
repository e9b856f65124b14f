"""The figures of a simulation: as a table's rows, as lines, as JSON."""

from collections.abc import Iterator
from dataclasses import asdict
from statistics import fmean
from typing import Any

from yarn_plugin.simulation.outcome import Ending, Outcome, Summary, summary

ALL = "all"


def own_figures(endings: tuple[Ending, ...]) -> dict[str, float]:
    """The means of what applications say of themselves, by name."""
    names = dict.fromkeys(name for one in endings for name in one.figures)
    return {name: fmean(one.figures[name] for one in endings if name in one.figures) for name in names}


def summaries(outcome: Outcome) -> Iterator[tuple[str, Summary | None, tuple[Ending, ...]]]:
    """Each group and then all applications, with their figures; None where none of them has ended."""
    for group in outcome.groups:
        yield group, summary(outcome.of(group)), outcome.of(group)
    if len(outcome.groups) > 1:
        yield ALL, summary(outcome.finished), outcome.finished


def columns(outcome: Outcome) -> tuple[str, ...]:
    """The names of the table's columns."""
    own = own_figures(outcome.finished)
    return ("applications", "#ended", "#mean s", "#p50 s", "#p95 s", "#mean slowdown", "#p95 slowdown", "#fairness",
            *(f"#{name.replace('_', ' ')}" for name in own))  # fmt: skip


def rows(outcome: Outcome) -> list[tuple[object, ...]]:
    """The table's rows: a line a group, and one for all."""
    own = list(own_figures(outcome.finished))
    made: list[tuple[object, ...]] = []
    for group, found, endings in summaries(outcome):
        if found is None:
            made.append((group, 0, *("-" for _ in range(6 + len(own)))))
            continue
        means = own_figures(endings)
        times = (f"{value:.1f}" for value in (found.mean_s, found.p50_s, found.p95_s))
        rest = (f"{value:.2f}" for value in (found.mean_slowdown, found.p95_slowdown, found.jain_slowdown))
        made.append(
            (group, found.apps, *times, *rest, *(f"{means[name]:.2f}" if name in means else "" for name in own))
        )
    return made


def totals(outcome: Outcome, wall_s: float) -> list[str]:
    """What is said of the whole, a line each."""
    lines = [
        f"{outcome.ended_at:.0f} s simulated in {wall_s:.1f} s; the cluster was {outcome.utilisation():.1%} used",
        f"the arbiter decided on {outcome.inputs} inputs: {outcome.shares_told} shares told, "
        f"{outcome.weights_written} writes of queue weights, {outcome.containers_signalled} containers signalled",
    ]
    if left := len(outcome.endings) - len(outcome.finished):
        lines.append(f"{left} applications did not end: what they wait for never becomes free")
    return lines


def figures(outcome: Outcome, wall_s: float, policy: str | None, seed: int) -> dict[str, Any]:
    """All figures, for `--json`. `wall_s` alone differs from run to run."""
    return {
        "policy": policy,
        "seed": seed,
        "wall_s": wall_s,
        "simulated_s": outcome.ended_at,
        "utilisation": outcome.utilisation(),
        "inputs": outcome.inputs,
        "shares_told": outcome.shares_told,
        "weights_written": outcome.weights_written,
        "containers_signalled": outcome.containers_signalled,
        "groups": {
            group: {**(asdict(found) if found is not None else {"apps": 0}), "figures": own_figures(endings)}
            for group, found, endings in summaries(outcome)
        },
        "applications": [
            {**asdict(one), "completion_s": one.completion_s, "slowdown": one.slowdown} for one in outcome.endings
        ],
    }
