"""The arbiter as a process: the daemon, its HTTP service and the watchdog, started and stopped together."""

import gc
import getpass
import logging
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

from yarn_plugin.act.ownership import Ownership, claim, identity, is_arbiter_at
from yarn_plugin.api.cells import CellsFiles
from yarn_plugin.api.tokens import Tokens
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.drive.config import ArbiterConfig
from yarn_plugin.drive.daemon import Daemon
from yarn_plugin.drive.diagnostics import Diagnostics
from yarn_plugin.drive.http_server import http_server, limits_in_force, listening, log_limits
from yarn_plugin.drive.registry import INSTALLED
from yarn_plugin.drive.state_folder import make_private, write_address
from yarn_plugin.drive.topology import load_topology
from yarn_plugin.drive.watchdog import Watchdog
from yarn_plugin.errors import ReportedError
from yarn_plugin.observe.answers import not_an_answer
from yarn_plugin.observe.capabilities import probe
from yarn_plugin.observe.resource_manager import ManagerAwayError, ManagerError, ResourceManager
from yarn_plugin.observe.translate import queues
from yarn_plugin.quantities import count
from yarn_plugin.serving.address import Address
from yarn_plugin.serving.connections import Connections, CountingListener
from yarn_plugin.serving.refusals import Refusals

log = logging.getLogger("yarn_plugin.arbiter")


class MissingQueueError(ReportedError):
    """A pool's queue does not exist."""


def serve(
    urls: list[str],
    config: ArbiterConfig,
    listen: Address,
    state_dir: Path,
    ready: Callable[[str, Path], None],
    verify: str | bool = True,
    accept_loss: bool = False,
    registry: Registry = BUILT_IN,
    registry_at: str = INSTALLED,
    cells_files: CellsFiles = MappingProxyType({}),
) -> None:
    """Run the arbiter until SIGTERM or Ctrl-C.

    Args:
        ready: called with the address and the file of the administrator's token, once the service listens.
        verify: for a ResourceManager over HTTPS, a file with trusted certificates, or True for the system's.
        accept_loss: start although records after a damaged part of the journal are lost.
        registry: the installed controllers and policies.
        registry_at: where a worker process finds the same registry, as `module:attribute`.
        cells_files: of the pools whose cells file may be replaced.

    Raises:
        FileError: the topology file cannot be used.
        ListenError: the address is in use, or not this machine's.
        ManagerError: there is no ResourceManager.
        MissingQueueError: a pool's queue does not exist.
        NotAManagerError: the ResourceManager says of a pool's queue what cannot be read.
        JournalError: another arbiter uses the state folder, or the journal is damaged.
        OwnedError: another arbiter owns the pools' queues.
        SecretError: the secret in the state folder cannot be used.
        StateError: the state folder cannot be created or made private.
    """
    user = getpass.getuser()
    pools = tuple(section.pool() for section in config.pools)
    topology = load_topology(config.topology.file) if config.topology.file is not None else None

    def managers() -> ResourceManager:
        return ResourceManager(urls, user, verify)

    make_private(state_dir)
    limits = limits_in_force(config.limits)
    with listening(listen) as opened:
        listen = Address(listen.host, opened.getsockname()[1], listen.certificate, listen.key)
        me, parents = identity(state_dir), [pool.queue for pool in pools]

        def claim_queues() -> Ownership | None:
            return claim(managers(), parents, me, listen.url, is_arbiter_at)

        daemon = Daemon(
            managers,
            pools,
            config.poll.intervals(),
            state_dir,
            config.poll.reconcile_s,
            accept_loss,
            me,
            claim_queues,
            config.watchdog_s,
            registry,
            registry_at,
            config.limits.solve_timeout_s,
            topology=topology,
        )
        tune_garbage_collection()
        watchdog = Watchdog(daemon.is_alive, lambda: daemon.heartbeat.count, config.watchdog_s)
        try:
            tokens = Tokens(state_dir)
            _check_queues(managers(), config, patient=daemon.state.manager_url is not None)
            daemon.start()
            watchdog.start()
            refusals = Refusals()
            connections = Connections(limits.max_connections, refusals)
            asking = Diagnostics(managers)
            users, tenants = config.users, config.tenants
            server = http_server(
                daemon, tokens, listen, limits, refusals, connections, asking, users, tenants, registry, cells_files
            )
            write_address(state_dir, listen.url)
            ready(listen.url, tokens.admin_file)
            log.info("listening on %s; recovered from %s", listen.url, count(daemon.resumed, "journaled event"))
            log_limits(config.limits, limits)
            server.run(sockets=[CountingListener(opened, connections, secure=listen.certificate is not None)])
        finally:
            watchdog.close()
            daemon.stop()


def tune_garbage_collection() -> None:
    """Exempt long-lived objects from garbage collection, and collect rarely.

    The arbiter's state is immutable and free of cycles, so that it never needs collection. Traversing it while an
    answer with thousands of applications is parsed would only cause pauses.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def _check_queues(manager: ResourceManager, config: ArbiterConfig, patient: bool) -> None:
    """Check that every pool's queue exists. `patient`: start even if the ResourceManager is away."""
    try:
        probe(manager)
        known = queues(manager.get("/scheduler"))
    except ManagerAwayError:
        if patient:
            return
        raise
    if not known:
        raise ManagerError(
            f"--rm {manager.url}: its scheduler must be the CapacityScheduler; set yarn.resourcemanager.scheduler.class"
        )
    for pool in config.pools:
        if pool.queue in known.unreadable:
            problem = f"queue {pool.queue}: {known.unreadable[pool.queue]}"
            raise not_an_answer("/scheduler", problem)
        if pool.queue not in known:
            raise MissingQueueError(
                f"pool {pool.name}: queue {pool.queue!r} does not exist; create it with `yarn-plugin queues apply`, "
                f"or choose one of {', '.join(sorted(known)[:10])} in --config"
            )
