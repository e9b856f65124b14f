"""How wrong the seconds are that `qoop explain` prints: TPC-DS queries, each in a Spark of its own with two slots.

First `CALIBRATING` are run, from which qoop learns the speed of the machine; it knows nothing before. Then each of
`SECONDS_QUERIES` is explained, and run by `qoop submit --plan always`: the factor is that by which the seconds of the
plan that explain says is chosen are too many or too few. `SECONDS_SCALE` (0.1): of the data.
"""

import json
import math
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tpcds import data
from tpcds.queries import parse_numbers, spark_text
from yarn_plugin.console import out

CALIBRATING = "26,50"
QUERIES = "64,72,85,18,17,7,13,25,46,91"
DONE = re.compile(r"done in ([\d.]+) s")


def measure() -> dict[str, Any]:
    """The factors by which seconds are wrong: the median, the worst, and that of each query."""
    scale = data.parse_scale(os.environ.get("SECONDS_SCALE", "0.1"))
    queries = parse_numbers(os.environ.get("SECONDS_QUERIES", QUERIES))
    tables = str(data.ensure(scale))
    factors = {}
    with tempfile.TemporaryDirectory() as folder:
        for query in parse_numbers(CALIBRATING):
            _took(folder, tables, query)
        for query in queries:
            expected, took = _explained(folder, tables, query), _took(folder, tables, query)
            factors[query] = math.exp(abs(math.log(took / expected)))
            out.print(f"  query {query}: explained {expected:.1f} s, took {took:.1f} s")
    return {
        "queries": len(factors),
        "factor_median": statistics.median(factors.values()),
        "factor_worst": max(factors.values()),
        "factors": ", ".join(f"{query}: {factor:.2f}" for query, factor in factors.items()),
    }


def _explained(folder: str, tables: str, query: int) -> float:
    """The seconds that a query would take on two slots."""
    file = Path(folder) / "explained.json"
    _qoop(folder, "explain", "--tables", tables, "--shares", "2", "--json", str(file), "-e", spark_text(query))
    found = json.loads(file.read_text())
    return float(found["plans"][found["chosen"][0]]["seconds"][0])


def _took(folder: str, tables: str, query: int) -> float:
    """The seconds that it takes, without those in which Spark starts."""
    words = ("--master", "local[2]", "--plan", "always", "--tables", tables)
    told = _qoop(folder, "submit", *words, "-e", spark_text(query))
    found = DONE.search(told)
    assert found, told
    return float(found[1])


def _qoop(folder: str, *words: str) -> str:
    """What qoop says on stderr, with an empty cache and state at first."""
    environment = {**os.environ, "XDG_CACHE_HOME": folder, "XDG_STATE_HOME": folder}
    done = subprocess.run(["qoop", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr
