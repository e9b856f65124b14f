"""Attacks on files: a full disk, damage, files of another user, modes."""

import json
import os
import resource
import stat
import time
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.adversary.api import FIXTURES
from tests.adversary.checks import Result, check
from tests.adversary.lab import Arbiter, Lab, happens_within


def record(value: dict[str, Any]) -> bytes:
    """A record in the current format of journals."""
    body = json.dumps(value, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32(body), body)


def _different(lab: Lab, arbiter: Arbiter) -> int | str:
    """The number of decisions that differ in a replay of its journal; the error if the replay failed."""
    results = arbiter.folder / "replay.json"
    results.unlink(missing_ok=True)
    done = lab.run("replay", arbiter.journal, "--json", results)
    return json.loads(results.read_text())["different"] if results.exists() else _last_line(done.stderr)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:500]


@check
def a_full_disk_is_survived(lab: Lab) -> Result:
    """On a full disk (RLIMIT_FSIZE), changes are rejected with 503 and shares are served; it recovers."""
    arbiter = lab.arbiter().start()
    known = arbiter.run("alice", "known")
    time.sleep(1)
    token = arbiter.user("alice")
    arbiter.limit(resource.RLIMIT_FSIZE, arbiter.journal.stat().st_size + 100)
    refused = [arbiter.try_register("alice", f"refused-{number}", timeout=8).status for number in range(3)]
    read = arbiter.ask("GET", f"/v1/apps/{known['app']}", known["token"], timeout=8)
    share = bool((read.json or {}).get("share"))
    ready = arbiter.ask("GET", "/v1/ready", timeout=8).status
    revised = arbiter.ask("PATCH", f"/v1/apps/{known['app']}", known["token"], {"weight": 0.5}, timeout=8).status
    arbiter.limit(resource.RLIMIT_FSIZE, None)
    body = {"name": "afterwards", "request_id": "request-afterwards"}
    back = happens_within(lambda: arbiter.ask("POST", "/v1/apps", token, body, timeout=5).status == 201, 20)
    arbiter.kill()
    written = arbiter.journal.read_bytes()
    leaked = sum(f"refused-{number}".encode() in written for number in range(3))
    different = _different(lab, arbiter)
    observed = (
        f"while full: registering {refused}, PATCH {revised}, shares {read.status}, ready {ready}; space back: "
        f"{'recovers' if back else 'does not recover in 20 s'}; rejected in the journal: {leaked}; replay {different}"
    )
    return set(refused) == {
        503
    } and revised == 503 and share and ready == 503 and back and not leaked and different == 0, observed


@check
def an_event_rejected_on_a_full_disk_never_appears(lab: Lab) -> Result:
    """On a full disk and after kill -9: what was rejected never appears, what was accepted is not lost."""
    arbiter = lab.arbiter().start()
    arbiter.run("alice", "known")
    time.sleep(1)
    arbiter.limit(resource.RLIMIT_FSIZE, arbiter.journal.stat().st_size + 400)
    statuses = [arbiter.try_register("bob", f"refused-{number}", timeout=8).status for number in range(4)]
    refused = [f"refused-{number}" for number, status in enumerate(statuses) if status != 201]
    arbiter.kill()
    arbiter.start()
    names = {app["name"] for app in arbiter.apps()}
    back = sorted(names & set(refused))
    accepted = [f"refused-{number}" for number, status in enumerate(statuses) if status == 201]
    lost = sorted(set(accepted) - names)
    observed = (
        f"answers {statuses}; restarted: rejected but present {back or 'none'}, accepted but lost {lost or 'none'}"
    )
    return not back and not lost and bool(refused), observed


@check
def a_damaged_journal_needs_accept_loss(lab: Lab) -> Result:
    """With a bit flipped at 10% of the journal, it does not start; old tokens fit no new application."""
    arbiter = lab.arbiter().start()
    made = [arbiter.register(("alice", "bob")[number % 2], f"app {number}") for number in range(20)]
    arbiter.stop()
    data = bytearray(arbiter.journal.read_bytes())
    data[len(data) // 10] ^= 1
    arbiter.journal.write_bytes(bytes(data))
    try:
        arbiter.start(15)
    except AssertionError:
        code = arbiter.process.poll() if arbiter.process else None
        error = _last_line(arbiter.log)
        unchanged = arbiter.journal.read_bytes() == bytes(data)
        arbiter.words.append("--accept-loss")
        arbiter.start()
        fits = _old_tokens_that_fit(arbiter, made)
        observed = (
            f"refused with {code}, file unchanged: {unchanged}: {error}; with --accept-loss old tokens fit {fits}"
        )
        return code not in (
            None,
            0,
        ) and "--accept-loss" in error and unchanged and not fits and "Traceback" not in arbiter.log, observed
    left, fits = len(arbiter.apps()), _old_tokens_that_fit(arbiter, made)
    return False, f"starts with {left} of 20 applications; old tokens fit {len(fits)} new applications"


def _old_tokens_that_fit(arbiter: Arbiter, old: list[dict[str, Any]]) -> list[str]:
    """The new applications that a token of an old one can read."""
    remaining = {app["app"] for app in arbiter.apps()}
    new = [arbiter.register("carol", f"new {number}") for number in range(30)]
    tokens = {one["token"] for one in old if one["app"] not in remaining}
    fits = []
    for one in new:
        if any(arbiter.ask("GET", f"/v1/apps/{one['app']}", token).status == 200 for token in tokens):
            fits.append(one["app"])
    return fits


@check
def a_truncated_last_record_is_saved_and_dropped(lab: Lab) -> Result:
    """A truncated last record is dropped and saved to another file, and the arbiter starts."""
    arbiter = lab.arbiter().start()
    made = arbiter.register("alice", "known")
    arbiter.kill()
    with arbiter.journal.open("ab") as file:
        file.write(b'01234567 {"kind":"input","seq":99,"at":1.0,"ev')
    arbiter.start()
    known = bool(arbiter.app(made["app"]))
    saved = [file.name for file in arbiter.state.glob("journal.dropped*")]
    return known and len(saved) == 1, f"starts, Alice known: {known}, saved: {saved}"


@check
def records_of_a_newer_version_are_rejected(lab: Lab) -> Result:
    """A record of an unknown type or a newer version is a one-line error at every start; the file stays unchanged."""
    source = (FIXTURES / "plain" / "state" / "journal").read_bytes()
    last = json.loads(source.splitlines()[-1].split(b" ", 1)[1])
    base = {"seq": last["seq"] + 1, "at": last["at"] + 1}
    tried = {
        "kind": {"kind": "mystery", **base},
        "event": {"kind": "input", **base, "event": {"type": "Abducted", "by": "aliens"}},
        "field": {"kind": "input", **base, "event": {"type": "Deregistered", "application": "app_1"}},
        "version": {"kind": "input", **base, "v": 99, "version": 99, "event": {"type": "Deregistered", "app": "app_1"}},
    }
    found, good = [], True
    for what, value in tried.items():
        arbiter = lab.arbiter()
        arbiter.state.mkdir()
        arbiter.journal.write_bytes(source + record(value))
        before = arbiter.journal.read_bytes()
        replayed = lab.run("replay", arbiter.journal)
        lines = replayed.stderr.strip().count("\n") + 1
        started = [_how_it_starts(arbiter) for _ in range(3)]
        same = arbiter.journal.read_bytes() == before
        well = replayed.returncode != 0 and lines == 1 and set(started) == {"one line"} and same
        good &= well
        shown = "traceback" if "Traceback" in replayed.stderr else f"{lines} line, exit {replayed.returncode}"
        file = "unchanged" if same else "CHANGED"
        found.append(f"{what}: replay {shown}, three starts {', '.join(started)}, file {file}")
    return good, "; ".join(found)


def _how_it_starts(arbiter: Arbiter) -> str:
    arbiter.log = ""
    try:
        arbiter.start(15)
    except AssertionError:
        return "traceback" if "Traceback" in arbiter.log else "one line"
    arbiter.stop()
    return "starts"


@check
def replay_never_writes_to_its_file(lab: Lab) -> Result:
    """`yarn-plugin replay notes.txt` fails and leaves the file unchanged; it used to truncate it."""
    notes = lab.folder() / "notes.txt"
    text = "Shopping list\n- milk\n- eggs\n" * 20
    notes.write_text(text)
    done = lab.run("replay", notes)
    same, others = notes.read_text() == text, [file.name for file in notes.parent.iterdir() if file != notes]
    size = "unchanged" if same else f"{notes.stat().st_size} bytes"
    observed = f"exit {done.returncode}, file {size}, other files {others or 'none'}"
    return same and not others and done.returncode != 0 and "Traceback" not in done.stderr, observed


@check
def replay_works_while_the_arbiter_runs(lab: Lab) -> Result:
    """Replay of a running arbiter's journal succeeds and changes nothing; it used to lock and truncate the file."""
    arbiter = lab.arbiter().start()
    arbiter.register("alice", "known")
    before = {file.name for file in arbiter.state.iterdir()}
    done = lab.run("replay", arbiter.journal)
    made = arbiter.try_register("alice", "after").status
    new = {file.name for file in arbiter.state.iterdir()} - before
    last = _last_line(done.stdout or done.stderr)
    observed = f"exit {done.returncode}: {last}; registering: {made}; new files {new or 'none'}"
    return done.returncode == 0 and made == 201 and not new, observed


@check
def replay_of_a_query_journal_is_one_line(lab: Lab) -> Result:
    """A query journal given to the arbiter's replay is a one-line error."""
    copy = lab.folder() / "query.journal"
    copy.write_bytes((FIXTURES.parent / "query" / "returns.journal").read_bytes())
    done = lab.run("replay", copy)
    shown = "traceback" if "Traceback" in done.stderr else _last_line(done.stderr)
    return done.returncode != 0 and done.stderr.count("\n") == 1, f"exit {done.returncode}: {shown}"


@check
def state_files_are_private(lab: Lab) -> Result:
    """All files in the state directory have mode 0600, rewritten and dropped ones too."""
    arbiter = lab.arbiter(pools={"submit_timeout_s": 3600})
    arbiter.state.mkdir(mode=0o700)
    # Larger than the size at which a journal is compacted: thousands of events of the history, then a snapshot.
    lines = (FIXTURES / "compacted" / "state" / "journal").read_bytes().splitlines(keepends=True)
    snapshot = next(line for line in lines if b'"kind":"snapshot"' in line)
    known = json.loads(snapshot.split(b" ", 1)[1])
    event = {"type": "ManagerLost", "error": "x" * 6500}
    past = {"kind": "past", "seq": 1, "at": known["at"] - 1, "event": event, "commands": []}
    with arbiter.journal.open("wb") as file:
        for number in range(5500):
            file.write(record({**past, "seq": 1 + number}))
        file.write(record({**known, "seq": 6000}))
        file.write(b"torn")
    arbiter.journal.chmod(0o600)
    size = arbiter.journal.stat().st_size
    mask = os.umask(0o022)
    try:
        arbiter.start(60)
        arbiter.register("alice", "after")
        rewritten = happens_within(lambda: arbiter.journal.stat().st_size < size * 0.95, 5)
        access = ("--arbiter", arbiter.url, "--token-file", arbiter.state / "admin.token")
        lab.run("token", "bob", *access, "--out", arbiter.folder / "bob.token")
    finally:
        os.umask(mask)
    files = [*arbiter.state.iterdir(), arbiter.folder / "bob.token"]
    open_to_others = [f"{file.name} {stat.S_IMODE(file.stat().st_mode):04o}" for file in files if _others_read(file)]
    names = [file.name for file in files]
    shown = ", ".join(sorted(open_to_others)) or "none"
    observed = f"readable by others: {shown}; of {len(names)} files; rewritten: {rewritten}"
    return not open_to_others and any("dropped" in name for name in names), observed


def _others_read(file: Path) -> bool:
    # The address of the arbiter is not secret.
    return file.name != "arbiter.json" and bool(file.stat().st_mode & 0o077)


@check
def query_journals_are_private(lab: Lab) -> Result:
    """A query journal contains SQL text; its mode is 0600."""
    folder = lab.folder()
    words = ("submit", "--master", "local[1]", "--journal", folder / "q.journal", "-e", "select 1 as one")
    done = lab.run(*words, command="qoop", limit_s=120)
    files = sorted(folder.iterdir())
    modes = {file.name: f"{stat.S_IMODE(file.stat().st_mode):04o}" for file in files}
    good = all(mode == "0600" for mode in modes.values()) and any("journal" in name for name in modes)
    return good and done.returncode == 0, f"exit {done.returncode}; {modes}"
