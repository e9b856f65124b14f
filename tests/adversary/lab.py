"""The environment of the attacks: a real ResourceManager behind a hostile proxy, and arbiters of any checkout."""

import contextlib
import http.client
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psutil
import requests

from tests.adversary.proxy import HostileProxy
from tests.eventually import eventually

Found = TypeVar("Found")

FOREIGN = "root.sql.etl"
"""A static queue of the administrator below the pool's queue: only the administrator may write it."""

POOL = {
    "grace_s": 1,
    "preempt_after_s": 30,
    "idle_timeout_s": 1,
    "submit_timeout_s": 120,
    "max_apps_per_user": 10_000,
}
POLL = {"metrics_s": 0.2, "apps_s": 0.5, "nodes_s": 0.5, "queues_s": 2}
NEW_SETTINGS = {"poll": {"reconcile_s": 2}, "limits": {"changes_per_s": 10_000, "changes_burst": 10_000}}
"""Settings that older versions reject: omitted for them."""

Settings = dict[str, dict[str, Any]]


def happens_within(condition: Callable[[], Any], limit_s: float) -> bool:
    """Whether a condition becomes true within a number of seconds."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


@dataclass
class Answer:
    """An answer; status 0 with the error as text if there was none."""

    status: int
    text: str
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def json(self) -> Any:
        """The body as JSON; None if it is not JSON."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None


def ask(
    url: str,
    method: str,
    path: str,
    token: str | None = None,
    body: Any = None,
    raw: bytes | None = None,
    headers: dict[str, str] | None = None,
    timeout: float = 20.0,
) -> Answer:
    """Send a request on a new connection."""
    parts = urlsplit(url)
    sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
    content = raw if raw is not None else None if body is None else json.dumps(body).encode()
    if content is not None:
        sent.setdefault("Content-Type", "application/json")
    started = time.monotonic()
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    try:
        connection.request(method, path, content, sent)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, text, found, time.monotonic() - started)
    except (OSError, http.client.HTTPException, ValueError) as problem:
        return Answer(0, f"{type(problem).__name__}: {problem}", {}, time.monotonic() - started)
    finally:
        connection.close()


class Stream:
    """An event stream, read by a thread: `events` are (id, event, data), `comments` counts keep-alives."""

    def __init__(self, url: str, app: str, token: str, last_seen: str | None = None) -> None:
        parts = urlsplit(url)
        headers = {"Authorization": f"Bearer {token}"} | ({} if last_seen is None else {"Last-Event-ID": last_seen})
        self.events: list[tuple[str, str, str]] = []
        self.comments, self.status, self.ended = 0, 0, threading.Event()
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        self._request = (f"/v1/apps/{app}/events", headers)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self._connection.sock.shutdown(2)
        self._thread.join(5)

    def has(self, event: str) -> bool:
        return any(name == event for _, name, _ in self.events)

    def _read(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
            path, headers = self._request
            self._connection.request("GET", path, headers=headers)
            answer = self._connection.getresponse()
            self.status = answer.status
            fields: dict[str, str] = {}
            while self.status == 200 and (line := answer.readline()):
                text = line.decode().rstrip("\n")
                if text.startswith(":"):
                    self.comments += 1
                elif text:
                    name, _, value = text.partition(":")
                    fields[name] = value.strip()
                elif fields:
                    self.events.append((fields.get("id", ""), fields.get("event", ""), fields.get("data", "")))
                    fields = {}
        self._connection.close()
        self.ended.set()


class Yarn:
    """The real ResourceManager, accessed directly and as any user."""

    def __init__(self, rm_url: str) -> None:
        self.url = f"{rm_url}/ws/v1/cluster"
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Accept"] = "application/json"
        # Hadoop stores the user of the first request in a cookie, and attributes every later request to that user.
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    def get(self, path: str, **parameters: str) -> Any:
        answer = self._session.get(self.url + path, params=parameters, timeout=20)
        answer.raise_for_status()
        return answer.json()

    def submit(self, queue: str, user: str, name: str = "sleeper", memory_mb: int = 128) -> str:
        """Submit an application whose master sleeps, as this user; returns its id."""
        as_user = {"user.name": user}
        made = self._session.post(f"{self.url}/apps/new-application", params=as_user, timeout=20).json()
        app: str = made.get("application-id") or next(iter(made.values()))["application-id"]
        body = {
            "application-id": app,
            "application-name": name,
            "queue": queue,
            "max-app-attempts": 1,
            "am-container-spec": {"commands": {"command": "sleep 600"}},
            "resource": {"memory": memory_mb, "vCores": 1},
        }
        answer = self._session.post(f"{self.url}/apps", json=body, params=as_user, timeout=20)
        assert answer.status_code == 202, f"submitting to {queue}: {answer.status_code} {answer.text[:200]}"
        return app

    def kill(self, *apps: str) -> None:
        for app in apps:
            self._session.put(f"{self.url}/apps/{app}/state", json={"state": "KILLED"}, timeout=20)

    def unfinished(self) -> list[dict[str, Any]]:
        found = self.get("/apps", states="NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING").get("apps") or {}
        return list(found.get("app", []))

    def kill_all(self) -> None:
        """Kill all applications and wait until none is left."""
        eventually(lambda: not self._kill_unfinished(), "applications of an earlier check end", 60)

    def _kill_unfinished(self) -> bool:
        unfinished = self.unfinished()
        self.kill(*(app["id"] for app in unfinished))
        return bool(unfinished)

    def properties(self) -> dict[str, str]:
        """The scheduler's configuration."""
        answer = self.get("/scheduler-conf")
        entries = answer.get("property") or (answer.get("sched-conf") or {}).get("property") or []
        return {one["name"]: one["value"] for one in entries}

    def capacity(self, queue: str) -> str | None:
        return self.properties().get(f"yarn.scheduler.capacity.{queue}.capacity")

    def configure(self, body: dict[str, Any]) -> requests.Response:
        return self._session.put(f"{self.url}/scheduler-conf", json=body, params={"user.name": _me()}, timeout=20)

    def set(self, queue: str, **values: str) -> requests.Response:
        """Change a queue, as an administrator would."""
        entries = [{"key": key.replace("_", "-"), "value": value} for key, value in values.items()]
        return self.configure({"update-queue": [{"queue-name": queue, "params": {"entry": entries}}]})


def _me() -> str:
    return os.environ.get("USER") or "root"


class Arbiter:
    """A process of `yarn-plugin arbiter` of a checkout; its log is a pipe, which a full disk does not affect."""

    def __init__(self, lab: "Lab", rm: str, folder: Path, settings: Settings, words: list[str]) -> None:
        self._lab, self.rm, self.folder, self.words = lab, rm, folder, words
        self.state, self.url, self.log = folder / "state", "", ""
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, limit_s: float = 30.0) -> "Arbiter":
        """Start it, and wait until it answers.

        Raises:
            AssertionError: it exited, or does not answer.
        """
        for settings in (_merged(NEW_SETTINGS, self.settings), _with_old_names(self.settings)):
            (self.folder / "arbiter.toml").write_text(_toml(settings))
            if self._try_start(limit_s):
                return self
            # The error of an earlier version is pydantic's.
            if "unknown key" not in self.log and "Extra inputs are not permitted" not in self.log:
                break
            self.log = ""
        lines = self.log.strip().splitlines() or ["no output"]
        traceback = " after a traceback" if "Traceback" in self.log else ""
        raise AssertionError(f"the arbiter does not start{traceback}: {lines[-1][:250]}")

    def _try_start(self, limit_s: float) -> bool:
        address = self.state / "arbiter.json"
        address.unlink(missing_ok=True)
        listen = urlsplit(self.url).netloc or "127.0.0.1:0"
        words = ["arbiter", "--rm", self.rm, "--state", str(self.state), "--listen", listen, *self.words]
        words += ["--config", str(self.folder / "arbiter.toml")]
        self.process = self._lab.spawn(words)
        threading.Thread(target=self._read_log, args=(self.process,), daemon=True).start()
        happens_within(lambda: address.exists() or not self.is_running, limit_s)
        if not self.is_running or not address.exists():
            time.sleep(0.2)
            return False
        self.url = json.loads(address.read_text())["url"]
        return True if self.url.startswith("https") else happens_within(lambda: self.health().status == 200, limit_s)

    def _read_log(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError):  # closed meanwhile
            for line in process.stdout:
                self.log += line.decode(errors="replace")

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """kill -9."""
        if self.process and self.is_running:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(30)

    def stop(self) -> int | None:
        """Stop it with SIGTERM, or SIGKILL if that fails; returns its exit code."""
        if self.process is None:
            return None
        if self.is_running:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(12)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode

    # Requests.

    def ask(self, method: str, path: str, token: str | None = None, body: Any = None, **more: Any) -> Answer:
        return ask(self.url, method, path, token, body, **more)

    def health(self, timeout: float = 10.0) -> Answer:
        return self.ask("GET", "/v1/health", timeout=timeout)

    @property
    def admin(self) -> str:
        return (self.state / "admin.token").read_text().strip()

    def user(self, name: str) -> str:
        """A token of a user."""
        answer = self.ask("POST", "/v1/tokens", self.admin, {"user": name})
        assert answer.status == 201, f"no token for {name}: {answer.status} {answer.text[:100]}"
        token: str = answer.json["token"]
        return token

    def register(self, user: str, name: str = "app", **more: Any) -> dict[str, Any]:
        """Register an application; it must be accepted."""
        answer = self.try_register(user, name, **more)
        assert answer.status == 201, f"registering {name!r}: {answer.status} {answer.text[:200]}"
        made: dict[str, Any] = answer.json
        return made

    def try_register(self, user: str, name: str = "app", timeout: float = 20.0, **more: Any) -> Answer:
        body = {"name": name, "request_id": f"request-{user}-{time.time_ns()}", **more}
        return self.ask("POST", "/v1/apps", self.user(user), body, timeout=timeout)

    def run(self, user: str, name: str = "app", memory_mb: int = 128, **more: Any) -> dict[str, Any]:
        """Register an application and submit it; returns when the arbiter has matched it with its YARN id."""
        made = self.register(user, name, **more)
        made["yarn_app"] = self._lab.yarn.submit(made["queue"], user, name, memory_mb)
        eventually(lambda: self.app(made["app"]).get("yarn_app"), f"{name} is matched")
        return made

    def app(self, app: str) -> dict[str, Any]:
        """An application as the administrator sees it; empty if there is none."""
        answer = self.ask("GET", f"/v1/apps/{app}", self.admin)
        return answer.json if answer.status == 200 else {}

    def apps(self) -> list[dict[str, Any]]:
        answer = self.ask("GET", "/v1/apps", self.admin)
        return answer.json if answer.status == 200 else []

    def cluster(self) -> dict[str, Any]:
        answer = self.ask("GET", "/v1/cluster", self.admin)
        return answer.json if answer.status == 200 else {}

    def guarantee(self, app: str) -> float:
        """The fraction that an application is guaranteed."""
        share = self.app(app).get("share") or {}
        return float((share.get("guarantee") or {}).get("fraction", 0.0))

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics, by name and labels."""
        found = {}
        for line in self.ask("GET", "/metrics", self.admin).text.splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                with contextlib.suppress(ValueError):
                    found[name] = float(value)
        return found

    def wait_for_polls(self, seconds: float = 2.0) -> None:
        """Wait while it polls the ResourceManager a few times."""
        time.sleep(seconds)

    # Files and limits.

    @property
    def journal(self) -> Path:
        return self.state / "journal"

    def inputs(self) -> int:
        return self.journal.read_bytes().count(b'"kind":"input"')

    def limit(self, kind: int, soft: int | None) -> None:
        """Lower a resource limit of the running process, or (None) restore it."""
        hard = resource.prlimit(self.pid, kind)[1]
        resource.prlimit(self.pid, kind, (hard if soft is None else soft, hard))

    def memory_mb(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss) / 2**20

    def descriptors(self) -> int:
        return int(psutil.Process(self.pid).num_fds())


class Lab:
    """The ResourceManager, its proxy, and all processes that a check starts, which are stopped at its end.

    `strategies`: how many strategies of a liar are tried (see `liars`).
    """

    strategies = 30

    def __init__(self, rm_url: str, checkout: Path, scratch: Path) -> None:
        self.rm_url, self.checkout, self.scratch = rm_url, checkout, scratch
        self.yarn, self.proxy = Yarn(rm_url), HostileProxy(rm_url)
        self._arbiters: list[Arbiter] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._proxies: list[HostileProxy] = []
        self._count = 0
        scratch.mkdir(parents=True, exist_ok=True)
        made = self.yarn.configure(
            {"add-queue": [{"queue-name": FOREIGN, "params": {"entry": [{"key": "capacity", "value": "1w"}]}}]}
        )
        assert made.ok or "already exists" in made.text, f"{FOREIGN}: {made.status_code} {made.text[:200]}"

    @contextlib.contextmanager
    def clean(self) -> Iterator[None]:
        """For one check: nothing runs, and the proxy has no faults; at the end, stop what the check has started."""
        self.proxy.reset()
        self.yarn.kill_all()
        try:
            yield
        finally:
            self.proxy.clear_faults()
            for arbiter in self._arbiters:
                arbiter.stop()
            for process in self._processes:
                if process.poll() is None:
                    process.kill()
                    process.wait(30)
                if process.stdout:
                    process.stdout.close()
            for proxy in self._proxies:
                proxy.close()
            self._arbiters, self._processes, self._proxies = [], [], []

    def close(self) -> None:
        """Restore the ResourceManager's queues."""
        self.yarn.kill_all()
        self.yarn.set(FOREIGN, state="STOPPED")
        self.yarn.configure({"remove-queue": FOREIGN})
        self.proxy.close()

    def folder(self) -> Path:
        """A new folder."""
        self._count += 1
        made = self.scratch / f"{self._count:03}"
        made.mkdir(parents=True)
        return made

    def arbiter(
        self,
        folder: Path | None = None,
        rm: str | None = None,
        words: tuple[str, ...] = (),
        **settings: dict[str, Any],
    ) -> Arbiter:
        """An arbiter behind the proxy, not yet started; `settings` by section (`pools`: those of the only pool)."""
        arbiter = Arbiter(self, rm or self.proxy.url, folder or self.folder(), settings, list(words))
        self._arbiters.append(arbiter)
        return arbiter

    def proxy_before(self, url: str, certificate: Path | None = None) -> HostileProxy:
        """Another proxy, in front of any server."""
        made = HostileProxy(url, certificate)
        self._proxies.append(made)
        return made

    def environment(self, **more: str) -> dict[str, str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("YARN_ARBITER", "PYTHON"))
        }
        return {**inherited, "PYTHONPATH": str(self.checkout), "PYTHONUNBUFFERED": "1", **more}

    def spawn(self, words: list[str], command: str = "yarn_plugin", **environment: str) -> "subprocess.Popen[bytes]":
        """Start a command of the checkout; stdout and stderr go to one pipe."""
        process = subprocess.Popen(
            _python(command, words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.scratch,
            env=self.environment(**environment),
        )
        self._processes.append(process)
        return process

    def run(
        self, *words: object, command: str = "yarn_plugin", limit_s: float = 60.0, **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command of the checkout; the exit code is 124 if it does not end."""
        listed = _python(command, [str(word) for word in words])
        try:
            return subprocess.run(
                listed,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s,
                check=False,
                cwd=self.scratch,
                env=self.environment(**environment),
            )
        except subprocess.TimeoutExpired as late:
            output = (late.stdout or b"").decode(errors="replace") if isinstance(late.stdout, bytes) else ""
            return subprocess.CompletedProcess(listed, 124, output, f"still running after {limit_s:g} s")

    def foreign_writes(self) -> list[str]:
        """Changes of queues that are neither the arbiter's own nor dynamic leaves of its pool.

        On the pool's queue itself, no property that the scheduler uses may be changed.
        """
        wrong = []
        for change in self.proxy.queue_writes():
            queue, kind = change["queue"], change["kind"]
            own = queue.startswith("root.sql.") and queue != FOREIGN and kind in ("update-queue", "remove-queue")
            marks = queue == "root.sql" and kind == "update-queue" and not set(change["set"]) & SCHEDULED
            if not own and not marks:
                wrong.append(f"{kind} {queue} {change['set']}")
        return wrong


SCHEDULED = {
    "capacity", "maximum-capacity", "state", "user-limit-factor", "maximum-am-resource-percent", "queues",
    "minimum-user-limit-percent", "disable_preemption", "maximum-applications", "ordering-policy",
}  # fmt: skip
"""Properties of a queue that the scheduler uses."""


def _python(command: str, words: list[str]) -> list[str]:
    return [sys.executable, "-c", f"from {command}.cli import main; main()", *words]


def _merged(*all_settings: Settings) -> Settings:
    merged: Settings = {"pools": dict(POOL), "poll": dict(POLL)}
    for settings in all_settings:
        for section, values in settings.items():
            merged[section] = {**merged.get(section, {}), **values}
    return merged


OLD_NAMES = {
    "grace_s": "grace_s",
    "preempt_after_s": "overstay_s",
    "idle_timeout_s": "settle_s",
    "submit_timeout_s": "submit_within_s",
    "poll": "watch",
    "metrics_s": "figures_s",
    "apps_s": "apps_s",
    "nodes_s": "nodes_s",
    "queues_s": "queues_s",
    "pools": "pools",
}
"""The names of sections and settings in older versions, by their current names."""


def _with_old_names(settings: Settings) -> Settings:
    """The settings with their names in older versions, without those that these reject."""
    merged = _merged(settings)
    return {
        OLD_NAMES[section]: {OLD_NAMES[name]: value for name, value in values.items() if name in OLD_NAMES}
        for section, values in merged.items()
        if section in OLD_NAMES
    }


def _toml(settings: Settings) -> str:
    lines = [f"{name} = {_value(value)}" for name, value in settings.get("", {}).items()]
    for section, values in settings.items():
        if not section:
            continue
        lines.append("\n[[pools]]\nname = 'sql'\nqueue = 'root.sql'" if section == "pools" else f"\n[{section}]")
        lines += [f"{name} = {_value(value)}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    return json.dumps(value)


@contextlib.contextmanager
def lab_on_a_cluster(checkout: Path) -> Iterator[Lab]:
    """A lab on an embedded cluster of one node, which is stopped at the end."""
    from yarn_plugin.embedded import cluster as embedded
    from yarn_plugin.embedded.ports import free_base
    from yarn_plugin.embedded.spec import ClusterSpec

    folder = Path(tempfile.mkdtemp(prefix="adversary-"))
    base = free_base(("127.0.1.1",))
    spec = ClusterSpec(folder / "cluster", nodes=1, racks=1, gpus_per_node=0, memory_mb=4096, vcores=32, port_base=base)
    cluster = embedded.up(spec)
    try:
        lab = Lab(cluster.rm_url, checkout, folder / "arbiters")
        yield lab
        lab.close()
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
