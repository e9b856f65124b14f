"""A recorded pool of leased GPUs runs again, in virtual time, under other policies."""

import json

import pytest

from tests.lease_world import World, lease_pool, ledger_pool, node
from tests.toys.stage import SQL, Simulated
from yarn_plugin import console
from yarn_plugin.cli import cli
from yarn_plugin.decide.events import Deregistered
from yarn_plugin.journal.records import RecordFile
from yarn_plugin.model.gpus import Job

SETTINGS = {"policy": "tiresias", "grace_s": 0.0, "place_within_s": 0.0, "round_window_s": 0.0}


@pytest.fixture
def journal(tmp_path, request):
    """Two GPUs. ann needs both for 100 s and keeps them for 120; bob, 10 s later, needs them for 50 s and keeps them
    for 60. kim never says what she runs."""
    path = tmp_path / "journal"
    records = RecordFile(path)
    world = World.of(node("n1", 2), stage=Simulated(getattr(request, "param", lease_pool)(SETTINGS), journal=records))
    ann = world.arrive("ann", rho=1.0, jobs=(Job("t", 200.0, 1.0, max_gpus=2),))
    world.wait(10.0)
    bob = world.arrive("bob", jobs=(Job("t", 60.0, 1.0, iterations_done=40.0, max_gpus=2),))
    world.arrive("kim", estimates=False, bids=False)
    world.wait(110.0)
    world.stage.take(Deregistered(ann))
    world.wait(60.0)
    world.stage.take(Deregistered(bob))
    records.close()
    return path


def rows(journal, tmp_path, *options):
    out = tmp_path / "rows.json"
    code = console.run(cli, "yarn-plugin", ["replay", str(journal), *options, "--json", str(out)])
    return code, {one["run"]: one for one in json.loads(out.read_text())} if code == 0 else {}


@pytest.mark.parametrize("journal", [pytest.param(lease_pool, marks=pytest.mark.matrix), ledger_pool], indirect=True)
def test_recorded_applications_run_again_under_another_policy(journal, tmp_path, capsys):
    code, found = rows(journal, tmp_path, "--policy", "srsf")
    assert code == 0
    assert list(found) == ["recorded", "tiresias", "srsf"]
    recorded, again = found["recorded"], found["tiresias"]
    # ann: 120 s. bob waits for her, and for a round of estimates in which kim is silent.
    assert recorded["avg_jct_app"] * 60 == pytest.approx((120 + 175) / 2, abs=6)
    assert recorded["gpu_time"] * 60 == pytest.approx(2 * 120 + 2 * 60, abs=20)
    assert recorded["unfinished"] == 0
    # In virtual time jobs take what they were described to: ann until 100 s, bob from then until 150 s.
    assert again["avg_jct_app"] * 60 == pytest.approx((100 + 140) / 2, abs=1)
    assert again["gpu_time"] * 60 == pytest.approx(2 * 100 + 2 * 50, abs=1)
    assert again["makespan"] * 60 == pytest.approx(150, abs=1)
    assert "left out" in (printed := capsys.readouterr()).err
    assert "recorded" in printed.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--policy", "srsf", "--pool", "sql"), "--pool 'sql'"),
        (("--pool", "gpu"), "needs --policy"),
        (("--policy", "lottery"), "lottery"),
    ],
)
def test_what_cannot_be_run_again_is_named(journal, tmp_path, capsys, options, message):
    assert rows(journal, tmp_path, *options)[0] != 0
    assert message in capsys.readouterr().err


def test_without_a_pool_of_leased_gpus_there_is_nothing_to_run(tmp_path, capsys):
    path = tmp_path / "journal"
    Simulated(SQL, journal=RecordFile(path))
    assert rows(path, tmp_path, "--policy", "srsf")[0] != 0
    assert "no pool of leased GPUs" in capsys.readouterr().err
