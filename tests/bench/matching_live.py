"""AlloX and DRFA on an embedded cluster: twelve jobs of the authors' Google file on two GPUs and two slots of cores.

    python -m tests.bench.matching_live draw --jobs FILE
    python -m tests.bench.matching_live held --jobs FILE
    python -m tests.bench.matching_live run --policy allox --jobs FILE --json RESULT

FILE is in the format of the authors' simulator. Each job is a search of one trial with a `[gpu]` and a `[cpu]` side, of
the user that the file names, whose application master runs on a node of its own. Steps sleep, for a tenth of the
file's times together; declared speeds are the file's estimates. The node with the GPUs joins when all masters have
declared their trials: all jobs arrive at once, when the arbiter sees it. A job is completed when its lease has ended.
All times are those of the arbiter's journal.

`draw` says what the simulator expects, with `START_S` more on each machine for the start and the end of a container,
which `held` measures: what leases of twelve jobs took beyond their steps.
"""

import argparse
import dataclasses
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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

START_S = 3.0
"""Measured by `held`."""

STEPS = 20
"""Of each job."""

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


def run(folder: Path, drawn: Draw, policy: str) -> list[Ran]:
    """Run all jobs to their ends on a cluster of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    with pool(folder, policy, drawn.slots_per_gpu) as lab:
        gpus = lab.cluster.nodes[1]
        with without_node(lab.cluster, gpus.daemon):
            submitted = {}
            for job in drawn.jobs:
                place = folder / job.name
                submitted[job.name] = Submitted(lab, place, emulated(job), user=job.tenant)
            eventually(lambda: all(map(has_declared, submitted.values())), "all trials are declared", 200)
        for one in submitted.values():
            report = one.until_ended(400)
            assert report["finalStatus"] == "SUCCEEDED", report["diagnostics"]
        twice = overlaps([each for one in submitted.values() for each in one.intervals()])
        assert not twice, f"GPUs were held twice: {twice}"
        names = {one.arbiter_app: name for name, one in submitted.items()}
        return recorded(lab.arbiter.journal(), names)


@contextmanager
def pool(folder: Path, policy: str, slots_per_gpu: float, **settings: Any) -> Iterator[Lab]:
    """A node for application masters, another whose GPUs and cores are leased by this policy, and an arbiter."""
    spec = ClusterSpec(
        folder / "cluster", nodes=2, racks=1, gpus_per_node=NODE[GPU], memory_mb=NODE[MEMORY], vcores=NODE[VCORES],
        node_expiry_ms=6000,
    )  # fmt: skip
    cluster = embedded.up(dataclasses.replace(spec, port_base=free_base(spec.hosts)))
    try:
        chosen = {
            "cpu_slot.vcores": SLOT[VCORES], "cpu_slot.memory-mb": SLOT[MEMORY], "alpha": ALPHA, "policy": policy,
            "slots_per_gpu": slots_per_gpu, **settings,
        }  # fmt: skip
        lab = Lab(cluster, folder, config=ledger_pool("allox", chosen, nodes=[cluster.nodes[1].host]))
        yield lab
        lab.close()
    finally:
        cluster.down()


@contextmanager
def without_node(cluster: Cluster, daemon: str) -> Iterator[None]:
    """The cluster without a node, which joins again in the end."""
    os.kill(cluster.daemons[daemon], signal.SIGKILL)
    yield
    cluster.start(daemon)


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


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.matching_live", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("what", choices=["draw", "held", "run"])
    parser.add_argument("--jobs", type=Path, required=True, metavar="FILE")
    parser.add_argument("--policy", default="allox")
    parser.add_argument("--folder", type=Path, help="an empty one, for the cluster, journals and logs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result to FILE as JSON")
    options = parser.parse_args()
    jobs = matching_draw.read(options.jobs)
    drawn = matching_draw.first_draw(jobs, PART, START_S)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="matching-live-"))
    if options.what == "held":
        _held(drawn, folder)
        return
    expected = {policy: matching_draw.completion_times(drawn, policy, START_S) for policy in ("allox", "drfa")}
    means = {policy: fmean(times.values()) for policy, times in expected.items()}
    out.print(f"draw {drawn.seed}, a GPU counts as {drawn.slots_per_gpu:.2f} slots; simulated average JCT: "
              + ", ".join(f"{policy} {mean:.1f} s" for policy, mean in means.items()))  # fmt: skip
    if options.what == "draw":
        return
    ran = run(folder, drawn, options.policy)
    rows = [(one.name, one.side, f"{one.began_s:.1f}", f"{one.ended_s:.1f}",
             f"{expected[options.policy][one.name]:.1f}", one.why) for one in ran]  # fmt: skip
    out.print(table(None, ("job", "side", "#began s", "#ended s", "#simulated", "why"), rows))
    mean = fmean(one.ended_s for one in ran)
    out.print(f"{options.policy}: average JCT {mean:.1f} s, {mean / means[options.policy] - 1:+.0%} of simulated")
    if options.json:
        write_json(options.json, {"policy": options.policy, "mean_s": mean, "simulated_s": means[options.policy],
                                  "jobs": [dataclasses.asdict(one) for one in ran]})  # fmt: skip


def _held(drawn: Draw, folder: Path) -> None:
    short = tuple(dataclasses.replace(job, seconds=(2.0, 2.0), estimated_s=(2.0, 2.0)) for job in drawn.jobs)
    ran = run(folder, dataclasses.replace(drawn, jobs=short), "allox")
    for side in ("GPU", "slot"):
        held = [one.ended_s - one.began_s - 2.0 for one in ran if one.side == side]
        out.print(
            f"{side}: {len(held)} leases took {fmean(held):.2f} s more than their steps, at most {max(held):.2f} s"
        )


if __name__ == "__main__":
    main()
