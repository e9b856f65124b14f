"""The live line of leases: a cluster with a queue of GPUs, an arbiter with a lease pool beside SQL, applications."""

import getpass
import json
import os
import signal
import sys
from pathlib import Path

import psutil

from tests.integration.arbiter_process import ArbiterProcess, run
from tests.integration.sleepers import Sleepers, eventually
from tests.leased import intervals
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.replay import replay

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
lease_s = {lease_s}
grid_s = 0
grace_s = 5
round_window_s = 1
estimate_s = 60
bid_s = 60
decide_s = {decide_s}
place_within_s = 60
task_memory_mb = 2048

[poll]
metrics_s = 0.2
apps_s = 1
nodes_s = 2
"""
# Nodes have 4096 MiB: of the four GPUs of each, two are offered.

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


class Lab:
    """See the module. `apps`: the YARN ids of the applications, by name."""

    def __init__(self, cluster, folder, lease_s=12, decide_s=1):
        self.cluster, self.folder, self.apps = cluster, folder, {}
        for name in ("holds", "intervals"):
            (folder / name).mkdir()
        self.sleepers = Sleepers(cluster.rm_url)
        self.sleepers.kill_all()
        self._queues(QUEUE)
        config = CONFIG.format(lease_s=lease_s, decide_s=decide_s)
        self.arbiter = ArbiterProcess(cluster.rm_url, folder / "arbiter", config).start()
        self._token = self.arbiter.admin().issue_token(getpass.getuser()).token

    def close(self):
        for pid in (self.arbiter.process.pid, self.solver()):
            if pid is not None and psutil.pid_exists(pid):
                os.kill(pid, signal.SIGCONT)
        self.sleepers.kill_all()
        code = self.arbiter.stop()
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

    def submit(self, name, gpus=8, work_s=100):
        """Submit an application under leases."""
        path = self.folder / f"{name}.json"
        config = {"url": self.arbiter.url, "token": self._token, "name": name, "gpus": gpus, "work_s": work_s}
        path.write_text(json.dumps({**config, "folder": str(self.folder)}))
        self.apps[name] = self._run("root.gpu", "tests.leased.application", path)

    def submit_batch(self, tasks=2, seconds=2):
        """Submit a batch application beside them; returns its YARN id."""
        return self._run("root.sql.batch", "tests.leased.batch", tasks, seconds)

    def _run(self, queue, module, *words):
        environment = {"PYTHONPATH": PYTHON_PATH, "HADOOP_CONF_DIR": str(self.cluster.conf_dir)}
        command = " ".join(map(str, ("exec", sys.executable, "-m", module, *words, "1><LOG_DIR>/out", "2>&1")))
        return self.sleepers.submit(queue, 256, command=command, environment=environment)

    def hold(self, step, *names):
        """Have applications wait before a step."""
        for name in names:
            (self.folder / "holds" / f"{name}.{step}").touch()

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

    def gpus_of(self, name):
        """The GPUs that an application's containers have ever held."""
        return {one.cell for one in self.intervals() if one.app == self.apps[name]}

    # The arbiter.

    def replayed(self):
        return replay(self.arbiter.state / "journal", installed())

    def leases(self):
        """The state of the lease controller, from the journal."""
        kept = self.replayed().state.pool_states.get("gpu")
        return kept.state if kept is not None else None

    def solver(self):
        """The worker process's id, if it runs."""
        try:
            children = psutil.Process(self.arbiter.process.pid).children()
        except psutil.NoSuchProcess:
            return None
        return next((one.pid for one in children if "yarn_plugin.act.solving" in one.cmdline()), None)
