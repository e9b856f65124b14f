"""Planned communication: processor time of a search; with torch, the overhead of the enforcer against gloo with nothing
divided, and by how much cost tables differ that are measured twice."""

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from themis_agent.communication.baselines import System, problem_for
from themis_agent.communication.costs import CostTable
from themis_agent.communication.formats import load
from themis_agent.communication.launch import run
from themis_agent.communication.modelled import draw, model
from themis_agent.communication.search import Limits, search

SEARCHES = 10


def measure() -> dict[str, Any]:
    """Seconds of 500 steps on iterations of 11 tasks; ratios of times of an iteration, of which 1 is gloo alone; the
    median difference of the times in two tables, relative to the first.
    """
    results: dict[str, Any] = {"search_s_p50": statistics.median(_search_s(seed) for seed in range(SEARCHES))}
    if importlib.util.find_spec("torch") is None:
        return results
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for detail in ("OFF", "DETAIL"):
            results |= {f"{detail.lower()}_{what}": value for what, value in _overhead(folder, detail).items()}
        results["tables_differ"] = _tables_differ(folder)
    return results


def _search_s(seed: int) -> float:
    numbers = np.random.default_rng(seed)
    problem = problem_for(System.SYNDICATE, model(draw(numbers)))
    began = time.process_time()
    search(problem, numbers, Limits(steps=500, min_steps=500))
    return time.process_time() - began


def _overhead(folder: Path, detail: str) -> dict[str, float]:
    written = folder / f"{detail}.json"
    command = [sys.executable, "-m", "tests.torch_jobs.overhead", str(written)]
    run(command, 2, {"TORCH_DISTRIBUTED_DEBUG": detail, "OMP_NUM_THREADS": "1"})
    found: dict[str, float] = json.loads(written.read_text())
    return found


def _tables_differ(folder: Path) -> float:
    seconds = []
    for turn in range(2):
        path = folder / f"costs-{turn}.json"
        program = [sys.executable, "-c", "from themis_agent.cli import main; main()", "communication", "measure"]
        subprocess.run([*program, "--out", str(path)], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        seconds.append([one for curve in load(CostTable, path).curves for one in curve.seconds])
    return statistics.median(abs(second / first - 1) for first, second in zip(*seconds, strict=True))
