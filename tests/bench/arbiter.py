"""The arbiter under load: 1,000 and 5,000 applications on 10,000 nodes, one event stream each.

In one process (`cycles.py`): from an answer of the ResourceManager to the commands, JSON read and fsync included, in a
mix of changes (see `cycles.MIX`), and the memory after many inputs. Black box: a simulated ResourceManager
(`simulated_manager.py`), an arbiter process that watches it, and all event streams (`listeners.py`) are processes of
their own; from a change in the ResourceManager to the last stream told. The arbiter finds its applications registered,
in a journal: to register them one by one would tell everybody of each, and takes hours. Some more are registered over
HTTP, each of which tells all streams.

ARBITER_SIZES (applications, comma separated), ARBITER_NODES, ARBITER_EVENTS (of the mix, the same for every size) and
ARBITER_INPUTS (memory; empty: not measured) change how much is measured.
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
from collections.abc import Iterator
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
EVENTS = {size: int(os.environ.get("ARBITER_EVENTS", "0")) or (200 if size <= 1000 else 60) for size in SIZES}
INPUTS = [int(count) for count in os.environ.get("ARBITER_INPUTS", "10000,100000").split(",") if count]
MEMORY_APPS, MEMORY_NODES = 50, 20
"""Few, so that the many inputs take minutes; what a few large ones keep is `cycle_rss_mb` of each size."""
ROUNDS, NODE_ROUNDS, REGISTRATIONS = 6, 2, 5
CHANGING = cycles.CHANGING
FIGURES_S = 0.4
CONFIG = f"""
[[pools]]
name = "{cycles.POOL.name}"
queue = "{cycles.POOL.queue}"
max_apps_per_user = 100000
max_streams_per_user = 100000

[poll]
metrics_s = {FIGURES_S}

[limits]
max_connections = 20000
max_streams = 10000
"""
PATIENCE_S = 300.0


def measure() -> dict[str, Any]:
    """Milliseconds and seconds of a change, by the number of applications; memory; the journal's bytes."""
    _raise_descriptors()
    found: dict[str, Any] = {}
    for size in SIZES:
        found |= {f"apps_{size}_{name}": figure for name, figure in _cycle(size, EVENTS[size]).items()}
    if INPUTS:
        found |= _memory()
    for size in SIZES:
        found |= {f"apps_{size}_{name}": figure for name, figure in _told(size).items()}
    return found


def _raise_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65_536)), hard))


# From an answer to the commands.


def _cycle(size: int, events: int) -> dict[str, Any]:
    raw = _run("latency", size, NODES, events)
    times = [ms for name, found in raw["ms"].items() for ms in found if name in cycles.MIX]
    figures: dict[str, Any] = {
        "cycle_ms_p50": statistics.median(times),
        "cycle_ms_p95": _quantile(times, 0.95),
        "cycle_ms_p99": _quantile(times, 0.99),
        "longest_pause_ms": max(ms for found in raw["ms"].values() for ms in found),
    }
    for name, found in sorted(raw["ms"].items()):
        figures[f"{name}_ms_p95"] = _quantile(found, 0.95)
    figures["cycle_rss_mb"] = raw["rss_mb"]
    figures["journal_kb_an_event"] = raw["journal_bytes_an_event"] / 1e3
    figures["journal_written_to_appended"] = raw["journal_written_to_appended"]
    out.print(f"  {size} applications: {figures['cycle_ms_p95']:.0f} ms to the commands (p95 of {len(times)})")
    return figures


def _memory() -> dict[str, Any]:
    raw = _run("memory", MEMORY_APPS, MEMORY_NODES, *INPUTS)
    figures = {f"memory_mb_after_{count}": mb for count, mb in raw["rss_mb"].items()}
    ends = [raw["rss_mb"][str(count)] for count in INPUTS]
    return {
        **figures,
        "memory_peak_mb": raw["peak_mb"],
        "memory_growth": ends[-1] / ends[0],
        "memory_journal_kb_an_input": raw["journal_bytes_an_input"] / 1e3,
        "journal_written_to_appended": raw["journal_written_to_appended"],
        "journal_mb": raw["journal_mb"],
    }


def _run(what: str, *sizes: int) -> dict[str, Any]:
    """A measurement of `cycles` in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.cycles", what, *map(str, sizes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _quantile(times: list[float], part: float) -> float:
    """The least time that is not exceeded by this part of them."""
    ordered = sorted(times)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


# From a change to the last stream told.


class Simulated:
    """The simulated ResourceManager's own routes."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._session = requests.Session()
        self._session.trust_env = False

    def change(self, what: str, **asked: Any) -> tuple[str, float]:
        """Let something happen; returns what it happened to, and when."""
        made = self._session.post(f"{self.url}/simulate/{what}", params=asked, timeout=30).json()
        return made["change"], made["at"]

    def shown(self) -> dict[str, Any]:
        """When each change was first shown; what was asked how often, and the bytes sent."""
        found: dict[str, Any] = self._session.get(f"{self.url}/simulate/shown", timeout=30).json()
        return found


class Listening:
    """The process that holds all event streams."""

    def __init__(self, process: "subprocess.Popen[str]", apps: dict[str, str]) -> None:
        self._process, self.streams = process, len(apps)
        self._write(json.dumps(apps))

    def ask(self, question: str) -> dict[str, Any]:
        """Ask it something; see `listeners.py`."""
        self._write(question)
        assert self._process.stdout
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def _write(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def wait_open(self) -> None:
        """Wait until every stream is open."""
        _wait(
            lambda: self.ask("open")["open"] == self.streams, f"{self.streams} streams open", lambda: self.ask("open")
        )

    def last(self, text: str) -> float:
        """When the last stream received the share whose reason contains this text."""
        _wait(lambda: self.ask(text)["streams"] >= self.streams, f"all are told {text!r}", lambda: self.ask(text))
        return float(self.ask(text)["last"])


class Pauses(threading.Thread):
    """Asks the arbiter for its health again and again: the longest wait is the longest pause of its service."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url, self._over = f"{url}/v1/health", threading.Event()
        self.longest = 0.0
        self.start()

    def run(self) -> None:
        """Ask until `end`."""
        with requests.Session() as session:
            session.trust_env = False
            while not self._over.wait(0.05):
                began = time.monotonic()
                session.get(self._url, timeout=PATIENCE_S)
                self.longest = max(self.longest, time.monotonic() - began)

    def end(self) -> float:
        """Stop asking; the longest wait in seconds."""
        self._over.set()
        self.join()
        return self.longest


def _told(size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        tokens = _seed_journal(state, size)
        with _child("simulated_manager", str(size), str(NODES)) as simulated:
            assert simulated.stdout
            manager = Simulated(int(simulated.stdout.readline()))
            began = time.monotonic()
            with _arbiter(manager.url, state) as (process, url):
                ready = time.monotonic() - began
                with _child("listeners", url.rpartition(":")[2]) as heard:
                    listening = Listening(heard, tokens)
                    began = time.monotonic()
                    listening.wait_open()
                    connected = time.monotonic() - began
                    out.print(f"  {size} applications: ready after {ready:.1f} s, streams open after {connected:.1f} s")
                    client = ArbiterClient(url, (state / "admin.token").read_text().strip())
                    figures = _rounds(manager, listening, client, psutil.Process(process.pid))
        return {"ready_s": ready, "streams_open_s": connected, **figures}


def _rounds(manager: Simulated, listening: Listening, client: ArbiterClient, process: psutil.Process) -> dict[str, Any]:
    """Arrivals, ends, nodes lost and found again and registrations, while others change what they use."""
    changed: list[float] = []
    shown: list[float] = []
    pauses = Pauses(client.url)

    def told(what: str, text: str, **asked: Any) -> str:
        # Not in step with the arbiter's looks.
        time.sleep(random.uniform(0.0, FIGURES_S))
        name, at = manager.change(what, **asked)
        last = listening.last(text.format(name.partition(":")[0]))
        changed.append(last - at)
        shown.append(last - manager.shown()["sent"][f"{name} {what}"])
        out.print(f"    {what}: told to all in {changed[-1]:.2f} s, {shown[-1]:.2f} s after the answer that shows it")
        manager.change("use", count=CHANGING)
        return name

    before = manager.shown()["served"]
    began = time.monotonic()
    for _ in range(ROUNDS):
        guest = told("arrive", "{} arrived")
        told("end", "{} ended", app=guest)
    for _ in range(NODE_ROUNDS):
        told("lose", "node {} lost")
        told("join", "node {} joined")
    registered = [_register(manager, listening, client) for _ in range(REGISTRATIONS)]
    lasted = time.monotonic() - began
    after = manager.shown()["served"]
    asked = {path: after[path][0] - before.get(path, (0, 0))[0] for path in after}
    sent = sum(size for _, size in after.values()) - sum(size for _, size in before.values())
    return {
        "told_s_p50": statistics.median(changed),
        "told_s_p95": _quantile(changed, 0.95),
        "told_s_max": max(changed),
        "told_after_answer_s_p50": statistics.median(shown),
        "told_after_answer_s_p95": _quantile(shown, 0.95),
        "register_s_p50": statistics.median(registered),
        "service_pause_s": pauses.end(),
        "arbiter_rss_mb": process.memory_info().rss / 1e6,
        "manager_mb_a_second": sent / 1e6 / lasted,
        "manager_asked": {path: count for path, count in asked.items() if count},
    }


def _register(manager: Simulated, listening: Listening, client: ArbiterClient) -> float:
    """Register an application that has just arrived, and end it; the seconds until it was registered."""
    guest, _ = manager.change("arrive")
    listening.last(f"{guest} arrived")
    began = time.monotonic()
    made = client.register(
        wire.Register(name="guest", request_id=new_request_id(), yarn_app=guest, pool=cycles.POOL.name)
    )
    spent = time.monotonic() - began
    manager.change("end", app=guest)
    # An end and an arrival in one look leave everybody with the same share: nobody would be told.
    listening.last(f"{made.app} ended")
    return spent


def _seed_journal(state: Path, size: int) -> dict[str, str]:
    """A journal in which every application is registered and has its share; returns their tokens."""
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
            said = (state / "log").read_text
            _wait(lambda: address.exists() or process.poll() is not None, "the arbiter starts", said)
            assert process.poll() is None, said()[-2000:]
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


def _wait(holds: Any, what: str, found: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {PATIENCE_S:g} s: {what}; found {str(found())[-2000:]}")
        time.sleep(0.05)
