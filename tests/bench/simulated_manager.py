"""A ResourceManager reduced to its REST answers, for any number of nodes and applications.

The answers are as long as those of Hadoop 3.5.0 for a cluster of that size: a node takes 2.4 KB, an application 3.4 KB,
a leaf queue 11 KB. `python -m tests.bench.simulated_manager APPS NODES` serves one on a free port, which it prints, and
exits at the end of standard input. Its own routes below /simulate change the cluster and return the time of the change;
/simulate/answers has the times at which the first answer with each change was sent.
"""

import argparse
import json
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PREFIX = "/ws/v1/cluster"
POOL = "root.sql"
MEMORY_MB, VCORES = 262_144, 64
CONTAINER_MB, CONTAINER_VCORES = 4096, 1
USERS = 50
STARTED_MS = 1_780_000_000_000
_LONG_MAX = 9_223_372_036_854_775_807


class World:
    """Nodes and applications with the JSON that is sent for them; application 1 is the first.

    Every application runs in its own leaf queue, in containers of one core, without pending requests. Together they use
    the fraction `load` of the cluster; the fraction `greedy` of them uses 1.5 times its part.
    """

    def __init__(self, apps: int, nodes: int, load: float = 0.9, greedy: float = 0.0) -> None:
        self._random = random.Random(7)
        self.lock = threading.Lock()
        self.nodes = {node_id(number): _node(number) for number in range(nodes)}
        self.apps: dict[str, bytes] = {}
        self.leaves: dict[str, bytes] = {}
        self.containers: dict[str, int] = {}
        self.weights: dict[str, str] = {}
        self._lost: dict[str, bytes] = {}
        self._allocated = self._next = 0
        self._submitted = self._ended = 0
        average = load * nodes * VCORES / max(apps, 1)
        for number in range(apps):
            factor = self._random.uniform(0.8, 1.0) if number >= greedy * apps else 1.5
            self.arrive(max(int(average * factor), 1))

    def arrive(self, containers: int = 1, waiting: bool = False) -> str:
        """Add an application; returns its id."""
        self._next += 1
        app = app_id(self._next)
        self._submitted += 1
        self.leaves[app] = _leaf(app)
        self._put(app, 0 if waiting else containers)
        return app

    def end(self, app: str) -> None:
        """End an application; its leaf queue stays, forever here, for a while in YARN."""
        self._allocated -= self.containers.pop(app)
        del self.apps[app]
        self._ended += 1

    def use(self, count: int) -> None:
        """Change the use of this many applications by one container, up or down."""
        for app in self._random.sample(list(self.apps), min(count, len(self.apps))):
            self._put(app, max(self.containers[app] + self._random.choice((-1, 1)), 1))

    def lose(self) -> str:
        """Lose a node; returns its id."""
        node = self._random.choice(list(self.nodes))
        self._lost[node] = self.nodes.pop(node)
        return node

    def join(self) -> str:
        """The node lost last joins again; returns its id."""
        node, body = self._lost.popitem()
        self.nodes[node] = body
        return node

    def _put(self, app: str, containers: int) -> None:
        self._allocated += containers - self.containers.get(app, 0)
        self.containers[app] = containers
        self.apps[app] = _app(app, containers)

    # The answers.

    def answer(self, path: str) -> bytes | None:
        """The body for a path below /ws/v1/cluster; None for an unknown path."""
        match path:
            case "/info":
                return _json({"clusterInfo": _INFO})
            case "/metrics":
                return _json({"clusterMetrics": self._metrics()})
            case "/nodes":
                return b'{"nodes":{"node":[' + b",".join(self.nodes.values()) + b"]}}"
            case "/apps":
                return b'{"apps":{"app":[' + b",".join(self.apps.values()) + b"]}}"
            case "/scheduler":
                return _SCHEDULER % b",".join(self.leaves[app] for app in self.apps)
            case "/scheduler-conf":
                return _json({"property": [{"name": name, "value": value} for name, value in self._configuration()]})
        app = path.removeprefix("/apps/").partition("/")[0]
        if path.endswith("/appattempts") and app in self.apps:
            return b'{"appAttempts":{}}'
        return b'{"app":' + self.apps[app] + b"}" if path == f"/apps/{app}" and app in self.apps else None

    def configure(self, body: bytes) -> None:
        """Apply the changes of a PUT to /scheduler-conf."""
        for update in json.loads(body).get("update-queue", []):
            for entry in update["params"]["entry"]:
                name = f"yarn.scheduler.capacity.{update['queue-name']}.{entry['key']}"
                if entry["value"]:
                    self.weights[name] = entry["value"]
                else:
                    self.weights.pop(name, None)

    def _configuration(self) -> list[tuple[str, str]]:
        return [*_CONFIGURATION.items(), *self.weights.items()]

    def _metrics(self) -> dict[str, int]:
        vcores, memory = len(self.nodes) * VCORES, len(self.nodes) * MEMORY_MB
        return {
            "appsSubmitted": self._submitted,
            "appsCompleted": self._ended,
            "appsPending": sum(not count for count in self.containers.values()),
            "appsRunning": len(self.apps),
            "appsFailed": 0,
            "appsKilled": 0,
            "allocatedMB": self._allocated * CONTAINER_MB,
            "availableMB": memory - self._allocated * CONTAINER_MB,
            "allocatedVirtualCores": self._allocated * CONTAINER_VCORES,
            "availableVirtualCores": vcores - self._allocated * CONTAINER_VCORES,
            "containersAllocated": self._allocated,
            "containersPending": 0,
            "pendingMB": 0,
            "pendingVirtualCores": 0,
            "totalMB": memory,
            "totalVirtualCores": vcores,
            "totalNodes": len(self.nodes) + len(self._lost),
            "activeNodes": len(self.nodes),
            "lostNodes": len(self._lost),
            "unhealthyNodes": 0,
            "decommissionedNodes": 0,
        }


def app_id(number: int) -> str:
    """The YARN id of an application."""
    return f"application_{STARTED_MS}_{number:04d}"


def node_id(number: int) -> str:
    """The id of a node."""
    return f"node{number:05d}.example.org:8041"


def leaf_of(app: str) -> str:
    """The leaf queue of an application."""
    return f"{POOL}.app-{app.rpartition('_')[2]}"


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _amounts(memory: int, vcores: int) -> dict[str, Any]:
    limits = {"maximumAllocation": _LONG_MAX, "minimumAllocation": 0, "resourceType": "COUNTABLE"}
    resources = [
        {**limits, "name": "memory-mb", "units": "Mi", "value": memory},
        {**limits, "name": "vcores", "units": "", "value": vcores},
    ]
    return {"memory": memory, "vCores": vcores, "resourceInformations": {"resourceInformation": resources}}


def _node(number: int) -> bytes:
    host = node_id(number).partition(":")[0]
    written = {
        "rack": f"/rack{number // 40:03d}",
        "state": "RUNNING",
        "id": node_id(number),
        "nodeHostName": host,
        "nodeHTTPAddress": f"{host}:8042",
        "lastHealthUpdate": STARTED_MS + 5_000_000 + number,
        "version": "3.5.0",
        "healthReport": "",
        "numContainers": 40,
        "usedMemoryMB": MEMORY_MB // 2,
        "availMemoryMB": MEMORY_MB - MEMORY_MB // 2,
        "usedVirtualCores": VCORES // 2,
        "availableVirtualCores": VCORES - VCORES // 2,
        "memUtilization": 48.35,
        "cpuUtilization": 61.27,
        "numRunningOpportContainers": 0,
        "usedMemoryOpportGB": 0,
        "usedVirtualCoresOpport": 0,
        "numQueuedContainers": 0,
        "allocationTags": {},
        "resourceUtilization": {
            "nodePhysicalMemoryMB": 131_072,
            "nodeVirtualMemoryMB": 131_072,
            "nodeCPUUsage": 31.25,
            "aggregatedContainersPhysicalMemoryMB": 120_000,
            "aggregatedContainersVirtualMemoryMB": 160_000,
            "containersCPUUsage": 28.5,
        },
        "usedResource": _amounts(MEMORY_MB // 2, VCORES // 2),
        "availableResource": _amounts(MEMORY_MB - MEMORY_MB // 2, VCORES - VCORES // 2),
        "totalResource": _amounts(MEMORY_MB, VCORES),
    }
    return _json(written)


def _app(app: str, containers: int) -> bytes:
    number = int(app.rpartition("_")[2])
    memory, vcores = containers * CONTAINER_MB, containers * CONTAINER_VCORES
    none = _amounts(0, 0)
    pending = none if containers else _amounts(CONTAINER_MB, CONTAINER_VCORES)
    usage = {
        "partitionName": "",
        "used": _amounts(memory, vcores),
        "reserved": none,
        "pending": pending,
        "amUsed": _amounts(CONTAINER_MB, CONTAINER_VCORES),
        "amLimit": none,
        "userAmLimit": none,
    }
    written = {
        "id": app,
        "user": f"user{number % USERS}",
        "name": f"app-{number:04d}",
        "queue": leaf_of(app),
        "state": "RUNNING" if containers else "ACCEPTED",
        "finalStatus": "UNDEFINED",
        "progress": 42.5,
        "trackingUI": "ApplicationMaster",
        "trackingUrl": f"http://rm.example.org:8088/proxy/{app}/",
        "diagnostics": "",
        "clusterId": STARTED_MS,
        "applicationType": "SPARK",
        "applicationTags": "",
        "priority": 0,
        "startedTime": STARTED_MS + 1000 * number,
        "launchTime": STARTED_MS + 1000 * number + 400,
        "finishedTime": 0,
        "elapsedTime": 3_600_000,
        "masterNodeId": node_id(number),
        "amContainerLogs": f"http://node{number:05d}.example.org:8042/node/containerlogs/container_{number}/user",
        "amHostHttpAddress": f"node{number:05d}.example.org:8042",
        "allocatedMB": memory,
        "allocatedVCores": vcores,
        "reservedMB": 0,
        "reservedVCores": 0,
        "runningContainers": containers,
        "memorySeconds": 123_456_789,
        "vcoreSeconds": 1_234_567,
        "queueUsagePercentage": 91.2,
        "clusterUsagePercentage": 0.9,
        "resourceSecondsMap": {"entry": [{"key": "memory-mb", "value": 1}, {"key": "vcores", "value": 1}]},
        "preemptedResourceMB": 0,
        "preemptedResourceVCores": 0,
        "numNonAMContainerPreempted": 0,
        "numAMContainerPreempted": 0,
        "preemptedMemorySeconds": 0,
        "preemptedVcoreSeconds": 0,
        "logAggregationStatus": "DISABLED",
        "unmanagedApplication": False,
        "appNodeLabelExpression": "",
        "resourceInfo": {"resourceUsagesByPartition": [usage]},
    }
    return _json(written)


def _leaf(app: str) -> bytes:
    """A dynamic leaf queue; its `capacities` and `resources` are most of its 11 KB."""
    none, maximum = _amounts(0, 0), _amounts(MEMORY_MB, VCORES)
    capacities = dict.fromkeys(
        ("capacity", "usedCapacity", "maxCapacity", "absoluteCapacity", "absoluteUsedCapacity", "weight"), 0.1
    )
    amounts = dict.fromkeys(
        ("configuredMinResource", "configuredMaxResource", "effectiveMinResource", "effMax"), maximum
    )
    usage = dict.fromkeys(("used", "reserved", "pending", "amUsed", "amLimit", "userAmLimit"), none)
    written = {
        "type": "capacitySchedulerLeafQueueInfo",
        "queuePath": leaf_of(app),
        "queueName": leaf_of(app).rpartition(".")[2],
        "absoluteMaxCapacity": 100.0,
        **capacities,
        "numApplications": 1,
        "state": "RUNNING",
        "mode": "weight",
        "queueType": "leaf",
        "creationMethod": "dynamicFlexible",
        "autoCreationEligibility": "off",
        "resourcesUsed": none,
        "capacities": {"queueCapacitiesByPartition": [{"partitionName": "", **capacities, **amounts}]},
        "resources": {"resourceUsagesByPartition": [{"partitionName": "", **usage}]},
        "users": {"user": [{"username": "user", "numActiveApplications": 1, "resources": usage, **amounts}]},
        "minEffectiveCapacity": maximum,
        "maxEffectiveCapacity": maximum,
        "maximumAllocation": maximum,
        "AMResourceLimit": maximum,
        "usedAMResource": none,
        "userAMResourceLimit": maximum,
    }
    return _json(written)


_INFO = {
    "id": STARTED_MS,
    "startedOn": STARTED_MS,
    "state": "STARTED",
    "haState": "ACTIVE",
    "resourceManagerVersion": "3.5.0",
    "hadoopVersion": "3.5.0",
}
_CONFIGURATION = {
    "yarn.scheduler.capacity.resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
    "yarn.scheduler.capacity.root.queues": "default,sql",
    "yarn.scheduler.capacity.root.capacity": "100",
    "yarn.scheduler.capacity.root.default.capacity": "1w",
    "yarn.scheduler.capacity.root.sql.capacity": "99w",
    "yarn.scheduler.capacity.root.sql.auto-queue-creation-v2.enabled": "true",
    "yarn.scheduler.capacity.root.sql.auto-queue-creation-v2.leaf-template.capacity": "1w",
}
_MONITOR = "org.apache.hadoop.yarn.server.resourcemanager.monitor.capacity.ProportionalCapacityPreemptionPolicy"
_SITE = {
    "yarn.resourcemanager.scheduler.class": "org.apache.hadoop.yarn.server.resourcemanager.CapacityScheduler",
    "yarn.scheduler.configuration.store.class": "zk",
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    "yarn.resourcemanager.scheduler.monitor.policies": _MONITOR,
    "yarn.resourcemanager.recovery.enabled": "true",
    "yarn.scheduler.minimum-allocation-mb": "1024",
    **{f"yarn.some.property.of.the.manager.{number}": "some value of it" for number in range(400)},
}
_SCHEDULER = (
    b'{"scheduler":{"schedulerInfo":{"type":"capacityScheduler","queueName":"root","queuePath":"root","queues":{"queue":['
    b'{"queuePath":"root.default","queueName":"default","absoluteCapacity":1.0,"absoluteMaxCapacity":100.0,'
    b'"state":"RUNNING","mode":"weight","weight":1.0,"queueType":"leaf","creationMethod":"static"},'
    b'{"queuePath":"root.sql","queueName":"sql","absoluteCapacity":99.0,"absoluteMaxCapacity":100.0,'
    b'"state":"RUNNING","mode":"weight","weight":99.0,"queueType":"parent","creationMethod":"static",'
    b'"autoCreationEligibility":"flexible","queues":{"queue":[%b]}}]}}}}'
)


class AnswerLog:
    """When each change was first sent in an answer (`first_sent`); requests and bytes sent by path (`served`)."""

    def __init__(self) -> None:
        self._unsent: dict[str, list[str]] = {"/apps": [], "/nodes": []}
        self.first_sent: dict[str, float] = {}
        self.served: dict[str, list[int]] = {}

    def add_change(self, path: str, change: str) -> None:
        """Add a change that the next answer for this path contains."""
        self._unsent[path].append(change)

    def take_unsent(self, path: str) -> list[str]:
        """Remove and return the changes that an answer for this path, created now, is the first to contain."""
        taken = self._unsent.get(path, [])
        if taken:
            self._unsent[path] = []
        return taken

    def record(self, path: str, changes: list[str], size: int) -> None:
        """Record an answer that was sent."""
        counts = self.served.setdefault(path.split("_")[0], [0, 0])
        counts[0] += 1
        counts[1] += size
        self.first_sent |= dict.fromkeys(changes, time.time())


def _handler(world: World, answers: AnswerLog) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 20

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            changes: list[str] = []
            if path == "/conf":
                body = _json({"properties": [{"key": key, "value": value} for key, value in _SITE.items()]})
            elif path == "/simulate/answers":
                body = _json({"first_sent": answers.first_sent, "served": answers.served})
            else:
                path = path.removeprefix(PREFIX)
                with world.lock:
                    changes = answers.take_unsent(path)
                    body = world.answer(path)
            self._send(200 if body is not None else 404, body or b"{}", "application/json;charset=utf-8")
            answers.record(path, changes, len(body or b""))

        def do_PUT(self) -> None:
            with world.lock:
                world.configure(self._body())
            self._send(200, b"Configuration change successfully applied.", "text/plain")

        def do_POST(self) -> None:
            body = self._body()
            url = urlsplit(self.path)
            parameters = {name: values[0] for name, values in parse_qs(url.query).items()}
            if not url.path.startswith("/simulate/"):
                self._send(200, b"{}", "application/json;charset=utf-8")
                return
            with world.lock:
                subject = self._change(url.path.rpartition("/")[2], parameters, body)
                at = time.time()
            self._send(200, _json({"subject": subject, "at": at}), "application/json")

        def _change(self, kind: str, parameters: dict[str, str], body: bytes) -> str:
            match kind:
                case "arrive":
                    name = world.arrive()
                case "end":
                    name = parameters["app"]
                    world.end(name)
                case "use":
                    name = ""
                    world.use(int(parameters["count"]))
                case "lose":
                    name = world.lose()
                case "join":
                    name = world.join()
                case "configure":
                    name = ""
                    world.configure(body)
                case _:
                    raise ValueError(kind)
            if name:
                answers.add_change("/nodes" if kind in ("lose", "join") else "/apps", f"{name} {kind}")
            return name

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def main() -> None:
    """Serve until the end of standard input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("apps", type=int)
    parser.add_argument("nodes", type=int)
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(World(options.apps, options.nodes), AnswerLog()))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
