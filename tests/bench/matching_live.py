"""AlloX and DRFA on an embedded cluster: twelve jobs of the authors' Google file on two GPUs and two slots of cores.

    python -m tests.bench.matching_live --jobs FILE [--policies allox,drfa] [--folder RESULTS]
    ALLOX_JOBS=FILE make bench BENCH=matching_live

FILE is in the format of the authors' simulator; without ALLOX_JOBS the second form measures nothing. Each job is a
search of one trial with a `[gpu]` and a `[cpu]` side, of the user that the file names, whose application master runs on
a node of its own. Steps sleep, for a tenth of the file's times together; declared speeds are the file's estimates. The
node with the GPUs joins when all masters have declared their trials: all jobs arrive at once, when the arbiter leases
the first machine. A job is completed when its lease has ended. All times are those of the arbiter's journal.

First, jobs of two seconds show what a lease takes beyond its steps: the start and the end of containers. With that much
more on each machine, the simulator's figures are printed before the jobs run.
"""

import argparse
import dataclasses
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tests.bench import matching_draw
from tests.bench.matching_draw import ALPHA, NODE, SLOT, Draw
from tests.eventually import eventually
from tests.leased.intervals import overlaps
from tests.leased.lab import Lab, ledger_pool
from tests.searches.lab import Submitted
from themis_agent.app_file import AppFile, read
from themis_agent.yarn import submission
from yarn_plugin.api.client import ArbiterClient
from yarn_plugin.console import out, table, write_json
from yarn_plugin.embedded import cluster as embedded
from yarn_plugin.embedded.cluster import Cluster, ClusterSpec
from yarn_plugin.embedded.ports import free_base
from yarn_plugin.model.resources import GPU, MEMORY, VCORES

PART = 0.1
"""Of the file's times."""

SHORT_S = 2.0
"""What jobs take whose leases are measured first."""

ROUNDS = 2
"""So often each policy runs."""

STEPS = 20
"""Of each job."""

POLICIES = ("allox", "drfa")

SCRIPT = Path(__file__).with_name("emulated_training.py")


@dataclass(frozen=True)
class Ran:
    """What became of a job: when its lease began and ended, in seconds from the arrival of all, on which side, and why
    there."""

    name: str
    side: str
    began_s: float
    ended_s: float
    why: str


@contextmanager
def two_nodes(folder: Path) -> Iterator[Cluster]:
    """A node for application masters, and one whose GPUs and cores are leased."""
    spec = ClusterSpec(
        folder / "cluster", nodes=2, racks=1, gpus_per_node=NODE[GPU], memory_mb=NODE[MEMORY], vcores=NODE[VCORES],
        node_expiry_ms=6000,
    )  # fmt: skip
    cluster = embedded.up(dataclasses.replace(spec, port_base=free_base(spec.hosts)))
    try:
        yield cluster
    finally:
        cluster.down()


def run(cluster: Cluster, folder: Path, drawn: Draw, policy: str) -> list[Ran]:
    """Run all jobs to their ends under a policy."""
    folder.mkdir(parents=True)
    settings = {"cpu_slot.vcores": SLOT[VCORES], "cpu_slot.memory-mb": SLOT[MEMORY], "alpha": ALPHA, "policy": policy,
                "slots_per_gpu": drawn.slots_per_gpu}  # fmt: skip
    config = ledger_pool("allox", settings, nodes=[cluster.nodes[1].host])
    with closing(Lab(cluster, folder, config=config)) as lab:
        with without_leased_node(lab):
            submitted = {
                job.name: Submitted(lab, folder / job.name, emulated(job), user=job.tenant) for job in drawn.jobs
            }
            eventually(lambda: all(map(has_declared, submitted.values())), "all trials are declared", 200)
        for one in submitted.values():
            report = one.until_ended(400)
            assert report["finalStatus"] == "SUCCEEDED", report["diagnostics"]
        held = [each for one in submitted.values() for each in one.intervals()]
        twice = overlaps(sorted(held, key=lambda one: one.begun))
        assert not twice, f"GPUs were held twice: {twice}"
        return recorded(lab.arbiter.journal(), {one.arbiter_app: name for name, one in submitted.items()})


@contextmanager
def without_leased_node(lab: Lab) -> Iterator[None]:
    """The cluster without the node that is leased, which joins again in the end."""
    node = lab.cluster.nodes[1]
    os.kill(lab.cluster.daemons[node.daemon], signal.SIGKILL)
    running = lambda: lab.sleepers.get("/nodes", states="RUNNING")["nodes"]["node"]  # noqa: E731
    eventually(lambda: len(running()) == 1, "YARN has lost the node")
    yield
    lab.cluster.start(node.daemon)


def emulated(job: Any) -> AppFile:
    """The search of a job: one trial whose steps sleep."""
    on_gpu, on_slot = job.seconds
    command = [sys.executable, str(SCRIPT), "--rate={rate}", f"--checkpoint-every={STEPS}"]
    speeds = [STEPS / seconds for seconds in job.estimated_s]
    fields = {
        "name": job.name,
        "command": [*command, f"--gpu-s={on_gpu / STEPS}"],
        "algorithm": "plain",
        "trials": 1,
        "max_steps": STEPS,
        "space": {"rate": {"type": "float", "low": 0.1, "high": 0.9}},
        "grace_s": 5,
        "gpu": {"speed": speeds[0], "memory_mb": 1024},
        "cpu": {
            "command": [*command, f"--gpu-s={on_slot / STEPS}"],
            "speed": speeds[1],
            "memory_mb": 1024,
            "vcores": SLOT[VCORES],
        },
    }
    return read(fields, "app")


def has_declared(submitted: Submitted) -> bool:
    """Whether an application master runs, and has declared its trial."""
    token = (submitted.folder.root / submission.ARBITER_TOKEN).read_text()
    return bool(ArbiterClient(submitted.lab.arbiter.url, token).get_jobs(submitted.arbiter_app).jobs)


def recorded(records: list[dict[str, Any]], names: dict[str, str]) -> list[Ran]:
    """What the arbiter's journal says of the jobs. `names`: of jobs, by application."""
    began: dict[str, Ran] = {}
    ended: dict[str, Ran] = {}
    first = None
    for record in records:
        if record["kind"] != "decision":
            continue
        for command in record["commands"]:
            message = command.get("message", {})
            name, now = names.get(command.get("app", "")), record["at"]
            if name is None:
                continue
            match message.get("type"):
                case "grant":
                    for lease in message["leases"]:
                        assert name not in began, f"{name} was leased a machine twice"
                        first = now if first is None else first
                        side = "GPU" if lease["alternative"] == 0 else "slot"
                        began[name] = Ran(name, side, now - first, 0.0, message["cause"]["note"])
                case "lease_ended":
                    assert first is not None
                    ended[name] = dataclasses.replace(began[name], ended_s=now - first)
    assert ended.keys() == set(names.values()), f"not ended: {set(names.values()) - ended.keys()}"
    return sorted(ended.values(), key=lambda one: one.began_s)


def measure() -> dict[str, Any]:
    """Run both policies; how AlloX's average JCT compares with DRFA's, and each with the simulated one."""
    path = os.environ.get("ALLOX_JOBS")
    if path is None:
        out.print("  ALLOX_JOBS is not set: nothing is measured")
        return {}
    return compare(Path(path), POLICIES, Path(tempfile.mkdtemp(prefix="matching-live-")))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.matching_live", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--jobs", type=Path, required=True, metavar="FILE")
    parser.add_argument("--policies", default=",".join(POLICIES), help="in this order, one or more of docs/allox.md")
    parser.add_argument("--folder", type=Path, help="an empty one, for results, journals and logs")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="matching-live-"))
    compare(options.jobs, options.policies.split(","), folder)


def compare(file: Path, policies: Sequence[str], folder: Path) -> dict[str, Any]:
    """Run the jobs of a file under each policy by turns. The results are also written to the folder."""
    jobs = matching_draw.read(file)
    with two_nodes(folder) as cluster:
        start_s = _start_s(cluster, folder / "short", matching_draw.draw(jobs, 0, PART))
        drawn = matching_draw.first_draw(jobs, PART, start_s)
        means = {policy: matching_draw.simulated(drawn, policy, start_s) for policy in policies}
        out.print(f"draw {drawn.seed}, of {len({job.tenant for job in drawn.jobs})} users; a GPU counts as "
                  f"{drawn.slots_per_gpu:.2f} slots; start {start_s:.2f} s; simulated average JCT: "
                  + ", ".join(f"{policy} {mean:.1f} s" for policy, mean in means.items()))  # fmt: skip
        runs = [
            _measure(cluster, folder / f"{policy}-{number}", drawn, policy, start_s)
            for number in range(1, ROUNDS + 1)
            for policy in policies
        ]
    results = {**figures(runs), "draw": drawn.seed, "start_s": start_s, "runs": runs}
    write_json(folder / "results.json", results)
    return results


def figures(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The average JCT of each policy over its runs, AlloX's as a part of DRFA's, and how far that of a run is off the
    simulated one at most."""
    means = {
        policy: fmean(run["mean_s"] for run in runs if run["policy"] == policy)
        for policy in dict.fromkeys(run["policy"] for run in runs)
    }
    results = {f"mean_jct_s_{policy}": mean for policy, mean in means.items()}
    if means.keys() >= set(POLICIES):
        results["mean_jct_allox_of_drfa"] = means["allox"] / means["drfa"]
    return {**results, "mean_jct_off_most": max(abs(run["mean_s"] / run["simulated_s"] - 1) for run in runs)}


def _start_s(cluster: Cluster, folder: Path, drawn: Draw) -> float:
    """What a lease takes beyond the steps of its job."""
    times = (SHORT_S, SHORT_S)
    short = tuple(dataclasses.replace(job, seconds=times, estimated_s=times) for job in drawn.jobs)
    ran = run(cluster, folder, dataclasses.replace(drawn, jobs=short), "allox")
    held = [one.ended_s - one.began_s - SHORT_S for one in ran]
    out.print(f"leases took {fmean(held):.2f} s more than their steps, {min(held):.2f} to {max(held):.2f} s")
    return fmean(held)


def _measure(cluster: Cluster, folder: Path, drawn: Draw, policy: str, start_s: float) -> dict[str, Any]:
    expected = matching_draw.completion_times(drawn, policy, start_s)
    ran = run(cluster, folder, drawn, policy)
    rows = [
        (one.name, one.side, f"{one.began_s:.1f}", f"{one.ended_s:.1f}", f"{expected[one.name]:.1f}") for one in ran
    ]
    out.print(table(None, ("job", "side", "#began s", "#ended s", "#simulated s"), rows))
    for one in ran:
        out.print(f"{one.name}: {one.why}", soft_wrap=True)
    mean, simulated = fmean(one.ended_s for one in ran), fmean(expected.values())
    out.print(f"{policy}: average JCT {mean:.1f} s, {mean / simulated - 1:+.0%} of the simulated {simulated:.1f} s")
    return {"policy": policy, "mean_s": mean, "simulated_s": simulated, "jobs": list(map(dataclasses.asdict, ran))}


if __name__ == "__main__":
    main()
