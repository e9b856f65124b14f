"""Six kinds of training in 21 pairs, each pair on one pinned core in place of a GPU: what is measured against what is
predicted of a pair from the others. `COLOCATION_S`: seconds of each measurement (5)."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from yarn_plugin.decide.mechanisms.interference import REGRESSIONS, predict
from yarn_plugin.sharing.file import read_interference

KINDS = Path(__file__).parents[1] / "data" / "kinds_on_core.toml"


def measure() -> dict[str, Any]:
    """The median error of the time of a step, of pairs that are left out; by regression, and of the best one."""
    seconds = os.environ.get("COLOCATION_S", "5")
    core = str(max(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as folder:
        pairs = Path(folder) / "pairs.json"
        program = [sys.executable, "-c", "from themis_agent.cli import main; main()", "interference", "measure"]
        options = ["--core", core, "--seconds", seconds, "--warm-up", "1"]
        subprocess.run([*program, str(KINDS), "--out", str(pairs), *options], check=True)
        known = read_interference("pairs", pairs)
    actual = known.slowdowns()
    errors: dict[str, list[float]] = {one.name: [] for one in REGRESSIONS}
    for left_out in {(min(pair), max(pair)) for pair in actual}:
        both = {pair: actual[pair] for pair in (left_out, left_out[::-1])}
        others = {pair: value for pair, value in actual.items() if pair not in both}
        for one in REGRESSIONS:
            found = predict(known.kinds, others, one)(both)
            errors[one.name] += [abs(found[pair] - both[pair]) / (1 + both[pair]) for pair in both]
    medians = {name: statistics.median(values) for name, values in errors.items()}
    return {
        "pairs": len({(min(pair), max(pair)) for pair in actual}),
        "median_error": min(medians.values()),
        **{f"median_error_{name}": value for name, value in medians.items()},
        "slowdown_min": min(actual.values()),
        "slowdown_max": max(actual.values()),
    }
