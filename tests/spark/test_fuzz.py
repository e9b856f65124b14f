"""The fuzz on Spark: queries with a switch after every stage give the rows of Spark alone (see `tests.fuzz`).

In processes of their own: settings of their sessions would stay in the JVM that the other tests share.
"""

import subprocess
import sys

import pytest

from tests.fuzz.results import Results

pytestmark = pytest.mark.integration

USUAL = 15
"""How many random queries each test run has."""


def run(module, seeds, *more):
    """Run a module of the fuzz over these seeds; returns what it printed."""
    words = ["--seeds", f"{seeds[0]}-{seeds[-1]}", *map(str, more)]
    done = subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, check=False)
    print(done.stdout)
    assert "Traceback" not in done.stderr, done.stderr[-4000:]
    return done


@pytest.mark.timeout(9000)
@pytest.mark.parametrize(
    "seeds", [range(USUAL), pytest.param(range(USUAL, 1_700), marks=pytest.mark.matrix)], ids=["usual", "more"]
)
def test_random_queries_have_the_rows_of_spark_alone(tmp_path, seeds):
    """The goals of coverage that are missed are printed."""
    run("tests.fuzz", seeds, "--results", tmp_path / "runs")
    runs = list(Results(tmp_path / "runs").runs())
    assert [one.seed for one in runs] == list(seeds)
    assert [(one.seed, one.difference) for one in runs if one.difference] == []


@pytest.mark.matrix
@pytest.mark.timeout(9000)
def test_random_plans_are_compared_with_the_query_as_written():
    """Where a plan is different, the query runs as written; why is printed. The planner itself never fails."""
    done = run("tests.fuzz.compose", range(50_000, 60_000))
    assert done.returncode == 0
    assert "the planner failed" not in done.stdout
