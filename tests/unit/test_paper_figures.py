"""Papers' claims as specifications, simulated."""

import json

import pytest

from yarn_plugin import console
from yarn_plugin.cli import cli
from yarn_plugin.drive.paper_figures import measure
from yarn_plugin.simulation.paper_figures.specification import PAPERS, read


@pytest.mark.parametrize("name", PAPERS)
def test_every_specification_is_read_and_names_what_it_does_not_reproduce(name):
    paper = read(name)
    assert paper.policies
    assert all(told.why for told in paper.told)


def test_cells_never_let_a_job_wait_longer_and_quotas_do():
    paper = read("hived")
    small = paper.model_copy(update={"parameters": paper.parameters.model_copy(update={"jobs": 60})})
    cells, quota = measure(small, 2)
    assert cells == (0.0, 0.0)
    assert len(quota) == 2


def test_the_command_prints_claims_and_what_is_only_told(tmp_path, capsys, monkeypatch):
    paper = read("allox")
    small = paper.model_copy(update={"parameters": paper.parameters.model_copy(update={"jobs": 40})})
    monkeypatch.setattr("yarn_plugin.cli.figures.specification.read", lambda name: small)
    result = tmp_path / "result.json"
    assert console.run(cli, "yarn-plugin", ["figures", "allox", "--seeds", "1", "--json", str(result)]) == 0
    assert "not reproduced: 8 workers and 4 K80 GPUs" in capsys.readouterr().out.replace("\n", " ")
    assert [row["section"] for row in json.loads(result.read_text())] == ["5.3", "5.3"]


def test_looser_limits_save_more_gpus_and_keep_less_performance(capsys, monkeypatch):
    paper = read("sharing")
    small = paper.model_copy(update={"parameters": paper.parameters.model_copy(update={"jobs": 8})})
    effects = dict(zip((claim.effect for claim in small.claims), measure(small, 2), strict=True))
    assert all(0 < saved < 1 for saved in effects["GPUs saved, limits (0.1, 0.2, 0.1)"])
    assert all(kept >= 1 / 1.2 for kept in effects["performance kept, limits (0.1, 0.2, 0.1)"])
    assert all(ratio <= 1 for ratio in effects["performance kept, limit of slowdown 0.4 / 0.1"])
    assert all(ratio <= 1 for ratio in effects["GPUs used, the integer program / the heuristic"])
    monkeypatch.setattr("yarn_plugin.cli.figures.specification.read", lambda name: small)
    assert console.run(cli, "yarn-plugin", ["figures", "sharing", "--seeds", "1"]) == 0
    assert "OJPP, simulated" in capsys.readouterr().out
