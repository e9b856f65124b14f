"""Jobs in virtual time: gangs in virtual clusters, jobs that run on a GPU or on cores."""

import json
from pathlib import Path

import pytest

from tests.small_cells import spec
from yarn_plugin import console
from yarn_plugin.cli import cli
from yarn_plugin.drive.job_runs import simulate_cells, simulate_sides
from yarn_plugin.drive.registry import installed
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Demand
from yarn_plugin.simulation.figures import job_figures
from yarn_plugin.simulation.jobs.job import Job, gang_of
from yarn_plugin.simulation.jobs.virtual_clusters import by_gpu_time, gpus_of, private_clusters, whole_nodes
from yarn_plugin.simulation.over_time import Spread

REGISTRY = installed()
DATA = Path(__file__).parents[1] / "data" / "simulation"


def job(number, tenant, at, gpus, seconds, node=8):
    gang = gang_of(gpus, node)
    demand = Demand((Resources.of({GPU: gang.cells}),))
    return Job(number, tenant, float(at), demand, (float(seconds),), (float(seconds),), gang, gang.cells)


def waits(outcome):
    return {one.number: one.wait_s for one in outcome.jobs}


FRAGMENTED = [job(0, "a", 0, 5, 1000), job(1, "b", 10, 5, 9000), job(2, "b", 20, 3, 9000), job(3, "a", 1200, 8, 600)]


@pytest.mark.parametrize(("policy", "wait"), [("cells", 0), ("private", 0), ("quota", 7810), ("capacity", 7810)])
def test_a_quota_of_gpus_lets_a_job_wait_that_has_its_cells_in_a_virtual_cluster(policy, wait):
    """HiveD (OSDI '20), section 2: b's second job goes beside a's first, so a has 8 GPUs, and no node. Nor can YARN's
    capacity give it one: nobody is beyond his part."""
    outcome = simulate_cells(policy, REGISTRY, whole_nodes({"a": 1, "b": 1}), FRAGMENTED, "fifo")
    assert waits(outcome)[3] == wait


def test_capacity_takes_back_what_others_use_beyond_their_part():
    jobs = [job(0, "a", 0, 8, 5000), job(1, "a", 1, 8, 5000), job(2, "b", 100, 8, 50)]
    outcome = simulate_cells("capacity", REGISTRY, whole_nodes({"a": 1, "b": 1}), jobs, "fifo")
    assert waits(outcome) == {0: 0.0, 1: 149.0, 2: 0.0}
    assert (outcome.jobs[1].preempted, outcome.jobs[1].lost_gpu_s) == (1, 8 * 99.0)


def test_fifo_lets_the_first_job_block_and_fair_serves_who_holds_least():
    jobs = [job(0, "a", 0, 5, 100), job(1, "a", 1, 8, 100), job(2, "b", 2, 2, 10)]
    first = simulate_cells("fifo", REGISTRY, whole_nodes({"a": 1, "b": 0}), jobs, "fifo")
    assert waits(first) == {0: 0.0, 1: 99.0, 2: 198.0}
    fair = simulate_cells("fair", REGISTRY, whole_nodes({"a": 1, "b": 0}), jobs, "fifo")
    assert waits(fair)[2] == 0.0


def test_low_priority_work_runs_beside_and_is_evicted_for_what_is_guaranteed():
    jobs = [job(0, "a", 0, 8, 1000), job(1, "a", 1, 8, 1000), job(2, "a", 2, 8, 1000), job(3, "b", 100, 8, 10)]
    nodes = whole_nodes({"a": 1, "b": 1})
    without = simulate_cells("cells", REGISTRY, nodes, jobs, "fifo")
    assert waits(without) == {0: 0.0, 1: 999.0, 2: 1998.0, 3: 0.0}
    with_it = simulate_cells("cells", REGISTRY, nodes, jobs, "low_priority")
    assert waits(with_it)[3] == 0.0
    assert sum(waits(with_it).values()) < sum(waits(without).values())
    assert sum(one.preempted for one in with_it.jobs) == 1


def test_private_clusters_have_the_cells_of_each_virtual_cluster_alone():
    private = dict(private_clusters(spec(a={"rack": 1}, b={"node": 1, "pair": 1})))
    assert {name: gpus_of(own, name) for name, own in private.items()} == {"a": 8, "b": 6}
    jobs = [job(0, "b", 0, 4, 10, node=4), job(1, "b", 0, 2, 10, node=4), job(2, "b", 0, 2, 10, node=4)]
    outcome = simulate_cells("private", REGISTRY, spec(a={"rack": 1}, b={"node": 1, "pair": 1}), jobs, "fifo")
    assert waits(outcome) == {0: 0.0, 1: 0.0, 2: 10.0}


def test_quotas_follow_from_gpu_time_and_the_largest_job():
    jobs = [job(0, "a", 0, 8, 43_200), job(1, "b", 0, 16, 60), job(2, "a", 100, 8, 43_200)]
    assert {name: gpus_of(by_gpu_time(jobs, 0.5), name) for name in ("a", "b")} == {"a": 16, "b": 16}


def test_fragmentation_is_the_fraction_of_nodes_that_cannot_take_a_whole_node_job():
    """HiveD (OSDI '20), section 5.2. With nodes only, two tenants' jobs of one GPU are on two nodes (section 5.3)."""
    jobs = [job(0, "a", 0, 1, 100), job(1, "b", 0, 1, 100), job(2, "a", 100, 1, 100)]
    nodes = simulate_cells("cells", REGISTRY, whole_nodes({"a": 1, "b": 1}), jobs, "fifo")
    assert nodes.fragmentation == (2 * 100 + 1 * 100) / (2 * 200)
    private = simulate_cells("private", REGISTRY, whole_nodes({"a": 1, "b": 1}), jobs, "fifo")
    assert private.fragmentation == nodes.fragmentation
    levels = simulate_cells("cells", REGISTRY, spec(a={"gpu": 1}, b={"gpu": 1}), jobs, "fifo")
    assert levels.fragmentation == 0.25, "buddies share one of the four nodes"


def test_opportunistic_jobs_do_not_fragment_until_they_are_promoted():
    jobs = [job(0, "a", 0, 8, 100), job(1, "a", 0, 8, 1000)]
    outcome = simulate_cells(
        "cells", REGISTRY, whole_nodes({"a": 1, "b": 1}), jobs, "low_priority", keeps_holdings=True
    )
    assert outcome.fragmentation == 1000 / (2 * 1000)
    assert {(one.app, one.group, one.start, one.end) for one in outcome.holdings} == {
        ("job0", "a", 0.0, 100.0),
        ("job1", "a", 0.0, 1000.0),
    }


def test_how_much_longer_than_in_a_private_cluster_counts_from_a_minute_on():
    nodes = whole_nodes({"a": 1, "b": 1})
    private, quota = (simulate_cells(policy, REGISTRY, nodes, FRAGMENTED, "fifo") for policy in ("private", "quota"))
    its = job_figures(quota.jobs, {one.number: one for one in private.jobs})
    assert (its.jobs, its.later, its.later_s, its.worst_later_s) == (4, 1, 7810.0, 7810.0)
    assert 0 < quota.utilisation < 1


def test_the_spread_of_progress_is_its_mean_over_time():
    spread = Spread({"a", "b"})
    spread.add(10.0, "a", 0.4)
    spread.add(20.0, "b", 0.4)
    spread.add(30.0, "b", -0.4)
    assert spread.mean(40.0) == pytest.approx(0.2 * 20 / 30)


def sides(number, user, at, gpu_s, cpu_s):
    demand = Demand((Resources.of({GPU: 1}), Resources.of({VCORES: 8, MEMORY: 4096})))
    return Job(number, user, float(at), demand, (gpu_s, cpu_s), (gpu_s, cpu_s))


def test_allox_chooses_the_side_of_each_job():
    """AlloX, section 2.2: the job that cores slow down least goes there."""
    nodes = [Node("g:1", "/r", Resources.of({GPU: 1, VCORES: 1, MEMORY: 8192})),
             Node("c:1", "/r", Resources.of({VCORES: 8, MEMORY: 8192}))]  # fmt: skip
    jobs = [sides(0, "ann", 0, 30.0, 90.0), sides(1, "ben", 0, 60.0, 20.0)]
    outcome = simulate_sides("allox", REGISTRY, nodes, jobs, 1.0)
    assert [(one.alternative, one.completion_s) for one in outcome.jobs] == [(0, 30.0), (1, 20.0)]
    assert outcome.utilisation == pytest.approx(50 / 60)


def test_jobs_on_gpus_share_the_vcores_of_their_node():
    nodes = [Node("g:1", "/r", Resources.of({GPU: 3, VCORES: 2, MEMORY: 8192}))]
    outcome = simulate_sides("allox", REGISTRY, nodes, [sides(n, "ann", 0, 30.0, 90.0) for n in range(3)], 1.0)
    assert sorted(one.completion_s for one in outcome.jobs) == [30.0, 30.0, 60.0]


@pytest.fixture
def simulate(tmp_path, capsys):
    def run(*arguments):
        result = tmp_path / "result.json"
        code = console.run(cli, "yarn-plugin", ["simulate", "--json", str(result), *map(str, arguments)])
        return code, capsys.readouterr(), json.loads(result.read_text()) if result.exists() else None

    return run


def test_the_command_compares_cells_with_quotas_and_private_clusters(simulate, tmp_path):
    page = tmp_path / "page.html"
    code, _, rows = simulate("--policy", "cells,quota", "--vcs", DATA / "cells.toml",
                             "--workload", DATA / "trace.csv", "--report", page)  # fmt: skip
    assert code == 0
    later = {row["policy"]: (row["later"], row["worst_later_s"]) for row in rows if row["tenant"] == "all"}
    assert later == {"cells": (0, 0.0), "quota": (1, 7810.0), "private": (0, 0.0)}
    shown = page.read_text()
    assert "private cluster" in shown
    assert "cells: who held which GPU" in shown and "could not take a guaranteed job" in shown
    fragmentation = {row["policy"]: row["fragmentation"] for row in rows if row["tenant"] == "all"}
    assert 0 < fragmentation["cells"] <= 1


def test_the_command_counts_what_virtual_clusters_gain_by_exchange(simulate):
    code, said, rows = simulate("--policy", "cells", "--vcs", DATA / "cells.toml", "--exchange",
                                "--workload", DATA / "trace.csv")  # fmt: skip
    assert code == 0 and "taken GPU h" in said.out
    gains = [row for row in rows if row["policy"] == "exchange"]
    assert [(row["tenant"], row["gain"], row["later"]) for row in gains] == [("a", 0.0, 0), ("b", 0.0, 0)]


def test_the_command_reads_workloads_of_the_allox_authors(simulate):
    code, _, rows = simulate("--policy", "allox", "--cluster", DATA / "nodes.toml", "--alpha", "1",
                             "--workload", DATA / "sides.txt")  # fmt: skip
    assert code == 0
    assert {row["tenant"]: row["mean_completion_s"] for row in rows} == {"ann": 30.0, "ben": 20.0, "all": 80 / 3}


CELLS = ("--vcs", DATA / "cells.toml")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((*CELLS, "--policy", "themis", "--workload", DATA / "trace.csv"),
         "--policy 'themis': choose one of capacity, cells, fair, fifo, private, quota"),
        ((*CELLS, "--exchange", "--low-priority", "--workload", DATA / "trace.csv"),
         "--exchange '': must be without --low-priority"),
        ((*CELLS, "--f", "0.5", "--workload", DATA / "trace.csv"),
         "--f 0.5: must be left out: for training workloads only"),
        (("--policy", "allox", "--workload", DATA / "sides.txt"), "--cluster '': must be a file of nodes"),
        (("--alpha", "1", "--cluster", "themis-32", "--workload", "themis-1"), "--alpha 1.0: must be left out"),
        (("--cluster", DATA / "nodes.toml", "--workload", "broken.txt"), "line 3: GPU_S 'x': must be a number"),
        (("--cluster", DATA / "nodes.toml", "--workload", "empty.txt"), "has no jobs"),
        ((*CELLS, "--from-day", "9", "--workload", DATA / "trace.csv"), "must be days with jobs, counted from day 9"),
        (("--workload", "other.csv", *CELLS), "must have virtual clusters of the workload's jobs, such as z"),
        (("--workload", DATA / "trace.csv"), "--cluster '': must be a file of nodes"),
    ],
)  # fmt: skip
def test_bad_input_is_named_in_one_line(simulate, tmp_path, monkeypatch, arguments, error):
    monkeypatch.chdir(tmp_path)
    Path("broken.txt").write_text("# 1\n1 0 1 0 ann\nstage -1.0 8.0 4.0 90.0 1.0 2.0 x 1\n0\n")
    Path("empty.txt").write_text("\n")
    Path("other.csv").write_text("timestamp,duration,num_gpus,cluster\n2017-10-01 00:00:00,10,1,z\n")
    code, said, _ = simulate(*arguments)
    assert code == 2
    errors = [line for line in said.err.splitlines() if not line.startswith("note:")]
    assert len(errors) == 1
    assert error in errors[0]
