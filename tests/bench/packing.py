"""Packing queues of 20, 100 and 400 jobs onto shared GPUs: processor time, GPUs saved, and the gap to the proven bound.

`PACKING_THROUGHPUTS=FILE`: interference as measured on Gavel's V100 (its `simulation_throughputs.json`); otherwise a
table of about the same shape is drawn. Each queue is of 1 to 10 workers a job, as in the paper (OJPP, section 5.1).
"""

import json
import os
import random
import statistics
import time
from pathlib import Path
from typing import Any

from yarn_plugin.decide.mechanisms.packing import PackingProblem, Slowdowns, pack
from yarn_plugin.simulation.shared_queues import drawn_jobs, outcome, sociable

QUEUES = {20: 20, 100: 5, 400: 2}
"""How many queues of each number of jobs."""

SOCIABLE = 13
"""So many kinds, half of Gavel's, disturb others least: the paper's average queues are of such."""


def measure() -> dict[str, Any]:
    """By number of jobs: seconds, GPUs saved against one worker a GPU, performance kept, gap to the bound."""
    slowdowns = _slowdowns()
    kinds = sociable(slowdowns, SOCIABLE)
    results: dict[str, Any] = {}
    for jobs, queues in QUEUES.items():
        seconds, saved, kept, gaps = [], [], [], []
        for seed in range(queues):
            problem = PackingProblem(drawn_jobs(random.Random(seed), jobs, kinds), slowdowns)
            started = time.process_time()
            packing = pack(problem)
            seconds.append(time.process_time() - started)
            found = outcome(problem, packing.gpus)
            saved.append(found.gpus_saved)
            kept.append(found.performance)
            gaps.append(packing.gap)
        results[f"jobs_{jobs}_s_max"] = max(seconds)
        results[f"jobs_{jobs}_saved"] = statistics.mean(saved)
        results[f"jobs_{jobs}_performance"] = statistics.mean(kept)
        results[f"jobs_{jobs}_gap"] = max(gaps)
    return results


def _slowdowns() -> Slowdowns:
    path = os.environ.get("PACKING_THROUGHPUTS")
    if not path:
        rng, kinds = random.Random(0), [f"kind-{number}" for number in range(26)]
        return {(a, b): max(0.0, rng.gauss(0.5, 0.5)) for a in kinds for b in kinds}
    throughputs = json.loads(Path(path).read_text())["v100"]
    slowdowns = {}
    for name, others in throughputs.items():
        kind, gpus = _parsed(name)
        if gpus != 1:
            continue
        for other, pair in others.items():
            if other != "null" and _parsed(other)[1] == 1 and pair[0] > 0 and pair[1] > 0:
                slowdowns[kind, _parsed(other)[0]] = max(0.0, others["null"] / pair[0] - 1)
    return slowdowns


def _parsed(name: str) -> tuple[str, int]:
    """The kind and the number of GPUs of a key such as "('ResNet-18 (batch size 16)', 1)"."""
    kind, _, gpus = name.strip("()").rpartition(", ")
    return kind.strip("'\""), int(gpus)
