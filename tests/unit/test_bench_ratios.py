"""The statistics of benchmarks: intervals of ratios, when there are enough rounds, what many queries say together."""

import math

import pytest

from tests.bench.overhead import Regime
from tests.bench.ratio_summary import summary
from tests.bench.rounds import Rounds, interval


def spread(*logs):
    """Ratios with these logarithms."""
    return [math.exp(log) for log in logs]


def test_the_interval_is_students_on_logarithms():
    # Mean 0.2, standard deviation 0.1; of two degrees of freedom t is 4.302653 at 97.5%.
    found = interval(spread(0.1, 0.2, 0.3))
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert found.mean == pytest.approx(math.exp(0.2))
    assert found.high == pytest.approx(math.exp(0.2 + half))
    assert found.low == pytest.approx(math.exp(0.2 - half))
    assert found.half_width == pytest.approx(math.exp(half) - 1)


def test_one_round_bounds_nothing():
    found = interval([1.1])
    assert (found.mean, found.low, found.high, found.is_resolved) == (pytest.approx(1.1), 0.0, math.inf, False)


# Of four rounds a, -a, a, -a the standard deviation is a sqrt(4/3), t is 3.182446, so the half-width 1.837386 a.
@pytest.mark.parametrize(("deviation", "resolved"), [(0.0265, True), (0.0266, False)])
def test_resolved_is_within_five_percent(deviation, resolved):
    assert math.log(1.05) / 1.837386 == pytest.approx(0.026554, abs=1e-6)
    assert interval(spread(*[deviation, -deviation] * 2)).is_resolved is resolved


STEADY, NOISY = [1.0, 1.0, 1.0], spread(*[0.3, -0.3] * 10)


@pytest.mark.parametrize(
    ("ratios", "seconds", "enough"),
    [
        ([], 0, False),
        (STEADY[:2], 1000, False),
        (STEADY, 1, True),
        (NOISY[:19], 100, False),
        (NOISY, 100, True),
        (NOISY, 29, False),
        (NOISY[:3], 299, False),
        (NOISY[:3], 300, True),
    ],
)
def test_rounds_end_when_resolved_or_at_a_limit(ratios, seconds, enough):
    assert Rounds(3, 20, 1.5, 300).are_enough(ratios, seconds) is enough


def test_a_fixed_number_of_rounds():
    rounds = Rounds(3, 3)
    assert [rounds.are_enough(NOISY[:number], 0.1) for number in (2, 3)] == [False, True]


def row(query, spark_s, logs, stages=1):
    ratios = spread(*logs)
    ratio = interval(ratios).mean
    return {
        "query": query,
        "spark_s": spark_s,
        "qoop_s": spark_s * ratio,
        "ratio": ratio,
        "ratios": ratios,
        "stages": stages,
    }


def test_the_summary_of_several_queries():
    rows = [
        row(1, 2.0, [math.log(1.1)] * 3),
        row(2, 8.0, [math.log(0.5)] * 3, stages=3),
        row(3, 0.5, [0.1, 0.2, 0.3]),
        row(4, 0.1, [math.log(2)] * 3),
    ]
    found = summary(rows)
    upper = math.exp(0.2 + 4.302653 * 0.1 / math.sqrt(3))
    assert found == {
        "queries_measured": 4,
        "geometric_mean": pytest.approx((1.1 * 0.5 * math.exp(0.2) * 2) ** 0.25),
        # Between the third and the fourth of 1.1, 0.5, 1.221 and 2, at 0.95 of the way from the first to the last.
        "p95": pytest.approx(math.exp(0.2) + 0.85 * (2 - math.exp(0.2))),
        "total": pytest.approx((2.2 + 4 + 0.5 * math.exp(0.2) + 0.2) / 10.6),
        "one_stage": pytest.approx((1.1 * math.exp(0.2) * 2) ** (1 / 3)),
        "several_stages": pytest.approx(0.5),
        "worst_upper": pytest.approx(1.1),
        "worst_upper_query": 1,
        "worst_extra_s": pytest.approx(0.5 * (upper - 1)),
        "worst_extra_s_query": 3,
        "unresolved": 1,
        "unresolved_queries": "3",
    }


def test_an_unresolved_query_counts_with_its_upper_bound():
    steady, wide = row(1, 5.0, [math.log(1.2)] * 3), row(2, 5.0, [-0.3, 0.0, 0.3])
    found = summary([steady, wide])
    assert wide["ratio"] < steady["ratio"]
    assert (found["worst_upper_query"], found["worst_upper"]) == (2, pytest.approx(math.exp(4.302653 * 0.3 / 3**0.5)))


def test_there_are_results_without_short_or_long_queries():
    assert "worst_extra_s" not in summary([row(1, 1.0, [0.0] * 3)])
    assert "worst_upper" not in summary([row(1, 0.9, [0.0] * 3)])
    assert "one_stage" not in summary([row(1, 1.0, [0.0] * 3, stages=2)])
    assert summary([]) == {}


@pytest.mark.parametrize(
    ("environment", "kept", "mean", "queries"),
    [
        ({}, "scale-1.jsonl", "geometric_mean_scale_1_aqe", "1-99"),
        ({"OVERHEAD_ANALYSED": "1"}, "scale-1-analysed.jsonl", "geometric_mean_scale_1_cbo", "1-99"),
        (
            {"OVERHEAD_SCALE": "10", "OVERHEAD_PARTITIONED": "1", "OVERHEAD_GUARD": "0"},
            "scale-10-partitioned-planned.jsonl",
            "geometric_mean_scale_10_aqe",
            "4,8,12,16,20,24,28,32,36,40,44,48,52,56,60,64,68,72,76,80,84,88,92,96",
        ),
        (
            {"OVERHEAD_SCALE": "0.1", "OVERHEAD_ANALYSED": "0"},
            "scale-0.1.jsonl",
            "geometric_mean_scale_0.1_aqe",
            "1-99",
        ),
    ],
)
def test_regimes_have_their_own_results_and_goals(environment, kept, mean, queries):
    regime = Regime.chosen(environment)
    assert (regime.kept.name, regime.mean, regime.queries) == (kept, mean, queries)
