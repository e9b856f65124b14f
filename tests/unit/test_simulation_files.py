"""Workloads that are wrong, and figures of a run at its end."""

import pytest

from yarn_plugin.errors import ReportedError
from yarn_plugin.simulation import workload
from yarn_plugin.simulation.batch import KIND
from yarn_plugin.simulation.outcome import Outcome, Usage

KINDS = {"batch": KIND}
LISTED = '[[applications]]\nkind = "batch"\nmax_cores = 2\ncore_seconds = '
MIX = "[generate]\ncount = 3\n[[generate.mix]]\nweight = OF\n[generate.mix.application]\nkind = 'batch'\n"


def refused(tmp_path, text, name="work.toml"):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ReportedError) as problem:
        workload.load(file, KINDS, 0)
    assert "\n" not in str(problem.value)
    return str(problem.value)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("nan", "core_seconds"),
        ('{ distribution = "uniform", low = 1, high = inf, integer = true }', "uniform.high"),
        ('{ distribution = "uniform", low = 1, high = 2, min = nan }', "uniform.min"),
        ('{ distribution = "lognormal", median = inf, sigma = 1, integer = true }', "lognormal.median"),
        ('{ distribution = "pareto", scale = 1, shape = 1e-300 }', "pareto.shape"),
        ('{ distribution = "choice", values = [1, 2], weights = [1] }', "must be as many as values, 2, not 1"),
        ('{ distribution = "choice", values = [1, 2], weights = [0, 0] }', "at least one must be above 0"),
        ('{ distribution = "zipf" }', "zipf"),
        ("[" * 100_000, "too many levels"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_line_that_names_it(tmp_path, value, field):
    assert field in refused(tmp_path, LISTED + value)


def test_a_part_of_a_mix_has_a_finite_weight(tmp_path):
    assert "generate.mix #1.weight" in refused(tmp_path, MIX.replace("OF", "inf"))


def test_a_cell_that_is_too_long_is_refused(tmp_path):
    assert "not CSV" in refused(tmp_path, f"kind,core_seconds\nbatch,{'9' * 200_000}\n", "work.csv")


def outcome(ended_at, *usage):
    return Outcome((), ended_at, groups=("batch",), usage=usage)


def test_resources_used_until_the_end_count():
    run = outcome(100.0, Usage(0.0, (0.0,)), Usage(20.0, (0.5,)))
    assert run.utilisation == pytest.approx(0.4)
    assert outcome(100.0).utilisation == 0.0
    assert outcome(0.0, Usage(0.0, (0.5,))).utilisation == 0.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LISTED + "9\nobeys = false", "obeys: renamed to respects_share"),
        (LISTED + '{ distribution = "pareto", least = 1, shape = 2 }', "least: renamed to scale"),
        (
            "[generate]\ncount = 1\nover_s = 9\n[[generate.mix]]\napplication = {}",
            "generate.over_s: renamed to duration_s",
        ),
        (MIX.replace("weight = OF", "of = 1"), "generate.mix #1.of: renamed to weight"),
    ],
)
def test_the_error_for_a_renamed_field_names_the_new_one(tmp_path, text, problem):
    assert problem in refused(tmp_path, text)
