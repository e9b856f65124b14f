"""One cluster that breaks by a seed: some of the worlds of `python -m tests.chaos`."""

import os
import subprocess
import sys

import pytest

from tests.chaos.__main__ import play
from tests.chaos.edits import Edit, EditError, edited
from tests.chaos.reverts import REVERTS, finder, reverted
from tests.chaos.world import RARE, World
from tests.sampled import one_in
from yarn_plugin.decide.commands import ListContainers
from yarn_plugin.model.causes import UseAsked

MAX_SEEDS = 300


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seeds", [15, pytest.param(100, marks=pytest.mark.matrix)])
def test_whatever_breaks_no_gpu_is_leased_twice_and_everybody_finishes(seeds):
    """So many seeds, and more until each rare state was reached."""
    reached = set()
    for seed in range(MAX_SEEDS):
        if seed >= seeds and reached >= set(RARE):
            break
        # A replay of every step takes a third of the time.
        world, problem = play(seed, replays=seed % 20 == 0)
        assert problem is None, f"seed {seed}: {problem}; see python -m tests.chaos --trace {seed}"
        reached |= world.reached
    assert reached >= set(RARE), f"never reached: {set(RARE) - reached}"


@one_in(3, "seed", [285, 547, 717, 824, 854])
def test_a_search_that_connects_to_a_stopped_arbiter_hears_of_its_death(seed):
    _, problem = play(seed, replays=False)
    assert problem is None, f"see python -m tests.chaos --trace {seed}"


def test_a_run_whose_faults_found_nobody_has_enough_others():
    world = World(0, replays=False)
    world.faults.make_up(0.0)
    assert (world.faults.count, len(world.faults.kinds)) == (8, 6)


def test_a_list_of_containers_does_not_overtake_an_earlier_one(monkeypatch):
    """The actor reads one after the other."""
    world, posted = World(0, replays=False), []
    arbiter, name = world.arbiters[0], "application_1_0000"
    world.yarn.submit(name, "ann")
    arbiter.begin()
    arbiter.deliver(arbiter._open)
    monkeypatch.setattr(arbiter, "post", lambda event, is_outcome: posted.append(len(event.containers)))
    for latency_s in (1.0, 0.1):
        monkeypatch.setattr(world.network, "latency", lambda latency_s=latency_s: latency_s)
        arbiter._act(ListContainers("app_1", name, UseAsked("app_1")))
        world.yarn.start_master(name)
    for _ in range(20):
        world.now, action = world._agenda.pop()
        action(world.now)
        if len(posted) == 2:
            break
    assert posted == [0, 1]


def test_a_seed_is_the_same_run_whatever_the_hash_seed():
    code = "import sys; from tests.chaos.__main__ import play; print(*play(7, replays=False)[0].trace, sep='\\n')"
    traces = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        played = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
        traces.add(played.stdout)
    assert len(traces) == 1


@pytest.mark.parametrize("name", REVERTS)
def test_a_mend_can_be_taken_back(name):
    with reverted(name):
        pass


@pytest.mark.matrix
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", REVERTS)
def test_a_mend_that_is_taken_back_is_found(name):
    assert finder(name, range(200)) is not None


def test_an_edit_of_a_function_that_has_changed_is_refused():
    with (
        pytest.raises(EditError, match="is 0 times in it"),
        edited("tests.chaos.edits", "edited", [Edit("", "", "x y", "")]),
    ):
        pass
    with pytest.raises(EditError, match="there is no"), edited("tests.chaos.edits", "gone", []):
        pass
