"""YARN's configuration files: yarn-site.xml of each daemon and of clients, capacity-scheduler.xml."""

from collections.abc import Mapping
from pathlib import Path

from yarn_plugin.embedded.directory import Layout
from yarn_plugin.embedded.ports import RM_HOST
from yarn_plugin.embedded.spec import ClusterSpec, Node
from yarn_plugin.model.resources import GPU
from yarn_plugin.observe.scheduler_configuration import PREFIX, property_name

Properties = Mapping[str, str | int | float | bool | Path]
"""Hadoop properties by name."""

MINIMUM_ALLOCATION_MB = 128
HEARTBEAT_MS = 200
CLUSTER_VARIABLE = "YARN_PLUGIN_CLUSTER"
"""Environment variable with the cluster's id, in every daemon and container."""

_SERVER = "org.apache.hadoop.yarn.server.resourcemanager"
_CAPACITY = f"{_SERVER}.scheduler.capacity"
_PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption"

_CALCULATOR = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"

NEW_LEAF_WEIGHT = "1w"
"""The weight of a new application's leaf queue until the arbiter writes one: a hundredth of the total.

That is small enough to preempt nothing. A much smaller weight would reject the application: the number of applications
that a queue accepts is its fraction of the capacity times 10,000.
"""

QUEUE_EXPIRY_S = 20
"""A dynamic queue that has been empty for this long is removed at the second check afterwards."""

_UNLIMITED = {
    # A single user may fill the queue and beyond, up to the maximum capacity of 100%.
    "user-limit-factor": 1000,
    "maximum-capacity": 100,
}

_ONE_APPLICATION = {
    **_UNLIMITED,
    # Otherwise a queue accepts its fraction of the capacity times 10,000: with a small share, hardly a second one.
    "maximum-applications": 10_000,
    # Preemption spares application masters up to this factor times the queue's capacity. A factor above 1 protects the
    # master of a small queue: at 0.9 it was killed repeatedly, even with nothing else pending.
    "maximum-am-resource-percent": 1000,
}


def client_site(spec: ClusterSpec) -> Properties:
    """The settings common to all daemons and clients."""
    ports = spec.ports
    return {
        "yarn.resourcemanager.hostname": RM_HOST,
        "yarn.resourcemanager.address": f"{RM_HOST}:{ports.rm_client}",
        "yarn.resourcemanager.scheduler.address": f"{RM_HOST}:{ports.rm_scheduler}",
        "yarn.resourcemanager.resource-tracker.address": f"{RM_HOST}:{ports.rm_tracker}",
        "yarn.resourcemanager.admin.address": f"{RM_HOST}:{ports.rm_admin}",
        "yarn.resourcemanager.webapp.address": f"{RM_HOST}:{ports.rm_web}",
        "yarn.resource-types": GPU,
        "yarn.scheduler.minimum-allocation-mb": MINIMUM_ALLOCATION_MB,
        "yarn.scheduler.maximum-allocation-mb": spec.memory_mb,
        "yarn.scheduler.maximum-allocation-vcores": spec.vcores,
        "yarn.resourcemanager.am.max-attempts": 2,
        "yarn.resourcemanager.am.global.max-attempts": 20,
        # Hadoop's default of 30 s would dominate every test that restarts the ResourceManager.
        "yarn.resourcemanager.connect.retry-interval.ms": spec.reconnect_ms,
        "yarn.client.nodemanager-connect.max-wait-ms": 15_000,
        "yarn.client.nodemanager-connect.retry-interval-ms": 1000,
        "yarn.acl.enable": False,
        "yarn.timeline-service.enabled": False,
    }


def rm_site(spec: ClusterSpec, user: str) -> Properties:
    """The ResourceManager's settings: common ones, scheduler, recovery, liveness."""
    return {**client_site(spec), **_scheduling(spec), **_recovery(spec), **_liveness(spec), "yarn.admin.acl": user}


def _scheduling(spec: ClusterSpec) -> Properties:
    return {
        "yarn.resourcemanager.scheduler.class": f"{_CAPACITY}.CapacityScheduler",
        # Queues can be changed over REST only with a writable configuration store; here, a plain directory.
        "yarn.scheduler.configuration.store.class": "fs",
        "yarn.scheduler.configuration.fs.path": Layout(spec.dir).rm_queues.as_uri(),
        "yarn.resourcemanager.scheduler.monitor.enable": True,
        "yarn.resourcemanager.scheduler.monitor.policies": ",".join(
            [
                f"{_SERVER}.monitor.capacity.ProportionalCapacityPreemptionPolicy",
                f"{_CAPACITY}.AutoCreatedQueueDeletionPolicy",
            ]
        ),
        f"{_PREEMPTION}.monitoring_interval": 500,
        f"{_PREEMPTION}.max_wait_before_kill": 1000,
        f"{_PREEMPTION}.total_preemption_per_round": 1.0,
        f"{_PREEMPTION}.natural_termination_factor": 1.0,
        f"{_PREEMPTION}.max_ignored_over_capacity": 0.0,
    }


def _recovery(spec: ClusterSpec) -> Properties:
    return {
        "yarn.resourcemanager.recovery.enabled": True,
        "yarn.resourcemanager.store.class": f"{_SERVER}.recovery.FileSystemRMStateStore",
        "yarn.resourcemanager.fs.state-store.uri": Layout(spec.dir).rm_state.as_uri(),
        "yarn.resourcemanager.work-preserving-recovery.enabled": True,
        # Nodes report within a heartbeat of the restart; the default is meant for thousands of nodes.
        "yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": 2000,
        "yarn.resourcemanager.max-completed-applications": 200,
        "yarn.node-attribute.fs-store.root-dir": Layout(spec.dir).rm_attributes.as_uri(),
        "yarn.node-labels.enabled": bool(spec.gpu_partition),
        "yarn.node-labels.fs-store.root-dir": Layout(spec.dir).rm_labels.as_uri(),
    }


def _liveness(spec: ClusterSpec) -> Properties:
    return {
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": HEARTBEAT_MS,
        "yarn.nm.liveness-monitor.expiry-interval-ms": spec.node_expiry_ms,
        # A dead master is reported by its node, or lost with it; one that is merely slow must not expire.
        "yarn.am.liveness-monitor.expiry-interval-ms": 600_000,
        "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms": 6 * spec.node_expiry_ms,
    }


def nm_site(spec: ClusterSpec, node: Node, cluster_id: str) -> Properties:
    """A NodeManager's settings: address, directories, resources."""
    layout, ports = Layout(spec.dir), spec.ports
    return {
        **client_site(spec),
        "yarn.nodemanager.hostname": node.host,
        "yarn.nodemanager.address": f"{node.host}:{ports.nm_container}",
        "yarn.nodemanager.localizer.address": f"{node.host}:{ports.nm_localizer}",
        "yarn.nodemanager.webapp.address": f"{node.host}:{ports.nm_web}",
        "yarn.nodemanager.collector-service.address": f"{node.host}:{ports.nm_collector}",
        "yarn.nodemanager.local-dirs": layout.node_local(node.host),
        "yarn.nodemanager.log-dirs": layout.container_logs(node.host),
        "yarn.nodemanager.resource.memory-mb": spec.memory_mb,
        "yarn.nodemanager.resource.cpu-vcores": spec.vcores,
        f"yarn.nodemanager.resource-type.{GPU}": spec.gpus_of(node),
        "yarn.nodemanager.aux-services": "",
        "yarn.nodemanager.env-whitelist": "JAVA_HOME,HADOOP_CONF_DIR,PATH,LANG,TZ",
        "yarn.nodemanager.admin-env": f"MALLOC_ARENA_MAX=4,{CLUSTER_VARIABLE}={cluster_id}",
        "yarn.nodemanager.delete.debug-delay-sec": 0,
        # The shaded jar lacks the classes of the store that NodeManager recovery needs.
        "yarn.nodemanager.recovery.enabled": False,
        # A developer's machine often has less free disk and memory than these checks require.
        "yarn.nodemanager.disk-health-checker.enable": False,
        "yarn.nodemanager.pmem-check-enabled": False,
        "yarn.nodemanager.vmem-check-enabled": False,
        "yarn.nodemanager.container-monitor.enabled": False,
    }


def capacity_scheduler() -> Properties:
    """capacity-scheduler.xml: `root.default`, and `root.sql`, in which each application gets its own leaf queue.

    Legacy queue mode is on, the default: without it capacities are rounded to whole vcores
    and GPUs, and two queues of equal weight get unequal shares.
    """
    return {
        f"{PREFIX}.resource-calculator": _CALCULATOR,
        # The asynchronous scheduler, on by default, tries a node every 5 ms while anything is pending: on a small
        # machine that costs more than waiting for the nodes' heartbeats.
        f"{PREFIX}.schedule-asynchronously.enable": False,
        f"{PREFIX}.auto-queue-creation-v2.queue-expiration-time": QUEUE_EXPIRY_S,
        # One container per node and heartbeat: containers spread over the nodes instead of filling the first one.
        f"{PREFIX}.per-node-heartbeat.maximum-container-assignments": 1,
        f"{PREFIX}.root.queues": "default,sql",
        f"{PREFIX}.root.capacity": 100,
        **_queue("root.default", {"capacity": "2w", "maximum-am-resource-percent": 0.9, **_UNLIMITED}),
        **_queue("root.sql", {"capacity": "8w", "maximum-capacity": 100, "auto-queue-creation-v2.enabled": True}),
        **_queue("root.sql.auto-queue-creation-v2.leaf-template", {"capacity": NEW_LEAF_WEIGHT, **_ONE_APPLICATION}),
    }


def _queue(path: str, settings: Properties) -> Properties:
    return {property_name(path, name): value for name, value in settings.items()}
