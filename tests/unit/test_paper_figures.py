"""Papers' claims as specifications, simulated."""

import json

import pytest

from tests.html_checks import checked
from yarn_plugin import console
from yarn_plugin.cli import cli
from yarn_plugin.drive.figure_runs import run_cases
from yarn_plugin.simulation.paper_figures.claims import claims
from yarn_plugin.simulation.paper_figures.specification import PAPERS, read


def with_jobs(paper, jobs):
    size = paper.sizes["small"].model_copy(update={"jobs": jobs})
    return paper.model_copy(update={"sizes": {"small": size}})


@pytest.mark.parametrize("name", PAPERS)
def test_every_specification_is_read_and_names_what_it_does_not_reproduce(name):
    paper = read(name)
    assert paper.cases([0], "small")
    assert all(claim.figure in paper.numbers for claim in paper.claims)
    assert all(told.why for told in paper.told)


def test_cells_never_let_a_job_wait_longer_and_quotas_do(tmp_path):
    paper = with_jobs(read("hived"), 60)
    results = run_cases(paper.cases([0, 1], "small"), tmp_path, 1, lambda done: None)
    cells, quota = claims(paper, results, [0, 1], "small")
    assert cells.effects == (0.0, 0.0)
    assert len(quota.effects) == 2


def test_the_command_writes_a_page_and_prints_what_is_only_told(tmp_path, capsys, monkeypatch):
    small = with_jobs(read("allox"), 40)
    monkeypatch.setattr("yarn_plugin.cli.figures.specification.read", lambda name: small)
    result = tmp_path / "result.json"
    options = ("--seeds", "1", "--processes", "1", "--out", str(tmp_path), "--json", str(result))
    assert console.run(cli, "yarn-plugin", ["figures", "allox", *options]) == 0
    assert "not reproduced: 8 workers and 4 K80 GPUs" in capsys.readouterr().out.replace("\n", " ")
    rows = json.loads(result.read_text())
    assert [(row["figure"], row["verdict"]) for row in rows] == [("section 5.3", "not decided")] * 2
    checked((tmp_path / "figures.html").read_text())


def test_looser_limits_save_more_gpus_and_keep_less_performance(tmp_path, capsys, monkeypatch):
    small = with_jobs(read("sharing"), 8)
    monkeypatch.setattr("yarn_plugin.cli.figures.specification.read", lambda name: small)
    result = tmp_path / "result.json"
    options = ("--seeds", "2", "--processes", "1", "--out", str(tmp_path), "--json", str(result))
    assert console.run(cli, "yarn-plugin", ["figures", "sharing", *options]) == 0
    effects = {row["effect"]: row["seeds"] for row in json.loads(result.read_text())}
    assert all(0 < saved < 1 for saved in effects["GPUs saved, limits (0.1, 0.2, 0.1)"])
    assert all(kept >= 1 / 1.2 for kept in effects["performance kept, limits (0.1, 0.2, 0.1)"])
    assert all(ratio >= 1 for ratio in effects["GPUs saved, limit of slowdown 0.4 / 0.1"])
    assert all(ratio <= 1 for ratio in effects["performance kept, limit of slowdown 0.4 / 0.1"])
    assert all(ratio <= 1 for ratio in effects["GPUs used, the integer program / the heuristic"])
    assert "not reproduced: 228.34%" in capsys.readouterr().out.replace("\n", " ")
    checked((tmp_path / "figures.html").read_text())


def test_an_unknown_figure_is_named_with_the_nearest_one(capsys):
    assert console.run(cli, "yarn-plugin", ["figures", "sharing", "--only", "section 5.3.3"]) == 2
    assert "did you mean" in capsys.readouterr().err
