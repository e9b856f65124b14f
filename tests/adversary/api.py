"""Attacks over HTTP: bodies, names, numbers, numbers of requests, connections and streams."""

import json
import resource
import selectors
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.adversary.checks import Seen, check
from tests.adversary.lab import Arbiter, Lab, Stream, happens

FIXTURES = Path(__file__).parents[1] / "fixtures" / "version0" / "arbiter"


@check
def huge_demand(lab: Lab) -> Seen:
    """A demand of 401 digits fails the decision, and every start after it. Must be refused (422), and all goes on."""
    arbiter = lab.arbiter().start()
    first = arbiter.register("alice", "honest")
    refused = arbiter.try_register("mallory", "huge", demand=[{"vcores": int("9" * 401)}])
    after = arbiter.try_register("alice", "after")
    arbiter.kill()
    try:
        arbiter.start()
    except AssertionError as problem:
        return False, f"{refused.status}; the next registration {after.status}; then {problem}"
    known = bool(arbiter.app(first["app"]))
    seen = f"{refused.status}; the next registration {after.status}; after kill -9 it starts, Alice known: {known}"
    return refused.status == 422 and after.status == 201 and known, seen


@check
def a_journal_that_holds_the_huge_demand(lab: Lab) -> Seen:
    """An input on which an earlier version failed stops every start. Must be set aside; the honest one is known."""
    folder = _fixture(lab, "poisoned")
    arbiter = lab.arbiter(folder, pools={"submit_timeout_s": 3600}).start()
    known = [app["app"] for app in arbiter.apps()]
    token = arbiter.ask("GET", "/v1/health").status
    made = arbiter.try_register("alice", "after")
    again = arbiter.stop()
    arbiter.start()
    seen = f"starts (health {token}), lists {known}, registers {made.status}, ends with {again}, starts again"
    return made.status == 201, seen


@check
def large_names_and_counts(lab: Lab) -> Seen:
    """Resource names of 100,000 letters, 5,000 alternatives, 5,000 resources. Must be refused (422)."""
    arbiter = lab.arbiter().start()
    tried: dict[str, Any] = {
        "a long resource name": [{"x" * 100_000: 1}],
        "5,000 alternatives": [{"vcores": 1}] * 5_000,
        "5,000 resources": [{f"r{n}": 1 for n in range(5_000)}],
    }
    found = {what: arbiter.try_register("mallory", what, demand=demand).status for what, demand in tried.items()}
    size = arbiter.journal.stat().st_size
    seen = ", ".join(f"{what}: {status}" for what, status in found.items()) + f"; journal {size // 1024} KiB"
    return all(400 <= status < 500 for status in found.values()), seen


@check
def not_a_number(lab: Lab) -> Seen:
    """NaN, Infinity and half a surrogate pair in a body: 500 while the refusal is written. Must be 4xx."""
    arbiter = lab.arbiter().start()
    token = arbiter.user("mallory")
    bodies = {
        "NaN": b'{"name": "n", "request_id": "request-nan", "weight": NaN}',
        "Infinity": b'{"name": "n", "request_id": "request-inf", "weight": Infinity}',
        "a lone surrogate": b'{"name": "\\ud800", "request_id": "request-half", "weight": 1}',
        "invalid UTF-8": b'{"name": "\xff\xfe", "request_id": "request-utf8"}',
        "5,000 digits": b'{"name": "n", "request_id": "request-digits", "weight": ' + b"9" * 5000 + b"}",
        "deep nesting": b'{"name": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    }
    found = {what: arbiter.ask("POST", "/v1/apps", token, raw=raw).status for what, raw in bodies.items()}
    return all(400 <= status < 500 for status in found.values()), ", ".join(f"{a}: {b}" for a, b in found.items())


@check
def request_id_of_another_user(lab: Lab) -> Seen:
    """Bob posts Alice's request_id and gets her application's token. Idempotency keys are per user."""
    arbiter = lab.arbiter().start()
    body = {"name": "nightly", "request_id": "nightly-2026-11-21"}
    hers = arbiter.ask("POST", "/v1/apps", arbiter.user("alice"), body).json
    again = arbiter.ask("POST", "/v1/apps", arbiter.user("alice"), body).json
    answer = arbiter.ask("POST", "/v1/apps", arbiter.user("bob"), body)
    his = answer.json or {}
    gone = arbiter.ask("DELETE", f"/v1/apps/{hers['app']}", his.get("token", "none"))
    seen = (
        f"Alice has {hers['app']}, again {again['app']}; Bob {answer.status} {his.get('app')}, deletes it {gone.status}"
    )
    return his.get("app") != hers["app"] and gone.status in (401, 403) and again["app"] == hers["app"], seen


@check
def a_weight_of_1000(lab: Lab) -> Seen:
    """Bob's weight of 1000 leaves a neighbour 0.1%. The pool's max_weight (10) bounds it: refused, or 10 of 11."""
    arbiter = lab.arbiter().start()
    alice = arbiter.run("alice", "neighbour")
    answer = arbiter.try_register("bob", "heavy", weight=1000)
    if answer.status == 201:
        lab.yarn.submit(answer.json["queue"], "bob")
        time.sleep(2)
    part = arbiter.guarantee(alice["app"])
    return part >= 1 / 11 - 0.001, f"registering answers {answer.status}; the neighbour is guaranteed {part:.1%}"


@check
def a_weight_revised_to_1000(lab: Lab) -> Seen:
    """The same by PATCH."""
    arbiter = lab.arbiter().start()
    alice, bob = arbiter.run("alice", "neighbour"), arbiter.run("bob", "heavy")
    answer = arbiter.ask("PATCH", f"/v1/apps/{bob['app']}", bob["token"], {"weight": 1000})
    time.sleep(1)
    part = arbiter.guarantee(alice["app"])
    return part >= 1 / 11 - 0.001, f"PATCH answers {answer.status}; the neighbour is guaranteed {part:.1%}"


@check
def a_grace_of_an_hour(lab: Lab) -> Seen:
    """`grace_s` 3600 keeps everything for an hour. The pool's max_grace_s (300) bounds it: refused, or at most that."""
    arbiter = lab.arbiter().start()
    answer = arbiter.try_register("bob", "slow to leave", grace_s=3600)
    grace = (answer.json or {}).get("grace_s", 0)
    return answer.status == 422 or grace <= 300, f"{answer.status}, grace_s {grace}"


@check
def many_registrations_never_submitted(lab: Lab) -> Seen:
    """200 registrations of Bob's that YARN never sees leave Alice 0.5%. Together they are one claim; 100 at most."""
    arbiter = lab.arbiter().start()
    alice = arbiter.run("alice", "honest")
    token, answers, told = arbiter.user("bob"), [], 0.0
    for number in range(200):
        body = {"name": f"squatter {number}", "request_id": f"request-squatter-{number}"}
        answer = arbiter.ask("POST", "/v1/apps", token, body)
        answers.append(answer.status)
        if answer.status == 201 and answer.json["share"]:
            told = answer.json["share"]["guarantee"]["fraction"]
    part = arbiter.guarantee(alice["app"])
    accepted = answers.count(201)
    seen = f"{accepted} of 200 accepted; Alice is guaranteed {part:.1%}; the last one of Bob's was told {told:.1%}"
    return part >= 0.49 and accepted <= 100 and told >= 0.49, seen


@check
def why_asked_120_times_at_once(lab: Lab) -> Seen:
    """120 questions `why` hold every thread behind one lock of 2 s; health waits minutes. Health answers in 3 s."""
    arbiter = lab.arbiter().start()
    made = arbiter.run("alice", "too large", memory_mb=4096)
    waiting = arbiter.run("alice", "waits", memory_mb=4096)
    path = f"/v1/apps/{waiting['app']}/why"
    with ThreadPoolExecutor(120) as pool:
        asked = [pool.submit(arbiter.ask, "GET", path, waiting["token"], timeout=25.0) for _ in range(120)]
        time.sleep(1)
        worst, deadline, statuses = 0.0, time.monotonic() + 12, set()
        while time.monotonic() < deadline:
            health = arbiter.health(timeout=15.0)
            worst = max(worst, health.seconds)
            statuses.add(health.status)
            time.sleep(0.1)
        answered = [one.result().status for one in asked]
    counts = {status: answered.count(status) for status in sorted(set(answered))}
    seen = f"slowest health {worst:.1f} s, health statuses {sorted(statuses)}, why statuses {counts}"
    return worst < 3 and statuses == {200} and bool(made) and counts.get(200, 0) >= 1, seen


@check
def a_large_body_without_a_token(lab: Lab) -> Seen:
    """30 MB are read completely and then refused with 401. Must be refused before the body is read."""
    arbiter = lab.arbiter().start()
    sent, status = _large_body(arbiter, None)
    return status in (401, 413) and sent < 4, f"answered {status or 'nothing'} after {sent:.1f} of 30 MB"


@check
def a_large_body_with_a_token(lab: Lab) -> Seen:
    """30 MB with a user's token are read completely. Must be refused with 413 before that."""
    arbiter = lab.arbiter().start()
    sent, status = _large_body(arbiter, arbiter.user("mallory"))
    return status == 413 and sent < 4, f"answered {status or 'nothing'} after {sent:.1f} of 30 MB"


@check
def a_large_body_in_chunks(lab: Lab) -> Seen:
    """The same without a Content-Length, in chunks. Must be refused with 413 or 411 before 4 MB were taken."""
    arbiter = lab.arbiter().start()
    sent, status = _large_body(arbiter, arbiter.user("mallory"), chunked=True)
    return status in (411, 413) and sent < 8, f"answered {status or 'nothing'} after {sent:.1f} of 30 MB"


def _large_body(arbiter: Arbiter, token: str | None, chunked: bool = False) -> tuple[float, int]:
    """Send as long as the other side takes it; returns the megabytes sent when an answer came, and its status."""
    total, piece = 30 * 2**20, b'{"name": "' + b"x" * (2**16 - 10)
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {total}"
    head = f"POST /v1/apps HTTP/1.1\r\nHost: arbiter\r\nContent-Type: application/json\r\n{length}\r\n"
    head += f"Authorization: Bearer {token}\r\n\r\n" if token else "\r\n"
    with _connect(arbiter) as opened:
        opened.settimeout(10)
        opened.sendall(head.encode())
        sent = 0
        try:
            while sent < total:
                # Leave time to answer: whoever refuses early does so before much has been sent.
                opened.settimeout(0.05)
                try:
                    return sent / 2**20, _status(opened.recv(4096))
                except TimeoutError:
                    pass
                opened.settimeout(10)
                burst = b"".join(_chunk(piece) if chunked else piece for _ in range(16))
                opened.sendall(burst)
                sent += 16 * len(piece)
            if chunked:
                opened.sendall(b"0\r\n\r\n")
            return sent / 2**20, _status(opened.recv(4096))
        except OSError:
            # Cut off: an answer sent before that can still be there.
            try:
                return sent / 2**20, _status(opened.recv(4096))
            except OSError:
                return sent / 2**20, 413 if sent < total else 0


def _chunk(piece: bytes) -> bytes:
    return f"{len(piece):x}\r\n".encode() + piece + b"\r\n"


def _status(answer: bytes) -> int:
    parts = answer.split(b" ", 2)
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0


def _connect(arbiter: Arbiter) -> socket.socket:
    parts = urlsplit(arbiter.url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=5)


@check
def slow_headers(lab: Lab) -> Seen:
    """A connection that never ends its headers is kept for ever. Must be closed after header_timeout_s (here 2)."""
    arbiter = lab.arbiter(limits={"header_timeout_s": 2}).start()
    results = {}
    for what, first in (("half a header", b"GET /v1/health HTTP/1.1\r\nHost: x\r\nX-Slow: "), ("nothing", b"")):
        with _connect(arbiter) as opened:
            opened.sendall(first)
            began = time.monotonic()
            closed = False
            while not closed and time.monotonic() < began + 9:
                try:
                    if first:
                        opened.sendall(b"a")  # a drop at a time
                    opened.settimeout(0.5)
                    closed = opened.recv(1000) == b"" or True
                except TimeoutError:
                    continue
                except OSError:
                    closed = True
            results[what] = f"closed after {time.monotonic() - began:.1f} s" if closed else "open after 9 s"
    seen = ", ".join(f"{what}: {found}" for what, found in results.items())
    return all(found.startswith("closed") for found in results.values()), seen


@check
def a_slow_body(lab: Lab) -> Seen:
    """A body that comes a byte at a time holds its connection for ever. Must be closed, or answered, in 30 s."""
    arbiter = lab.arbiter(limits={"header_timeout_s": 2}).start()
    head = f"POST /v1/apps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {arbiter.user('mallory')}\r\n"
    with _connect(arbiter) as opened:
        opened.sendall((head + "Content-Type: application/json\r\nContent-Length: 9000\r\n\r\n").encode())
        began = time.monotonic()
        while time.monotonic() < began + 30:
            try:
                opened.sendall(b" ")
                opened.settimeout(0.5)
                if not (answer := opened.recv(1000)) or _status(answer):
                    return True, f"ended after {time.monotonic() - began:.1f} s with {_status(answer) or 'nothing'}"
            except TimeoutError:
                continue
            except OSError:
                return True, f"closed after {time.monotonic() - began:.1f} s"
    return False, "open after 30 s"


@check
def the_same_request_at_once(lab: Lab) -> Seen:
    """Kept: one registration sent thirty times at once registers once."""
    arbiter = lab.arbiter().start()
    token, body = arbiter.user("alice"), {"name": "impatient", "request_id": "request-impatient"}
    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda _: arbiter.ask("POST", "/v1/apps", token, body), range(30)))
    apps = {answer.json["app"] for answer in answers if answer.status == 201}
    listed = len(arbiter.apps())
    statuses = sorted({answer.status for answer in answers})
    return len(apps) == 1 and listed == 1, f"{len(apps)} ids in the answers, {listed} listed, statuses {statuses}"


@check
def all_decisions_asked_at_once(lab: Lab) -> Seen:
    """Sixty questions for 10,000 decisions, the most there may be, at once. Health answers in 3 s meanwhile."""
    arbiter = lab.arbiter().start()
    apps = [arbiter.register(f"user{number % 10}", f"app {number}") for number in range(40)]
    for number in range(60):
        one = apps[number % 40]
        arbiter.ask("PATCH", f"/v1/apps/{one['app']}", one["token"], {"weight": 1 + number % 5})
    with ThreadPoolExecutor(60) as pool:
        path = "/v1/decisions?limit=10000"
        asked = [pool.submit(arbiter.ask, "GET", path, arbiter.admin, timeout=60.0) for _ in range(60)]
        worst = 0.0
        while not all(one.done() for one in asked):
            worst = max(worst, arbiter.health(timeout=30).seconds)
            time.sleep(0.1)
        statuses = sorted({one.result().status for one in asked})
        size = max(len(one.result().text) for one in asked)
    return worst < 3, f"slowest health {worst:.1f} s; statuses {statuses}, answers up to {size // 1024} KiB"


@check
def names_in_other_scripts(lab: Lab) -> Seen:
    """Kept: a name in any script makes a queue that YARN takes, and whose weight can be written."""
    arbiter = lab.arbiter().start()
    found = {}
    for name in ("Ünïcode çafé", "数据 仓库", "🦆", "a.b.c", "ß" * 60, "-", "x,y=z${user.home}"):
        answer = arbiter.try_register("alice", name)
        if answer.status == 422:
            found[name] = "refused"
            continue
        queue = answer.json["queue"]
        lab.yarn.submit(queue, "alice")
        matched = happens(lambda app=answer.json["app"]: arbiter.app(app).get("yarn_app"), 6)
        written = matched and happens(lambda queue=queue: lab.yarn.capacity(queue), 6)
        found[name] = "well" if written else f"{queue}: {'not written' if matched else 'not matched'}"
    wrong = {name: what for name, what in found.items() if what not in ("well", "refused")}
    return not wrong, f"{sum(what == 'well' for what in found.values())} well; wrong: {wrong or 'none'}"


@check
def many_connections(lab: Lab) -> Seen:
    """1,500 idle connections take every descriptor (1,024 here). Must be bounded (max_connections, here 256)."""
    arbiter = lab.arbiter(limits={"max_connections": 256, "header_timeout_s": 20}).start()
    arbiter.limit(resource.RLIMIT_NOFILE, 1024)
    parts = urlsplit(arbiter.url)
    opened = []
    selector = selectors.DefaultSelector()
    for _ in range(1500):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex((parts.hostname, parts.port))
        selector.register(one, selectors.EVENT_WRITE)
        opened.append(one)
    time.sleep(3)
    most = arbiter.descriptors()
    journal = arbiter.journal.stat().st_size
    selector.close()
    for one in opened:
        one.close()
    back = happens(lambda: arbiter.health(timeout=2).status == 200, 15)
    made = arbiter.try_register("alice", "after").status if back else 0
    seen = f"{most} descriptors open of 1,024; afterwards health {'answers' if back else 'is silent'}, registers {made}"
    return most < 512 and back and made == 201 and journal > 0, seen


@check
def many_streams_of_one_user(lab: Lab) -> Seen:
    """One user opens any number of streams. Must be bounded by max_streams_per_user (here 5)."""
    arbiter = lab.arbiter(pools={"max_streams_per_user": 5}).start()
    made, other = arbiter.register("bob"), arbiter.register("alice")
    streams = [Stream(arbiter.url, made["app"], made["token"]) for _ in range(12)]
    time.sleep(2)
    statuses = [stream.status for stream in streams]
    hers = Stream(arbiter.url, other["app"], other["token"])
    told = happens(lambda: hers.has("share"), 5)
    for stream in [*streams, hers]:
        stream.close()
    taken = statuses.count(200)
    seen = f"{taken} of 12 streams opened, the others {sorted(set(statuses) - {200})}; another user's: {hers.status}"
    return taken <= 5 and told, seen


@check
def an_end_that_is_no_longer_remembered(lab: Lab) -> Seen:
    """The stream of one whose end left the history is kept alive for ever. Must be the end again, or 410."""
    folder = _fixture(lab, "compacted")
    journal = folder / "state" / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if b'"kind":"past"' not in line))
    arbiter = lab.arbiter(folder, pools={"submit_timeout_s": 3600}).start()
    tokens = json.loads((FIXTURES / "compacted" / "tokens.json").read_text())["apps"]
    app = next(iter(tokens))
    found = []
    for last in (None, "3"):
        stream = Stream(arbiter.url, app, tokens[app], last)
        happens(lambda stream=stream: stream.ended.is_set() or stream.has("end"), 7)
        found.append("end" if stream.has("end") else str(stream.status) + (" kept alive" if stream.comments else ""))
        stream.close()
    return all(one in ("end", "410") for one in found), f"{app}: {found[0]}; resumed: {found[1]}"


@check
def an_application_that_never_was(lab: Lab) -> Seen:
    """A stream for an id of which nothing is known is kept alive for ever. Must be refused, or be the end."""
    arbiter = lab.arbiter().start()
    made = arbiter.register("alice")
    arbiter.stop()
    for file in arbiter.state.glob("journal*"):
        file.unlink()  # the secret stays, so the token is still its own
    arbiter.start()
    stream = Stream(arbiter.url, made["app"], made["token"])
    happens(lambda: stream.ended.is_set(), 7)
    stream.close()
    found = "end" if stream.has("end") else f"{stream.status}" + (" kept alive" if stream.comments else "")
    return found in ("end", "410", "404", "401", "403"), f"{made['app']}: {found}"


@check
def a_lost_journal_beside_its_secret(lab: Lab) -> Seen:
    """The journal is lost and the secret is not: numbers begin again, and old tokens fit new applications. Never."""
    arbiter = lab.arbiter().start()
    old = [arbiter.register("alice", f"old {number}") for number in range(5)]
    arbiter.stop()
    for file in arbiter.state.glob("journal*"):
        file.unlink()
    arbiter.start()
    new = [arbiter.register("bob", f"new {number}") for number in range(15)]
    fits = {
        one["app"]
        for one in new
        for token in (past["token"] for past in old)
        if arbiter.ask("GET", f"/v1/apps/{one['app']}", token).status == 200
    }
    return not fits, f"Alice's old tokens read {len(fits)} of Bob's 15 new applications"


@check
def a_bare_integer_resumes(lab: Lab) -> Seen:
    """Kept: `Last-Event-ID` takes a bare integer (a seq), event ids grow, and resuming at each loses nothing."""
    arbiter = lab.arbiter().start()
    made = arbiter.run("alice", "first")
    stream = Stream(arbiter.url, made["app"], made["token"])
    others = [arbiter.register("bob", f"other {number}") for number in range(3)]
    for other in others:
        arbiter.ask("DELETE", f"/v1/apps/{other['app']}", other["token"])
    happens(lambda: len(stream.events) >= 4, 5)
    time.sleep(0.5)
    seqs = [json.loads(data)["seq"] for _, name, data in stream.events if name == "share"]
    ids = [name for name, _, _ in stream.events]
    wrong = []
    for last, expected in [(str(seq), seqs[at + 1 :]) for at, seq in enumerate(seqs)] + [
        (name, seqs[at + 1 :]) for at, name in enumerate(ids)
    ]:
        resumed = Stream(arbiter.url, made["app"], made["token"], last)
        happens(lambda resumed=resumed, expected=expected: len(resumed.events) >= len(expected), 3)
        got = [json.loads(data)["seq"] for _, name, data in resumed.events if name == "share"]
        resumed.close()
        if got != expected:
            wrong.append(f"{last}: {got} for {expected}")
    stream.close()
    unique = len(set(ids)) == len(ids)
    return not wrong and unique and len(seqs) > 1, f"seqs {seqs}, ids {ids}; wrong: {wrong or 'none'}"


@check
def metrics_show_everybody(lab: Lab) -> Seen:
    """Anybody on loopback reads everybody's shares at /metrics. Needs the scrape token, or the administrator's."""
    arbiter = lab.arbiter().start()
    arbiter.register("alice", "secret project")
    scrape = arbiter.state / "scrape.token"
    tokens = {
        "none": None,
        "a user's": arbiter.user("mallory"),
        "an application's": arbiter.register("bob")["token"],
        "the administrator's": arbiter.admin,
        "scrape.token": scrape.read_text().strip() if scrape.exists() else "missing",
    }
    found = {what: arbiter.ask("GET", "/metrics", token).status for what, token in tokens.items()}
    refused = all(found[what] in (401, 403) for what in ("none", "a user's", "an application's"))
    taken = found["the administrator's"] == found["scrape.token"] == 200
    return refused and taken, ", ".join(f"{what}: {status}" for what, status in found.items())


@check
def metrics_of_many_applications(lab: Lab) -> Seen:
    """Each application and user is a label for ever more. Labels are bounded (metrics_apps, here 10)."""
    arbiter = lab.arbiter(limits={"metrics_apps": 10}).start()
    for number in range(30):
        arbiter.register(f"user{number}", f"app {number}")
    lines = [name for name in arbiter.metrics() if "app=" in name]
    apps = {name.partition('app="')[2].partition('"')[0] for name in lines}
    return bool(arbiter.metrics()) and len(apps) <= 11, f"{len(apps)} applications of 30 have labels of their own"


@check
def health_is_truthful_and_ready_exists(lab: Lab) -> Seen:
    """Only /v1/health, always 'running'. /v1/ready must be 200 when all is well, and 503 while the RM is away."""
    arbiter = lab.arbiter().start()
    happens(lambda: arbiter.ask("GET", "/v1/ready").status == 200, 5)
    health, well = arbiter.health(), arbiter.ask("GET", "/v1/ready").status
    lab.proxy.set("", lambda asked, forward: None, method=None)
    away = happens(lambda: arbiter.ask("GET", "/v1/ready").status == 503, 10)
    lost, alive = arbiter.ask("GET", "/v1/ready").status, arbiter.health()
    fields = {"arbiter", "manager"} <= set(health.json or {})
    seen = f"health {health.status} {health.text[:80]}; ready {well}, without an RM {lost}, health then {alive.status}"
    return fields and well == 200 and away and alive.status == 200, seen


@check
def control_characters_in_names(lab: Lab) -> Seen:
    """Line feeds and escape sequences in a name reach the log and terminals. Refused, or escaped in the log."""
    arbiter = lab.arbiter().start()
    evil = "x\n2026-01-01 00:00:00,000 ERROR forged line\x1b[2J\x00"
    answer = arbiter.try_register("mallory", evil)
    arbiter.looks(1)
    forged = any(line.startswith("2026-01-01 00:00:00,000 ERROR") for line in arbiter.log.splitlines())
    shown = lab.run("apps", "--arbiter", arbiter.url, "--token-file", arbiter.state / "admin.token")
    escapes = "\x1b[2J" in shown.stdout
    seen = (
        f"{answer.status}; forged log line: {forged}; `apps` ends with {shown.returncode}, passes escapes on: {escapes}"
    )
    return not forged and not escapes and shown.returncode == 0, seen


def _fixture(lab: Lab, name: str) -> Path:
    """A copy of a state folder that an earlier version wrote."""
    folder = lab.folder()
    shutil.copytree(FIXTURES / name / "state", folder / "state")
    for file in (folder / "state").iterdir():
        file.chmod(0o600)
    (folder / "state").chmod(0o700)
    return folder
