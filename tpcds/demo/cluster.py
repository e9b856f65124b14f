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

from tpcds.demo.record import AppSample, Sample
from tpcds.errors import TpcdsError
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterError

NODES, NODE_MEMORY_MB, NODE_VCORES, CPU_PER_NODE = 4, 1792, 4, 0.5
EXECUTOR_MEMORY = "1g"
"""A node has room for one executor and one small application master: four executors are a full share, two are half."""

START_TIMEOUT_S = 60.0
SAMPLE_INTERVAL_S = 1.0
MEMORY, VCORES = "memory-mb", "vcores"


class DemoError(TpcdsError):
    """The demo failed."""


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """The demo's cluster and arbiter: addresses, tokens, and the environment of Spark clients."""

    folder: Path
    rm_url: str
    arbiter_url: str
    admin_token: str
    user_token_file: Path
    environment: Mapping[str, str]
    quotas: str

    def client(self) -> ArbiterClient:
        """A client of the arbiter with the admin token."""
        return ArbiterClient(self.arbiter_url, self.admin_token)


def command(name: str) -> str:
    """The path of a command installed with this package."""
    return str(Path(sys.executable).with_name(name))


@contextmanager
def demo_cluster(folder: Path) -> Iterator[DemoCluster]:
    """Start a cluster of four nodes with half a core each, and an arbiter; stop both at the end in any case.

    Raises:
        DemoError: one of them does not start; quotes its error.
    """
    cluster = folder / "cluster"
    try:
        addresses, output = _up(cluster)
        with _arbiter(folder / "arbiter", addresses["ResourceManager"]) as (url, admin_token):
            token_file = folder / "user.token"
            user = getpass.getuser()
            _run("yarn-plugin", "token", user, "--arbiter", url, "--out", token_file, token=admin_token)
            environment = {name: addresses[name] for name in ("HADOOP_CONF_DIR", "SPARK_CONF_DIR")}
            environment["YARN_CONF_DIR"] = addresses["HADOOP_CONF_DIR"]
            quotas = next(
                (line for line in output.splitlines() if "cpu" in line.lower() or "cgroup" in line), "cgroups"
            )
            yield DemoCluster(folder, addresses["ResourceManager"], url, admin_token, token_file, environment, quotas)
    finally:
        subprocess.run(
            [command("yarn-plugin"), "cluster", "down", "--dir", str(cluster)], capture_output=True, check=False
        )


def _up(cluster: Path) -> tuple[dict[str, str], str]:
    out = cluster.parent / "addresses.json"
    size = ("--nodes", NODES, "--memory", NODE_MEMORY_MB, "--vcores", NODE_VCORES, "--gpus-per-node", 0)
    cpu = ("--cpu-per-node", CPU_PER_NODE, "--port-base", 0)
    output = _run("yarn-plugin", "cluster", "up", "--dir", cluster, *size, *cpu, "--json", out)
    addresses: dict[str, str] = json.loads(out.read_text())
    return addresses, output


@contextmanager
def _arbiter(state: Path, rm_url: str) -> Iterator[tuple[str, str]]:
    state.mkdir(parents=True, exist_ok=True)
    address = state / "arbiter.json"
    address.unlink(missing_ok=True)
    with (state / "log").open("w") as log:
        arguments = ["arbiter", "--rm", rm_url, "--state", str(state), "--listen", "127.0.0.1:0"]
        process = subprocess.Popen([command("yarn-plugin"), *arguments], stdout=log, stderr=log)
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


def _run(name: str, *arguments: object, token: str | None = None) -> str:
    environment = {**os.environ, **({"YARN_ARBITER_TOKEN": token} if token else {})}
    done = subprocess.run(
        [command(name), *map(str, arguments)], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        problem = lines[-1].removeprefix(f"{name}: ") if lines else f"exited with code {done.returncode}"
        raise DemoError(f"`{name} {arguments[0]}` failed: {problem}")
    return done.stdout + done.stderr


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
