"""`qoop submit` from its flags to spark-submit's end: register, submit, wait, deregister."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil
from pydantic import ValidationError

from qoop.feedback.arbiter import ExecutorSize
from qoop.submit.job import Job, SparkFlags, SubmissionError
from qoop.submit.stderr import MESSAGES, relayed
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterError, new_request_id
from yarn_plugin.console import err
from yarn_plugin.errors import BadInputError

QUIET = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
GRACE_S = 30.0
"""How long a query needs to hand over executors: decommissioned ones move what they keep."""


CA_NAME = "qoop-ca.pem"
"""Under which the certificates to trust travel with a driver on the cluster."""


class AskedToStop(BaseException):
    """A signal came while spark-submit did not run; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True, slots=True)
class Arbitration:
    """The arbiter to ask for a share, and as whom."""

    url: str
    token: str
    pool: str | None
    weight: float
    verify: str | bool


def submit(job: Job, flags: SparkFlags, arbitration: Arbitration | None) -> int:
    """Run a job with spark-submit; returns its exit code, or 128 and the number of the signal that stopped it.

    SIGINT, SIGTERM and SIGHUP (unless that is ignored, as under nohup) end it in order at every moment: the query is
    stopped, its application deregistered, and the folder with its token removed.

    Raises:
        SubmissionError: it cannot work as it is written.
        ArbiterError: the arbiter is away, or refuses.
        ShareTooSmallError: the share does not hold one executor.
    """
    try:
        with _unwound_by_signals():
            return _submit(job, flags, arbitration)
    except AskedToStop as asked:
        _say("qoop: stopped")
        return 128 + asked.number


def _submit(job: Job, flags: SparkFlags, arbitration: Arbitration | None) -> int:
    flags.check(output=job.output is not None, checkpoint=job.checkpoint is not None)
    if arbitration is None:
        return _spark_submit(job, flags, {})
    if not flags.is_yarn:
        raise SubmissionError(
            f"--arbiter: shares are of a YARN cluster; --master {flags.master} takes --profile or --slots"
        )
    if flags.value("--queue") or flags.conf("spark.yarn.queue"):
        raise SubmissionError(
            "--queue: the arbiter gives every query a queue of its own; leave --queue out (see --pool)"
        )
    return _submit_registered(job, flags, arbitration)


def _submit_registered(job: Job, flags: SparkFlags, arbitration: Arbitration) -> int:
    client = ArbiterClient(arbitration.url, arbitration.token, arbitration.verify)
    size = flags.executor_size(_allocation_step(client))
    registered = client.register(_registration(job, flags, arbitration, size))
    try:
        if registered.share is None:
            raise SubmissionError(f"the arbiter has no share for {registered.app} in pool {registered.pool}, now")
        size.need_one(registered.share.entitlement.resources, f"share of {registered.app} in pool {registered.pool}")
        first = size.count(registered.share.entitlement.resources)
        job = job.model_copy(
            update={
                "arbiter": arbitration.url,
                "app": registered.app,
                "token": registered.token,
                "size": astuple(size),
                "verify": _where_the_driver_runs(arbitration.verify, flags),
            }
        )
        confs = {
            "spark.yarn.queue": registered.queue,
            "spark.executor.instances": str(first),
            "spark.dynamicAllocation.enabled": "false",
        }
        return _spark_submit(job, flags, confs, _travelling(arbitration.verify, flags))
    finally:
        _deregister(client, registered.app)


def _registration(job: Job, flags: SparkFlags, arbitration: Arbitration, size: ExecutorSize) -> wire.Register:
    most = flags.instances()
    try:
        return wire.Register(
            name=job.name,
            request_id=new_request_id(),
            pool=arbitration.pool,
            weight=arbitration.weight,
            demand=[size.total(most)] if most else None,
            grace_s=GRACE_S,
        )
    except ValidationError as problem:
        first = problem.errors()[0]
        flag = f"--{'num-executors' if 'demand' in first['loc'] else first['loc'][0]}"
        raise BadInputError(flag, first["input"], first["msg"]) from None


def _where_the_driver_runs(verify: str | bool, flags: SparkFlags) -> str | bool:
    """The file of certificates as the driver finds it: on the cluster it lies in its working folder."""
    if isinstance(verify, bool):
        return verify
    return CA_NAME if _travelling(verify, flags) else str(Path(verify).absolute())


def _travelling(verify: str | bool, flags: SparkFlags) -> tuple[str, ...]:
    """What spark-submit must take along for a driver on the cluster. A folder of certificates must be there already."""
    if isinstance(verify, bool) or not flags.is_cluster_mode or not Path(verify).is_file():
        return ()
    return (f"{Path(verify).absolute()}#{CA_NAME}",)


def _deregister(client: ArbiterClient, app: str) -> None:
    try:
        client.deregister(app)
    except ArbiterError as problem:
        # The arbiter sees for itself that YARN's application has ended.
        _say(f"qoop: warning: {problem}")


def _say(line: str) -> None:
    """Tell the user, if there is still a terminal."""
    with contextlib.suppress(OSError):
        err.print(line, soft_wrap=True)


def _allocation_step(client: ArbiterClient) -> int:
    return max(client.get_cluster().least_allocation.get("memory-mb", 1), 1)


def _spark_submit(job: Job, flags: SparkFlags, confs: Mapping[str, str], along: tuple[str, ...] = ()) -> int:
    with tempfile.TemporaryDirectory(prefix="qoop-") as folder:
        spec = Path(folder) / "job.json"
        spec.touch(mode=0o600)
        spec.write_text(job.model_dump_json())
        command = _command(flags, {**_defaults(flags), **confs}, spec, along)
        with relayed(spec.with_name(MESSAGES)):
            return _run(command, {**os.environ, **_python(flags)})


def _command(flags: SparkFlags, confs: Mapping[str, str], spec: Path, along: tuple[str, ...]) -> list[str]:
    from qoop.engine.session import spark_home

    command = [str(spark_home() / "bin" / "spark-submit"), *flags.flags]
    if flags.is_cluster_mode:
        files = flags.value("--files")
        command += ["--files", ",".join([*([files] if files else []), str(spec), *along])]
    for name, value in confs.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, str(_driver()), spec.name if flags.is_cluster_mode else str(spec)]


def _defaults(flags: SparkFlags) -> dict[str, str]:
    """What a query needs of Spark where the user has not said otherwise."""
    from qoop.engine.executors import DECOMMISSION_CONF

    wanted = {**QUIET, "spark.scheduler.mode": "FAIR"}
    if flags.is_yarn:
        wanted |= DECOMMISSION_CONF
    return {name: value for name, value in wanted.items() if flags.conf(name) is None}


def _python(flags: SparkFlags) -> dict[str, str]:
    """The driver runs with this very Python, unless it runs on the cluster in an environment of its own."""
    if flags.is_cluster_mode or flags.conf("spark.pyspark.python"):
        return {}
    return {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable), "PYSPARK_DRIVER_PYTHON": sys.executable}


def _stopping() -> list[signal.Signals]:
    """The signals to stop by. Who has us ignore SIGHUP (nohup) wants the query to outlive the terminal."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hang_up]


@contextlib.contextmanager
def _unwound_by_signals() -> Iterator[None]:
    """Meanwhile a signal to stop by unwinds what was begun; being asked once more does not disturb that."""

    def unwind(number: int, frame: object) -> None:
        for one in previous:
            signal.signal(one, lambda number, frame: None)
        raise AskedToStop(number)

    previous: dict[signal.Signals, object] = {}
    try:
        for number in _stopping():
            previous[number] = signal.signal(number, unwind)
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run to the end; what we are told to stop by, we pass on and still wait, so that nothing is left half done."""
    process: subprocess.Popen[bytes] | None = None
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        asked.append(number)
        if process is not None:
            _stop(process, patience=len(asked) == 1)

    previous = {number: signal.signal(number, ask) for number in _stopping()}
    try:
        # A group of its own: Ctrl-C reaches the query through us alone, and Spark lives until the query has cleaned up.
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, process_group=0)
        if asked:
            # It came before there was anything to stop.
            _stop(process, patience=True)
        code = process.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if asked:
        return 128 + asked[0]
    if code < 0:
        _say(f"qoop: spark-submit was killed by signal {-code}")
        return 128 - code
    return code


def _stop(process: subprocess.Popen[bytes], patience: bool) -> None:
    """Ask the driver to stop, which then ends Spark; Spark itself where there is no driver, or patience is over."""
    drivers = [child for child in _children(process.pid) if _is_driver(child)] if patience else []
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
