"""A CapacityScheduler without processes: it answers and changes queues as the ResourceManager does."""

from yarn_plugin.observe.resource_manager import ManagerRefusedError
from yarn_plugin.observe.scheduler_configuration import PREFIX, SchedulerConfiguration

START = {
    "root.queues": "default,sql",
    "root.capacity": "100",
    "root.default.capacity": "2w",
    "root.sql.capacity": "8w",
    "root.sql.maximum-capacity": "100",
    "root.sql.auto-queue-creation-v2.enabled": "true",
    "root.sql.auto-queue-creation-v2.leaf-template.capacity": "1w",
}


class FakeScheduler:
    """Answers /scheduler and /scheduler-conf and applies changes with as few checks as the real one.

    `stuck`: queues that keep a part of the cluster, whatever is configured.
    """

    url = "http://rm:8088"

    def __init__(self, **more):
        self.conf = {f"{PREFIX}.{name}": value for name, value in START.items()}
        self.conf |= {f"{PREFIX}.{name}": value for name, value in more.items()}
        self.states, self.apps, self.dynamic = {}, {}, set()
        self.writable, self.deaf, self.capacity_scheduler = True, False, True
        self.written, self.partitions = [], {}
        self.stuck = {}

    @property
    def configuration(self):
        return SchedulerConfiguration(self.conf)

    def get(self, path):
        if path == "/scheduler":
            kind = "capacityScheduler" if self.capacity_scheduler else "fairScheduler"
            return {"scheduler": {"schedulerInfo": {"type": kind, **self._queue("root")}}}
        if path == "/get-node-labels":
            labels = [{"name": name, "exclusivity": exclusive} for name, exclusive in self.partitions.items()]
            return {"nodeLabelInfo": labels} if labels else {}
        if not self.writable:
            raise ManagerRefusedError(400, "This API only supports to retrieve scheduler configuration from a mutable")
        return {"property": [{"name": name, "value": value} for name, value in self.conf.items()]}

    def put(self, path, body):
        self.written.append(body)
        if self.deaf:
            return
        for name in body.get("remove-queue", []):
            self._list(name, lambda names, last: [known for known in names if known != last])
            self.conf = {key: value for key, value in self.conf.items() if not key.startswith(f"{PREFIX}.{name}.")}
        for change in body.get("add-queue", []):
            self._list(change["queue-name"], lambda names, last: [*names, last])
            self._set(change)
        for change in body.get("update-queue", []):
            self._set(change)

    def _set(self, change):
        for entry in change["params"]["entry"]:
            self.conf[f"{PREFIX}.{change['queue-name']}.{entry['key']}"] = entry["value"]
            if entry["key"] == "state":
                busy = entry["value"] == "STOPPED" and self.apps.get(change["queue-name"])
                self.states[change["queue-name"]] = "DRAINING" if busy else entry["value"]

    def _list(self, path, change):
        parent, _, last = path.rpartition(".")
        names = change(self._names(parent), last)
        self.conf[f"{PREFIX}.{parent}.queues"] = ",".join(names)

    def _names(self, path):
        return [name for name in self.conf.get(f"{PREFIX}.{path}.queues", "").split(",") if name]

    def _inner(self, path):
        dynamic = sorted(name for name in self.dynamic if name.rpartition(".")[0] == path)
        return [*(f"{path}.{name}" for name in self._names(path)), *dynamic]

    def _part(self, path):
        """Its fraction of the cluster."""
        parent = path.rpartition(".")[0]
        if not parent or path in self.stuck:
            return self.stuck.get(path, 1.0)

        def capacity(one):
            return self.conf.get(f"{PREFIX}.{one}.capacity", "1w" if one in self.dynamic else "0")

        weights = [float(capacity(one)[:-1]) for one in self._inner(parent) if capacity(one).endswith("w")]
        own = capacity(path)
        return self._part(parent) * (float(own[:-1]) / sum(weights) if own.endswith("w") else float(own) / 100)

    def _queue(self, path):
        inner = self._inner(path)
        capacity = self.conf.get(f"{PREFIX}.{path}.capacity", "1w" if path in self.dynamic else "0")
        weighs = capacity.endswith("w")
        template = f"{PREFIX}.{path}.auto-queue-creation-v2.leaf-template."
        properties = [
            {"name": key.removeprefix(template), "value": value}
            for key, value in self.conf.items()
            if key.startswith(template)
        ]
        makes_leaves = self.conf.get(f"{PREFIX}.{path}.auto-queue-creation-v2.enabled") == "true"
        return {
            "queueName": path.rpartition(".")[2],
            "queuePath": path,
            "state": self.states.get(path, "RUNNING"),
            "mode": "weight" if weighs else "percentage",
            "weight": float(capacity[:-1]) if weighs else -1.0,
            "capacity": 0.0 if weighs else float(capacity),
            "absoluteCapacity": 100 * self._part(path),
            "absoluteMaxCapacity": 100.0,
            "capacities": {"queueCapacitiesByPartition": list(self._partitions(path))},
            "defaultNodeLabelExpression": self.conf.get(f"{PREFIX}.{path}.default-node-label-expression"),
            "numApplications": self.apps.get(path, 0),
            "creationMethod": "dynamicFlexible" if path in self.dynamic else "static",
            "autoCreationEligibility": "flexible" if makes_leaves else "off",
            "autoQueueLeafTemplateProperties": {"property": properties} if properties else {},
            "queues": {"queue": [self._queue(one) for one in inner]} if inner else None,
        }

    def _partitions(self, path):
        yield {"partitionName": "", "absoluteCapacity": 50.0, "absoluteMaxCapacity": 100.0}
        for name in filter(None, self.conf.get(f"{PREFIX}.{path}.accessible-node-labels", "").split(",")):
            part = f"{PREFIX}.{path}.accessible-node-labels.{name}."
            most = self.conf.get(f"{part}maximum-capacity", "100") if f"{part}capacity" in self.conf else "0"
            yield {"partitionName": name, "absoluteCapacity": 50.0, "absoluteMaxCapacity": float(most)}
