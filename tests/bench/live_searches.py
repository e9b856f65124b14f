"""Searches with emulated steps on an embedded cluster with counted GPUs, whose arbiter leases them by some policy."""

import dataclasses
import getpass
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import themis_agent
from tests.integration.arbiter_process import ArbiterProcess
from themis_agent.submitting.search import Search
from yarn_plugin.embedded import cluster as embedded
from yarn_plugin.embedded.cluster import ClusterSpec
from yarn_plugin.embedded.ports import free_base
from yarn_plugin.observe.resource_manager import ResourceManager

MACHINES, GPUS_PER_MACHINE = 4, 4
LEASE_S, F = 30.0, 0.5
SCRIPT = Path(__file__).with_name("emulated_training.py")
STEP_S = 0.5
"""Of a gang within a machine."""

CONFIG = f"""
[[pools]]
name = "gpu"
queue = "root.gpu"
resources = ["memory-mb", "vcores", "yarn.io/gpu"]
controller = "lease"

[pools.parameters]
policy = "{{policy}}"
f = {F}
lease_s = {LEASE_S}
grace_s = 10
round_window_s = 0.5

[poll]
metrics_s = 0.2
apps_s = 0.5
nodes_s = 2
"""


@dataclass(frozen=True)
class Searched:
    """A search whose trials all run to their ends, each on a gang of fixed size.

    `alone_s`: seconds of a trial on well placed GPUs. `slowdown`: on GPUs of several machines.
    """

    name: str
    arrival_s: float
    trials: int
    gang: int
    alone_s: float
    slowdown: float

    @property
    def steps(self) -> int:
        """Of each trial."""
        return round(self.alone_s / STEP_S)

    @property
    def gpu_s(self) -> float:
        """Seconds of a step on one GPU."""
        return STEP_S * self.gang


@dataclass(frozen=True)
class Times:
    """When YARN started and finished an application; seconds since the epoch."""

    started: float
    finished: float

    @property
    def seconds(self) -> float:
        """From start to finish."""
        return self.finished - self.started


class LiveCluster:
    """`store`: the folder with the searches' folders."""

    def __init__(self, rm_url: str, arbiter: ArbiterProcess, store: Path) -> None:
        self._rm_url, self._arbiter, self.store = rm_url, arbiter, store
        self._manager = ResourceManager([rm_url], getpass.getuser())
        self._token = store.parent / "token"
        self._token.write_text(arbiter.admin().issue_token(getpass.getuser()).token)

    def submit(self, app: Searched) -> Search:
        """Submit a search."""
        command = ["python", SCRIPT.name, f"--gpu-s={app.gpu_s}", f"--slowdown={app.slowdown}", "--rate={rate}"]
        return themis_agent.submit(
            command,
            name=app.name,
            space={"rate": {"type": "float", "low": 0.1, "high": 0.9}},
            algorithm="plain",
            trials=app.trials,
            max_steps=app.steps,
            step_s=app.gpu_s,
            gpus_per_trial={"min": app.gang, "max": app.gang},
            memory_mb=400,
            grace_s=8,
            checkpoint=self.store.as_uri(),
            environment={"files": [str(SCRIPT)], "python": sys.executable},
            rm=self._rm_url,
            arbiter=self._arbiter.url,
            token_file=self._token,
        )

    def times(self, search: Search, timeout_s: float) -> Times:
        """Wait until an application has ended; when it ran, by the ResourceManager."""
        result = search.wait(timeout_s)
        assert result.succeeded, f"{search}: {result.reason}"
        found = self._manager.get(f"/apps/{search.application}")["app"]
        return Times(found["startedTime"] / 1000, found["finishedTime"] / 1000)


@contextmanager
def live_cluster(policy: str, folder: Path) -> Iterator[LiveCluster]:
    """Start one machine for application masters, the machines with GPUs, and an arbiter; warmed up by a search that has
    used every machine, so that all have unpacked the agent's packages."""
    store = folder / "store"
    store.mkdir(parents=True)
    spec = ClusterSpec(
        folder / "cluster", nodes=MACHINES + 1, racks=1, gpus_per_node=GPUS_PER_MACHINE, gpu_partition=MACHINES,
        memory_mb=8192, vcores=16,
    )  # fmt: skip
    spec = dataclasses.replace(spec, port_base=free_base(spec.hosts))
    cluster = embedded.up(spec)
    try:
        arbiter = ArbiterProcess(cluster.rm_url, folder / "arbiter", CONFIG.format(policy=policy)).start()
        try:
            made = LiveCluster(cluster.rm_url, arbiter, store)
            made.times(made.submit(Searched("warm-up", 0, MACHINES, GPUS_PER_MACHINE, 2, 1)), 120)
            time.sleep(2)
            yield made
        finally:
            arbiter.stop()
    finally:
        cluster.down()
