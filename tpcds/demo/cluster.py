"""The demo's cluster and arbiter, started and stopped with the commands a person would use, and samples of them."""

import getpass
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tpcds.demo.guard import Guard, guarded
from tpcds.demo.record import AppSample, Sample
from tpcds.errors import TpcdsError
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterError

EXECUTOR_MEMORY = "1g"


@dataclass(frozen=True, slots=True)
class Shape:
    """A cluster. `cpu_per_node`: cores of each node without GPUs. `gpu_nodes`: of the nodes, those with GPUs."""

    nodes: int
    memory_mb: int
    vcores: int
    cpu_per_node: float
    gpu_nodes: int = 0
    gpus_per_node: int = 0


FOR_QUERIES = Shape(nodes=4, memory_mb=1792, vcores=4, cpu_per_node=0.5)
"""A node has room for one executor and one small application master: four executors are a full share, two are half."""

START_TIMEOUT_S = 60.0
SAMPLE_INTERVAL_S = 1.0
MEMORY, VCORES = "memory-mb", "vcores"


class DemoError(TpcdsError):
    """The demo failed."""


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """The demo's cluster and arbiter: addresses, tokens, and the environment of Spark clients.

    `guard`: ends what is started on it if the demo is killed.
    """

    folder: Path
    rm_url: str
    arbiter_url: str
    admin_token: str
    user_token_file: Path
    environment: Mapping[str, str]
    quotas: str
    guard: Guard

    def client(self) -> ArbiterClient:
        """A client of the arbiter with the admin token."""
        return ArbiterClient(self.arbiter_url, self.admin_token)


def command(name: str) -> str:
    """The path of a command installed with this package."""
    return str(Path(sys.executable).with_name(name))


@contextmanager
def demo_cluster(folder: Path, shape: Shape, config: str | None = None) -> Iterator[DemoCluster]:
    """Start a cluster and an arbiter, with this configuration; stop both at the end in any case.

    Raises:
        DemoError: one of them does not start; quotes its error.
    """
    with (
        guarded(folder / "cluster") as guard,
        _cluster(folder / "cluster", shape, guard) as (addresses, output),
        _arbiter(folder / "arbiter", addresses["ResourceManager"], config, guard) as (url, admin_token),
    ):
        token_file = folder / "user.token"
        run("yarn-plugin", "token", getpass.getuser(), "--arbiter", url, "--out", token_file, token=admin_token)
        environment = {name: addresses[name] for name in ("HADOOP_CONF_DIR", "SPARK_CONF_DIR")}
        environment["YARN_CONF_DIR"] = addresses["HADOOP_CONF_DIR"]
        quotas = next((line for line in output.splitlines() if "cpu" in line.lower() or "cgroup" in line), "cgroups")
        manager = addresses["ResourceManager"]
        yield DemoCluster(folder, manager, url, admin_token, token_file, environment, quotas, guard)


@contextmanager
def _cluster(cluster: Path, shape: Shape, guard: Guard) -> Iterator[tuple[dict[str, str], str]]:
    """The cluster's addresses, and what its start printed."""
    try:
        yield _up(cluster, shape, guard)
    finally:
        subprocess.run(
            [command("yarn-plugin"), "cluster", "down", "--dir", str(cluster)], capture_output=True, check=False
        )


def _up(cluster: Path, shape: Shape, guard: Guard) -> tuple[dict[str, str], str]:
    out = cluster.parent / "addresses.json"
    size = ("--nodes", shape.nodes, "--memory", shape.memory_mb, "--vcores", shape.vcores)
    gpus = ("--gpus-per-node", shape.gpus_per_node, "--gpu-partition", shape.gpu_nodes)
    cpu = ("--cpu-per-node", shape.cpu_per_node, "--port-base", 0)
    output = run("yarn-plugin", "cluster", "up", "--dir", cluster, *size, *gpus, *cpu, "--json", out, guard=guard)
    addresses: dict[str, str] = json.loads(out.read_text())
    return addresses, output


@contextmanager
def _arbiter(state: Path, rm_url: str, config: str | None, guard: Guard) -> Iterator[tuple[str, str]]:
    state.mkdir(parents=True, exist_ok=True)
    address = state / "arbiter.json"
    address.unlink(missing_ok=True)
    with (state / "log").open("w") as log:
        arguments = ["arbiter", "--rm", rm_url, "--state", str(state), "--listen", "127.0.0.1:0"]
        if config is not None:
            (state / "arbiter.toml").write_text(config)
            arguments += ["--config", str(state / "arbiter.toml")]
        process = subprocess.Popen([command("yarn-plugin"), *arguments], stdout=log, stderr=log)
        guard.watch(process.pid)
        try:
            url = _wait_for_arbiter(process, address, state / "log")
            yield url, (state / "admin.token").read_text().strip()
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait_for_arbiter(process: subprocess.Popen[bytes], address: Path, log: Path) -> str:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        if address.exists():
            url: str = json.loads(address.read_text())["url"]
            token = (address.parent / "admin.token").read_text().strip()
            try:
                ArbiterClient(url, token).get_cluster()
            except ArbiterError:
                pass
            else:
                return url
        time.sleep(0.2)
    last = (log.read_text().strip().splitlines() or ["no output"])[-1]
    raise DemoError(f"the arbiter did not start: {last}; see {log}")


def run(name: str, *arguments: object, token: str | None = None, guard: Guard | None = None) -> str:
    """Run a command installed with this package; returns what it printed.

    Raises:
        DemoError: it failed; quotes its error.
    """
    environment = {**os.environ, **({"YARN_ARBITER_TOKEN": token} if token else {})}
    words = [command(name), *map(str, arguments)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        if guard is not None:
            guard.watch(process.pid)
        try:
            printed, errors = process.communicate()
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        lines = (errors.strip() or printed.strip()).splitlines()
        problem = lines[-1].removeprefix(f"{name}: ") if lines else f"exited with code {process.returncode}"
        raise DemoError(f"`{name} {arguments[0]}` failed: {problem}")
    return printed + errors


@contextmanager
def sampling(cluster: DemoCluster, out: Path) -> Iterator[None]:
    """Meanwhile, write a sample per second to a file of JSON lines."""
    stop = threading.Event()
    thread = threading.Thread(target=_write_samples, args=(cluster.client(), out, stop), name="samples", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=10)


def _write_samples(client: ArbiterClient, out: Path, stop: threading.Event) -> None:
    with out.open("w", encoding="utf-8") as file:
        while True:
            try:
                sample = _sample(client)
            except ArbiterError:
                # A failed poll leaves a gap of one second.
                continue
            finally:
                ended = stop.wait(SAMPLE_INTERVAL_S)
            file.write(sample.model_dump_json() + "\n")
            file.flush()
            if ended:
                return


def _sample(client: ArbiterClient) -> Sample:
    cluster, apps = client.get_cluster(), client.list_apps()
    return Sample(
        at=time.time(),
        memory_mb=cluster.capacity.get(MEMORY, 0),
        vcores=cluster.capacity.get(VCORES, 0),
        apps=tuple(_app(app) for app in apps),
    )


def _app(app: wire.App) -> AppSample:
    return AppSample(
        name=app.name,
        memory_mb=app.used.get(MEMORY, 0),
        vcores=app.used.get(VCORES, 0),
        containers=app.containers,
        guarantee=app.share.guarantee.fraction if app.share else None,
        entitlement=app.share.entitlement.fraction if app.share else None,
    )
