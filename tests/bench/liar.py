"""Does lying pay over many rounds? The liar of Themis, thesis section 3.6.3, simulated with and without payments.

Eight equal applications whose job can use eight GPUs share 64 GPUs: one machine of eight, which all prefer, and 28 of
two. One application exaggerates its slowdown across machines by X. Of each X and seed, its completion time is compared
with that if it tells the truth under the same seed.
"""

import math
import os
import statistics
from typing import Any

from yarn_plugin.drive.training_runs import TrainingResult, TrainingRun, simulate_all
from yarn_plugin.model.gpus import Machine, Slot, Slowdown
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


def measure() -> dict[str, Any]:
    """Per X: by what part the liar ends earlier than if it told the truth: the mean over seeds, and at least how much
    and at most (each one-sided, 95%); and by what part the others end earlier, on average."""
    results: dict[str, Any] = {"seeds": SEEDS}
    for payments in (True, False):
        runs = [_run(seed, lie, payments) for lie in (0.0, *LIES) for seed in range(SEEDS)]
        ended = [_completion_s(result) for result in simulate_all(runs, os.cpu_count() or 1)]
        truth = ended[:SEEDS]
        for number, lie in enumerate(LIES, start=1):
            lied = ended[number * SEEDS : (number + 1) * SEEDS]
            gains = [1 - mine / honest for (mine, _), (honest, _) in zip(lied, truth, strict=True)]
            others = [1 - theirs / honest for (_, theirs), (_, honest) in zip(lied, truth, strict=True)]
            mean = statistics.fmean(gains)
            margin = T_95 * statistics.stdev(gains) / math.sqrt(SEEDS)
            name = f"{'with' if payments else 'without'}_payments_x{round(100 * lie)}"
            results[f"{name}_gain"] = f"{mean:+.3f} in [{mean - margin:+.3f}, {mean + margin:+.3f}]"
            results[f"{name}_gain_of_others"] = statistics.fmean(others)
    return results


def _run(seed: int, lie: float, payments: bool) -> TrainingRun:
    machines = [Machine("large", "r", (Slot("large/0", 8),))]
    machines += [Machine(f"m{number:02}", "r", (Slot(f"m{number:02}/0", 2),)) for number in range(28)]
    job = TrainingJob("job", ALONE_S, 8.0, max_gpus=8, slowdown=SLOWDOWN)
    apps = tuple(TrainingApp(f"app-{number}", 0.0, (job,)) for number in range(APPS))
    liars = ("app-0",) if lie else ()
    cluster = TrainingCluster(tuple(machines))
    return TrainingRun("themis", seed, TrainingWorkload(apps), cluster, payments=payments, lie=lie, liars=liars)


def _completion_s(result: TrainingResult) -> tuple[float, float]:
    """Of the liar, and of the others on average; all arrive at 0."""
    ended = {job.group: job.ended_at for job in result.outcome.jobs}
    assert all(at is not None for at in ended.values())
    others = [float(at or 0) for app, at in ended.items() if app != "app-0"]
    return float(ended["app-0"] or 0), statistics.fmean(others)
