"""Two trials of a search, a GPU and a slot of cores: each runs on the side that the arbiter gave it; the better one
moves to the GPU, when that is free, with its checkpoint."""

import json
import os
import signal
from collections import Counter

import pytest

from tests.eventually import eventually
from tests.leased.intervals import overlaps
from tests.leased.lab import Lab, ledger_pool
from tests.searches.lab import ROOT, TRAIN, Submitted, check_progress
from themis_agent.app_file import read
from themis_agent.yarn import submission
from yarn_plugin.api.client import ArbiterClient

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

SLOT_TRIAL, GPU_TRIAL = "trial-00001", "trial-00000"


@pytest.fixture
def lab(cluster, tmp_path, request):
    # Of the four GPUs of the node one is leased: it has memory for one task of that size.
    settings = {"cpu_slot.vcores": 2, "cpu_slot.memory-mb": 700, **getattr(request, "param", {})}
    config = ledger_pool("allox", settings, task_memory_mb=2100, nodes=[cluster.nodes[0].host])
    made = Lab(cluster, tmp_path, config=config)
    yield made
    made.close()


@pytest.fixture
def sampled_lab(cluster, tmp_path):
    """Four GPUs and two slots, with samples."""
    settings = {"cpu_slot.vcores": 2, "cpu_slot.memory-mb": 700, "sample_share": 1.0}
    config = ledger_pool("allox", settings, nodes=[cluster.nodes[0].host])
    made = Lab(cluster, tmp_path, config=config)
    yield made
    made.close()


def searched(executed, **more):
    """The GPU is declared to be less than twice as fast, so that no trial waits for it. The trial on the slot is the
    first at the end of its rung, as the other is held; it gives the slot back, and is promoted when the other is there.
    """
    command = f"python {TRAIN} --rate={{rate}} --executed={executed}"
    fields = {
        "name": "sides",
        "command": command,
        "algorithm": "successive_halving",
        "trials": 2,
        "eta": 2,
        "max_steps": 32,
        "grace_s": 5,
        "space": {"rate": {"type": "float", "low": 0.1, "high": 0.9}},
        "enqueue": [{"rate": 0.2}, {"rate": 0.8}],
        "memory_mb": 700,
        "gpu": {"command": f"{command} --hold={executed}.hold --hold-at=15", "speed": 5},
        "cpu": {"command": f"{command} --step-s=0.4", "speed": 3, "vcores": 2, "env": {"OMP_NUM_THREADS": "2"}},
        **more,
    }
    return read(fields, "app")


def sides(submitted):
    """On which side each start of each trial was."""
    found = {}
    for path in sorted(submitted.folder.root.glob("trials/*/epoch-*/launcher-0.json")):
        spec = json.loads(path.read_text())
        found.setdefault(spec["trial"], []).append(spec["env"]["THEMIS_SIDE"])
    return found


def test_trials_run_on_both_sides_and_the_better_one_goes_on_on_the_gpu(lab, tmp_path):
    hold = tmp_path / "executed.hold"
    hold.touch()
    submitted = Submitted(lab, tmp_path / "search", searched(tmp_path / "executed"))
    eventually(lambda: sides(submitted) == {GPU_TRIAL: ["gpu"], SLOT_TRIAL: ["cpu"]}, "a trial on each side", 60)
    token = (submitted.folder.root / submission.ARBITER_TOKEN).read_text()
    app = submission.read(submitted.folder.root).arbiter.app
    jobs = ArbiterClient(lab.arbiter.url, token).get_jobs(app).jobs
    assert [(job.name, job.work, len(job.alternatives)) for job in jobs] == [(GPU_TRIAL, 16, 2), (SLOT_TRIAL, 16, 2)]
    eventually(lambda: submitted.state().trials[SLOT_TRIAL].attempt is None, "the trial on the slot has stopped", 60)
    hold.unlink()
    report = submitted.until_ended()
    assert report["finalStatus"] == "SUCCEEDED", report["diagnostics"]
    assert sides(submitted) == {GPU_TRIAL: ["gpu"], SLOT_TRIAL: ["cpu", "gpu"]}
    assert submitted.state().best.id == SLOT_TRIAL
    # The other one was pruned after 16 steps, and may have taken another one until it was told.
    assert max(submitted.steps()[0.8]) == 32
    check_progress(submitted)


@pytest.mark.parametrize("lab", [{"sample_share": 1.0}], indirect=True)
def test_a_side_of_unknown_speed_is_sampled_and_the_steps_of_samples_count(lab, tmp_path):
    one_trial = {"algorithm": "plain", "trials": 1, "enqueue": [{"rate": 0.2}], "max_steps": 40}
    command = f"python {TRAIN} --rate={{rate}} --executed={tmp_path / 'executed'}"
    unknown = {
        "gpu": {"command": f"{command} --step-s=0.3"},
        "cpu": {"command": f"{command} --step-s=0.6", "vcores": 2},
    }
    submitted = Submitted(lab, tmp_path / "search", searched(tmp_path / "executed", **one_trial, **unknown))
    report = submitted.until_ended()
    assert report["finalStatus"] == "SUCCEEDED", report["diagnostics"]
    assert sides(submitted)[GPU_TRIAL][-1] == "gpu"
    (trial,) = submitted.state().trials.values()
    assert [one.is_slot for one in trial.measured].count(False) == 2
    assert submitted.steps() == {0.2: list(range(1, 41))}
    check_progress(submitted)


def finished_samples(lab):
    """How many samples were finished, by trial and alternative."""
    sides, done = {}, set()
    for record in lab.arbiter.journal():
        for command in record.get("commands", ()):
            message = command.get("message", {})
            if message.get("type") == "grant":
                sides |= {lease["id"]: (lease["job"], lease["alternative"]) for lease in message["leases"]}
            elif message.get("type") == "revoke" and message["cause"].get("note") == "the sample is done":
                done.add(message["lease"])
    return Counter(sides[lease] for lease in done)


def measured(submitted):
    """How many samples the agent has finished."""
    return sum(len(one.measured) for one in submitted.state().trials.values())


def test_no_cell_is_held_twice_and_no_sample_run_again_when_arbiter_and_master_are_killed(sampled_lab, tmp_path):
    steps, rates = 60, [0.05, 0.1, 0.2, 0.4]
    train = ROOT / "tests" / "data" / "train_digits.py"
    more = {
        "command": f"python {train} --rate={{rate}} --executed={tmp_path / 'executed'}",
        "algorithm": "plain",
        "trials": len(rates),
        "max_steps": steps,
        "enqueue": [{"rate": rate} for rate in rates],
        "space": {"rate": {"type": "float", "low": 0.01, "high": 0.9}},
        "environment": {"env": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}},
        "gpu": {},
        "cpu": {"vcores": 2},
    }
    submitted = Submitted(sampled_lab, tmp_path / "search", searched(tmp_path / "executed", **more))
    submitted.until_steps(1, 1, 120)
    eventually(lambda: measured(submitted) >= 1, "a sample is finished", 120)
    sampled_lab.arbiter.kill()
    sampled_lab.arbiter.start()
    eventually(lambda: measured(submitted) >= 4, "more samples are finished", 120)
    submitted.kill_master()
    submitted.until_steps(2, steps // 2, 180)
    attempts = submitted.restarts()
    sampled_lab.arbiter.kill()
    os.kill(submitted.master().pid, signal.SIGKILL)
    sampled_lab.arbiter.start()
    eventually(lambda: submitted.restarts() > attempts, "another attempt goes on", 60)
    report = submitted.until_ended(300)
    assert report["finalStatus"] == "SUCCEEDED", report["diagnostics"]
    assert {one.fate for one in submitted.state().trials.values()} == {"complete"}
    # Also the steps of samples count: none was executed again.
    assert submitted.steps() == {rate: list(range(1, steps + 1)) for rate in rates}
    assert max(finished_samples(sampled_lab).values()) <= 2
    assert not overlaps(submitted.intervals())
