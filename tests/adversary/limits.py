"""Attacks by what is allowed, only more of it: large bodies, many changes, idle registrations; on the service of a
search too. Each prints its figure and the limit."""

import contextlib
import json
import math
import multiprocessing
import resource
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from tests.adversary.checks import Result, check
from tests.adversary.lab import Arbiter, Lab, Stream, ask, happens_within
from tests.eventually import eventually

UNLIMITED = {"changes_per_s": 1_000_000, "changes_burst": 1_000_000}
DEFAULTS = {"changes_per_s": 10, "changes_burst": 100}


# Bodies.

CLIENTS, PROCESSES = 100, 2
LOAD_S, READY_RATIO = 12.0, 3.0
BAD_KEYS = b'{"weight":1,%s}' % b",".join(b'"%05d":1' % number for number in range(24_000))


@check
def ready_answers_while_bodies_are_bad(lab: Lab) -> Result:
    """100 clients PATCH 24,000 bad keys (240 KB), without a limit of changes: p95 of /v1/ready is at most 3 times that
    while 100 clients send good ones, in the same run."""
    arbiter = lab.arbiter(limits=UNLIMITED).start()
    made = arbiter.run("mallory", "busy")
    path = f"/v1/apps/{made['app']}"
    good = _ready_during(arbiter, path, made["token"], b'{"weight": 0.5}')
    bad = _ready_during(arbiter, path, made["token"], BAD_KEYS)
    ratio = bad["p95_s"] / good["p95_s"]
    observed = (
        f"p95 of ready {1000 * bad['p95_s']:.0f} ms with bad ones, {1000 * good['p95_s']:.0f} ms with good ones: ratio "
        f"{ratio:.2f}, limit {READY_RATIO:g} (worst {bad['worst_s']:.1f} and {good['worst_s']:.1f} s; "
        f"{bad['answers']} and {good['answers']} PATCHes answered)"
    )
    return ratio <= READY_RATIO, observed


def _ready_during(arbiter: Arbiter, path: str, token: str, body: bytes) -> dict[str, float]:
    """How long /v1/ready takes while clients in other processes send one PATCH after the other."""
    spawn = multiprocessing.get_context("spawn")
    answered, stop = spawn.Value("i", 0), spawn.Event()
    load = [
        spawn.Process(target=_patch, args=(arbiter.url, path, token, body, CLIENTS // PROCESSES, answered, stop))
        for _ in range(PROCESSES)
    ]
    for one in load:
        one.start()
    try:
        eventually(lambda: answered.value >= CLIENTS, "the clients are busy", 90)
        took, until = [], time.monotonic() + LOAD_S
        before = answered.value
        while time.monotonic() < until:
            answer = arbiter.ask("GET", "/v1/ready", timeout=30)
            assert answer.status == 200, f"ready answers {answer.status} {answer.text[:100]}"
            took.append(answer.seconds)
            time.sleep(0.02)
        count = answered.value - before
    finally:
        stop.set()
        for one in load:
            one.join(60)
    return {"p95_s": sorted(took)[math.ceil(0.95 * len(took)) - 1], "worst_s": max(took), "answers": count}


def _patch(url: str, path: str, token: str, body: bytes, clients: int, answered: Any, stop: Any) -> None:
    def send() -> None:
        while not stop.is_set():
            if ask(url, "PATCH", path, token, raw=body, timeout=60).status:
                with answered.get_lock():
                    answered.value += 1

    threads = [threading.Thread(target=send) for _ in range(clients)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


@check
def an_estimate_with_40000_losses_is_rejected_by_its_size(lab: Lab) -> Result:
    """An estimate with 40,000 losses is rejected with 422 or 413 and without a decision on it."""
    arbiter = lab.arbiter().start()
    made = arbiter.register("mallory")
    before = arbiter.inputs()
    body = b'{"type":"lease.estimate","round":1,"rho":1,"jobs":[{"losses":[%s]}]}' % b",".join([b"[1,1]"] * 40_000)
    answer = arbiter.ask("POST", f"/v1/apps/{made['app']}/messages", made["token"], raw=body)
    decided = arbiter.inputs() - before
    observed = f"{answer.status} {answer.text[:110]}; {decided} decisions, limit 0"
    return answer.status in (413, 422) and not decided, observed


# Changes.

FLIP_S = 10.0


@check
def a_weight_that_is_flipped_reaches_nobody_150_times_a_second(lab: Lab) -> Result:
    """One user flips a weight as fast as 8 clients can, for 10 s: a bystander has at most 2 events a second, the
    ResourceManager at most one write of weights a second, the journal grows by at most 4 MiB."""
    arbiter = lab.arbiter(pools={"max_weight": 10}, limits=DEFAULTS).start()
    bystander, flipping = arbiter.run("alice", "bystander"), arbiter.run("mallory", "flips")
    arbiter.wait_for_polls(3)
    stream = Stream(arbiter.url, bystander["app"], bystander["token"])
    happens_within(lambda: stream.has("share"), 5)
    puts = lab.proxy.set("/scheduler-conf$", lambda request, forward: forward(), method="PUT")
    events, journal = len(stream.events), arbiter.journal.stat().st_size
    sent = _repeat(
        lambda number: (
            arbiter.ask(
                "PATCH", f"/v1/apps/{flipping['app']}", flipping["token"], {"weight": 1 + 9 * (number % 2)}
            ).status
        ),
        clients=8,
    )
    time.sleep(1.5)
    events, written = len(stream.events) - events, puts()
    grown = (arbiter.journal.stat().st_size - journal) / 2**20
    stream.close()
    most_events, most_puts = 2 * (FLIP_S + 2), FLIP_S + 3
    observed = (
        f"{len(sent)} changes sent, {sent.count(200)} accepted; {events} events to a bystander, limit {most_events:g}; "
        f"{written} writes, limit {most_puts:g}; journal {grown:.1f} MiB, limit 4"
    )
    return events <= most_events and written <= most_puts and grown <= 4 and sent.count(200) > 0, observed


@check
def unknown_applications_cause_few_polls(lab: Lab) -> Result:
    """Registrations of unknown YARN applications for 10 s: at most a poll of /apps every 5 s beside the planned ones
    (every 5 s here)."""
    arbiter = lab.arbiter(poll={"apps_s": 5}, limits=UNLIMITED).start()
    token = arbiter.user("mallory")
    polls = lab.proxy.set("/apps$", lambda request, forward: forward())

    def register(number: int) -> int:
        body = {"name": "x", "request_id": f"request-{time.time_ns()}", "yarn_app": f"application_1_{number}"}
        return arbiter.ask("POST", "/v1/apps", token, body).status

    sent = _repeat(register, clients=8)
    most = 2 * (math.ceil(FLIP_S / 5) + 2)
    return polls() <= most, f"{len(sent)} registrations, {polls()} polls of /apps in {FLIP_S:g} s, limit {most}"


def _repeat(send: Callable[[int], int], clients: int) -> list[int]:
    """The statuses of what so many clients send for `FLIP_S`."""
    found: list[int] = []
    until = time.monotonic() + FLIP_S

    def run(first: int) -> None:
        number = first
        while time.monotonic() < until:
            found.append(send(number))
            number += 1

    threads = [threading.Thread(target=run, args=(1000 * number,)) for number in range(clients)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return found


@check
def idle_registrations_leave_a_neighbour_a_part(lab: Lab) -> Result:
    """30 registrations of one user at weight 10, with the default limits: a neighbour is guaranteed at least 9%."""
    arbiter = lab.arbiter(pools={"max_apps_per_user": 10, "max_weight": 1}).start()
    alice = arbiter.run("alice", "neighbour")
    statuses = []
    for number in range(30):
        answer = arbiter.try_register("mallory", f"idle {number}", weight=10)
        if answer.status == 422:
            answer = arbiter.try_register("mallory", f"idle {number}")
        statuses.append(answer.status)
        if answer.status == 201:
            lab.yarn.submit(answer.json["queue"], "mallory")
    arbiter.wait_for_polls(3)
    part = arbiter.guarantee(alice["app"])
    accepted = statuses.count(201)
    return part >= 0.09, f"{accepted} of 30 accepted, limit 10; the neighbour is guaranteed {part:.1%}, limit 9%"


# Files.


@check
def a_second_arbiter_is_refused_after_rm_of_the_lock(lab: Lab) -> Result:
    """`rm journal.lock` under a running arbiter: a second one on the same state does not start, the first goes on."""
    arbiter = lab.arbiter().start()
    arbiter.register("alice", "before")
    (arbiter.state / "journal.lock").unlink()
    words = ("--rm", arbiter.rm, "--state", arbiter.state, "--listen", "127.0.0.1:0")
    second = lab.run("arbiter", *words, limit_s=20)
    after = arbiter.try_register("alice", "after").status
    line = (second.stderr.strip().splitlines() or [""])[-1]
    observed = f"the second exits with {second.returncode} (limit: not 0 or 124): {line[:160]}; the first: {after}"
    return second.returncode not in (0, 124) and "another process" in line and after == 201, observed


@check
def journals_that_no_release_wrote_are_named(lab: Lab) -> Result:
    """A journal with valid checksums and deep JSON, a number of 5,000 digits, a list, or bad UTF-8 is refused in one
    line."""
    from yarn_plugin.journal.records import encode

    bodies = {
        "deep JSON": b"[" * 100_000,
        "5,000 digits": b'{"seq": %s}' % (b"9" * 5000),
        "a list": b"[1]",
        "bad UTF-8": b'{"a": "\xff"}',
    }
    found = {}
    for what, body in bodies.items():
        folder = lab.folder()
        folder.chmod(0o700)
        (folder / "journal").write_bytes(encode(body))
        (folder / "journal").chmod(0o600)
        words = ("--rm", lab.proxy.url, "--state", folder, "--listen", "127.0.0.1:0")
        ended = lab.run("arbiter", *words, limit_s=20)
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        is_one_line = ended.returncode == 1 and len(lines) == 1 and "journal" in lines[0]
        found[what] = "one line" if is_one_line else f"exit {ended.returncode}, {len(lines)} lines: {lines[-1:]}"
    good = sum(one == "one line" for one in found.values())
    return good == len(found), f"{good} of {len(found)} named in one line; " + ", ".join(map(": ".join, found.items()))


# The service of a search.

TRAINING = """
import sys, time
for step in range(1, 1000):
    print(f"step {step} loss {1 / step}", flush=True)
    time.sleep(0.2)
"""
APP = """
name = "attacked"
command = {command}
metric = "loss"
trials = 1
algorithm = "plain"
max_steps = 1000
[space]
q = {{ type = "float", low = 0.0, high = 1.0 }}
"""


DESCRIPTORS = 1024
"""What most systems let a process open unless it asks for more."""


class Search:
    """A search on this machine with one trial, and the address of its service."""

    def __init__(self, lab: Lab) -> None:
        self.folder = lab.folder()
        (self.folder / "train.py").write_text(TRAINING)
        (self.folder / "app.toml").write_text(APP.format(command=json.dumps("python train.py q={q}")))
        words = ["run", "--local", str(self.folder / "app.toml"), "--gpus", "1", "--state", str(self.folder / "search")]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, hard), hard))
        try:
            self.process = lab.spawn(words, command="themis_agent")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.log = b""
        threading.Thread(target=self._read, daemon=True).start()
        address = self.folder / "search" / "agent.json"
        eventually(lambda: address.exists() or self.process.poll() is not None, "the search runs", 60)
        assert self.process.poll() is None, f"the search ended: {self.log[-300:]!r}"
        self.url = json.loads(address.read_text())["url"]
        self.token = (self.folder / "search" / "token").read_text().strip()
        eventually(lambda: self.answers() == 401, "its service answers")

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError):
            while part := self.process.stdout.read1(65536):  # type: ignore[attr-defined]
                self.log += part

    def answers(self) -> int:
        """The status of a request without a token."""
        return ask(self.url, "POST", "/v1/stop", timeout=5).status

    def memory_mb(self) -> float:
        return float(psutil.Process(self.process.pid).memory_info().rss) / 2**20

    def steps(self) -> int:
        """How many reports of its trial the search has journaled."""
        return sum(one.read_bytes().count(b"event/Reported") for one in Path(self.folder / "search").glob("journal"))

    def connect(self) -> socket.socket:
        parts = urlsplit(self.url)
        return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=5)


@check
def half_sent_requests_do_not_stop_a_search(lab: Lab) -> Result:
    """1,200 half-sent requests without a token to the service of a search: it goes on, answers again within 20 s, and
    logs at most 64 KiB."""
    search = Search(lab)
    opened: list[socket.socket] = []
    for _ in range(1200):
        with contextlib.suppress(OSError):
            one = search.connect()
            opened.append(one)
            one.sendall(b"POST /v1/trials/trial-00000/events HTTP/1.1\r\nHost: x\r\nX-Half: ")
    during = search.steps()
    started = time.monotonic()
    back = happens_within(lambda: search.answers() == 401, 20)
    took = time.monotonic() - started
    goes_on = happens_within(lambda: search.steps() > during + 3, 30)
    for one in opened:
        one.close()
    logged = len(search.log) / 1024
    observed = (
        f"answers {f'after {took:.1f} s' if back else 'nothing'}, limit 20 s; log {logged:.0f} KiB, limit 64; "
        f"the trial goes on: {goes_on}; the process {'runs' if search.process.poll() is None else 'ended'}"
    )
    return back and goes_on and logged <= 64 and search.process.poll() is None, observed


@check
def a_large_body_does_not_fill_a_search(lab: Lab) -> Result:
    """A body of 400 MB to the service of a search, with and without its token, is rejected: at most 8 MB of it are
    sent by then, and the search grows by at most 32 MB."""
    search = Search(lab)
    before = search.memory_mb()
    found, most_sent = [], 0.0
    for token in (None, search.token):
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        line = "POST /v1/trials/trial-00000/events HTTP/1.1\r\nHost: x\r\n"
        head = f"{line}{authorization}Content-Length: 400000000\r\n\r\n"
        sent, status = 0, 0
        with search.connect() as one, contextlib.suppress(OSError):
            one.sendall(head.encode())
            while sent < 400_000_000 and not status:
                one.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    status = int(one.recv(4096).split(b" ", 2)[1])
                    break
                one.settimeout(10)
                one.sendall(b"x" * 2**20)
                sent += 2**20
        found.append(status)
        most_sent = max(most_sent, sent / 2**20)
    grown = search.memory_mb() - before
    observed = (
        f"answered {found[0]} without and {found[1]} with the token after {most_sent:.0f} MB, limit 8; it grew by "
        f"{grown:.0f} MB, limit 32"
    )
    return found == [401, 413] and most_sent <= 8 and grown <= 32, observed
