"""A search to submit, and everything that could keep it from running, checked before anything is made."""

import contextlib
import itertools
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from themis_agent.app_file import AppFile
from themis_agent.errors import StoreError
from themis_agent.local import replacing, stored_folder
from themis_agent.local.folder import Folder, folder_at
from themis_agent.submitting import applications, cluster, localised, packages
from themis_agent.submitting.cluster import ClusterFacts
from themis_agent.submitting.localised import Given
from themis_agent.trial.store import hdfs_at
from themis_agent.trial.webhdfs import HdfsStore
from themis_agent.yarn import submission
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterError
from yarn_plugin.errors import ReportedError, os_reason
from yarn_plugin.model.resources import GPU
from yarn_plugin.observe.resource_manager import ManagerError, ResourceManager

MASTER_MEMORY_MB = 1024


class SubmissionError(ReportedError):
    """A search cannot be submitted. `problems`: all that is wrong, a line each."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Request:
    """`directory`: of the file of the search, whose paths are relative to it. `queue`: None: the pool's, or one below
    it with the name of the search. `class_path`: of Hadoop's clients on the nodes; None: staged with the agent's code.
    `master_memory_mb`: of the application master's container. `retry_failed`: trials of a search that goes on are tried
    again if they have failed. `replaces`: an earlier search in its folder, which has ended, is removed."""

    app: AppFile
    directory: Path
    manager: ResourceManager
    arbiter: ArbiterClient | None = None
    queue: str | None = None
    class_path: str | None = None
    master_memory_mb: int = MASTER_MEMORY_MB
    retry_failed: bool = False
    replaces: bool = False


@dataclass(frozen=True)
class Checked:
    """A request that can be submitted. `folder`: of the search. `notes`: what is worth knowing."""

    request: Request
    folder: Path
    arbiter: ArbiterClient
    pool: str
    queue: str
    partition: str
    files: list[Given]
    isolates_gpus: bool = False
    notes: list[str] = field(default_factory=list)


def check(request: Request, goes_on: bool = False) -> Checked | None:
    """Check a request against the cluster, the arbiter and the store. Nothing is made. Without an arbiter, which a
    submission needs, the rest is checked, and the answer is None. `goes_on`: the search has been submitted before.

    Raises:
        SubmissionError: something is wrong; it has all problems.
    """
    app, files, facts, pool = request.app, list[Given](), None, None
    problems = list(_store_problems(request, goes_on))
    if not goes_on:
        files, wrong = localised.given(app, request.directory)
        problems += [*wrong, *_python_problems(app, files)]
    try:
        packages.drivers(app.storage)
    except packages.NotInstalledError as problem:
        problems.append(str(problem))
    try:
        facts = cluster.observe(request.manager)
    except ManagerError as problem:
        problems.append(str(problem))
    try:
        pool = _pool(request)
    except ArbiterError as problem:
        problems.append(str(problem))
    except SubmissionError as problem:
        problems += problem.problems
    if pool is not None and app.gpu is not None and pool.controller != "ledger":
        problems.append(
            f"--queue {pool.queue!r}: [gpu] and [cpu] need a pool whose allocator is allox; {pool.name} has auctions"
        )
    queue = request.queue or (_queue_of(pool, facts, app.name) if pool is not None and facts is not None else "")
    partition = facts.partition_of(queue) if facts is not None else ""
    if facts is not None:
        problems += filter(None, [cluster.queue_problem(facts, queue) if queue else None])
        problems += [*cluster.fit_problems(app, facts, partition), *_master_problems(request, facts)]
    if problems:
        raise SubmissionError(problems)
    if facts is None or request.arbiter is None or pool is None or partition is None:
        return None
    notes = list(cluster.notes(app, facts, partition))
    folder = folder_of(app)
    return Checked(request, folder, request.arbiter, pool.name, queue, partition, files, facts.isolates_gpus, notes)


def folder_of(app: AppFile) -> Path:
    """The folder of a submitted search, or a local copy of it."""
    store = store_of(app)
    return store / app.name if isinstance(store, Path) else stored_folder.copy_at(store.url_of(app.name))


def store_of(app: AppFile) -> Path | HdfsStore:
    """The folder in which the folders of searches are."""
    url = app.checkpoint or ""
    return hdfs_at(url) if stored_folder.is_url(url) else Path(unquote(urlsplit(url).path))


def _pool(request: Request) -> wire.Pool | None:
    """The pool of leased GPUs in which the search is to run.

    Raises:
        ArbiterError: the arbiter cannot be used.
        SubmissionError: it has no such pool.
    """
    if request.arbiter is None:
        return None
    pools = [pool for pool in request.arbiter.get_cluster().pools if _leases(pool)]
    queue = request.queue
    if not pools:
        raise SubmissionError(
            [f"--arbiter {request.arbiter.url!r}: has no pool of leased GPUs; add one to its --config file"]
        )
    known = ", ".join(pool.queue for pool in pools)
    if queue is None:
        if len(pools) > 1:
            raise SubmissionError([f"--queue: required; the arbiter leases GPUs in {known}"])
        return pools[0]
    found = [pool for pool in pools if queue == pool.queue or queue.startswith(f"{pool.queue}.")]
    if not found:
        raise SubmissionError([f"--queue {queue!r}: the arbiter leases no GPUs there; it does in {known}"])
    return max(found, key=lambda pool: len(pool.queue))


def _leases(pool: wire.Pool) -> bool:
    # An earlier arbiter does not say who controls a pool.
    return pool.controller in ("lease", "ledger") or (pool.controller is None and GPU in pool.resources)


def _queue_of(pool: wire.Pool, facts: ClusterFacts, name: str) -> str:
    """The queue of a pool, or one below it, if it creates queues."""
    known = facts.queues.get(pool.queue)
    return f"{pool.queue}.{name.replace('.', '-')}" if known is not None and known.makes_leaves else pool.queue


def _python_problems(app: AppFile, files: list[Given]) -> Iterator[str]:
    python = app.environment.python
    if python is None or "/" not in python or python.startswith("/"):
        return
    inside = python.split("/")[0]
    if not any(one.archive and one.name == inside for one in files):
        yield (
            f"environment.python {python!r}: must be a name or a path on the nodes, or be in one of "
            f"environment.archives, such as FILE.tar.gz#{inside}"
        )


def _store_problems(request: Request, goes_on: bool) -> Iterator[str]:
    app = request.app
    if app.checkpoint is None:
        yield (
            "checkpoint: required; must be file:///PATH, a folder on a file system that all nodes share, or "
            "webhdfs://HOST:PORT/PATH"
        )
        return
    store, where = store_of(app), f"checkpoint {app.checkpoint!r}"
    if not isinstance(store, Path):
        yield from _problems_in(store, request, goes_on)
        return
    folder = store / app.name
    try:
        if not goes_on and folder.exists() and any(folder.iterdir()):
            yield from _problems_of_earlier(request, Folder(folder))
        with tempfile.TemporaryFile(dir=store) as file:
            file.write(b"checked")
    except OSError as problem:
        yield f"{where}: cannot be written: {os_reason(problem)}"


def _problems_in(store: HdfsStore, request: Request, goes_on: bool) -> Iterator[str]:
    app = request.app
    name = f".checked-{secrets.token_hex(4)}"
    try:
        if app.name in store.names("") and store.names(app.name) and not goes_on:
            yield from _problems_of_earlier(request, folder_at(store.url_of(app.name)))
        store.write(name, b"checked")
        store.remove(name)
    except StoreError as problem:
        yield f"checkpoint {app.checkpoint!r}: {problem}"


def _problems_of_earlier(request: Request, folder: Folder) -> Iterator[str]:
    """What there is to say about what is in the folder of a search already."""
    where = f"name {request.app.name!r}: {folder}"
    if not folder.exists:
        yield f"{where} is not empty, and holds no search; give another name"
        return
    if request.replaces:
        running = _running(request.manager, folder)
        if running is not None:
            yield f"{where}: {running} still runs its search; `themis-agent stop {folder}` suspends that"
        return
    earlier, _ = folder.load()
    found = replacing.differences(earlier, request.app.model_copy(update={"checkpoint": earlier.checkpoint}))
    what = f"holds a search with another {found}" if found else "holds this search already"
    yield (
        f"{where} {what}; `themis-agent resume {folder}` goes on with that, --replace (from a program, replace=True) "
        f"removes it, and another name, such as {_free_name(folder, request.app.name)}, keeps both"
    )


def _running(manager: ResourceManager, folder: Folder) -> str | None:
    """The application that runs the search of a folder; None: it has ended, or the search was not submitted."""
    if not submission.is_in(folder.root):
        return None
    # That the ResourceManager is away is a problem of its own; a damaged file is replaced.
    with contextlib.suppress(ManagerError, ValidationError):
        app = submission.read(folder.root).yarn_app
        known = applications.get(manager, app)
        return app if known is not None and not known.has_ended else None
    return None


def _free_name(folder: Folder, name: str) -> str:
    """A numbered name that no other search has there."""
    if folder.store is None:
        taken = {one.name for one in folder.root.parent.iterdir()}
    else:
        taken = set(hdfs_at(folder.store.url.rpartition("/")[0]).names(""))
    return next(one for one in (f"{name}-{number}" for number in itertools.count(2)) if one not in taken)


def _master_problems(request: Request, facts: ClusterFacts) -> Iterator[str]:
    asked = request.master_memory_mb
    most = max((one["memory-mb"] for one in facts.nodes.values()), default=0)
    most = min(most, facts.limits.get("memory-mb", most))
    if asked > most:
        yield f"--master-memory-mb {asked}: the largest container has {most}"
