"""The figures of the Themis thesis from small simulations: what is claimed, kept, resumed and shown."""

import json
import math

import pytest

from tests.html_checks import checked
from yarn_plugin import console
from yarn_plugin.cli import cli
from yarn_plugin.drive.figure_runs import file_name
from yarn_plugin.simulation.paper_figures.claims import Claim, claims
from yarn_plugin.simulation.paper_figures.intervals import interval, t_quantile
from yarn_plugin.simulation.paper_figures.record import Record
from yarn_plugin.simulation.paper_figures.specification import read
from yarn_plugin.simulation.paper_figures.training_case import TrainingCase

THEMIS = read("themis")
APP = {"rho": 1.0, "time_s": 1.0, "gpu_s": 1.0}
RECORD = Record({"gpu_time": 1.0, "placement_score": 1.0}, {"app1": APP, "app2": APP})


def test_intervals_are_students():
    one = interval([1.0, 2.0, 3.0])
    # t of 2 degrees of freedom is 4.303, the standard error 1 / sqrt(3).
    assert (one.mean, one.low, one.high) == pytest.approx((2.0, 2.0 - 4.303 / math.sqrt(3), 2.0 + 4.303 / math.sqrt(3)))
    assert t_quantile(10) == pytest.approx(2.228)
    assert (t_quantile(20), t_quantile(60)) == pytest.approx((2.086, 2.000), abs=0.005)
    assert interval([2.0]).low is None


@pytest.mark.parametrize(
    ("effects", "verdict"),
    [((1.5,), "not decided"), ((1.5, 1.6, 1.4), "agrees"), ((0.5, 0.6, 0.4), "disagrees"),
     ((0.5, 1.6, 1.4), "not decided"), ((2.1, 2.2, 2.15), "disagrees")],
)  # fmt: skip
def test_a_claim_is_decided_if_its_interval_is_on_one_side(effects, verdict):
    assert Claim("3.9", "a ratio", "1.5", 1.0, 2.0, effects).verdict == verdict


def test_every_figure_is_made_or_says_why_not():
    assert len(THEMIS.numbers) == len(set(THEMIS.numbers)) == 19 + 5
    for figure in THEMIS.figures:
        assert bool(figure.not_reproduced) != bool(figure.charts)
        assert not (figure.not_reproduced and THEMIS.only([figure.number]).cases([0], "small"))


def test_simulations_that_figures_share_run_once():
    assert THEMIS.only(["3.9", "3.11"]).cases([0], "small") == THEMIS.only(["3.9"]).cases([0], "small")
    shares, policies = THEMIS.sets["shares"], THEMIS.sets["policies"]
    assert len(THEMIS.only(["3.15", "3.16"]).cases([0, 1], "small")) == 2 * len(shares) * len(policies)


def test_every_claim_needs_only_what_its_figure_simulates():
    for size in THEMIS.sizes:
        for figure in THEMIS.figures:
            one = THEMIS.only([figure.number])
            results = dict.fromkeys(one.cases([0], size), RECORD)
            assert len(claims(one, results, [0], size)) >= len(one.claims)


def test_a_workload_has_the_load_of_its_size_and_searches_that_begin_at_a_later_phase():
    size = THEMIS.sizes["small"]
    apps = TrainingCase(3, size, scenario="2").workload().apps
    assert len(apps) == size.apps
    assert {len(app.jobs) for app in apps} <= {1, size.jobs}
    for app in apps:
        assert not app.phases or len(app.phases) == size.jobs.bit_length()
    halves = [
        sum(one.gpus for one in TrainingCase(0, size, scenario="1", part=part).cluster().machines) for part in (1, 2, 4)
    ]
    assert halves == [8, 4, 2]
    liar = TrainingCase(0, size, scenario="liar").cluster().machines
    assert sorted(one.gpus for one in liar) == [2] * 28 + [8]


def test_another_case_size_or_version_is_another_result():
    small, medium = THEMIS.sizes["small"], THEMIS.sizes["medium"]
    one = TrainingCase(0, small)
    names = {
        file_name(one, "1"),
        file_name(one, "2"),
        file_name(TrainingCase(0, small, f=0.5), "1"),
        file_name(TrainingCase(0, medium), "1"),
    }
    assert len(names) == 4


def figures(tmp_path, *options):
    return console.run(cli, "yarn-plugin", ["figures", "themis", "--out", str(tmp_path), *options])


def test_figures_are_made_kept_and_resumed(tmp_path, capsys):
    claims = tmp_path / "claims.json"
    chosen = ("--only", "3.2,3.5,3.6,table 3.3,table 3.4", "--seeds", "1", "--processes", "1")
    assert figures(tmp_path, *chosen, "--json", str(claims)) == 0
    assert "3.6: not reproduced" in capsys.readouterr().out
    assert json.loads(claims.read_text()) == []
    text = (tmp_path / "figures.html").read_text()
    checked(text)
    assert "--only &#34;table 3.3&#34; --seeds 1" in text
    kept = sorted((tmp_path / "runs").glob("*.json"))
    before = {path: path.read_bytes() for path in kept}
    assert len(kept) == 3
    # One is lost and one was not written whole: only these are simulated again, with the same result.
    kept[0].unlink()
    kept[1].write_bytes(before[kept[1]][:50])
    unchanged = {path: path.stat().st_mtime_ns for path in kept[2:]}
    assert figures(tmp_path, *chosen) == 0
    assert {path: path.stat().st_mtime_ns for path in kept[2:]} == unchanged
    for path in kept[:2]:
        again, first = json.loads(path.read_bytes()), json.loads(before[path])
        assert {**again, "wall_s": 0} == {**first, "wall_s": 0}


def test_drf_spreads_the_wrong_application_of_figure_3_5_and_themis_does_not(tmp_path):
    assert figures(tmp_path, "--only", "3.5", "--seeds", "1", "--processes", "1") == 0
    times = {}
    for path in (tmp_path / "runs").glob("*.json"):
        apps = json.loads(path.read_text())["apps"]
        times[path.name.split("-")[0]] = [apps[name]["time_s"] for name in ("A1", "A2")]
    # Both wait until 300 s. On the machine of 4 GPUs each takes an hour. Under DRF, A2 has two machines of 2 until its
    # lease ends at 4,500 s, and then the other one.
    spread_s = 4200.0
    assert times["themis"] == pytest.approx([3840, 3840], abs=1)
    assert times["drf"] == pytest.approx([3840, 240 + spread_s + 3600 - spread_s * 80.4 / 103.6], abs=1)


def test_an_unknown_figure_is_named(tmp_path, capsys):
    assert figures(tmp_path, "--only", "3.99") != 0
    assert "3.99" in capsys.readouterr().err


def test_claims_are_printed_with_their_intervals(tmp_path, capsys):
    claims = tmp_path / "claims.json"
    assert figures(tmp_path, "--only", "table 3.5", "--seeds", "2", "--processes", "1", "--json", str(claims)) == 0
    (one,) = json.loads(claims.read_text())
    assert (one["figure"], len(one["seeds"])) == ("table 3.5", 2)
    assert one["low"] <= one["mean"] <= one["high"]
    assert one["mean"] == pytest.approx(math.sqrt(math.prod(one["seeds"])))
    assert "table 3.5" in capsys.readouterr().out
    checked((tmp_path / "figures.html").read_text())
