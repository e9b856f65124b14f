"""Random operations, valid and hostile, on one arbiter; then checks of what must hold after any operations.

The operations depend only on the seed. Each registration has a unique name, by which it can be found in the answers
and the journal of the arbiter.
"""

import contextlib
import json
import random
import re
import resource
import socket
import string
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.adversary import proxy
from tests.adversary.lab import Answer, Arbiter, Lab, Stream, happens_within
from tests.adversary.manager import FAULTS
from tests.eventually import eventually

MEMORY_GROWTH_MB = 300.0
"""The most that the process may grow by: the history of events."""

MAX_HEALTH_S = 5.0
MAX_APPLICATIONS = 60
"""Registered at the same time."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW")
FAULT_METRICS = re.compile(
    r"fail|error|refus|lost|manager_up|aside|reject|mistrust|unread|invalid|problem|fault|retr|age|away"
)
LOGGED_FAULT = re.compile(r" (WARNING|ERROR|CRITICAL) ")


@dataclass
class Accepted:
    """A registered application (201); `ended`: whether this test ended it."""

    app: str
    queue: str
    name: str
    user: str
    token: str
    seq: int = 0
    yarn_app: str | None = None
    ended: bool = False


@dataclass
class Report:
    """The operations, and the problems found."""

    done: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    checked: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def add_problem(self, problem: str) -> None:
        """Add a problem; at most five of a kind."""
        kind = problem.partition(":")[0]
        if sum(one.startswith(kind) for one in self.wrong) < 5:
            self.wrong.append(problem)

    def lines(self) -> list[str]:
        shown = [", ".join(f"{name} {count}" for name, count in sorted(self.done.items()))]
        shown += [f"statuses: {', '.join(f'{status}: {count}' for status, count in sorted(self.statuses.items()))}"]
        shown += [f"{what}: {found}" for what, found in self.checked.items()]
        return shown + ([f"WRONG {problem}" for problem in self.wrong] or ["no problems"])

    def as_dict(self) -> dict[str, Any]:
        return {
            "holds": not self.wrong, "wrong": self.wrong, "done": dict(self.done), "checked": self.checked,
            "statuses": {str(status): count for status, count in self.statuses.items()}, "faults": dict(self.faults),
        }  # fmt: skip


def fuzz(lab: Lab, operations: int, seed: int) -> Report:
    """Run a number of random operations, then check."""
    arbiter = lab.arbiter(pools={"submit_timeout_s": 3600}).start()
    attack = Attack(lab, arbiter, random.Random(seed))
    memory = arbiter.memory_mb()
    number = 0
    try:
        for number in range(operations):
            attack.one(number)
            if not arbiter.is_running:
                attack.report.add_problem(f"the arbiter exited: with {arbiter.process and arbiter.process.returncode}")
                attack.start()
        attack.check(memory)
    except StartError as problem:
        attack.report.add_problem(f"no start after {number + 1} operations: {problem}")
    return attack.report


class StartError(Exception):
    """The arbiter does not start again, so the attack ends."""


class Attack:
    """The operations on one arbiter."""

    def __init__(self, lab: Lab, arbiter: Arbiter, rng: random.Random) -> None:
        self.lab, self.arbiter, self.rng = lab, arbiter, rng
        self.report = Report()
        self.accepted: list[Accepted] = []
        self.refused: set[str] = set()
        self.conflicts: set[str] = set()
        self.users = {f"user{number}": arbiter.user(f"user{number}") for number in range(12)}
        self.streams: list[Stream] = []
        self._choices: list[tuple[int, Callable[[int], None]]] = [
            (22, self.register), (16, self.register_hostile), (8, self.revise), (8, self.vacate), (4, self.deregister),
            (8, self.declare),
            (14, self.read), (10, self.wrong_route), (4, self.raw_bytes), (4, self.follow), (3, self.submit),
            (1, self.end_yarn), (3, self.manager_fault), (1, self.large), (1, self.rarely),
        ]  # fmt: skip

    def start(self) -> None:
        """Start the arbiter again.

        Raises:
            StartError: it does not start.
        """
        try:
            self.arbiter.start()
        except AssertionError as problem:
            raise StartError(str(problem)) from None

    def one(self, number: int) -> None:
        """Run one random operation."""
        weights = [weight for weight, _ in self._choices]
        (choice,) = self.rng.choices([operation for _, operation in self._choices], weights)
        self.report.done[choice.__name__] += 1
        choice(number)

    def ask(self, method: str, path: str, token: str | None, **more: Any) -> Answer:
        answer = self.arbiter.ask(method, path, token, timeout=20, **more)
        self.report.statuses[answer.status] += 1
        if answer.status == 500:
            self.report.add_problem(f"500: {method} {path[:80]} {str(more)[:120]}")
        if "Traceback" in answer.text:
            self.report.add_problem(f"a traceback in a body: {method} {path[:80]}")
        if answer.status == 0 and "timed out" in answer.text:
            self.report.add_problem(f"no answer in 20 s: {method} {path[:80]}")
        return answer

    # Operations of a valid client.

    def register(self, number: int) -> None:
        if sum(not one.ended for one in self.accepted) > MAX_APPLICATIONS:
            self.deregister(number)
        user = self.rng.choice(list(self.users))
        name = f"fz-{number}-{self.rng.choice(('nightly', '[/x]', 'ünïcode ☃', 'a b', '../..', '%s%n'))}"
        body: dict[str, Any] = {"name": name, "request_id": f"request-{number}", "pool": self.rng.choice(("sql", None))}
        if self.rng.random() < 0.5:
            body["weight"] = self.rng.choice((0.5, 1, 2, 10))
        if self.rng.random() < 0.5:
            body["demand"] = [{"vcores": self.rng.randint(1, 64), "memory-mb": self.rng.randint(128, 65536)}]
        if self.rng.random() < 0.3:
            body["grace_s"] = self.rng.choice((0, 0.5, 2))
        answer = self.ask("POST", "/v1/apps", self.users[user], body=body)
        self._note(answer, name, user)

    def _note(self, answer: Answer, name: str, user: str) -> None:
        marker = "-".join(name.split("-")[:2]) + "-"
        if answer.status == 201:
            made = answer.json
            seq = (made.get("share") or {}).get("seq", 0)
            self.accepted.append(Accepted(made["app"], made["queue"], name, user, made["token"], seq))
        elif answer.status in (409, 429):
            self.conflicts.add(marker)
        elif 400 <= answer.status < 500 or answer.status == 503:
            self.refused.add(marker)

    def _some(self) -> Accepted | None:
        living = [one for one in self.accepted if not one.ended]
        return self.rng.choice(living) if living else None

    def revise(self, number: int) -> None:
        if one := self._some():
            good: list[dict[str, Any]] = [{"weight": 3}, {"demand": None}, {"demand": [{"vcores": 4}]}, {}]
            body = self.rng.choice([*good, {"weight": self.hostile()}, {"demand": self.hostile()}, {"x": 1}])
            self.ask("PATCH", f"/v1/apps/{one.app}", self._token(one), raw=_json(body))

    def declare(self, number: int) -> None:
        """Usually jobs with one hostile field, sometimes good ones."""
        if one := self._some():
            job: dict[str, Any] = {"name": "a", "gang": [{"pods": 1, "cells_each": 2}], "sharing": None}
            fields = ["name", "tenant", "priority", "alternatives", "gang", "suggested_nodes", "sharing", "work", "x"]
            wrong = {**job, self.rng.choice(fields): self.hostile()}
            body = {"jobs": self.rng.choice([[job], [job, {"name": "b"}], [], [wrong], [job, wrong], self.hostile()])}
            self.ask("PUT", f"/v1/apps/{one.app}/jobs", self._token(one), raw=_json(body))

    def vacate(self, number: int) -> None:
        if one := self._some():
            seq = self.rng.choice([one.seq, one.seq, 0, -1, 10**12, self.hostile()])
            self.ask("POST", f"/v1/apps/{one.app}/vacated", self._token(one), raw=_json({"seq": seq}))

    def _token(self, one: Accepted) -> str | None:
        """Usually its own token; sometimes that of its user or another user, an invalid one, or none."""
        if self.rng.random() < 0.7:
            return one.token
        return self.rng.choice([self.users[one.user], self.rng.choice(list(self.users.values())), None, "app.x.y"])

    def deregister(self, number: int) -> None:
        one = self._some()
        if one and self.ask("DELETE", f"/v1/apps/{one.app}", one.token).status in (204, 404, 0):
            one.ended = True

    def submit(self, number: int) -> None:
        one = self._some()
        running = [known for known in self.accepted if known.yarn_app and not known.ended]
        if one and not one.yarn_app and len(running) < 12:
            one.yarn_app = self.lab.yarn.submit(one.queue, one.user)

    def end_yarn(self, number: int) -> None:
        running = [one for one in self.accepted if one.yarn_app and not one.ended]
        if running:
            one = self.rng.choice(running)
            self.lab.yarn.kill(one.yarn_app or "")
            one.ended = True

    def read(self, number: int) -> None:
        one = self._some()
        app = one.app if one else "app_1"
        path = self.rng.choice(
            ["/v1/apps", "/v1/cluster", "/v1/health", "/v1/ready", "/metrics", "/v1/decisions?limit=50",
             "/openapi.json", f"/v1/apps/{app}", f"/v1/apps/{app}", f"/v1/decisions?app={app}"]
        )  # fmt: skip
        token = self.rng.choice([self.arbiter.admin, one.token if one else None, *self.users.values()])
        self.ask("GET", path, token)

    def follow(self, number: int) -> None:
        if len(self.streams) > 15:
            self.streams.pop(0).close()
        if one := self._some():
            last = self.rng.choice([None, "0", "1", str(one.seq), "10" * 20, "-1", "x", "٣", "1.5", f"{one.seq}.0"])
            with contextlib.suppress(UnicodeEncodeError):
                self.streams.append(Stream(self.arbiter.url, one.app, self._token(one) or "", last))

    # Operations of a hostile client.

    def hostile(self) -> Any:
        """A value that is invalid almost anywhere."""
        return self.rng.choice(
            [int("9" * 401), 10**30, -1, 0, 1e308, float("nan"), float("inf"), True, None, "", "x" * 5000, "\x00",
             "\ud800", "a\nb", [], {}, [[[[]]]], {"": ""}, [{"vcores": 10**40}], [{"vcores": -1}], [{}],
             [{"vcores": int("9" * 401)}], [{"memory-mb": int("9" * 4000)}], [{"\x1b[2J": 1}], [{"x" * 999: 1}],
             [{"vcores": 1.5}], [{"vcores": "7"}], [{"vcores": True}], [{"memory-mb": 2**63}], [{"vcores": 1}] * 300,
             _deep(200), _deep(3000), {"$ref": "#"}, "‮", "🦆" * 200, 1e-320, 2**64]
        )  # fmt: skip

    def register_hostile(self, number: int) -> None:
        user = self.rng.choice(list(self.users))
        name = f"fz-{number}-hostile"
        body: dict[str, Any] = {"name": name, "request_id": f"request-{number}", "weight": 1}
        where = self.rng.choice(
            ["weight", "demand", "demand", "demand", "grace_s", "pool", "yarn_app", "request_id", "extra", "name"]
        )
        value = self.hostile()
        body[where] = f"{name}{value}" if where == "name" and isinstance(value, str) else value
        token = self.rng.choice([self.users[user]] * 4 + [None, "user.root.0000", "x" * 4000, "user.user1."])
        answer = self.ask("POST", "/v1/apps", token, raw=_json(body))
        self._note(answer, body["name"] if isinstance(body["name"], str) else name, user)

    def wrong_route(self, number: int) -> None:
        path = self.rng.choice(
            ["/", "/v1", "/v1/", "/v1/apps/", "/v1/apps/%00", "/v1/apps/..%2f..%2fetc", "/v1/apps/" + "x" * 3000,
             "/v1/tokens", "/v1/apps/app_1/events", "/v1/apps/app_1/why?limit=99999999999999999999", "/v2/apps",
             "/v1/decisions?limit=-1", "/v1/apps/app_1/vacated", "/v1/decisions?limit=1e9", "/v1/apps/%F0%9F",
             "/v1/decisions?app=%ff%fe", "/metrics?x=1"]
        )  # fmt: skip
        token = self.rng.choice([None, self.arbiter.admin, *list(self.users.values())[:2]])
        if "events" in path and token == self.arbiter.admin:
            return
        raw = self.rng.choice([None, b"", b"{}", b"[]", b"{", b"\xff\xfe", b"null", _json({"user": self.hostile()})])
        self.ask(self.rng.choice(METHODS), path, token, raw=raw)

    def raw_bytes(self, number: int) -> None:
        """Send bytes that are not quite HTTP, or truncated at any point."""
        whole = b"POST /v1/apps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{}"
        sent = self.rng.choice(
            [bytes(self.rng.randrange(256) for _ in range(200)), whole[: self.rng.randrange(len(whole))],
             b"GET / HTTP/9.9\r\n\r\n", b"GET /v1/health HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
             b"GET /v1/health HTTP/1.1\r\nX: " + b"y" * 200_000, b"\r\n" * 100,
             b"GET /v1/health HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
             b"POST /v1/apps HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
             b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]
        )  # fmt: skip
        parts = urlsplit(self.arbiter.url)
        with contextlib.suppress(OSError), socket.create_connection((parts.hostname, parts.port), timeout=2) as opened:
            opened.sendall(sent)
            opened.settimeout(0.05)
            opened.recv(1000)

    def large(self, number: int) -> None:
        """Register with a body of a few megabytes."""
        name = f"fz-{number}-large"
        names = ("".join(self.rng.choices(string.ascii_letters, k=9)) for _ in range(50_000))
        body = {"name": name, "request_id": f"request-{number}", "demand": [{one: 1} for one in names]}
        answer = self.ask("POST", "/v1/apps", next(iter(self.users.values())), raw=_json(body))
        self._note(answer, name, "user0")

    # Faults.

    def manager_fault(self, number: int) -> None:
        """Make the ResourceManager answer with a fault for a moment; it must show in a metric or in the log."""
        faults = {
            **FAULTS,
            "trickle": proxy.trickle,
            "finished": proxy.finished_apps(10_000),
            "-7": proxy.numbers("-7"),
        }
        name = self.rng.choice(list(faults))
        path = self.rng.choice(["metrics", "nodes", "apps", "apps", "scheduler", "scheduler-conf"])
        before, log = self._fault_metrics(), len(self.arbiter.log)
        used = self.lab.proxy.set(f"/ws/v1/cluster/{path}$", faults[name])
        happens_within(lambda: used() >= 3, 1.5)
        time.sleep(0.1)
        during = self._fault_metrics()
        self.lab.proxy.clear_faults()
        self._health(f"{path} {name}")
        harmless = name in ("trickle", "finished", "-7", "1e999", "wrong types") or path == "scheduler"
        if used() and not harmless:
            self.report.faults[f"{path} {name}"] += 1
            reported = during != before or happens_within(
                lambda: self._fault_metrics() != before or self._logged(log), 2
            )
            if not reported:
                self.report.add_problem(
                    f"no trace of a fault: {path} answered as {name!r}, in no metric and no log line"
                )

    def _logged(self, since: int) -> bool:
        return bool(LOGGED_FAULT.search(self.arbiter.log[since:]))

    def _fault_metrics(self) -> dict[str, float]:
        """The metrics that count faults, without ages, which always change."""
        names = {
            name: value
            for name, value in self.arbiter.metrics().items()
            if FAULT_METRICS.search(name.partition("{")[0])
        }
        return {name: value for name, value in names.items() if "age" not in name and "app=" not in name}

    def rarely(self, number: int) -> None:
        """Do what takes seconds: kill -9 and a restart, or a full disk."""
        if self.rng.random() < 0.5:
            self.arbiter.kill()
            self.start()
            return
        before, log = self._fault_metrics(), len(self.arbiter.log)
        size = self.arbiter.journal.stat().st_size
        self.arbiter.limit(resource.RLIMIT_FSIZE, size + self.rng.choice((0, 50, 400, 900)))
        for more in range(3):
            user = self.rng.choice(list(self.users))
            name = f"fz-{number}_{more}-full"
            body = {"name": name, "request_id": f"request-{number}-{more}"}
            self._note(self.ask("POST", "/v1/apps", self.users[user], body=body), name, user)
        self._health("a full disk")
        shown = happens_within(lambda: self._fault_metrics() != before or self._logged(log), 2)
        self.arbiter.limit(resource.RLIMIT_FSIZE, None)
        self.report.faults["a full disk"] += 1
        if not shown:
            self.report.add_problem("no trace of a fault: a full disk, in no metric and no log line")
        self._recovers()

    def _recovers(self) -> None:
        """Wait until changes are accepted again."""
        one = self._some()
        if one is None:
            return

        def accepts() -> bool:
            return self.arbiter.ask("PATCH", f"/v1/apps/{one.app}", one.token, {}, timeout=5).status in (200, 404, 403)

        if not happens_within(accepts, 15):
            self.report.add_problem("does not recover from a full disk: restarted by force")
            self.arbiter.kill()
            self.start()

    def _health(self, during: str) -> None:
        health = self.arbiter.health(timeout=15)
        if health.status != 200 or health.seconds > MAX_HEALTH_S:
            self.report.add_problem(f"health: {health.status} after {health.seconds:.1f} s ({during})")

    # Checks at the end.

    def check(self, memory_mb: float) -> None:
        """Check all that must hold after these operations."""
        for stream in self.streams:
            stream.close()
        self.lab.proxy.clear_faults()
        time.sleep(3)
        grown = self.arbiter.memory_mb() - memory_mb
        self.report.checked["memory"] = f"{memory_mb:.0f} MB, grown by {grown:.0f} MB"
        if grown > MEMORY_GROWTH_MB:
            self.report.add_problem(f"memory: grown by {grown:.0f} MB")
        self._check_accepted()
        self.arbiter.kill()
        self._check_refused()
        self._check_replay()
        foreign = self.lab.foreign_writes()
        self.report.checked["queues written"] = f"{len(self.lab.proxy.queue_writes())}, foreign {len(foreign)}"
        for one in foreign:
            self.report.add_problem(f"a foreign queue was written: {one}")
        traces = self.arbiter.log.count("Traceback (most recent call last)")
        if traces:
            self.report.add_problem(
                f"tracebacks in the log: {traces}, the last ends with {_after_traceback(self.arbiter.log)}"
            )
        self.report.checked["faults injected"] = (
            f"{sum(self.report.faults.values())} in {len(self.report.faults)} kinds"
        )

    def _check_accepted(self) -> None:
        """Check that what was accepted is known after kill -9 and a restart, with the same id and queue."""
        self.arbiter.kill()
        self.start()
        unfinished = {app["id"] for app in self.lab.yarn.unfinished()}
        expected = {
            one.app: one for one in self.accepted if not one.ended and (not one.yarn_app or one.yarn_app in unfinished)
        }
        with contextlib.suppress(AssertionError):
            eventually(lambda: set(expected) <= {app["app"] for app in self.arbiter.apps()}, "all are known", 10)
        known = {app["app"]: app for app in self.arbiter.apps()}
        for app, one in expected.items():
            if app not in known:
                self.report.add_problem(f"accepted but lost: {app} {one.name!r} ({one.yarn_app})")
            elif (known[app]["queue"], known[app]["name"], known[app]["user"]) != (one.queue, one.name, one.user):
                self.report.add_problem(f"accepted but changed: {app} {known[app]['queue']} for {one.queue}")
            elif self.arbiter.ask("GET", f"/v1/apps/{app}", one.token).status != 200:
                self.report.add_problem(f"accepted, but its token is rejected: {app}")
        refused = [one["name"] for one in known.values() if _marker(one["name"]) in self.refused | self.conflicts]
        for name in refused:
            self.report.add_problem(f"rejected but registered: {name!r}")
        self.report.checked["accepted"] = (
            f"{len(self.accepted)}, of which {len(expected)} must be known after a restart"
        )

    def _check_refused(self) -> None:
        journal = self.arbiter.journal.read_bytes()
        found = [marker for marker in self.refused if f'"{marker}'.encode() in journal]
        for marker in found:
            self.report.add_problem(f"rejected but in the journal: {marker}")
        self.report.checked["rejected"] = f"{len(self.refused)}, in the journal {len(found)}"

    def _check_replay(self) -> None:
        results = self.arbiter.folder / "replay.json"
        done = self.lab.run("replay", self.arbiter.journal, "--json", results, limit_s=300)
        if done.returncode or not results.exists():
            self.report.add_problem(f"replay: exit {done.returncode} {done.stderr.strip()[-200:]}")
            return
        replayed = json.loads(results.read_text())
        self.report.checked["replay"] = f"{replayed['inputs']} events, {replayed['different']} different decisions"
        if replayed["different"]:
            self.report.add_problem(f"replay differs: {replayed['different']} of {replayed['inputs']}")


def _marker(name: str) -> str:
    return "-".join(name.split("-")[:2]) + "-"


def _json(value: Any) -> bytes:
    """JSON as Python writes it, with NaN and lone surrogates."""
    return json.dumps(value).encode()


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(min(levels, 900)):  # Python's encoder stops at a thousand
        value = [value]
    return value


def _after_traceback(log: str) -> str:
    lines = log.rpartition("Traceback (most recent call last)")[2].splitlines()[1:]
    return next((line[:150] for line in lines if line and not line.startswith(" ")), "?")
