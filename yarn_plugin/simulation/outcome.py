"""The outcome of a simulation: every application, the cluster over time, and the figures of both."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from statistics import fmean
from typing import Any


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of one application, in seconds. `started_at`: when it had its master; None where it never had.

    `alone_s`: what it would take alone on the whole cluster. `figures`: what it said of itself.
    """

    name: str
    group: str
    user: str
    weight: float
    arrived_at: float
    started_at: float | None
    finished_at: float | None
    alone_s: float
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def completion_s(self) -> float | None:
        """From its arrival to its end (JCT); None where it has not ended."""
        return None if self.finished_at is None else self.finished_at - self.arrived_at

    @property
    def slowdown(self) -> float | None:
        """Its completion time, relative to what it would take alone."""
        return None if self.completion_s is None else self.completion_s / max(self.alone_s, 1e-9)


@dataclass(frozen=True, slots=True)
class Usage:
    """What part of the cluster (of its scarcest resource) each group of applications uses from a time on."""

    at: float
    parts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A simulation at its end. `inputs`: what the arbiter took in; `usage`: in the order of `groups`."""

    endings: tuple[Ending, ...]
    groups: tuple[str, ...]
    usage: tuple[Usage, ...]
    inputs: int
    shares_told: int
    weights_written: int
    containers_signalled: int
    ended_at: float

    @property
    def finished(self) -> tuple[Ending, ...]:
        """The applications that ended."""
        return tuple(one for one in self.endings if one.finished_at is not None)

    def of(self, group: str) -> tuple[Ending, ...]:
        """The applications of a group that ended."""
        return tuple(one for one in self.finished if one.group == group)

    def utilisation(self) -> float:
        """The mean part of the cluster that was in use, from the first to the last moment."""
        last = Usage(max(self.ended_at, self.usage[-1].at), ()) if self.usage else None
        spans = list(zip(self.usage, [*self.usage[1:], last], strict=True)) if last is not None else []
        seconds = sum(after.at - one.at for one, after in spans)
        return sum(sum(one.parts) * (after.at - one.at) for one, after in spans) / seconds if seconds else 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of some applications that ended. `jain_slowdown`: Jain's index of their slowdowns (1: all the same)."""

    apps: int
    mean_s: float
    p50_s: float
    p95_s: float
    mean_slowdown: float
    p95_slowdown: float
    jain_slowdown: float


def summary(endings: Sequence[Ending]) -> Summary | None:
    """The figures of some applications; None where none of them has ended."""
    times = [one.completion_s for one in endings if one.completion_s is not None]
    slow = [one.slowdown for one in endings if one.slowdown is not None]
    if not times:
        return None
    return Summary(len(times), fmean(times), quantile(times, 0.5), quantile(times, 0.95), fmean(slow),
                   quantile(slow, 0.95), jain(slow))  # fmt: skip


def jain(values: Iterable[float]) -> float:
    """Jain's index of fairness, (sum x)^2 / (n sum x^2): 1 where all are the same, 1/n where one has all.

    Jain, Chiu and Hawe, DEC-TR-301 (1984).
    """
    known = list(values)
    squares = sum(value * value for value in known)
    return sum(known) ** 2 / (len(known) * squares) if squares else 1.0


def quantile(values: Iterable[float], part: float) -> float:
    """The smallest of the values that at least this part of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(ceil(part * len(ordered)) - 1, 0)]


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
