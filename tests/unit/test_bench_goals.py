"""Which goals of a benchmark count as reached."""

import tomllib

import pytest

from tests.bench import __main__ as bench
from tests.bench import matching_live

GOALS = {"p95": 2.0, "mean": {"mean_small": 1.0, "mean_large": 0.5}}


@pytest.mark.parametrize(
    ("results", "reached"),
    [
        ({"p95": 2.0, "mean_small": 1.0}, True),
        ({"p95": 2.0, "mean_large": 0.5, "other": "text"}, True),
        ({"p95": 2.1, "mean_small": 1.0}, False),
        ({"p95": 2.0, "mean_small": 1.0, "mean_large": 0.6}, False),
        ({"mean_small": 1.0}, False),
        ({"p95": 2.0}, False),
        ({}, False),
    ],
)
def test_a_goal_that_was_not_measured_is_not_reached(results, reached, capsys):
    assert bench._show(results, GOALS) is reached
    missing = {"p95"} - results.keys() | ({"mean_small"} if not results.keys() & GOALS["mean"].keys() else set())
    lines = [line for line in capsys.readouterr().out.splitlines() if "not measured" in line]
    assert all("NOT reached" in line for line in lines)
    assert missing <= {name for line in lines for name in line.split()}


def test_without_goals_there_is_none_to_miss():
    assert bench._show({"p95": 9.0}, {})


def test_every_goal_is_of_a_benchmark_that_there_is():
    assert set(tomllib.loads(bench.SPEC.read_text())) <= set(bench.NAMES)


def test_matching_on_a_cluster_is_compared_with_drfa_and_the_simulator():
    def run(policy, mean_s, simulated_s):
        return {"policy": policy, "mean_s": mean_s, "simulated_s": simulated_s}

    results = matching_live.figures([run("allox", 19.0, 20.0), run("drfa", 30.0, 30.0), run("allox", 17.0, 20.0)])
    assert results["mean_jct_allox_of_drfa"] == 0.6
    assert results["mean_jct_off_most"] == pytest.approx(0.15)
    assert tomllib.loads(bench.SPEC.read_text())["matching_live"].keys() <= results.keys()
