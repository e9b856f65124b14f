"""Attacks on the commands: names that contain markup, wide table cells, certificates, signals."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from tests.adversary import proxy
from tests.adversary.api import FIXTURES
from tests.adversary.checks import Result, check
from tests.adversary.lab import Arbiter, Lab, happens_within


def _access(arbiter: Arbiter, url: str | None = None) -> tuple[object, ...]:
    return ("--arbiter", url or arbiter.url, "--token-file", arbiter.state / "admin.token")


def _shown(done: "subprocess.CompletedProcess[str]") -> str:
    lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
    return f"exit {done.returncode}" + (f": {lines[-1][:160]}" if lines else "")


@check
def names_are_never_markup(lab: Lab) -> Result:
    """`apps`, `why` and `replay` print names such as [/x] and [bold]; they used to fail with a MarkupError."""
    arbiter = lab.arbiter().start()
    for name in ("[/x]", "[bold]quiet", "[link=http://evil]click"):
        arbiter.register("mallory", name)
    made = arbiter.register("mallory", "[/red]")
    apps, why = lab.run("apps", *_access(arbiter)), lab.run("why", made["app"], *_access(arbiter))
    complete = all(name in apps.stdout for name in ("[/x]", "[bold]quiet", "[link=http://evil]click"))
    replayed = lab.run("replay", arbiter.journal)
    observed = f"apps {_shown(apps)}, all names verbatim: {complete}; why {_shown(why)}; replay {_shown(replayed)}"
    return apps.returncode == 0 and why.returncode == 0 and complete and "MarkupError" not in replayed.stderr, observed


@check
def wide_cells_are_not_truncated_in_a_pipe(lab: Lab) -> Result:
    """In a pipe, each row is one line with its wide cells complete."""
    arbiter = lab.arbiter().start()
    name = "nightly-" + "x" * 150 + "-" + "y" * 30
    made = arbiter.register("alice", name)
    done = lab.run("apps", *_access(arbiter))
    rows = [line for line in done.stdout.splitlines() if line.startswith(made["app"])]
    complete = len(rows) == 1 and name in rows[0] and "alone" not in rows[0] and made["app"] + " arrived" in rows[0]
    return complete, f"{_shown(done)}; in one line: {complete}; ellipsis: {'…' in done.stdout}"


@check
def clients_ignore_fields_of_a_newer_arbiter(lab: Lab) -> Result:
    """A field added by a newer arbiter is ignored by `apps` and `why`."""
    arbiter = lab.arbiter().start()
    made = arbiter.register("alice", "known")
    between = lab.proxy_before(arbiter.url)
    between.set("/v1/apps", proxy.edited(_with_more), method=None)
    apps = lab.run("apps", *_access(arbiter, between.url))
    why = lab.run("why", made["app"], *_access(arbiter, between.url))
    good = apps.returncode == 0 and made["app"] in apps.stdout and why.returncode == 0
    return good, f"apps {_shown(apps)}; why {_shown(why)}"


def _with_more(value: Any) -> Any:
    match value:
        case dict():
            more = {name: one if name in _AMOUNTS else _with_more(one) for name, one in value.items()}
            return {**more, "added_later": {"x": 1}}
        case list():
            return [_with_more(one) for one in value]
    return value


_AMOUNTS = ("used", "pending", "capacity", "resources", "detail")


FOLLOWING = """
import os, sys, threading
from yarn_plugin.api.client import ArbiterClient
threading.Timer(12, lambda: os._exit(3)).start()
shares = ArbiterClient(sys.argv[1], "app.app_1.x").follow("app_1")
print("seq", next(shares).seq, flush=True)
os._exit(0)
"""


def _follow(lab: Lab, url: str) -> "subprocess.CompletedProcess[str]":
    """Run a client of the checkout that waits for its first share."""
    command = [sys.executable, "-c", FOLLOWING, url]
    environment, folder = lab.environment(), lab.scratch
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder, env=environment)


def _stream(*more: str, **fields: Any) -> bytes:
    """An event stream with one share, preceded by `more`."""
    recorded = json.loads((FIXTURES.parent / "transcript" / "parsed_by_client.json").read_text())
    share = recorded["streams"]["followed"]["shares"][0] | {"app": "app_1"} | fields
    return ("".join(more) + f"id: {share['seq']}\nevent: share\ndata: {json.dumps(share)}\n\n").encode()


@check
def clients_ignore_events_of_a_newer_arbiter(lab: Lab) -> Result:
    """An event with an unknown name and an unknown field of a share are ignored by a client."""
    arbiter = lab.proxy_before("http://127.0.0.1:1")
    news = 'id: 3\nevent: novelty\ndata: {"x": 1}\n\n'
    arbiter.set("/events", proxy.text(_stream(news, added_later={"x": 1}), 200, "text/event-stream"))
    done = _follow(lab, arbiter.url)
    return done.returncode == 0 and "seq 5" in done.stdout, f"{done.stdout.strip()[:80]}; {_shown(done)}"


@check
def a_proxys_404_does_not_end_a_feed(lab: Lab) -> Result:
    """A 404 page of a proxy in front of the arbiter does not end the feed; only the arbiter's own rejection does."""
    arbiter = lab.proxy_before("http://127.0.0.1:1")
    arbiter.set("/events", proxy.text(_stream(), 200, "text/event-stream"))
    arbiter.set("/events", proxy.text(b"<html>no such host</html>", 404), times=2)
    done = _follow(lab, arbiter.url)
    return done.returncode == 0 and "seq 5" in done.stdout, f"{done.stdout.strip()[:80]}; {_shown(done)}"


@check
def unknown_fields_of_requests_are_rejected(lab: Lab) -> Result:
    """A misspelled field of a request is rejected with a 422 that names it."""
    arbiter = lab.arbiter().start()
    answer = arbiter.try_register("alice", "known", wieght=2)
    return answer.status == 422 and "wieght" in answer.text, f"{answer.status} {answer.text[:100]}"


def _certificates(folder: Path) -> tuple[Path, Path, Path, Path]:
    """A private authority and its certificate for 127.0.0.1: (authority, certificate, key, both in one file)."""
    authority, key = folder / "ca.pem", folder / "ca.key"
    own, own_key, request = folder / "own.pem", folder / "own.key", folder / "own.csr"
    extensions = folder / "extensions"
    extensions.write_text("subjectAltName=IP:127.0.0.1\n")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for words in (
        ["req", "-x509", *new, "-keyout", key, "-out", authority, "-subj", "/CN=Private authority", "-days", "2"],
        ["req", *new, "-keyout", own_key, "-out", request, "-subj", "/CN=127.0.0.1"],
        ["x509", "-req", "-in", request, "-CA", authority, "-CAkey", key, "-CAcreateserial", "-out", own,
         "-days", "2", "-extfile", extensions],
    ):  # fmt: skip
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text(own.read_text() + own_key.read_text())
    return authority, own, own_key, both


@check
def commands_accept_a_private_authority(lab: Lab) -> Result:
    """`apps`, `why` and `token` accept a private certificate authority by --ca-file and REQUESTS_CA_BUNDLE."""
    folder = lab.folder()
    authority, own, key, _ = _certificates(folder)
    arbiter = lab.arbiter(words=("--tls-cert", str(own), "--tls-key", str(key))).start()
    found = {
        "apps --ca-file": lab.run("apps", *_access(arbiter), "--ca-file", authority),
        "token --ca-file": lab.run("token", "bob", *_access(arbiter), "--ca-file", authority),
        "apps, with the variable": lab.run("apps", *_access(arbiter), REQUESTS_CA_BUNDLE=str(authority)),
        "why, with the variable": lab.run("why", "app_1", *_access(arbiter), REQUESTS_CA_BUNDLE=str(authority)),
    }
    codes = {what: done.returncode for what, done in found.items()}
    trusts = "no such application" in found["why, with the variable"].stderr
    observed = "; ".join(f"{what}: {_shown(done)}" for what, done in found.items())
    return list(codes.values())[:3] == [0, 0, 0] and trusts, observed


@check
def an_untrusted_certificate_is_reported(lab: Lab) -> Result:
    """Without the authority, the error is about the certificate, not 'no connection'."""
    folder = lab.folder()
    _, own, key, both = _certificates(folder)
    arbiter = lab.arbiter(words=("--tls-cert", str(own), "--tls-key", str(key))).start()
    manager = lab.proxy_before(lab.rm_url, both)
    apps, doctor = lab.run("apps", *_access(arbiter)), lab.run("doctor", "--rm", manager.url)
    quoted = ["certificate" in done.stderr.lower() and done.stderr.count("\n") == 1 for done in (apps, doctor)]
    return all(
        quoted
    ) and apps.returncode != 0 and doctor.returncode != 0, f"apps {_shown(apps)}; doctor {_shown(doctor)}"


@check
def doctor_accepts_a_manager_with_a_private_authority(lab: Lab) -> Result:
    """`doctor` accepts an HTTPS RM with a private certificate authority by --ca-file and REQUESTS_CA_BUNDLE."""
    authority, _, _, both = _certificates(lab.folder())
    manager = lab.proxy_before(lab.rm_url, both)
    option = lab.run("doctor", "--rm", manager.url, "--ca-file", authority)
    variable = lab.run("doctor", "--rm", manager.url, REQUESTS_CA_BUNDLE=str(authority))
    observed = f"--ca-file {_shown(option)}; with the variable {_shown(variable)}"
    return option.returncode == 0 and variable.returncode == 0, observed


@check
def result_values_are_never_markup(lab: Lab) -> Result:
    """Result values such as [a] and [/x] are printed verbatim; they used to be empty, or an error."""
    words = ("submit", "--master", "local[1]", "-e", "select '[a]' as one, '[/x]' as two, '[bold]' as three")
    done = lab.run(*words, command="qoop", limit_s=120)
    complete = all(value in done.stdout for value in ("[a]", "[/x]", "[bold]"))
    return done.returncode == 0 and complete, f"exit {done.returncode}; all values shown: {complete}"


@check
def a_hangup_stops_spark_submit(lab: Lab) -> Result:
    """SIGHUP stops `qoop submit` and its spark-submit, as SIGTERM does."""
    text = "select count(*) as n from range(10000000) a, range(10000000) b where a.id * b.id % 7 = 3"
    process = lab.spawn(["submit", "--master", "local[1]", "-e", text], command="qoop")
    family = psutil.Process(process.pid)
    if not happens_within(lambda: any("java" in one.name() for one in family.children(recursive=True)), 60):
        return False, "Spark did not start"
    time.sleep(6)
    children = family.children(recursive=True)
    process.send_signal(signal.SIGHUP)
    ended = happens_within(lambda: process.poll() is not None, 30)
    happens_within(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in children), 20)
    left = []
    for one in children:
        try:
            if one.is_running() and one.status() != psutil.STATUS_ZOMBIE:
                left.append(f"{one.name()} {one.pid}")
                one.kill()
        except psutil.NoSuchProcess:
            continue
    return ended and not left, f"ended: {ended} ({process.poll()}); left over: {left or 'none'}"
