"""Does lying pay over many rounds? The liar of Themis, thesis section 3.6.3, simulated with and without payments.

Eight equal applications whose job can use eight GPUs share 64 GPUs: one machine of eight, which all prefer, and 28 of
two. One application exaggerates its slowdown across machines by X. Of each X and seed, its completion time is compared
with that if it tells the truth under the same seed.

The proof that truth is best (theorem 3.2) assumes that V = 1 / rho is proportional to the GPUs. Two things are not so
here, and are taken away in turn: rho contains the time that has passed (equation 3.1), and winners keep whole GPUs,
rounded up.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from themis_agent import simulated
from yarn_plugin.decide.mechanisms.partial_allocation.problem import Rounding
from yarn_plugin.drive.training_runs import TrainingRun, simulate
from yarn_plugin.model.gpus import Machine, Slot, Slowdown
from yarn_plugin.simulation.result import Result
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob, TrainingWorkload
from yarn_plugin.simulation.training.cluster import TrainingCluster

SEEDS = 20
LIES = (0.3, 0.6, 1.0)
APPS = 8
SLOWDOWN = Slowdown(slot=1.0, machine=1.5, rack=1.5)
ALONE_S = 1800.0
"""How long an application takes alone, on the machine of eight GPUs."""
T_95 = 1.729
"""Student's t with 19 degrees of freedom, one-sided, 95%."""


@dataclass(frozen=True)
class Variant:
    """How rounds are held. `elapsed`: rho contains the time that has passed. `f`: 0 has everyone bid in every round."""

    name: str
    lies: Sequence[float] = LIES[-1:]
    payments: bool = True
    rounding: Rounding = "up"
    elapsed: bool = True
    f: float = 0.8


VARIANTS = (
    Variant("payments", lies=LIES),
    Variant("no_payments", lies=LIES, payments=False),
    Variant("nearest", rounding="nearest"),
    Variant("no_elapsed", elapsed=False),
    Variant("no_elapsed_nearest", elapsed=False, rounding="nearest"),
    Variant("all_bid", f=0.0),
    Variant("all_bid_no_payments", f=0.0, payments=False),
    Variant("all_bid_no_elapsed", f=0.0, elapsed=False),
    Variant("all_bid_no_elapsed_nearest", f=0.0, elapsed=False, rounding="nearest"),
)


def measure() -> dict[str, Any]:
    """Per variant and X: by what part the liar ends earlier than if it told the truth: the mean over seeds, and at
    least how much and at most (each one-sided, 95%); and by what part the others end earlier, on average."""
    results: dict[str, Any] = {"seeds": SEEDS}
    for variant in VARIANTS:
        with _elapsed(variant.elapsed):
            truth, *lied = (
                [_completion_s(simulate(_run(seed, lie, variant))) for seed in range(SEEDS)]
                for lie in (0.0, *variant.lies)
            )
        for lie, ended in zip(variant.lies, lied, strict=True):
            gains = [1 - mine / honest for (mine, _), (honest, _) in zip(ended, truth, strict=True)]
            others = [1 - theirs / honest for (_, theirs), (_, honest) in zip(ended, truth, strict=True)]
            mean = statistics.fmean(gains)
            margin = T_95 * statistics.stdev(gains) / math.sqrt(SEEDS)
            name = f"{variant.name}_x{round(100 * lie)}"
            results[f"{name}_gain"] = f"{mean:+.3f} in [{mean - margin:+.3f}, {mean + margin:+.3f}]"
            results[f"{name}_gain_of_others"] = statistics.fmean(others)
    return results


@contextmanager
def _elapsed(counts: bool) -> Iterator[None]:
    """Have applications bid as if they had just arrived, unless the time that has passed counts."""
    if counts:
        yield
        return
    bid_table, estimate = simulated.bid_table, simulated.estimate
    with (
        patch.object(simulated, "bid_table", lambda work, offer, _, *more: bid_table(work, offer, 0.0, *more)),
        patch.object(simulated, "estimate", lambda work, asked, _, *more: estimate(work, asked, 0.0, *more)),
    ):
        yield


def _run(seed: int, lie: float, variant: Variant) -> TrainingRun:
    machines = [Machine("large", "r", (Slot("large/0", 8),))]
    machines += [Machine(f"m{number:02}", "r", (Slot(f"m{number:02}/0", 2),)) for number in range(28)]
    job = TrainingJob("job", ALONE_S, 8.0, max_gpus=8, slowdown=SLOWDOWN)
    apps = tuple(TrainingApp(f"app-{number}", 0.0, (job,)) for number in range(APPS))
    liars = ("app-0",) if lie else ()
    cluster = TrainingCluster(tuple(machines))
    return TrainingRun(
        "themis", seed, TrainingWorkload(apps), cluster, variant.f, payments=variant.payments,
        rounding=variant.rounding, lie=lie, liars=liars,
    )  # fmt: skip


def _completion_s(result: Result) -> tuple[float, float]:
    """Of the liar, and of the others on average; all arrive at 0."""
    ended = {job.group: job.ended_at for job in result.outcome.jobs}
    assert all(at is not None for at in ended.values())
    others = [float(at or 0) for app, at in ended.items() if app != "app-0"]
    return float(ended["app-0"] or 0), statistics.fmean(others)
