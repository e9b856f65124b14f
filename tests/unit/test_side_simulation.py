"""Side policies in virtual time, alone and by the command; samples with and without a barrier."""

import json
import random
from pathlib import Path
from statistics import fmean

import pytest

from tests.side_runs import Given, run
from yarn_plugin import console
from yarn_plugin.cli import cli
from yarn_plugin.decide.policies.sides import SIDE_POLICIES
from yarn_plugin.drive.job_runs import simulate_sides
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.side_simulator import SideSimulation, mean_speedup
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Demand
from yarn_plugin.simulation.jobs.job import Job

DATA = Path(__file__).parents[1] / "data" / "simulation"
NODES = [Node("g:1", "/r", Resources.of({GPU: 1, VCORES: 1, MEMORY: 8192})),
         Node("c:1", "/r", Resources.of({VCORES: 8, MEMORY: 8192}))]  # fmt: skip


def job(number, user, at, gpu_s, cpu_s, error=0.0):
    demand = Demand((Resources.of({GPU: 1}), Resources.of({VCORES: 8, MEMORY: 4096})))
    seconds = (gpu_s, cpu_s)
    return Job(number, user, float(at), demand, seconds, tuple(one * (1 + error) for one in seconds))


def ends(outcome):
    return {one.number: one.ended_at for one in outcome.jobs}


@pytest.mark.parametrize("name", SIDE_POLICIES)
def test_every_policy_ends_jobs_when_the_reference_does(name):
    draws = random.Random(name)
    jobs = [job(number, draws.choice("abc"), draws.randint(0, 60), draws.randint(2, 40), draws.randint(2, 90))
            for number in range(30)]  # fmt: skip
    given = [Given(f"job{one.number}", one.tenant, one.seconds, one.arrives_at) for one in jobs]
    expected = run(given, (2, 3), SIDE_POLICIES[name].choose, alpha=0.5, slots_per_gpu=mean_speedup(jobs))
    found = SideSimulation(SIDE_POLICIES[name], jobs, (2, 3), alpha=0.5).run()
    assert {f"job{number}": at for number, at in ends(found).items()} == pytest.approx(expected.ends)


def test_jobs_wait_for_their_own_samples_or_for_those_of_all():
    """On a GPU 1 + 2 s of the first job and 2 + 4 s of the second, on cores 2 + 4 s of each; one after the other."""
    jobs = [job(0, "ann", 0, 100.0, 200.0), job(1, "ben", 0, 200.0, 200.0)]

    def simulated(barrier):
        return SideSimulation(SIDE_POLICIES["sjf"], jobs, (1, 1), samples=(0.01, 0.02), barrier=barrier).run()

    # In turn by user: GPU samples end at 1, 3, 5, 9; those on cores at 2, 4, 8, 12.
    assert ends(simulated(False)) == {0: 109.0, 1: 212.0}
    assert ends(simulated(True)) == {0: 112.0, 1: 212.0}


def test_the_allocator_samples_jobs_whose_times_nobody_knows():
    """It starts the job on the GPU as soon as that is known, after 1 + 2 s, while the slot is sampled; on the slot only
    when the GPU is known too, after 9 + 18 s."""
    (one,) = simulate_sides("allox", installed(), NODES, [job(0, "ann", 0, 100.0, 300.0)], 1.0, sample_share=1.0).jobs
    assert (one.alternative, one.ended_at) == (0, 103.0)
    (one,) = simulate_sides("allox", installed(), NODES, [job(0, "ann", 0, 900.0, 300.0)], 1.0, sample_share=1.0).jobs
    assert (one.alternative, one.ended_at) == (1, 327.0)


def test_a_wrong_estimate_chooses_the_wrong_side_and_takes_the_true_time():
    wrong = Job(0, "ann", 0.0, job(0, "ann", 0, 1.0, 1.0).demand, (100.0, 80.0), (50.0, 80.0))
    for policy in ("allox", "bf"):
        (one,) = simulate_sides(policy, installed(), NODES, [wrong], 1.0).jobs
        assert (one.alternative, one.completion_s) == (0, 100.0)


@pytest.mark.parametrize(("sides", "mean_s"), [({GPU: 1, VCORES: 1, MEMORY: 8192}, 150.0),
                                              ({VCORES: 8, MEMORY: 8192}, 450.0)])  # fmt: skip
@pytest.mark.parametrize("policy", SIDE_POLICIES)
def test_jobs_run_on_the_other_side_where_no_node_has_room_for_a_slot_or_a_gpu(policy, sides, mean_s):
    jobs = [job(0, "ann", 0, 100.0, 300.0), job(1, "ann", 0, 100.0, 300.0)]
    outcome = simulate_sides(policy, installed(), [Node("n:1", "/r", Resources.of(sides))], jobs, 1.0)
    assert fmean(one.completion_s for one in outcome.jobs) == mean_s


@pytest.fixture
def simulate(tmp_path, capsys):
    def simulated(*arguments):
        result = tmp_path / "result.json"
        words = ["simulate", "--cluster", DATA / "nodes.toml", "--workload", DATA / "sides.txt", *arguments]
        code = console.run(cli, "yarn-plugin", [*map(str, words), "--json", str(result)])
        return code, capsys.readouterr(), json.loads(result.read_text()) if result.exists() else None

    return simulated


def test_the_command_compares_all_policies(simulate):
    code, said, rows = simulate("--policy", ",".join(SIDE_POLICIES), "--alpha", "1")
    assert code == 0
    of_all = {row["policy"]: row for row in rows if row["tenant"] == "all"}
    assert set(of_all) == set(SIDE_POLICIES)
    assert {row["jobs"] for row in of_all.values()} == {3}
    # On the GPU: ann's first until 30, then her second, as nobody has a share then, until 40; ben's until 100.
    assert (of_all["drff"]["mean_completion_s"], of_all["drff"]["makespan_s"]) == (pytest.approx(160 / 3), 100.0)
    assert (of_all["allox"]["mean_completion_s"], of_all["allox"]["makespan_s"]) == (pytest.approx(80 / 3), 40.0)
    assert "makespan s" in said.out


def test_samples_and_the_barrier_are_options(simulate):
    _, _, known = simulate("--policy", "sjf")
    _, _, sampled = simulate("--policy", "sjf", "--sample-share", "1")
    _, _, together = simulate("--policy", "sjf,allox", "--sample-share", "1", "--barrier")
    means = [rows[-1]["mean_completion_s"] for rows in (known, sampled, together)]
    assert len(set(means)) == 3
    assert {row["policy"] for row in together} == {"sjf", "allox"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--policy", "drf"), "--policy 'drf': choose one of allox, allox_plus, bf, drfa, drff, drfs, es, jsq_plus"),
        (("--sample-share", "1.5"), "--sample-share"),
        (("--barrier",), "--barrier: must be left out without --sample-share: no job is sampled"),
        (("--cluster", DATA / "no_room.toml"), "must have a GPU, or room for a slot of 8 vcores and 4096 MB"),
    ],
)
def test_bad_input_is_named_in_one_line(simulate, arguments, error):
    code, said, _ = simulate(*arguments)
    assert code == 2
    assert error in said.err.replace("\n", " ")
