"""The YARN side of an application master: containers on named nodes, started, stopped and reported when they end.

    master = ApplicationMaster(launch(conf_dir))
    master.register()
    master.request(1, Size(memory_mb=2048, gpus=1), host="node-1")
    while ...:
        beat = master.heartbeat()      # several times a second
        for container in beat.allocated:
            master.start(container, "exec python train.py", {"CUDA_VISIBLE_DEVICES": "0"})
        for ended in beat.completed: ...
    master.finish()

A running container is stopped at its node, never released: YARN forgets a released container at once, while its
processes run on until the node has ended them. So a container that YARN lists no more does not run.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.java_gateway import JavaGateway

from themis_agent.yarn.submission import LocalResource

GPU = "yarn.io/gpu"
_PRIORITY = 1

NODE_ANSWERS_WITHIN_MS = 20_000
_NODE_TIMEOUTS = ("yarn.rpc.nm-command-timeout", "yarn.client.nodemanager-connect.max-wait-ms")
"""A node that hangs, or is gone, keeps the master from its other containers for so long; by default 1 and 3 minutes."""


@dataclass(frozen=True, slots=True)
class Size:
    """The resources of a container."""

    memory_mb: int
    vcores: int = 1
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Container:
    """A container that YARN allocated for the request with this number."""

    id: str
    host: str
    request: int
    _java: Any = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Completed:
    """A container that has ended: its processes are gone. `exit_status`: of its command, or YARN's negative codes."""

    id: str
    exit_status: int
    diagnostics: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What changed since the last heartbeat."""

    allocated: tuple[Container, ...]
    completed: tuple[Completed, ...]


class ApplicationMaster:
    """See the module. For one thread. Errors of Hadoop's clients are raised as `Py4JJavaError`."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway, self._jvm = gateway, gateway.jvm
        self._yarn = self._jvm.org.apache.hadoop.yarn
        configuration = self._yarn.conf.YarnConfiguration()
        self._scheduler = self._yarn.client.api.AMRMClient.createAMRMClient()
        self._nodes = self._yarn.client.api.NMClient.createNMClient()
        of_nodes = self._yarn.conf.YarnConfiguration(configuration)
        for name in _NODE_TIMEOUTS:
            of_nodes.setLong(name, NODE_ANSWERS_WITHIN_MS)
        for client, its_configuration in ((self._scheduler, configuration), (self._nodes, of_nodes)):
            client.init(its_configuration)
            client.start()
        # Launchers outlive a failed application master.
        self._nodes.cleanupRunningContainersOnStop(False)
        self._requests: dict[int, Any] = {}

    def register(self, host: str = "", port: int = -1, tracking_url: str = "") -> tuple[Container, ...]:
        """Register with the ResourceManager; returns the containers of earlier attempts that still run."""
        answer = self._scheduler.registerApplicationMaster(host, port, tracking_url)
        return tuple(map(_container, answer.getContainersFromPreviousAttempts()))

    def request(self, number: int, size: Size, host: str | None = None) -> None:
        """Ask for a container; `number`: chosen by the caller, not in use. `host`: this node and no other one."""
        capability = self._yarn.api.records.Resource.newInstance(size.memory_mb, size.vcores)
        if size.gpus:
            capability.setResourceValue(GPU, size.gpus)
        request = self._yarn.client.api.AMRMClient.ContainerRequest.newBuilder()
        request = request.capability(capability).priority(self._yarn.api.records.Priority.newInstance(_PRIORITY))
        request = request.allocationRequestId(number)
        if host is not None:
            hosts = self._gateway.new_array(self._jvm.java.lang.String, 1)
            hosts[0] = host
            request = request.nodes(hosts).relaxLocality(False)
        self._requests[number] = request.build()
        self._scheduler.addContainerRequest(self._requests[number])

    def cancel(self, number: int) -> None:
        """Withdraw a request. A container may come nevertheless, with the next heartbeat: `release` it. Idempotent."""
        request = self._requests.pop(number, None)
        if request is not None:
            self._scheduler.removeContainerRequest(request)

    def heartbeat(self, progress: float = 0.0) -> Heartbeat:
        """Exchange news with the ResourceManager; call it regularly, several times a second. `progress`: 0 to 1."""
        answer = self._scheduler.allocate(progress)
        allocated = []
        for container in map(_container, answer.getAllocatedContainers()):
            # A satisfied request that is not removed is satisfied again.
            self.cancel(container.request)
            allocated.append(container)
        completed = tuple(
            Completed(one.getContainerId().toString(), one.getExitStatus(), one.getDiagnostics() or "")
            for one in answer.getCompletedContainersStatuses()
        )
        return Heartbeat(tuple(allocated), completed)

    def start(
        self,
        container: Container,
        command: str,
        environment: Mapping[str, str],
        resources: Sequence[LocalResource] = (),
    ) -> None:
        """Run a shell command in a container. Its output goes to the container's log directory.

        `resources`: localised into its working directory. It gets no tokens of this application.
        """
        logs = "1><LOG_DIR>/stdout 2><LOG_DIR>/stderr"
        context = self._yarn.api.records.ContainerLaunchContext.newInstance(
            {one.name: self._resource(one) for one in resources}, dict(environment), [f"{command} {logs}"], {}, None, {}
        )
        self._nodes.startContainer(container._java, context)

    def stop(self, container: Container) -> None:
        """Have the node end a started container's processes; `heartbeat` reports when they are gone."""
        self._nodes.stopContainer(container._java.getId(), container._java.getNodeId())

    def release(self, container: Container) -> None:
        """Give back a container that was never started, or may have been, by a node that did not answer: YARN has the
        node end it, and start it no more."""
        self._scheduler.releaseAssignedContainer(container._java.getId())

    def finish(self, succeeded: bool | None = True, message: str = "", tracking_url: str = "") -> None:
        """Unregister from the ResourceManager, which ends the application, and stop the clients.

        `succeeded`: None if its user has stopped it before that could be said: KILLED.
        """
        status = {True: "SUCCEEDED", False: "FAILED", None: "KILLED"}[succeeded]
        final = self._yarn.api.records.FinalApplicationStatus.valueOf(status)
        self._scheduler.unregisterApplicationMaster(final, message, tracking_url)
        self._nodes.stop()
        self._scheduler.stop()

    def _resource(self, resource: LocalResource) -> Any:
        records = self._yarn.api.records
        visibility = records.LocalResourceVisibility
        return records.LocalResource.newInstance(
            records.URL.fromURI(self._jvm.java.net.URI.create(resource.url)),
            records.LocalResourceType.valueOf(resource.type),
            visibility.PUBLIC if resource.public else visibility.PRIVATE,
            resource.size,
            resource.modified_ms,
        )


def _container(one: Any) -> Container:
    return Container(one.getId().toString(), one.getNodeId().getHost(), int(one.getAllocationRequestId()), one)


def command_line(*words: object) -> str:
    """A shell command that replaces the shell, so that signals reach the program."""
    return "exec " + shlex.join(map(str, words))
