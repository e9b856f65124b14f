"""Training applications, the lease controller and its policies in virtual time: hand-computed stories, conservation."""

import json
from dataclasses import replace

import pytest

from tests.html_checks import checked
from yarn_plugin import console
from yarn_plugin.cli import cli
from yarn_plugin.drive.training_runs import TrainingRun, simulate, simulate_all
from yarn_plugin.model.gpus import Machine, Slot, Slowdown
from yarn_plugin.model.loss import SublinearLoss
from yarn_plugin.simulation.figures import training_figures
from yarn_plugin.simulation.leasing.application import Beliefs, JobProgress, installed_kind
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob, TrainingWorkload
from yarn_plugin.simulation.training.cluster import TrainingCluster

FOUR_GPUS = TrainingCluster((Machine("m1", "r1", (Slot("m1/s1", 4),)),))
TWO_MACHINES = TrainingCluster(
    tuple(Machine(f"m{n}", "r1", (Slot(f"m{n}/s1", 2), Slot(f"m{n}/s2", 2))) for n in (1, 2))
)
POLICIES = ("themis", "gandiva", "tiresias", "optimus", "slaq", "srtf", "srsf", "drf", "max_min")
FALLING = SublinearLoss(0.0, 1.0, 1.0, 0.0)


def app(name, arrival_s, *jobs, **fields):
    return TrainingApp(name, arrival_s, jobs, **fields)


def job(id, work_s, max_gpus=4, **fields):
    return TrainingJob(id, work_s, 1.0, max_gpus=max_gpus, loss=FALLING, **fields)


def run(policy, *apps, cluster=FOUR_GPUS, lease_s=100.0, **options):
    given = TrainingRun(policy, 1, TrainingWorkload(apps), cluster, lease_s=lease_s, keeps_holdings=True, **options)
    return simulate(given).outcome


def ends(outcome):
    return {f"{one.group}/{one.name}": one.ended_at for one in outcome.jobs}


@pytest.mark.parametrize("policy", POLICIES)
def test_an_app_alone_gets_all_that_it_can_use(policy):
    outcome = run(policy, app("a", 10.0, job("1", 1000.0)))
    assert ends(outcome) == pytest.approx({"a/1": 260.0}, abs=0.5)
    assert outcome.gpu_s == pytest.approx(1000.0, abs=1)
    its = training_figures(outcome)
    assert (its.max_rho, its.max_rho_app, its.placement_score) == pytest.approx((1.0, 1.0, 1.0), abs=0.01)


TWO_MODELS = TrainingCluster(
    tuple(Machine(f"m{n}", "r1", (Slot(f"m{n}/s1", 2),), model) for n, model in enumerate(("slow", "fast"), 1))
)


@pytest.mark.parametrize(
    ("speed", "seconds"),
    [
        (1.5, 250.0),  # on 4 GPUs at 1
        (4.0, 125.0),  # on 2 GPUs at 4
    ],
)
def test_jobs_run_on_fast_gpus_alone_where_they_end_sooner(speed, seconds):
    """1,000 GPU seconds on two slow GPUs and two fast ones; what the bid promises is what comes."""
    one = job("1", 1000.0, slowdown=Slowdown(1.0, 1.0, 1.0), speeds=(("fast", speed),))
    outcome = run("themis", app("a", 10.0, one), cluster=TWO_MODELS, lease_s=1000.0)
    assert ends(outcome) == pytest.approx({"a/1": 10.0 + seconds}, abs=0.5)
    if speed == 4.0:
        used = {one.gpu.partition("/")[0] for one in outcome.holdings if one.end - one.start > 1}
        assert used == {"m2"}


def test_least_attained_service_takes_turns():
    # a runs alone until its lease ends at 100, with 400 GPU seconds. b has had none: 400 GPU seconds until 200. At 200
    # both have had 400; a arrived first and ends at 250; b has 400 left, from 250 to 350.
    outcome = run("tiresias", app("a", 0.0, job("1", 600.0)), app("b", 20.0, job("1", 800.0)))
    assert ends(outcome) == pytest.approx({"a/1": 250.0, "b/1": 350.0}, abs=1.5)
    assert outcome.gpu_s == pytest.approx(1400.0, abs=1)
    # Two apps that can use 4 GPUs each: demand is 4, 8 and 4 of 4 GPUs.
    rhos = dict(zip("ab", outcome.job_rhos, strict=True))
    assert rhos["a"] == pytest.approx(250 / (150 * (20 + 2 * 230) / 250), abs=0.02)
    assert rhos["b"] == pytest.approx(330 / (200 * (2 * 230 + 100) / 330), abs=0.02)


def test_shortest_remaining_time_lets_the_short_app_go_first():
    outcome = run("srtf", app("a", 0.0, job("1", 800.0)), app("b", 20.0, job("1", 100.0)))
    # b waits for the end of a's lease at 100, and ends at 125.
    assert ends(outcome) == pytest.approx({"a/1": 225.0, "b/1": 125.0}, abs=1.5)


def test_an_auction_serves_the_app_that_waits():
    # With two apps the offer goes to the worse one, and its rho is unbounded while it holds nothing.
    outcome = run("themis", app("a", 0.0, job("1", 600.0)), app("b", 20.0, job("1", 800.0)))
    assert outcome.unfinished == 0
    assert outcome.gpu_s == pytest.approx(1400.0, abs=1)
    won = sorted((one.start, one.app) for one in outcome.holdings if one.start > 1)
    assert won[0] == (pytest.approx(100.0, abs=1), "b")
    assert max(one.ended_at for one in outcome.jobs) == pytest.approx(350.0, abs=2)
    assert [one.bidders for one in outcome.rounds if one.offered][:2] == [1, 1]


@pytest.mark.parametrize(("window_s", "rounds"), [(0.0, [30, 35, 75, 80]), (20.0, [50, 110])])
def test_arrivals_and_freed_gpus_within_the_window_share_a_round(window_s, rounds):
    """b ends after 40 s on two GPUs and a after 50; c, which came meanwhile, waits for both."""
    apps = [app("a", 30.0, job("1", 100.0, 2)), app("b", 35.0, job("1", 80.0, 2)), app("c", 60.0, job("1", 300.0))]
    outcome = run("themis", *apps, round_window_s=window_s)
    assert [round(one.at) for one in outcome.rounds] == rounds


def test_a_job_of_several_gpus_is_kept_together():
    sensitive = job("1", 400.0, slowdown=Slowdown(1.0, 4.0, 4.0))
    outcome = run("themis", app("a", 0.0, sensitive), app("b", 0.0, sensitive), cluster=TWO_MACHINES)
    assert training_figures(outcome).placement_score == pytest.approx(1.0)
    assert ends(outcome) == pytest.approx({"a/1": 100.0, "b/1": 100.0}, abs=1)


LIVELY = (
    app("a", 0.0, *(job(str(n), 150.0 + 40 * n, 2) for n in range(4))),
    app("b", 30.0, job("1", 700.0, slowdown=Slowdown(1.0, 1.5, 2.0)), job("2", 90.0, 1)),
    app("c", 35.0, job("1", 300.0, 4, min_gpus=2, step_gpus=2)),
    app("d", 240.0, *(job(str(n), 60.0, 2) for n in range(5))),
)


@pytest.mark.parametrize("bidders", ["apps", "jobs"])
@pytest.mark.parametrize("policy", POLICIES)
def test_gpus_are_conserved_and_everything_ends(policy, bidders):
    outcome = run(policy, *LIVELY, cluster=TWO_MACHINES, bidders=bidders, checkpoint_s=3.0)
    assert outcome.unfinished == 0
    work = {(app.name, job.id): job.work_s for app in LIVELY for job in app.jobs}
    assert len(outcome.jobs) == len(work)
    held = sum(one.end - one.start for one in outcome.holdings)
    # Leftovers that would speed up no job are held, and idle; policies that name jobs leave none.
    assert outcome.gpu_s <= held + 1e-6
    if policy != "themis":
        assert outcome.gpu_s == pytest.approx(held)
    for one in outcome.jobs:
        assert one.busy_gpu_s >= one.iterations_s - 1e-6
        assert one.gpu_s >= one.busy_gpu_s - 1e-6
        assert one.iterations_s == pytest.approx(work[one.group, one.name])
    free_at = {}
    for one in sorted(outcome.holdings, key=lambda one: one.start):
        assert one.start >= free_at.get(one.gpu, 0.0) - 1e-9
        free_at[one.gpu] = one.end


@pytest.mark.parametrize("policy", ["themis", "tiresias"])
def test_the_same_seed_gives_the_same_outcome(policy):
    first = run(policy, *LIVELY, cluster=TWO_MACHINES, error=0.2)
    again = run(policy, *LIVELY, cluster=TWO_MACHINES, error=0.2)
    assert first == again


def test_processes_give_the_same_outcomes_in_order():
    runs = [
        TrainingRun(policy, seed, TrainingWorkload(LIVELY), TWO_MACHINES, lease_s=100.0)
        for policy in ("tiresias", "themis")
        for seed in (1, 2)
    ]
    seen = []
    results = simulate_all(runs, 2, seen.append)
    assert [(one.policy, one.seed) for one in results] == [
        ("tiresias", 1), ("tiresias", 2), ("themis", 1), ("themis", 2)
    ]  # fmt: skip
    assert results[2].outcome == simulate(runs[2]).outcome
    assert seen == sorted(seen)
    assert seen[-1] == 4 * len(LIVELY)


def test_successive_halving_stops_the_worse_half():
    steep = SublinearLoss(0.0, 3.0, 1.0, 0.0)
    jobs = (job("1", 1e9, 1), replace(job("2", 1e9, 1), loss=steep), job("3", 1e9, 1), job("4", 1e9, 1))
    outcome = run("themis", app("a", 0.0, *jobs, search="successive_halving", phases=(10.0, 20.0, 30.0)))
    done = {one.name: one.iterations_s for one in outcome.jobs}
    # All lose alike but 2; of equal ones the first by id go on.
    assert done == pytest.approx({"1": 30.0, "2": 60.0, "3": 10.0, "4": 10.0})
    assert {one.name: round(one.ended_at) for one in outcome.jobs} == {"1": 30, "2": 60, "3": 10, "4": 10}


def test_jobs_of_a_doubling_search_use_all_gpus_in_every_phase():
    given = app("a", 0.0, *(job(str(number), 1e9, 1) for number in range(4)), search="successive_halving",
                phases=(10.0, 20.0, 30.0), doubling=True)  # fmt: skip
    for policy in ("themis", "tiresias", "gandiva"):
        outcome = run(policy, given, lease_s=1000.0)
        # 4 jobs on a GPU each, 2 jobs on 2 each for 20 / 2, and one on all 4 for 30 / 4.
        assert max(one.ended_at for one in outcome.jobs) == pytest.approx(10 + 10 + 7.5)
        assert dict(outcome.app_rhos) == pytest.approx({"a": 1.0})


def test_errors_and_lies_are_in_what_an_app_says_and_not_in_what_happens():
    machines = FOUR_GPUS.machines
    given = app("a", 0.0, job("1", 100.0, slowdown=Slowdown(1.0, 1.5, 2.0)))
    progress = (JobProgress("1", 0.0, 0.0, ()),)

    def said(beliefs, seed="s"):
        from yarn_plugin.model.auction import EstimateRequest

        made = installed_kind().application(given, machines, 0.0, beliefs, seed)
        assert made.goals()[0].iterations == 100.0
        assert made.goals()[0].profile.slowdown == Slowdown(1.0, 1.5, 2.0)
        return made.answer(0.0, EstimateRequest(1, 1.0), progress).jobs[0]

    assert said(Beliefs()).slowdown == Slowdown(1.0, 1.5, 2.0)
    assert said(Beliefs(lie=0.5)).slowdown == Slowdown(1.0, 2.25, 3.0)
    wrong = [said(Beliefs(error=0.2), str(seed)) for seed in range(40)]
    assert all(80.0 <= one.iterations_left <= 120.0 for one in wrong)
    assert min(one.iterations_left for one in wrong) < 90 < 110 < max(one.iterations_left for one in wrong)
    assert min(one.slowdown.rack for one in wrong) < 1.8 < 2.2 < max(one.slowdown.rack for one in wrong)


# The command.

JOBS = [
    {"job_id": str(number), "job_group_id": str(number % 2), "start_time": 5, "total_iterations": 100 + 20 * number,
     "time_per_iteration": 0.1, "max_parallelism": 2, "random_seed": number}
    for number in range(6)
]  # fmt: skip
CLUSTER = "[[machines]]\ncount = 2\nslots = 1\ngpus_per_slot = 2\n"


def command(tmp_path, *more, jobs=None, cluster=CLUSTER):
    (tmp_path / "jobs.json").write_text(json.dumps(JOBS if jobs is None else jobs))
    (tmp_path / "gpus.toml").write_text(cluster)
    base = ["simulate", "--workload", str(tmp_path / "jobs.json"), "--cluster", str(tmp_path / "gpus.toml")]
    return console.run(cli, "yarn-plugin", [*base, "--processes", "1", *more])


FIELDS = [
    "policy",
    "workload",
    "seed",
    "max_rho",
    "median_rho",
    "max_rho_app",
    "jain",
    "avg_jct_job",
    "avg_jct_app",
    "makespan",
    "gpu_time",
    "placement_score",
    "rounds",
    "mean_bidders",
    "wall_s",
]


def test_the_command_compares_policies(tmp_path, capsys):
    files = ["--json", str(tmp_path / "rows.json"), "--report", str(tmp_path / "page.html")]
    assert command(tmp_path, "--policy", "themis,tiresias", "--seed", "1-2", "--lease", "5", *files) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0].split()[:2] == ["policy", "seed"]
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["policy"], row["seed"]) for row in rows] == [
        ("themis", 1), ("themis", 2), ("tiresias", 1), ("tiresias", 2)
    ]  # fmt: skip
    assert [list(row) for row in rows] == [FIELDS] * 4
    # The cut leaves 100 + 2 * 70... iterations at 0.1 minutes; nothing is slowed down on slots of 2 GPUs.
    assert {row["workload"] for row in rows} == {"jobs"}
    page = checked((tmp_path / "page.html").read_text())
    assert "themis, seed 1: who held which GPU" in page.text
    assert "tiresias" in page.text


def test_the_command_has_arrivals_share_rounds(tmp_path):
    def rounds(*window):
        jobs = [{**JOBS[0], "job_id": str(n), "job_group_id": str(n), "start_time": 5 + n} for n in range(6)]
        assert command(tmp_path, *window, "--json", str(tmp_path / "rows.json"), jobs=jobs) == 0
        return json.loads((tmp_path / "rows.json").read_text())[0]["rounds"]

    assert rounds("--round-window", "4") < rounds("--round-window", "0") == rounds()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy", "lottery"], "policy 'lottery'"),
        (["--lease", "soon"], "--lease 'soon': must be a number of minutes"),
        (["--lease", "0"], "--lease '0': must be above 0"),
        (["--seed", "5-1"], "--seed '5-1': must be numbers"),
        (["--seed", "-1"], "--seed '-1': must be 0 or more"),
        (["--seed", "0-99999"], "--seed '0-99999': must be at most 10,000 seeds"),
        (["--f", "2"], "--f"),
        (["--lie", "0.3", "--liar", "nobody"], "--liar 'nobody': must be an application of the workload"),
        (["--journal", "x"], "--journal 'x': must be left out"),
        (["--workload", "nowhere.json"], "no such file"),
        (["--workload", "themis-3"], "'themis-3': no such file; or choose one of themis-1, themis-2"),
        (["--cluster", "themis-33"], "--cluster 'themis-33'"),
    ],
)
def test_wrong_input_is_a_one_line_error(tmp_path, capsys, options, said):
    assert command(tmp_path, *options) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_options_of_training_are_refused_elsewhere(tmp_path, capsys):
    (tmp_path / "work.toml").write_text('[[applications]]\nkind = "batch"\ncore_seconds = 90\nmax_cores = 8\n')
    assert command(tmp_path, "--workload", str(tmp_path / "work.toml"), "--lease", "5") == 2
    assert "must be left out: for training workloads only" in capsys.readouterr().err


def test_a_cluster_that_is_too_small_is_said(tmp_path, capsys):
    assert command(tmp_path, "--policy", "tiresias", jobs=JOBS[:1], cluster=CLUSTER) == 0
    capsys.readouterr()
    wide = [{**JOBS[0], "max_parallelism": 2}]
    assert command(tmp_path, "--policy", "themis", jobs=wide) == 0
    assert "never ended" not in capsys.readouterr().err
