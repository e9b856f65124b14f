"""Submits a search as a transaction: each step is undone if a later one fails, so that nothing is half-submitted."""

import contextlib
import logging
import platform
import secrets
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from pydantic import ValidationError

from themis_agent import warm_start
from themis_agent.app_file import AppFile
from themis_agent.local import stored_folder
from themis_agent.local.folder import Folder
from themis_agent.submitting import applications, packages, recent
from themis_agent.submitting.localised import localised
from themis_agent.submitting.request import Checked, Request, SubmissionError, store_of
from themis_agent.submitting.staging import staged_archive, staging_of
from themis_agent.trial.gang import SCRIPT_PATH
from themis_agent.trial.store import hdfs_at
from themis_agent.trial.webhdfs import HdfsStore
from themis_agent.trial_jobs import first_jobs
from themis_agent.yarn import submission
from themis_agent.yarn.submission import CODE, JARS, PACKAGES, ArbiterAccess, ContainerSize, LocalResource, Submission
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterRefusedError
from yarn_plugin.errors import ReportedError, os_reason

log = logging.getLogger("themis_agent")

MASTER = "themis_agent.yarn.main"
REGISTER_WITHIN_S = 10.0
"""How long the arbiter may take to see an application that YARN has accepted."""


def submit(checked: Checked) -> Submission:
    """Submit a search. When this returns, YARN runs its application master or will.

    Raises:
        SubmissionError: the store cannot be written.
        ManagerError, NotAcceptedError: YARN refuses.
        ArbiterError: the arbiter refuses.
    """
    request, folder = checked.request, checked.folder
    with _reported(folder), ExitStack() as undo:
        remove_earlier = _set_aside(folder, undo) if request.replaces else None
        _claim(folder, request, undo)
        given = tuple(localised(one, Folder(folder)) for one in checked.files)
        done = _submit(checked, given, undo)
    if remove_earlier is not None:
        remove_earlier()
    return done


def _set_aside(folder: Path, undo: ExitStack) -> Callable[[], object] | None:
    """Make room for a search where an earlier one is, if there is one; returns what removes that in the end."""
    store, aside = Folder(folder).store, f".replaced-{secrets.token_hex(4)}"
    with contextlib.suppress(OSError, ValidationError):
        undo.callback(recent.note, (earlier := submission.read(folder).yarn_app), Folder(folder))
        recent.forget(earlier)
    if store is None:
        if not folder.exists():
            return None
        moved = folder.with_name(f".{folder.name}{aside}")
        folder.rename(moved)
        undo.callback(moved.rename, folder)
        return partial(shutil.rmtree, moved, ignore_errors=True)
    above, name = hdfs_at(store.url.rpartition("/")[0]), unquote(store.url.rpartition("/")[2])
    if name not in above.names(""):
        return None
    moved_name = f".{name}{aside}"
    above.rename(name, moved_name)
    undo.callback(_tried, f"the earlier search is in {above.url}/{moved_name}", above.rename, moved_name, name)
    return partial(_tried, f"{above.url}/{moved_name} is left behind", above.remove, moved_name)


def _claim(folder: Path, request: Request, undo: ExitStack) -> None:
    """Make the folder of a search, which is another's, and stays so, if two take the same name at the same time."""
    store = Folder(folder).store
    if store is not None:
        _claim_in(store, folder, request, undo)
        return
    earlier = warm_start.read(request.app, request.directory)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    undo.callback(shutil.rmtree, made, ignore_errors=True)
    # In the folder, checkpoints are in their place there: in the store, those of several searches would mix.
    Folder(made).begin(request.app.model_copy(update={"checkpoint": None}), request.directory)
    warm_start.keep(Folder(made), earlier)
    # Fails unless there is no such folder, or an empty one of this user.
    made.rename(folder)
    undo.callback(shutil.rmtree, folder, ignore_errors=True)


def _claim_in(store: HdfsStore, copy: Path, request: Request, undo: ExitStack) -> None:
    """The same in a store. `copy`: local, of the folder."""
    above, name = hdfs_at(store.url.rpartition("/")[0]), unquote(store.url.rpartition("/")[2])
    earlier = warm_start.read(request.app, request.directory)
    made = f".{name}-{secrets.token_hex(4)}"
    undo.callback(_tried, f"{above.url}/{made} is left behind", above.remove, made)
    for one in (made, f"{made}/checkpoints", f"{made}/{stored_folder.JOURNAL}"):
        above.make_folder(one)
    folder = Folder(copy)
    folder.begin(request.app.model_copy(update={"checkpoint": None}), request.directory)
    above.write(f"{made}/app.json", (copy / "app.json").read_bytes())
    # Fails unless there is no such folder, or an empty one.
    above.rename(made, name)
    undo.callback(_tried, f"{store.url} is left behind", above.remove, name)
    folder.token()
    warm_start.keep(folder, earlier)


def resubmit(checked: Checked, earlier: Submission) -> Submission:
    """Go on with a search whose application has ended, with the files that it was submitted with.

    Raises:
        as `submit`; SubmissionError also if somebody else has done so meanwhile.
    """
    staged = (CODE, PACKAGES, JARS)
    with _reported(checked.folder), ExitStack() as undo:
        return _submit(checked, tuple(one for one in earlier.resources if one.name not in staged), undo, earlier)


def _submit(
    checked: Checked, given: tuple[LocalResource, ...], undo: ExitStack, earlier: Submission | None = None
) -> Submission:
    request, folder, arbiter = checked.request, checked.folder, checked.arbiter
    prepared, staged = _prepared(checked, given)
    app = applications.new_application(request.manager)
    undo.callback(
        _tried, f"{app} may run until it finds its submission incomplete", applications.kill, request.manager, app
    )
    place = str(Folder(folder))
    command = shlex.join(prepared.words(MASTER, place, waits_in=place))
    master = applications.Master(
        command=f"exec {command} 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr",
        environment=prepared.environment,
        resources=staged,
        memory_mb=request.master_memory_mb,
    )
    applications.submit(request.manager, app, request.app.name, checked.queue, checked.partition, master)
    registered = _registered(arbiter, request.app, checked.pool, app)
    undo.callback(_tried, f"{registered.app} is still registered", arbiter.deregister, registered.app)
    # The arbiter refuses here what could not run.
    if jobs := request.app.declared_jobs or ([] if earlier is not None else first_jobs(request.app)):
        arbiter.declare_jobs(registered.app, jobs)
    if jobs and not request.app.declared_jobs:
        # The agent declares trials as they come and go. Until it runs, a lease would leave a machine idle.
        arbiter.declare_jobs(registered.app, [])
    done = prepared.model_copy(
        update={
            "yarn_app": app,
            "partition": checked.partition,
            "isolates_gpus": checked.isolates_gpus,
            "retry_failed": request.retry_failed,
            "arbiter": ArbiterAccess(
                url=arbiter.url,
                app=registered.app,
                ca=_certificates(arbiter, folder),
                pool=registered.pool,
                recovery_token=registered.recovery_token,
            ),
        }
    )
    if earlier is not None and submission.read(folder) != earlier:
        raise SubmissionError([f"{place}: somebody else goes on with this search at the same time"])
    Folder(folder).write(folder / submission.ARBITER_TOKEN, registered.token)
    submission.write(folder, done)
    undo.pop_all()
    recent.note(app, Folder(folder))
    return done


def _prepared(checked: Checked, given: tuple[LocalResource, ...]) -> tuple[Submission, tuple[LocalResource, ...]]:
    """What a search needs on nodes, staged; and what of it the master's container needs."""
    request, app = checked.request, checked.request.app
    folder = staging_of(store_of(app), checked.folder)
    code = staged_archive(folder, CODE, packages.own_code(), CODE)
    libraries = staged_archive(folder, PACKAGES, packages.dependencies(packages.drivers(app.storage)), PACKAGES)
    jars = packages.py4j_jar() if request.class_path else packages.hadoop_jars()
    staged_jars = staged_archive(folder, JARS, jars, JARS)
    class_path = (*(request.class_path or "").split(":"), *(f"{JARS}/{name}" for name in jars))
    python = app.environment.python or packages.interpreter()
    prepared = Submission(
        yarn_app="",
        resource_manager=request.manager.addresses,
        arbiter=ArbiterAccess(url="", app=""),
        python=python,
        compiled_for=(str(sys.implementation.cache_tag), platform.machine()),
        container=ContainerSize(memory_mb=app.memory_mb * app.trials_on_gpu, vcores=app.vcores * app.trials_on_gpu),
        environment={
            "PYTHONPATH": f"{{{{PWD}}}}/{CODE}:{{{{PWD}}}}/{PACKAGES}",
            SCRIPT_PATH: f"{{{{PWD}}}}/{CODE}",
        },
        resources=(code, libraries, *given),
        class_path=tuple(filter(None, class_path)),
        image=app.environment.image,
        attempts_before=Folder(checked.folder).last_attempt(),
    )
    # Its interpreter may be in one of the user's archives.
    interpreter = tuple(one for one in given if one.name == python.split("/")[0])
    return prepared, (code, libraries, staged_jars, *interpreter)


def _registered(arbiter: ArbiterClient, app: AppFile, pool: str, yarn_app: str) -> wire.Registered:
    """Register an application that YARN has accepted."""
    request = wire.Register(name=app.name, request_id=yarn_app, pool=pool, yarn_app=yarn_app)
    deadline = time.monotonic() + REGISTER_WITHIN_S
    while True:
        try:
            return arbiter.register(request)
        except ArbiterRefusedError as refused:
            is_unseen = refused.status == 422 and any(one.field == "yarn_app" for one in refused.problems)
            if not is_unseen or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def _certificates(arbiter: ArbiterClient, folder: Path) -> str | None:
    """The certificates to trust as nodes find them."""
    if isinstance(arbiter.verify, bool) or not arbiter.url.startswith("https:"):
        return None
    copy = folder / submission.CERTIFICATES
    # Certificates are ASCII; what people write beside them may be anything.
    Folder(folder).write(copy, Path(arbiter.verify).read_text("ascii", "replace"))
    return str(copy)


@contextmanager
def _reported(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise SubmissionError([f"{Folder(folder)}: {os_reason(problem)}"]) from None


def _tried(consequence: str, undo: Callable[..., object], *arguments: object) -> None:
    try:
        undo(*arguments)
    except ReportedError as problem:
        log.warning("%s: %s", consequence, problem)
