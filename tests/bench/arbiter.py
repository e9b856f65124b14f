"""The arbiter under load: 1,000 and 5,000 applications on 10,000 nodes, one event stream each.

In one process (`cycles.py`): the time from an answer of the ResourceManager to the commands, including JSON parsing and
fsync, for a mix of changes (`cycles.MIX`), and the memory after many events. As a black box: the time from a change in
the ResourceManager until the last stream is notified; a simulated ResourceManager (`simulated_manager.py`), an arbiter
that polls it, and all event streams (`listeners.py`) are separate processes. The arbiter recovers its applications from
a journal: registering them one by one would notify all streams of each and take hours. A few more are registered over
HTTP.

Environment variables set the size: ARBITER_SIZES (numbers of applications, separated by commas), ARBITER_NODES,
ARBITER_EVENTS (changes of the mix, the same for every size) and ARBITER_INPUTS (events after which memory is measured;
empty to skip that).
"""

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import requests

from tests.bench import cycles
from tests.bench.simulated_manager import World
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, new_request_id
from yarn_plugin.api.tokens import Principal, Tokens
from yarn_plugin.console import out

SIZES = [int(size) for size in os.environ.get("ARBITER_SIZES", "1000,5000").split(",")]
NODES = int(os.environ.get("ARBITER_NODES", "10000"))
CHANGES = {size: int(os.environ.get("ARBITER_EVENTS", "0")) or (200 if size <= 1000 else 60) for size in SIZES}
EVENTS = [int(count) for count in os.environ.get("ARBITER_INPUTS", "10000,100000").split(",") if count]
MEMORY_APPS, MEMORY_NODES = 50, 20
"""Few, so that many events take only minutes; `cycle_rss_mb` is the memory for each size after a few events."""
ROUNDS, NODE_ROUNDS, REGISTRATIONS = 6, 2, 5
METRICS_S = 0.4
CONFIG = f"""
[[pools]]
name = "{cycles.POOL.name}"
queue = "{cycles.POOL.queue}"
max_apps_per_user = 100000
max_streams_per_user = 100000

[poll]
metrics_s = {METRICS_S}

[limits]
max_connections = 20000
max_streams = 10000
changes_per_s = 100000
changes_burst = 100000
"""
TIMEOUT_S = 300.0


def measure() -> dict[str, Any]:
    """Time until a decision and until notification by number of applications; memory; bytes in the journal."""
    _raise_descriptor_limit()
    results: dict[str, Any] = {}
    for size in SIZES:
        results |= {f"apps_{size}_{name}": value for name, value in _cycle(size, CHANGES[size]).items()}
    if EVENTS:
        results |= _memory()
    for size in SIZES:
        results |= {f"apps_{size}_{name}": value for name, value in _notification(size).items()}
    return results


def _raise_descriptor_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65_536)), hard))


# From an answer of the ResourceManager to the commands.


def _cycle(size: int, changes: int) -> dict[str, Any]:
    raw = _run("latency", size, NODES, changes)
    times = [ms for name, measured in raw["ms"].items() for ms in measured if name in cycles.MIX]
    results: dict[str, Any] = {
        "cycle_ms_p50": statistics.median(times),
        "cycle_ms_p95": _quantile(times, 0.95),
        "cycle_ms_p99": _quantile(times, 0.99),
        "longest_pause_ms": max(ms for measured in raw["ms"].values() for ms in measured),
    }
    for name, measured in sorted(raw["ms"].items()):
        results[f"{name}_ms_p95"] = _quantile(measured, 0.95)
    results["cycle_rss_mb"] = raw["rss_mb"]
    results["journal_kb_per_event"] = raw["journal_bytes_per_event"] / 1e3
    results["journal_write_amplification"] = raw["journal_write_amplification"]
    out.print(f"  {size} applications: {results['cycle_ms_p95']:.0f} ms to the commands (p95 of {len(times)} changes)")
    return results


def _memory() -> dict[str, Any]:
    raw = _run("memory", MEMORY_APPS, MEMORY_NODES, *EVENTS)
    sizes = {f"memory_mb_after_{count}": mb for count, mb in raw["rss_mb"].items()}
    ends = [raw["rss_mb"][str(count)] for count in EVENTS]
    return {
        **sizes,
        "memory_peak_mb": raw["peak_mb"],
        "memory_growth": ends[-1] / ends[0],
        "memory_journal_kb_per_event": raw["journal_bytes_per_event"] / 1e3,
        "journal_write_amplification": raw["journal_write_amplification"],
        "journal_mb": raw["journal_mb"],
    }


def _run(measurement: str, *sizes: int) -> dict[str, Any]:
    """A measurement of `cycles` in a separate process."""
    command = [sys.executable, "-m", "tests.bench.cycles", measurement, *map(str, sizes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def _quantile(times: list[float], fraction: float) -> float:
    """The time that this fraction of the times does not exceed."""
    ordered = sorted(times)
    return ordered[min(int(fraction * len(ordered)), len(ordered) - 1)]


# From a change in the ResourceManager to the last stream.


class SimulatedManager:
    """A client of the simulated ResourceManager's routes below /simulate."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._session = requests.Session()
        self._session.trust_env = False

    def change(self, kind: str, **parameters: Any) -> tuple[str, float]:
        """Make a change; returns the application or node concerned, and the time."""
        made = self._session.post(f"{self.url}/simulate/{kind}", params=parameters, timeout=30).json()
        return made["subject"], made["at"]

    def get_answers(self) -> dict[str, Any]:
        """When each change was first in an answer; the number of requests and bytes sent by path."""
        answers: dict[str, Any] = self._session.get(f"{self.url}/simulate/answers", timeout=30).json()
        return answers


class Listeners:
    """The process that holds all event streams."""

    def __init__(self, process: "subprocess.Popen[str]", apps: dict[str, str]) -> None:
        self._process, self.streams = process, len(apps)
        self._write(json.dumps(apps))

    def ask(self, question: str) -> dict[str, Any]:
        """Send it a line and return its answer; see `listeners.py`."""
        self._write(question)
        assert self._process.stdout
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def _write(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def wait_open(self) -> None:
        """Wait until every stream is open."""
        _wait(
            lambda: self.ask("open")["open"] == self.streams, f"{self.streams} streams open", lambda: self.ask("open")
        )

    def wait_for_last(self, text: str) -> float:
        """Wait until all streams have received a share whose reason contains this text; when the last one did."""
        _wait(
            lambda: self.ask(text)["streams"] >= self.streams,
            f"all streams are notified of {text!r}",
            lambda: self.ask(text),
        )
        return float(self.ask(text)["last"])


class HealthProbe(threading.Thread):
    """Requests the arbiter's health continually: the longest response time is the longest pause of its service."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url, self._stopped = f"{url}/v1/health", threading.Event()
        self.longest = 0.0
        self.start()

    def run(self) -> None:
        """Send requests until `stop`."""
        with requests.Session() as session:
            session.trust_env = False
            while not self._stopped.wait(0.05):
                started = time.monotonic()
                session.get(self._url, timeout=TIMEOUT_S)
                self.longest = max(self.longest, time.monotonic() - started)

    def stop(self) -> float:
        """Stop; the longest response time in seconds."""
        self._stopped.set()
        self.join()
        return self.longest


def _notification(size: int) -> dict[str, Any]:
    """Times until all streams are notified, for this many applications."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        tokens = _seed_journal(state, size)
        with _child("simulated_manager", str(size), str(NODES)) as simulated:
            assert simulated.stdout
            manager = SimulatedManager(int(simulated.stdout.readline()))
            started = time.monotonic()
            with _arbiter(manager.url, state) as (process, url):
                ready = time.monotonic() - started
                with _child("listeners", url.rpartition(":")[2]) as listening:
                    listeners = Listeners(listening, tokens)
                    started = time.monotonic()
                    listeners.wait_open()
                    connected = time.monotonic() - started
                    out.print(f"  {size} applications: ready after {ready:.1f} s, streams open after {connected:.1f} s")
                    client = ArbiterClient(url, (state / "admin.token").read_text().strip())
                    results = _rounds(manager, listeners, client, psutil.Process(process.pid))
        return {"ready_s": ready, "streams_open_s": connected, **results}


def _rounds(
    manager: SimulatedManager, listeners: Listeners, client: ArbiterClient, process: psutil.Process
) -> dict[str, Any]:
    """Arrivals, ends, nodes lost and joined, and registrations, while the use of other applications changes."""
    after_change: list[float] = []
    after_answer: list[float] = []
    probe = HealthProbe(client.url)

    def notify(kind: str, reason: str, **parameters: Any) -> str:
        # Out of phase with the arbiter's polls.
        time.sleep(random.uniform(0.0, METRICS_S))
        subject, at = manager.change(kind, **parameters)
        last = listeners.wait_for_last(reason.format(subject.partition(":")[0]))
        after_change.append(last - at)
        after_answer.append(last - manager.get_answers()["first_sent"][f"{subject} {kind}"])
        out.print(
            f"    {kind}: all streams notified in {after_change[-1]:.2f} s,"
            f" {after_answer[-1]:.2f} s after the first answer with the change"
        )
        manager.change("use", count=cycles.CHANGING)
        return subject

    before = manager.get_answers()["served"]
    started = time.monotonic()
    for _ in range(ROUNDS):
        guest = notify("arrive", "{} arrived")
        notify("end", "{} ended", app=guest)
    for _ in range(NODE_ROUNDS):
        notify("lose", "node {} lost")
        notify("join", "node {} joined")
    registered = [_register(manager, listeners, client) for _ in range(REGISTRATIONS)]
    lasted = time.monotonic() - started
    after = manager.get_answers()["served"]
    requests_by_path = {path: after[path][0] - before.get(path, (0, 0))[0] for path in after}
    sent = sum(size for _, size in after.values()) - sum(size for _, size in before.values())
    return {
        "notified_s_p50": statistics.median(after_change),
        "notified_s_p95": _quantile(after_change, 0.95),
        "notified_s_max": max(after_change),
        "notified_after_answer_s_p50": statistics.median(after_answer),
        "notified_after_answer_s_p95": _quantile(after_answer, 0.95),
        "register_s_p50": statistics.median(registered),
        "service_pause_s": probe.stop(),
        "arbiter_rss_mb": process.memory_info().rss / 1e6,
        "manager_mb_per_second": sent / 1e6 / lasted,
        "manager_requests": {path: count for path, count in requests_by_path.items() if count},
    }


def _register(manager: SimulatedManager, listeners: Listeners, client: ArbiterClient) -> float:
    """Register an application that has just arrived, and end it; the seconds until it was registered."""
    guest, _ = manager.change("arrive")
    listeners.wait_for_last(f"{guest} arrived")
    started = time.monotonic()
    made = client.register(
        wire.Register(name="guest", request_id=new_request_id(), yarn_app=guest, pool=cycles.POOL.name)
    )
    spent = time.monotonic() - started
    manager.change("end", app=guest)
    # If one poll saw this end and the next arrival, no share would change and no stream be notified.
    listeners.wait_for_last(f"{made.app} ended")
    return spent


def _seed_journal(state: Path, size: int) -> dict[str, str]:
    """Write a journal in which every application is registered and has its share; returns their tokens."""
    cycle = cycles.Cycle(World(size, NODES), state)
    cycle.intake.compact()
    cycle.intake.close()
    tokens = Tokens(state)
    return {app: tokens.issue(Principal("app", app)) for app in cycle.intake.state.registered}


@contextmanager
def _arbiter(rm: str, state: Path) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    (state / "arbiter.toml").write_text(CONFIG)
    command = [sys.executable, "-c", "from yarn_plugin.cli import main; main()", "arbiter", "--rm", rm]
    command += ["--state", str(state), "--listen", "127.0.0.1:0", "--config", str(state / "arbiter.toml")]
    with (
        (state / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT) as process,
    ):
        try:
            address = state / "arbiter.json"
            read_log = (state / "log").read_text
            _wait(lambda: address.exists() or process.poll() is not None, "the arbiter starts", read_log)
            assert process.poll() is None, read_log()[-2000:]
            yield process, json.loads(address.read_text())["url"]
        finally:
            process.terminate()


@contextmanager
def _child(module: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", f"tests.bench.{module}", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def _wait(condition: Callable[[], bool], expected: str, read_state: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {TIMEOUT_S:g} s: {expected}; state: {str(read_state())[-2000:]}")
        time.sleep(0.05)
