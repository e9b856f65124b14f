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

from tests.adversary.checks import Result, check
from tests.adversary.lab import Arbiter, Lab, Stream, happens_within

FIXTURES = Path(__file__).parents[1] / "fixtures" / "version0" / "arbiter"


@check
def a_huge_demand_is_rejected(lab: Lab) -> Result:
    """A demand of 401 digits is rejected with 422. It used to fail the decision and every later start."""
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
    observed = f"{refused.status}; the next registration {after.status}; after kill -9 it starts, Alice known: {known}"
    return refused.status == 422 and after.status == 201 and known, observed


@check
def a_journal_with_a_huge_demand_opens(lab: Lab) -> Result:
    """An event on which an earlier version failed is skipped; it used to prevent every start."""
    folder = _fixture(lab, "poisoned")
    arbiter = lab.arbiter(folder, pools={"submit_timeout_s": 3600}).start()
    known = [app["app"] for app in arbiter.apps()]
    health = arbiter.ask("GET", "/v1/health").status
    made = arbiter.try_register("alice", "after")
    code = arbiter.stop()
    arbiter.start()
    observed = f"starts (health {health}), lists {known}, registers {made.status}, exits with {code}, starts again"
    return made.status == 201, observed


@check
def large_names_and_counts_are_rejected(lab: Lab) -> Result:
    """Resource names of 100,000 letters, 5,000 alternatives and 5,000 resources are rejected with 422."""
    arbiter = lab.arbiter().start()
    tried: dict[str, Any] = {
        "a long resource name": [{"x" * 100_000: 1}],
        "5,000 alternatives": [{"vcores": 1}] * 5_000,
        "5,000 resources": [{f"r{n}": 1 for n in range(5_000)}],
    }
    found = {what: arbiter.try_register("mallory", what, demand=demand).status for what, demand in tried.items()}
    size = arbiter.journal.stat().st_size
    observed = ", ".join(f"{what}: {status}" for what, status in found.items()) + f"; journal {size // 1024} KiB"
    return all(400 <= status < 500 for status in found.values()), observed


@check
def invalid_json_values_are_rejected(lab: Lab) -> Result:
    """NaN, Infinity and a lone surrogate in a body are rejected with 4xx. The response used to be a 500."""
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
def request_ids_are_separate_for_each_user(lab: Lab) -> Result:
    """Bob posts Alice's request_id. He must not receive her application's token: idempotency keys are per user."""
    arbiter = lab.arbiter().start()
    body = {"name": "nightly", "request_id": "nightly-2026-11-21"}
    hers = arbiter.ask("POST", "/v1/apps", arbiter.user("alice"), body).json
    again = arbiter.ask("POST", "/v1/apps", arbiter.user("alice"), body).json
    answer = arbiter.ask("POST", "/v1/apps", arbiter.user("bob"), body)
    his = answer.json or {}
    gone = arbiter.ask("DELETE", f"/v1/apps/{hers['app']}", his.get("token", "none"))
    observed = (
        f"Alice has {hers['app']}, again {again['app']}; Bob {answer.status} {his.get('app')}, deletes it {gone.status}"
    )
    return his.get("app") != hers["app"] and gone.status in (401, 403) and again["app"] == hers["app"], observed


@check
def max_weight_limits_a_registration(lab: Lab) -> Result:
    """Bob's weight of 1000 would leave a neighbour 0.1%. max_weight (1) limits it: rejected, or half."""
    arbiter = lab.arbiter().start()
    alice = arbiter.run("alice", "neighbour")
    answer = arbiter.try_register("bob", "heavy", weight=1000)
    if answer.status == 201:
        lab.yarn.submit(answer.json["queue"], "bob")
        time.sleep(2)
    part = arbiter.guarantee(alice["app"])
    return part >= 1 / 2 - 0.001, f"registering answers {answer.status}; the neighbour is guaranteed {part:.1%}"


@check
def max_weight_limits_a_revision(lab: Lab) -> Result:
    """The same with PATCH."""
    arbiter = lab.arbiter().start()
    alice, bob = arbiter.run("alice", "neighbour"), arbiter.run("bob", "heavy")
    answer = arbiter.ask("PATCH", f"/v1/apps/{bob['app']}", bob["token"], {"weight": 1000})
    time.sleep(1)
    part = arbiter.guarantee(alice["app"])
    return part >= 1 / 2 - 0.001, f"PATCH answers {answer.status}; the neighbour is guaranteed {part:.1%}"


@check
def max_grace_limits_a_registration(lab: Lab) -> Result:
    """A `grace_s` of 3600 would delay enforcement for an hour. max_grace_s limits it: rejected, or at most 300."""
    arbiter = lab.arbiter().start()
    answer = arbiter.try_register("bob", "slow to leave", grace_s=3600)
    grace = (answer.json or {}).get("grace_s", 0)
    return answer.status == 422 or grace <= 300, f"{answer.status}, grace_s {grace}"


@check
def unsubmitted_registrations_of_a_user_share_one_claim(lab: Lab) -> Result:
    """200 unsubmitted registrations of Bob count as one claim; at most 10 are accepted. Alice used to get 0.5%."""
    arbiter = lab.arbiter(pools={"max_apps_per_user": 10}).start()
    alice = arbiter.run("alice", "honest")
    token, answers, last = arbiter.user("bob"), [], 0.0
    for number in range(200):
        body = {"name": f"squatter {number}", "request_id": f"request-squatter-{number}"}
        answer = arbiter.ask("POST", "/v1/apps", token, body)
        answers.append(answer.status)
        if answer.status == 201 and answer.json["share"]:
            last = answer.json["share"]["guarantee"]["fraction"]
    part = arbiter.guarantee(alice["app"])
    accepted = answers.count(201)
    observed = f"{accepted} of 200 accepted; Alice is guaranteed {part:.1%}; Bob's last one is guaranteed {last:.1%}"
    return part >= 0.49 and accepted <= 10 and last >= 0.49, observed


@check
def health_answers_during_120_requests_for_why(lab: Lab) -> Result:
    """120 concurrent requests for `why`: health answers within 3 s. A lock used to block it for minutes."""
    arbiter = lab.arbiter().start()
    made = arbiter.run("alice", "too large", memory_mb=4096)
    waiting = arbiter.run("alice", "waits", memory_mb=4096)
    path = f"/v1/apps/{waiting['app']}/why"
    with ThreadPoolExecutor(120) as pool:
        requests = [pool.submit(arbiter.ask, "GET", path, waiting["token"], timeout=25.0) for _ in range(120)]
        time.sleep(1)
        worst, deadline, statuses = 0.0, time.monotonic() + 12, set()
        while time.monotonic() < deadline:
            health = arbiter.health(timeout=15.0)
            worst = max(worst, health.seconds)
            statuses.add(health.status)
            time.sleep(0.1)
        answered = [request.result().status for request in requests]
    counts = {status: answered.count(status) for status in sorted(set(answered))}
    observed = f"slowest health {worst:.1f} s, health statuses {sorted(statuses)}, why statuses {counts}"
    return worst < 3 and statuses == {200} and bool(made) and counts.get(200, 0) >= 1, observed


@check
def a_large_body_without_a_token_is_not_read(lab: Lab) -> Result:
    """A body of 30 MB without a token is rejected with 401 or 413 before it has been read."""
    arbiter = lab.arbiter().start()
    sent, status = _large_body(arbiter, None)
    return status in (401, 413) and sent < 4, f"answered {status or 'nothing'} after {sent:.1f} of 30 MB"


@check
def a_large_body_with_a_token_is_not_read(lab: Lab) -> Result:
    """A body of 30 MB with a user's token is rejected with 413 before it has been read."""
    arbiter = lab.arbiter().start()
    sent, status = _large_body(arbiter, arbiter.user("mallory"))
    return status == 413 and sent < 4, f"answered {status or 'nothing'} after {sent:.1f} of 30 MB"


@check
def a_large_chunked_body_is_not_read(lab: Lab) -> Result:
    """The same in chunks, without a Content-Length, is rejected with 411 or 413 before 8 MB have been read."""
    arbiter = lab.arbiter().start()
    sent, status = _large_body(arbiter, arbiter.user("mallory"), chunked=True)
    return status in (411, 413) and sent < 8, f"answered {status or 'nothing'} after {sent:.1f} of 30 MB"


def _large_body(arbiter: Arbiter, token: str | None, chunked: bool = False) -> tuple[float, int]:
    """Send until there is an answer; returns the megabytes sent by then, and the status of the answer."""
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
                # Leave time to answer, so that an early rejection comes before much has been sent.
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
            # The connection was closed; an answer sent before that may still be readable.
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
def slow_headers_time_out(lab: Lab) -> Result:
    """A connection that never completes its headers is closed after header_timeout_s (2 here)."""
    arbiter = lab.arbiter(limits={"header_timeout_s": 2}).start()
    results = {}
    for what, first in (("half a header", b"GET /v1/health HTTP/1.1\r\nHost: x\r\nX-Slow: "), ("nothing", b"")):
        with _connect(arbiter) as opened:
            opened.sendall(first)
            started = time.monotonic()
            closed = False
            while not closed and time.monotonic() < started + 9:
                try:
                    if first:
                        opened.sendall(b"a")  # one byte at a time
                    opened.settimeout(0.5)
                    closed = opened.recv(1000) == b"" or True
                except TimeoutError:
                    continue
                except OSError:
                    closed = True
            results[what] = f"closed after {time.monotonic() - started:.1f} s" if closed else "open after 9 s"
    observed = ", ".join(f"{what}: {found}" for what, found in results.items())
    return all(found.startswith("closed") for found in results.values()), observed


@check
def a_slow_body_times_out(lab: Lab) -> Result:
    """A connection whose body arrives byte by byte is closed or answered within 30 s."""
    arbiter = lab.arbiter(limits={"header_timeout_s": 2}).start()
    head = f"POST /v1/apps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {arbiter.user('mallory')}\r\n"
    with _connect(arbiter) as opened:
        opened.sendall((head + "Content-Type: application/json\r\nContent-Length: 9000\r\n\r\n").encode())
        started = time.monotonic()
        while time.monotonic() < started + 30:
            try:
                opened.sendall(b" ")
                opened.settimeout(0.5)
                if not (answer := opened.recv(1000)) or _status(answer):
                    return True, f"ended after {time.monotonic() - started:.1f} s with {_status(answer) or 'nothing'}"
            except TimeoutError:
                continue
            except OSError:
                return True, f"closed after {time.monotonic() - started:.1f} s"
    return False, "open after 30 s"


@check
def concurrent_duplicate_registrations_register_once(lab: Lab) -> Result:
    """The same registration sent 30 times concurrently registers one application."""
    arbiter = lab.arbiter().start()
    token, body = arbiter.user("alice"), {"name": "impatient", "request_id": "request-impatient"}
    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda _: arbiter.ask("POST", "/v1/apps", token, body), range(30)))
    apps = {answer.json["app"] for answer in answers if answer.status == 201}
    listed = len(arbiter.apps())
    statuses = sorted({answer.status for answer in answers})
    return len(apps) == 1 and listed == 1, f"{len(apps)} ids in the answers, {listed} listed, statuses {statuses}"


@check
def health_answers_during_large_requests_for_decisions(lab: Lab) -> Result:
    """60 concurrent requests for 10,000 decisions, the maximum: health answers within 3 s."""
    arbiter = lab.arbiter().start()
    apps = [arbiter.register(f"user{number % 10}", f"app {number}") for number in range(40)]
    for number in range(60):
        one = apps[number % 40]
        arbiter.ask("PATCH", f"/v1/apps/{one['app']}", one["token"], {"weight": 1 - number % 5 / 10})
    with ThreadPoolExecutor(60) as pool:
        path = "/v1/decisions?limit=10000"
        requests = [pool.submit(arbiter.ask, "GET", path, arbiter.admin, timeout=60.0) for _ in range(60)]
        worst = 0.0
        while not all(request.done() for request in requests):
            worst = max(worst, arbiter.health(timeout=30).seconds)
            time.sleep(0.1)
        statuses = sorted({request.result().status for request in requests})
        size = max(len(request.result().text) for request in requests)
    return worst < 3, f"slowest health {worst:.1f} s; statuses {statuses}, answers up to {size // 1024} KiB"


@check
def names_in_any_script_get_a_valid_queue(lab: Lab) -> Result:
    """A name in any script gets a queue that YARN accepts and whose weight can be written."""
    arbiter = lab.arbiter().start()
    found = {}
    for name in ("Ünïcode çafé", "数据 仓库", "🦆", "a.b.c", "ß" * 60, "-", "x,y=z${user.home}"):
        answer = arbiter.try_register("alice", name)
        if answer.status == 422:
            found[name] = "rejected"
            continue
        queue = answer.json["queue"]
        lab.yarn.submit(queue, "alice")
        matched = happens_within(lambda app=answer.json["app"]: arbiter.app(app).get("yarn_app"), 6)
        written = matched and happens_within(lambda queue=queue: lab.yarn.capacity(queue), 6)
        found[name] = "ok" if written else f"{queue}: {'not written' if matched else 'not matched'}"
    wrong = {name: what for name, what in found.items() if what not in ("ok", "rejected")}
    return not wrong, f"{sum(what == 'ok' for what in found.values())} ok; wrong: {wrong or 'none'}"


@check
def connections_are_limited(lab: Lab) -> Result:
    """1,500 idle connections do not use up the 1,024 descriptors: max_connections (256 here) limits them."""
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
    back = happens_within(lambda: arbiter.health(timeout=2).status == 200, 15)
    made = arbiter.try_register("alice", "after").status if back else 0
    observed = f"{most} of 1,024 descriptors open; afterwards health {'answers' if back else 'fails'}, registers {made}"
    return most < 512 and back and made == 201 and journal > 0, observed


@check
def streams_of_a_user_are_limited(lab: Lab) -> Result:
    """max_streams_per_user (5 here) limits the event streams of one user; other users' streams still open."""
    arbiter = lab.arbiter(pools={"max_streams_per_user": 5}).start()
    made, other = arbiter.register("bob"), arbiter.register("alice")
    streams = [Stream(arbiter.url, made["app"], made["token"]) for _ in range(12)]
    time.sleep(2)
    statuses = [stream.status for stream in streams]
    hers = Stream(arbiter.url, other["app"], other["token"])
    notified = happens_within(lambda: hers.has("share"), 5)
    for stream in [*streams, hers]:
        stream.close()
    opened = statuses.count(200)
    observed = (
        f"{opened} of 12 streams opened, the others {sorted(set(statuses) - {200})}; another user's: {hers.status}"
    )
    return opened <= 5 and notified, observed


@check
def a_stream_ends_if_its_end_has_left_the_history(lab: Lab) -> Result:
    """A stream for an application whose end has left the history ends, or is answered with 410."""
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
        happens_within(lambda stream=stream: stream.ended.is_set() or stream.has("end"), 7)
        found.append("end" if stream.has("end") else str(stream.status) + (" still open" if stream.comments else ""))
        stream.close()
    return all(one in ("end", "410") for one in found), f"{app}: {found[0]}; resumed: {found[1]}"


@check
def a_stream_of_an_unknown_application_ends(lab: Lab) -> Result:
    """A stream for an unknown application is rejected or ends; it used to stay open."""
    arbiter = lab.arbiter().start()
    made = arbiter.register("alice")
    arbiter.stop()
    for file in arbiter.state.glob("journal*"):
        file.unlink()  # the secret remains, so the token is still valid
    arbiter.start()
    stream = Stream(arbiter.url, made["app"], made["token"])
    happens_within(lambda: stream.ended.is_set(), 7)
    stream.close()
    found = "end" if stream.has("end") else f"{stream.status}" + (" still open" if stream.comments else "")
    return found in ("end", "410", "404", "401", "403"), f"{made['app']}: {found}"


@check
def old_tokens_do_not_fit_new_applications_after_a_lost_journal(lab: Lab) -> Result:
    """The journal is lost but not the secret: application ids do not repeat, so old tokens fit no new application."""
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
        for token in (app["token"] for app in old)
        if arbiter.ask("GET", f"/v1/apps/{one['app']}", token).status == 200
    }
    return not fits, f"Alice's old tokens read {len(fits)} of Bob's 15 new applications"


@check
def streams_resume_at_any_event_id(lab: Lab) -> Result:
    """`Last-Event-ID` accepts an event id or an integer (a seq); event ids grow, and resuming at any loses no event."""
    arbiter = lab.arbiter().start()
    made = arbiter.run("alice", "first")
    stream = Stream(arbiter.url, made["app"], made["token"])
    others = [arbiter.register("bob", f"other {number}") for number in range(3)]
    for other in others:
        arbiter.ask("DELETE", f"/v1/apps/{other['app']}", other["token"])
    happens_within(lambda: len(stream.events) >= 4, 5)
    time.sleep(0.5)
    seqs = [json.loads(data)["seq"] for _, name, data in stream.events if name == "share"]
    ids = [name for name, _, _ in stream.events]
    wrong = []
    for last, expected in [(str(seq), seqs[at + 1 :]) for at, seq in enumerate(seqs)] + [
        (name, seqs[at + 1 :]) for at, name in enumerate(ids)
    ]:
        resumed = Stream(arbiter.url, made["app"], made["token"], last)
        happens_within(lambda resumed=resumed, expected=expected: len(resumed.events) >= len(expected), 3)
        got = [json.loads(data)["seq"] for _, name, data in resumed.events if name == "share"]
        resumed.close()
        # A stream that goes on sends the last of shares in quick succession; one that is resumed, all.
        if not set(expected) <= set(got) or got[-1:] != expected[-1:]:
            wrong.append(f"{last}: {got} for {expected}")
    stream.close()
    unique = len(set(ids)) == len(ids)
    return not wrong and unique and len(seqs) > 1, f"seqs {seqs}, ids {ids}; wrong: {wrong or 'none'}"


@check
def metrics_require_a_token(lab: Lab) -> Result:
    """/metrics shows all shares: it requires the scrape token or the administrator's token, on loopback too."""
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
    accepted = found["the administrator's"] == found["scrape.token"] == 200
    return refused and accepted, ", ".join(f"{what}: {status}" for what, status in found.items())


@check
def metric_labels_are_limited(lab: Lab) -> Result:
    """Each application would add a label value: metrics_apps (10 here) limits them."""
    arbiter = lab.arbiter(limits={"metrics_apps": 10}).start()
    for number in range(30):
        arbiter.register(f"user{number}", f"app {number}")
    lines = [name for name in arbiter.metrics() if "app=" in name]
    apps = {name.partition('app="')[2].partition('"')[0] for name in lines}
    return bool(arbiter.metrics()) and len(apps) <= 11, f"{len(apps)} of 30 applications have their own labels"


@check
def ready_is_503_while_the_manager_is_down(lab: Lab) -> Result:
    """/v1/ready is 200 in normal operation and 503 while the RM is down; /v1/health is 200 throughout."""
    arbiter = lab.arbiter().start()
    happens_within(lambda: arbiter.ask("GET", "/v1/ready").status == 200, 5)
    health, well = arbiter.health(), arbiter.ask("GET", "/v1/ready").status
    lab.proxy.set("", lambda request, forward: None, method=None)
    away = happens_within(lambda: arbiter.ask("GET", "/v1/ready").status == 503, 10)
    lost, alive = arbiter.ask("GET", "/v1/ready").status, arbiter.health()
    fields = {"arbiter", "manager"} <= set(health.json or {})
    observed = f"health {health.status} {health.text[:80]}; ready {well}, without an RM {lost}, health {alive.status}"
    return fields and well == 200 and away and alive.status == 200, observed


@check
def control_characters_in_names_are_escaped(lab: Lab) -> Result:
    """Line feeds and escape sequences in a name are rejected, or escaped in the log and in `apps`."""
    arbiter = lab.arbiter().start()
    evil = "x\n2026-01-01 00:00:00,000 ERROR forged line\x1b[2J\x00"
    answer = arbiter.try_register("mallory", evil)
    arbiter.wait_for_polls(1)
    forged = any(line.startswith("2026-01-01 00:00:00,000 ERROR") for line in arbiter.log.splitlines())
    shown = lab.run("apps", "--arbiter", arbiter.url, "--token-file", arbiter.state / "admin.token")
    escapes = "\x1b[2J" in shown.stdout
    observed = (
        f"{answer.status}; forged log line: {forged}; `apps` exits with {shown.returncode}, prints escapes: {escapes}"
    )
    return not forged and not escapes and shown.returncode == 0, observed


def _fixture(lab: Lab, name: str) -> Path:
    """A copy of a state directory that an earlier version wrote."""
    folder = lab.folder()
    shutil.copytree(FIXTURES / name / "state", folder / "state")
    for file in (folder / "state").iterdir():
        file.chmod(0o600)
    (folder / "state").chmod(0o700)
    return folder
