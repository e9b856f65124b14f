"""Packing queues of 20, 100 and 400 jobs onto shared GPUs: processor time, GPUs saved, and the gap to the proven bound.

`PACKING_THROUGHPUTS=FILE`: interference as measured on Gavel's V100 (its `simulation_throughputs.json`); otherwise a
table of about the same shape is drawn. `PACKING_PODS=FILE`: workers compute as much as the pods that need a part of a
GPU in Alibaba's trace (its `openb_pod_list_default.csv`). `PACKING_SCALE`, `PACKING_KINDS`, `PACKING_QUEUES`: slowdowns
times this; of so many kinds, those that disturb others least; so many queues of 20 jobs and of 50. Each queue is of 1
to 10 workers a job, as in the paper (OJPP, section 5.1).
"""

import csv
import json
import os
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from yarn_plugin.decide.mechanisms.packing import Job, PackingProblem, Slowdowns, pack
from yarn_plugin.simulation.shared_queues import drawn_jobs, least_disturbing, outcome

QUEUES = {20: 20, 100: 5, 400: 2}
"""How many queues of each number of jobs."""
if "PACKING_QUEUES" in os.environ:
    QUEUES = dict.fromkeys((20, 50), int(os.environ["PACKING_QUEUES"]))

SCALE = float(os.environ.get("PACKING_SCALE", "1"))

SOCIABLE = int(os.environ.get("PACKING_KINDS", "13"))
"""So many kinds, half of Gavel's, disturb others least: the paper's average queues are of such."""


def measure() -> dict[str, Any]:
    """By number of jobs: seconds, GPUs saved against one worker a GPU, performance kept, gap to the bound."""
    slowdowns = {pair: SCALE * slowdown for pair, slowdown in _slowdowns().items()}
    computing = _computing()
    kinds = least_disturbing(slowdowns, SOCIABLE)
    results: dict[str, Any] = {}
    for jobs, queues in QUEUES.items():
        seconds, saved, kept, gaps = [], [], [], []
        for seed in range(queues):
            draw = random.Random(seed)
            queue = drawn_jobs(draw, jobs, kinds)
            problem = PackingProblem(_with_computing(draw, queue, computing), slowdowns)
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


def _computing() -> list[float]:
    """The parts of a GPU that pods need, in thousandths in the file."""
    path = os.environ.get("PACKING_PODS")
    if not path:
        return []
    with Path(path).open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["num_gpu"] == "1"]
    return [int(row["gpu_milli"]) / 1000 for row in rows if int(row["gpu_milli"]) < 1000]


def _with_computing(draw: random.Random, jobs: tuple[Job, ...], computing: Sequence[float]) -> tuple[Job, ...]:
    return tuple(replace(job, computing=draw.choice(computing)) for job in jobs) if computing else jobs


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
