"""Tiny YARN applications submitted over REST: only an application master, which sleeps."""

import getpass

import requests

from tests.eventually import eventually
from yarn_plugin.observe.queue_tree import queue_tree


def node_runs_master(session, app):
    """Whether a node runs the master of an application, as YARN describes it.

    YARN reports a master from when it is allocated, and may yet lose it if it is killed before a node has started it.
    """
    node = app.get("amHostHttpAddress")
    if not node:
        return False
    answer = session.get(f"http://{node}/ws/v1/node/containers", headers={"Accept": "application/json"}, timeout=20)
    running = (answer.json()["containers"] or {}).get("container", [])
    return any(app["id"].removeprefix("application_") in one["id"] and one["state"] == "RUNNING" for one in running)


class Sleepers:
    """Submits and kills applications on a ResourceManager, as a YARN user, by default the current one."""

    def __init__(self, rm_url, user=None):
        self.url = f"{rm_url}/ws/v1/cluster"
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.params = {"user.name": user or getpass.getuser()}
        self.session.headers["Accept"] = "application/json"
        self.submitted = []

    def get(self, path, **parameters):
        answer = self.session.get(self.url + path, params=parameters, timeout=20)
        answer.raise_for_status()
        return answer.json()

    def submit(self, queue, memory_mb=128, seconds=600, command=None, environment=None, partition="", **fields):
        """Submit an application whose master sleeps, or runs a command; returns its id. `partition`: of the containers
        that it asks for; its master runs in the default one. `fields`: more of YARN's request."""
        made = self.session.post(f"{self.url}/apps/new-application", timeout=20).json()
        app = made.get("application-id") or next(iter(made.values()))["application-id"]
        body = {
            "application-id": app,
            "application-name": queue.rpartition(".")[2],
            "queue": queue,
            "max-app-attempts": 1,
            "am-container-spec": {
                "commands": {"command": command or f"sleep {seconds}"},
                "environment": {"entry": [{"key": key, "value": one} for key, one in (environment or {}).items()]},
            },
            "resource": {"memory": memory_mb, "vCores": 1},
            "app-node-label-expression": partition,
            **fields,
        }
        assert self.session.post(f"{self.url}/apps", json=body, timeout=20).status_code == 202
        self.submitted.append(app)
        return app

    def runs(self, app):
        """Whether its master runs; it never registers, so YARN leaves the application ACCEPTED."""
        known = self.get(f"/apps/{app}")["app"]
        return known["state"] == "ACCEPTED" and known["runningContainers"] == 1

    def has_started(self, app):
        """Whether a node runs its master."""
        return node_runs_master(self.session, self.get(f"/apps/{app}")["app"])

    def kill(self, *apps):
        for app in apps:
            body = {"state": "KILLED"}
            self.session.put(f"{self.url}/apps/{app}/state", json=body, timeout=20).raise_for_status()

    def kill_all(self):
        """Kill all unfinished applications of all users, and wait until none is left."""
        eventually(lambda: not self._kill_unfinished(), "all applications end")

    def _kill_unfinished(self):
        unfinished = (self.get("/apps", states="NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING")["apps"] or {}).get(
            "app", []
        )
        self.kill(*(app["id"] for app in unfinished))
        return unfinished

    def weights(self, parent="root.sql"):
        """The scheduler's weight of each child of a queue."""
        tree = queue_tree(self.get("/scheduler"))
        return {path: queue.weight for path, queue in tree.items() if queue.parent == parent}
