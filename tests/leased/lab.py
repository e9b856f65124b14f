"""The live line of leases: a cluster with a queue of GPUs, an arbiter with a lease pool beside SQL, applications."""

import getpass
import json
import os
import signal
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.eventually import eventually
from tests.integration.arbiter_process import ArbiterProcess, run
from tests.integration.sleepers import Sleepers
from tests.leased import intervals
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.replay import replay
from yarn_plugin.embedded import partition
from yarn_plugin.model.resources import GPU

BID_S = 120

POLL = """
[poll]
metrics_s = 0.2
apps_s = 1
nodes_s = 2
"""

CONFIG = """
[[pools]]
name = "sql"
queue = "root.sql"
grace_s = 3

[[pools]]
name = "gpu"
queue = "root.gpu"
resources = ["memory-mb", "vcores", "yarn.io/gpu"]
controller = "lease"

[pools.parameters]
policy = "themis"
f = 0
payments = false
lease_s = {lease_s}
grid_s = 0
grace_s = 5
round_window_s = 1
estimate_s = 60
bid_s = {bid_s}
decide_s = {decide_s}
place_within_s = 60
task_memory_mb = 1400
"""
# Nodes have 4096 MiB: of the four GPUs of each, two are offered, also beside two application masters.

QUEUE = """
[[queue]]
path = "root.gpu"
weight = 2
maximum_am_resource_percent = 1
user_limit_factor = 1000
disable_preemption = true
"""
STOPPED = '[[queue]]\npath = "root.gpu"\nstate = "STOPPED"\n'
REMOVED = '[[queue]]\npath = "root.gpu"\nremove = true\n'
PYTHON_PATH = str(Path(__file__).parents[2])


def ledger_pool(allocator, settings, **parameters):
    """The configuration of an arbiter with one pool of GPUs, which an allocator with these settings divides."""

    def keys(table):
        return "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())

    return f"""
[[pools]]
name = "gpu"
queue = "root.gpu"
resources = ["memory-mb", "vcores", "yarn.io/gpu"]
controller = "ledger"

[pools.parameters]
{keys({"allocator": allocator, "grace_s": 5, "place_within_s": 60, **parameters})}

[pools.parameters.settings]
{keys(settings)}
{POLL}"""


class Lab:
    """See the module. `apps`: the YARN ids of the applications, by name."""

    def __init__(self, cluster, folder, lease_s=12, decide_s=2, config=CONFIG + POLL, process=ArbiterProcess):
        self.cluster, self.folder, self.apps, self._replayed = cluster, folder, {}, (0, None)
        for name in ("holds", "intervals"):
            (folder / name).mkdir()
        self.sleepers = Sleepers(cluster.rm_url)
        self.sleepers.kill_all()
        self._queues(QUEUE)
        config = config.format(lease_s=lease_s, decide_s=decide_s, bid_s=BID_S)
        self.arbiter = process(cluster.rm_url, folder / "arbiter", config).start()
        self._token = self.arbiter.admin().issue_token(getpass.getuser()).token

    def close(self):
        """Stop everything, also what a failed test has left stopped."""
        for pid in (self.arbiter.process.pid, self.solver()):
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        code = self.arbiter.stop()
        self.sleepers.kill_all()
        self._queues(STOPPED)
        eventually(lambda: self._queues(REMOVED, must=False), "the queue is empty")
        assert code == 0, self.arbiter.log()[-2000:]
        assert "Traceback" not in self.arbiter.log()

    def _queues(self, text, must=True):
        (self.folder / "queues.toml").write_text(text)
        done = run("queues", "apply", "--rm", self.cluster.rm_url, self.folder / "queues.toml")
        assert done.returncode == 0 or not must, done.stderr
        return done.returncode == 0

    # Applications.

    def submit(self, name, gpus=8, work_s=100, jobs=(), attempts=1):
        """Submit an application under leases. `jobs`: that it declares, as JSON objects. `attempts`: of its master."""
        path = self.folder / f"{name}.json"
        config = {"url": self.arbiter.url, "token": self._token, "name": name, "gpus": gpus, "work_s": work_s}
        path.write_text(json.dumps({**config, "jobs": jobs, "folder": str(self.folder)}))
        label = partition.NAME if self.cluster.spec.gpu_partition else ""
        self.apps[name] = self._run("root.gpu", "tests.leased.application", path, label=label, attempts=attempts)

    def submit_batch(self, tasks=2, seconds=2):
        """Submit a batch application beside them; returns its YARN id."""
        return self._run("root.sql.batch", "tests.leased.batch", tasks, seconds)

    def _run(self, queue, module, *words, label="", attempts=1):
        environment = {"PYTHONPATH": PYTHON_PATH, "HADOOP_CONF_DIR": str(self.cluster.conf_dir)}
        command = " ".join(map(str, ("exec", sys.executable, "-m", module, *words, "1><LOG_DIR>/out", "2>&1")))
        return self.sleepers.submit(queue, 256, command=command, environment=environment, partition=label,
                                     **{"max-app-attempts": attempts})  # fmt: skip

    def hold(self, step, *names):
        """Have applications wait before a step."""
        for name in names:
            (self.folder / "holds" / f"{name}.{step}").touch()

    def finish(self, *names):
        """Have applications end, and wait until they have."""
        self.hold("finish", *names)
        self.until_ended(*(self.apps[name] for name in names))

    def let(self, step, *names):
        """Let them go on."""
        for name in names:
            (self.folder / "holds" / f"{name}.{step}").unlink(missing_ok=True)

    def until_ended(self, *apps):
        """Wait until these YARN applications have ended well."""

        def ended(app):
            known = self.sleepers.get(f"/apps/{app}")["app"]
            assert known["finalStatus"] in ("UNDEFINED", "SUCCEEDED"), known["diagnostics"]
            return known["finalStatus"] == "SUCCEEDED"

        eventually(lambda: all(map(ended, apps)), "the applications end", 120)

    # The GPUs.

    def intervals(self):
        return intervals.recorded(self.folder / "intervals")

    def gpus_of(self, *names):
        """The GPUs that these applications' containers have ever held."""
        apps = [self.apps[name] for name in names]
        return {one.cell for one in self.intervals() if one.app in apps}

    # The arbiter.

    def replayed(self):
        """The arbiter's journal replayed; again only when it has grown, as who waits asks twenty times a second."""
        path = self.arbiter.state / "journal"
        size = path.stat().st_size
        if size != self._replayed[0]:
            self._replayed = size, replay(path, installed())
        return self._replayed[1]

    def stage(self):
        """Where the journal says that the lease pool is: the number of the last round and its phase, or what follows
        it: "revoking" while GPUs are to be vacated, "granting" until containers use what is leased, "leased"."""
        state = self.replayed().state
        kept = state.pool_states.get("gpu")
        if kept is None:
            return 0, None
        rounds = kept.state.allocated
        if rounds.round is not None:
            return rounds.round_number, rounds.round.phase
        leased, leases = Counter(), kept.state.ledger.leases.values()
        for one in leases:
            leased[one.app] += len(one.gpus)
        used = {app: sum(one.held[GPU] for one in on) for app, on in state.cluster.use.items()}
        if any(one.leased.leaving for one in leases):
            phase = "revoking"
        else:
            phase = "granting" if any(used.get(app, 0) < gpus for app, gpus in leased.items()) else "leased"
        return rounds.round_number, phase

    def until(self, number, phase):
        """Wait until the pool is there."""
        eventually(lambda: self.stage() == (number, phase), f"round {number} is {phase}")

    def members(self):
        """How many applications take part in the rounds."""
        kept = self.replayed().state.pool_states.get("gpu")
        return len(kept.state.allocated.members) if kept is not None else 0

    @contextmanager
    def frozen(self, number, phase):
        """The arbiter stopped at a moment at which, by its journal, the pool is there."""
        self.until(number, phase)
        os.kill(self.arbiter.process.pid, signal.SIGSTOP)
        try:
            assert self.stage() == (number, phase), "it went on before it was stopped"
            yield
        finally:
            if self.arbiter.process.poll() is None:
                os.kill(self.arbiter.process.pid, signal.SIGCONT)

    def solver(self):
        """The worker process's id, if it runs."""
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.arbiter.process.pid).children():
                with suppress(psutil.NoSuchProcess):
                    if "yarn_plugin.act.solving" in child.cmdline():
                        return child.pid
        return None
