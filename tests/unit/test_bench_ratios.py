"""The statistics of benchmarks: intervals of ratios, when there are enough rounds, what many queries say together."""

import math
from types import SimpleNamespace

import pytest

import qoop
from qoop.errors import QueryFailedError
from tests.bench import spark_ratio
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
        "geometric_mean_low": pytest.approx(interval([1.1, 0.5, math.exp(0.2), 2]).low),
        "geometric_mean_upper": pytest.approx(interval([1.1, 0.5, math.exp(0.2), 2]).high),
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


def test_a_query_that_failed_somewhere_is_listed_and_compared_with_the_rest():
    whole = row(1, 1.0, [0.0] * 3) | {"filters_ratio": 1.2, "filters_s": 0.5, "failed": {}}
    without_filters = row(2, 1.0, [0.0] * 3) | {"failed": {"filters": "Not enough memory"}}
    without_plain = {"query": 3, "stages": 1, "qoop_s": 2.0, "filters_s": 4.0, "filters_ratio": 0.5}
    nothing = {"query": 4, "stages": 1, "failed": {"qoop": "it failed"}}
    found = summary([whole, without_filters, without_plain | {"failed": {"spark": "it failed"}}, nothing])
    assert found["failed_queries"] == "2 (filters), 3 (spark), 4 (qoop)"
    assert (found["queries_measured"], found["filters_queries_measured"]) == (2, 2)
    assert found["filters_geometric_mean"] == pytest.approx(0.6**0.5)
    assert found["filters_geometric_mean_upper"] == pytest.approx(interval([1.2, 0.5]).high)
    assert found["filters_total"] == pytest.approx((whole["qoop_s"] + 2.0) / 4.5)
    assert summary([nothing]) == {"failed_queries": "4 (qoop)"}


class FailingSpark:
    """Queries that take no time, and fail in some ways: of each the number of the run from which on it fails."""

    def __init__(self, monkeypatch, **fails_from):
        self.runs, self.fails_from = [], fails_from
        monkeypatch.setattr(spark_ratio, "_run_on_spark", lambda spark, text, more: self.run(more))
        monkeypatch.setattr(qoop, "collect", lambda spark, text, options: self.run("qoop"))
        monkeypatch.setattr(spark_ratio, "free_room", lambda spark: None)

    def run(self, how):
        way = how if how == "qoop" else "filters" if how else "spark"
        self.runs.append(way)
        if self.runs.count(way) > self.fails_from.get(way, 1000):
            raise QueryFailedError(f"{way} failed")
        outcome = SimpleNamespace(decisions=(), counts=SimpleNamespace(stages=1), one_stage_reason=None)
        return SimpleNamespace(outcome=outcome)


@pytest.mark.parametrize(
    ("fails_from", "ratios", "failed", "runs"),
    [
        ({}, {"", "filters_"}, set(), [4, 4, 4]),
        ({"filters": 0}, {""}, {"filters"}, [4, 1, 4]),
        ({"filters": 2}, {""}, {"filters"}, [4, 3, 4]),
        ({"spark": 0}, {"filters_"}, {"spark"}, [1, 4, 4]),
        ({"spark": 0, "filters": 0}, set(), {"spark", "filters"}, [1, 1, 1]),
        ({"qoop": 0}, set(), {"qoop"}, [1, 1, 1]),
    ],
)
def test_a_way_in_which_a_query_fails_is_left_out(monkeypatch, fails_from, ratios, failed, runs):
    spark = FailingSpark(monkeypatch, **fails_from)
    found = spark_ratio.ratio_to_spark(None, 3, Rounds(3, 3), qoop.Options(), arms=spark_ratio.ARMS)
    assert {name for name in ("", "filters_") if f"{name}ratio" in found} == ratios
    assert set(found["failed"]) == failed
    assert [spark.runs.count(way) for way in spark_ratio.ARMS] == runs


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
