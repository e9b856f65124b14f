"""What a journal tells of the rounds of a pool of leased GPUs: `yarn-plugin replay --rounds`."""

import json

import pytest

from tests.lease_world import World, lease_pool, ledger_pool, node, row
from tests.toys.registry import TOYS
from tests.toys.stage import Simulated
from yarn_plugin import console
from yarn_plugin.api.translate import decisions
from yarn_plugin.cli import cli
from yarn_plugin.decide.events import Deregistered
from yarn_plugin.decide.pools.commands import Offer
from yarn_plugin.drive.replay import replay
from yarn_plugin.journal.records import RecordFile
from yarn_plugin.model.auction import Bid


def any_number(offer):
    """Rows for each number of offered GPUs: rho falls as it grows."""
    most = sum(slot.gpus for machine in offer.machines for slot in machine.slots)
    return tuple(row(8.0 / gpus, *[1] * gpus) for gpus in range(1, most + 1))


@pytest.fixture
def journal(tmp_path):
    return recorded(tmp_path, lease_pool)


def recorded(tmp_path, pool_of):
    """Eight GPUs. ann has them for 100 s; then bob and kim, who are worse off, bid, and ann is the bystander."""
    settings = {"f": 0.4, "lease_s": 100.0, "place_within_s": 0.0, "round_window_s": 1.0}
    path = tmp_path / "journal"
    records = RecordFile(path)
    world = World.of(node("n1", 4), node("n2", 4), stage=Simulated(pool_of(settings), journal=records))
    ann = world.arrive("ann", rho=16.0, rows=any_number)
    world.wait(85.0)
    world.arrive("bob", rho=32.0, rows=any_number)
    world.arrive("kim", rho=32.0, rows=any_number)
    world.wait(85.0)
    world.stage.take(Deregistered(ann))
    records.close()
    return path


def rounds(journal, tmp_path, *options):
    out = tmp_path / "rounds.json"
    assert console.run(cli, "yarn-plugin", ["replay", str(journal), "--rounds", *options, "--json", str(out)]) == 0
    return json.loads(out.read_text())


@pytest.mark.parametrize("pool_of", [lease_pool, ledger_pool])
def test_a_round_has_its_bids_awards_payments_and_leftovers(pool_of, tmp_path, capsys):
    found = rounds(recorded(tmp_path, pool_of), tmp_path)
    assert (found["pool"], found["f"], found["complete"]) == ("gpu", 0.4, True)
    names = {one["app"]: one["name"] for one in found["apps"]}
    assert sorted(names.values()) == ["ann", "bob", "kim"]
    alone, contended = [one for one in found["rounds"] if one["awards"]][:2]
    assert [names[app] for app in alone["offered_to"]] == ["ann"]
    assert [(one["won"], one["kept"], one["share_min"]) for one in alone["awards"]] == [(8, 8, 1.0)]
    assert sorted(names[app] for app in contended["offered_to"]) == ["bob", "kim"]
    assert [(one["rows"], one["best_rho"], one["best_gpus"]) for one in contended["bids"]] == [(8, 1.0, 8)] * 2
    assert all(one["kept"] < one["won"] and one["share_max"] < 1 for one in contended["awards"])
    paid = sum(one["won"] - one["kept"] for one in contended["awards"])
    assert [(names[app], gpus) for app, gpus in contended["leftovers"]] == [("ann", paid)]
    printed = capsys.readouterr().out
    assert "won (c)" in printed
    assert "bob, kim" in printed


def test_a_lease_tells_who_held_which_gpu_and_why_it_ended(journal, tmp_path):
    found = rounds(journal, tmp_path, "--pool", "gpu")
    names = {one["app"]: one["name"] for one in found["apps"]}
    first = [one for one in found["leases"] if names[one["app"]] == "ann" and one["wins"][0]["how"] == "bid"]
    assert len({one["cell"] for one in first}) == 8
    lost = [one for one in first if one["lost_in"] is not None]
    assert lost
    assert all(one["start"] < one["revoked_at"] <= one["end"] for one in lost)
    assert {one["ended_by"] for one in lost} == {"lease-vacated"}
    kept = [one for one in first if one["lost_in"] is None]
    assert {(one["wins"][1]["how"], one["ended_by"]) for one in kept} == {("leftover", "app-ended")}
    held = [one for one in found["leases"] if one["end"] is None]
    assert {names[one["app"]] for one in held} <= {"bob", "kim"}


def test_a_bid_that_does_not_count_is_late_malformed_or_missing(tmp_path, capsys):
    """Four are offered GPUs: ann bids, bob long after the deadline, kim in vain, and mia not at all."""
    path = tmp_path / "journal"
    records = RecordFile(path)
    world = World.of(node("n1", 4), stage=Simulated(lease_pool({"f": 0.0}), journal=records))
    world.arrive("ann", rho=3.0, rows=(row(1.0, 2),))
    bob = world.arrive("bob", rho=9.2, bids=False)
    kim = world.arrive("kim", rho=9.1, rows=(row(1.0, 5),))
    mia = world.arrive("mia", rho=9.0, bids=False)
    world.wait(20.0)
    offer = next(one for one in world.sent(Offer) if one.app == bob)
    world.stage.say(bob, Bid(1, 9.0, (row(1.0, 4),)), offer.bid_by + 30.0 - world.stage.clock.time)
    records.close()
    (found,) = [one for one in rounds(path, tmp_path)["rounds"] if one["offered_to"]]
    assert {(one["app"], one["reason"], round(one["late_s"], 3)) for one in found["missed_bids"]} == {
        (bob, "late", 30.0),
        (kim, "malformed", 0.0),
        (mia, "none", 0.0),
    }
    assert "ann, bid from bob 30 s too late, malformed bid from kim, no bid from mia" in " ".join(
        capsys.readouterr().out.split()
    )
    (why,) = [one for one in decisions(replay(path, TOYS).history) if one.kind == "RecordRound"]
    assert why.reason.endswith(f"; bid from {bob} 30 s too late; malformed bid from {kim}; no bid from {mia}")
    assert why.detail["missed_bids"] == found["missed_bids"]


def test_rounds_and_policies_are_not_shown_at_once(journal, capsys):
    options = ["replay", str(journal), "--rounds", "--policy", "srsf"]
    assert console.run(cli, "yarn-plugin", options) != 0
    assert "--rounds" in capsys.readouterr().err
