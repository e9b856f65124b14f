"""`qoop submit`: register with the arbiter, run spark-submit, pass on signals, deregister."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple
from pathlib import Path

import psutil

from qoop.parsing.statement import ParsedText
from qoop.run.query_status import kept_status
from qoop.submit.job import Job, SparkFlags
from qoop.submit.kept_catalogue import kept_catalogue
from qoop.submit.registration import ArbiterAccess, register
from qoop.submit.stderr import MESSAGES, relay_to_stderr
from qoop.tables.folder import FolderCatalogue, TablesError
from yarn_plugin import console

QUIET = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}

CA_NAME = "qoop-ca.pem"
"""File name of the trusted certificates in the working folder of a driver on the cluster."""


class StoppedBySignal(BaseException):
    """A signal arrived while spark-submit was not running; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def submit(job: Job, flags: SparkFlags, access: ArbiterAccess | None) -> int:
    """Run a job with spark-submit. Returns its exit code, or 128 plus the number of the signal that stopped it.

    SIGINT, SIGTERM and SIGHUP (unless ignored, as under nohup) always stop it cleanly: the query is stopped, its
    application deregistered, and the folder with its token removed. With the driver in the cluster the query goes on.

    Raises:
        SubmissionError: the options contradict each other.
        ArbiterError: the arbiter cannot be reached, or refuses.
        ShareTooSmallError: the share is too small for one executor.
    """
    try:
        with _signals_raise():
            return _submit(job, flags, access)
    except StoppedBySignal as stopped:
        _print(f"stopped by {signal.Signals(stopped.number).name}")
        return 128 + stopped.number


def _submit(job: Job, flags: SparkFlags, access: ArbiterAccess | None) -> int:
    flags.check(output=job.output is not None, checkpoint=job.checkpoint is not None)
    if not flags.is_cluster_mode:
        return _submit_from_here(job, flags, access)
    # The driver keeps its status on its own node.
    with kept_status(job.text, job.name, in_cluster=True) as status:
        code = _submit_from_here(job, flags, access)
        status.left(code, _is_left_running(flags, code))
        return code


def _submit_from_here(job: Job, flags: SparkFlags, access: ArbiterAccess | None) -> int:
    with _catalogue(job, flags) as catalogue:
        if access is None:
            return _spark_submit(job, flags, catalogue)
        return _submit_registered(job, flags, access, catalogue)


def _catalogue(job: Job, flags: SparkFlags) -> contextlib.AbstractContextManager[dict[str, str]]:
    """The catalogue that a job needs: opening one takes seconds, and a query whose tables are in a folder needs none.

    A query of other tables needs it only if it has been made before.
    """
    parsed = ParsedText(job.text)
    is_query = parsed.statement is not None and not parsed.returns_no_rows
    if is_query and job.tables is not None and parsed.statement is not None:
        with contextlib.suppress(TablesError):
            if parsed.statement.table_names <= FolderCatalogue(job.tables).tables.keys():
                return contextlib.nullcontext({})
    return kept_catalogue(flags, os.environ, _print, creates=not is_query)


def _submit_registered(job: Job, flags: SparkFlags, access: ArbiterAccess, catalogue: Mapping[str, str]) -> int:
    registration = register(job.name, flags, access)
    goes_on = False
    try:
        registration.check_share()
        job = job.model_copy(
            update={
                "arbiter": access.url,
                "app": registration.app,
                "token": registration.token,
                "size": astuple(registration.size),
                "verify": _verify_in_driver(access.verify, flags),
            }
        )
        confs = {**catalogue, **registration.confs()}
        code = _spark_submit(job, flags, confs, _files_for_driver(access.verify, flags))
        goes_on = _is_left_running(flags, code)
        return code
    finally:
        if not goes_on:
            with _signals_ignored():
                registration.end(_print)


def _goes_on(flags: SparkFlags, code: int) -> bool:
    """Whether a query goes on in the cluster although spark-submit was stopped."""
    return flags.is_cluster_mode and code > 128


def _is_left_running(flags: SparkFlags, code: int) -> bool:
    """Whether the query still runs in the cluster: spark-submit was stopped, or does not wait for it."""
    return _goes_on(flags, code) or (flags.ends_before_query and code == 0)


def _verify_in_driver(verify: str | bool, flags: SparkFlags) -> str | bool:
    """The certificates as a path that the driver can open: on the cluster the file is in its working folder."""
    if isinstance(verify, bool):
        return verify
    return CA_NAME if _files_for_driver(verify, flags) else str(Path(verify).absolute())


def _files_for_driver(verify: str | bool, flags: SparkFlags) -> tuple[str, ...]:
    """What spark-submit must copy to a driver on the cluster. A folder of certificates must exist there already."""
    if isinstance(verify, bool) or not flags.is_cluster_mode or not Path(verify).is_file():
        return ()
    return (f"{Path(verify).absolute()}#{CA_NAME}",)


def _print(line: str) -> None:
    console.tell("qoop", line)


def _spark_submit(job: Job, flags: SparkFlags, confs: Mapping[str, str], files: tuple[str, ...] = ()) -> int:
    with tempfile.TemporaryDirectory(prefix="qoop-") as folder:
        spec = Path(folder) / "job.json"
        spec.touch(mode=0o600)
        spec.write_text(job.model_dump_json())
        command = _command(flags, {**default_confs(flags), **confs}, spec, job.name, files)
        with relay_to_stderr(spec.with_name(MESSAGES)):
            code = _run(command, {**os.environ, **python_variables(flags)})
        if _goes_on(flags, code):
            _print(f"the query goes on in the cluster, if it was submitted already, as {job.name!r}; stop it there")
        return code


def _command(flags: SparkFlags, confs: Mapping[str, str], spec: Path, name: str, files: tuple[str, ...]) -> list[str]:
    from qoop.engine.session import spark_home

    command = [str(spark_home() / "bin" / "spark-submit"), *flags.flags]
    if flags.is_cluster_mode:
        given = flags.value("--files")
        command += ["--files", ",".join([*([given] if given else []), str(spec), *files])]
        # Before the driver, which names it elsewhere, begins.
        command += ["--name", name]
    for name, value in confs.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, str(_driver()), spec.name if flags.is_cluster_mode else str(spec)]


def default_confs(flags: SparkFlags) -> dict[str, str]:
    """The Spark properties that a query needs, except those that the user has set."""
    from qoop.engine.executors import DECOMMISSION_CONF

    defaults = {**QUIET, "spark.scheduler.mode": "FAIR"}
    if flags.is_yarn:
        defaults |= DECOMMISSION_CONF
    return {name: value for name, value in defaults.items() if flags.conf(name) is None}


def python_variables(flags: SparkFlags) -> dict[str, str]:
    """Run the driver with this Python, unless it runs on the cluster in an environment of its own."""
    if flags.is_cluster_mode or flags.conf("spark.pyspark.python"):
        return {}
    return {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable), "PYSPARK_DRIVER_PYTHON": sys.executable}


def _stop_signals() -> list[signal.Signals]:
    """The signals that stop a query. An ignored SIGHUP (nohup) stays ignored: the query is to outlive the terminal."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hang_up]


def _signals_raise() -> contextlib.AbstractContextManager[None]:
    """Within this context a stop signal raises StoppedBySignal; further signals do not disturb the clean-up."""

    def unwind(number: int, frame: object) -> None:
        for handled in _stop_signals():
            signal.signal(handled, _ignore)
        raise StoppedBySignal(number)

    return _handled_by(unwind)


def _signals_ignored() -> contextlib.AbstractContextManager[None]:
    """Within this context stop signals are ignored, without a trace: for what must be done however the query ended."""
    return _handled_by(_ignore)


def _ignore(number: int, frame: object) -> None:
    pass


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Within this context a handler receives the stop signals."""
    previous: dict[signal.Signals, object] = {}
    try:
        for number in _stop_signals():
            previous[number] = signal.signal(number, handler)
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)  # type: ignore[arg-type]


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run a command to its end. Stop signals are passed on, and still waited for, so that nothing is left half done."""
    process: subprocess.Popen[bytes] | None = None
    received: list[int] = []

    def pass_on(number: int, frame: object) -> None:
        received.append(number)
        if process is not None:
            _stop(process, graceful=len(received) == 1)

    with _handled_by(pass_on):
        # Its own process group: Ctrl-C reaches the query only through us, so Spark outlives the query's clean-up.
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, process_group=0)
        if received:
            # The signal arrived before the process existed.
            _stop(process, graceful=True)
        code = process.wait()
    if received:
        return 128 + received[0]
    if code < 0:
        _print(f"spark-submit was killed by signal {-code}")
        return 128 - code
    return code


def _stop(process: subprocess.Popen[bytes], graceful: bool) -> None:
    """Terminate the driver, which then stops Spark; or spark-submit itself if there is no driver, or not gracefully."""
    drivers = [child for child in _children(process.pid) if _is_driver(child)] if graceful else []
    for driver in drivers:
        with contextlib.suppress(psutil.NoSuchProcess):
            driver.terminate()
    if not drivers:
        process.terminate()


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _is_driver(process: psutil.Process) -> bool:
    try:
        return any(Path(word) == _driver() for word in process.cmdline())
    except psutil.Error:
        return False


def _driver() -> Path:
    return Path(__file__).with_name("driver.py")
