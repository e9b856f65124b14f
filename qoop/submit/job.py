"""The job that `qoop submit` passes to the driver, and what it reads from spark-submit's own flags."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from qoop.errors import QoopError
from qoop.feedback.arbiter import ExecutorSize
from yarn_plugin.errors import BadInputError, os_reason

MIN_OVERHEAD_MB = 384
OVERHEAD_FACTOR = 0.1
MIB_PER_UNIT = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}


class SubmissionError(QoopError):
    """The options contradict each other, or something that they need is missing."""

    exit_code = 2


class Output(BaseModel):
    """Where the result is written instead of the terminal."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["parquet", "csv"]
    path: str


class Job(BaseModel):
    """One query for the driver, passed as a JSON file.

    The file contains the application's token, so only its owner may read it. With --deploy-mode cluster YARN copies it
    through the user's staging folder. `size`: the fields of `ExecutorSize`, in order.
    """

    model_config = ConfigDict(extra="forbid")

    text: str
    name: str
    tables: str | None = None
    output: Output | None = None
    arbiter: str | None = None
    app: str | None = None
    token: str | None = None
    verify: str | bool = True
    size: tuple[int, int, int, int, int] | None = None
    profile: str | None = None
    slots: float | None = None
    checkpoint: str | None = None
    hysteresis: float = 0.15
    plan: Literal["always", "auto", "never"] | None = None
    replanning: bool = True
    switch_every_stage: bool = False
    timeout: float | None = None
    journal: str | None = None
    report: str | None = None
    rows: int = 1000
    format: Literal["table", "csv", "json"] = "table"


class SparkFlags:
    """spark-submit's flags as the user wrote them.

    `defaults`: the properties that spark-submit will read from a file (see `spark_defaults`).
    """

    def __init__(self, flags: Sequence[str], defaults: Mapping[str, str] | None = None) -> None:
        self.flags = list(flags)
        self._defaults = dict(defaults or {})

    def value(self, *names: str) -> str | None:
        """The value of a flag, given as `--name value` or `--name=value`; the last one wins."""
        found = None
        for place, flag in enumerate(self.flags):
            name, equals, value = flag.partition("=")
            if name in names:
                found = value if equals else next(iter(self.flags[place + 1 :]), None)
        return found

    def conf(self, name: str) -> str | None:
        """The value of a Spark property, from `--conf` or else the properties file."""
        found = None
        for place, flag in enumerate(self.flags):
            text = self.flags[place + 1] if flag in ("--conf", "-c") and place + 1 < len(self.flags) else ""
            if flag.startswith("--conf="):
                text = flag.removeprefix("--conf=")
            key, equals, value = text.partition("=")
            if key.strip() == name and equals:
                found = value
        return found if found is not None else self._defaults.get(name)

    @property
    def master(self) -> str:
        """The cluster manager's address."""
        return self.value("--master") or self.conf("spark.master") or "local[*]"

    @property
    def is_yarn(self) -> bool:
        """Whether the query runs on YARN."""
        return self.master == "yarn"

    @property
    def is_cluster_mode(self) -> bool:
        """Whether the driver runs on the cluster."""
        return (self.value("--deploy-mode") or self.conf("spark.submit.deployMode")) == "cluster"

    @property
    def ends_before_query(self) -> bool:
        """Whether spark-submit ends as soon as the cluster has taken the query."""
        return self.is_cluster_mode and (self.conf("spark.yarn.submit.waitAppCompletion") or "").lower() == "false"

    def instances(self) -> int | None:
        """The maximum number of executors that the user asks for; None: as many as the share allows.

        Raises:
            BadInputError: not a whole number above 0.
        """
        text = self.value("--num-executors") or self.conf("spark.executor.instances")
        if text is None:
            return None
        return _count("--num-executors", text)

    def executor_size(self, step_mb: int) -> ExecutorSize:
        """The containers that YARN will allocate: memory with overhead, rounded up to multiples of `step_mb`.

        Raises:
            BadInputError: a memory size or a number of cores is malformed.
        """
        memory = self._setting("--executor-memory", "spark.executor.memory", "1g")
        cores = self._number("--executor-cores", "spark.executor.cores")
        tasks = self._number("", "spark.task.cpus")
        master_of = "spark.driver" if self.is_cluster_mode else "spark.yarn.am"
        if self.is_cluster_mode:
            master = self._setting("--driver-memory", "spark.driver.memory", "1g")
        else:
            master = self._setting("", "spark.yarn.am.memory", "512m")
        return ExecutorSize(
            memory=self._container(memory, "spark.executor.memoryOverhead", step_mb),
            vcores=cores,
            slots=max(cores // tasks, 1),
            master_memory=self._container(master, f"{master_of}.memoryOverhead", step_mb),
            master_vcores=self._number("--driver-cores" if self.is_cluster_mode else "", f"{master_of}.cores"),
        )

    def _setting(self, flag: str, conf: str, default: str) -> float:
        given = self.value(flag) if flag else None
        return _memory(flag or conf, given or self.conf(conf) or default)

    def _number(self, flag: str, conf: str) -> int:
        return _count(flag or conf, (self.value(flag) if flag else None) or self.conf(conf) or "1")

    def _container(self, memory: float, overhead_conf: str, step_mb: int) -> int:
        overhead = self.conf(overhead_conf)
        extra = _memory(overhead_conf, overhead) if overhead else max(MIN_OVERHEAD_MB, int(OVERHEAD_FACTOR * memory))
        return -(-int(memory + extra) // step_mb) * step_mb

    def check(self, output: bool, checkpoint: bool) -> None:
        """Check that cluster mode has the options that it needs.

        Raises:
            SubmissionError: some are missing; names them.
        """
        if not self.is_cluster_mode:
            return
        needs = {
            "--output FORMAT PATH": output,
            "--checkpoint URL": checkpoint,
            "--archives FILE (a packed Python environment)": self.value("--archives") is not None,
        }
        missing = [need for need, given in needs.items() if not given]
        if missing:
            raise SubmissionError(f"--deploy-mode cluster: also give {', '.join(missing)}")


def spark_defaults(flags: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The properties that spark-submit reads from a file: --properties-file, or conf/spark-defaults.conf."""
    named = SparkFlags(flags).value("--properties-file")
    folder = environment.get("SPARK_CONF_DIR") or f"{environment.get('SPARK_HOME', '')}/conf"
    try:
        text = Path(named or f"{folder}/spark-defaults.conf").read_text(encoding="utf-8", errors="replace")
    except OSError:
        # The default file is optional; spark-submit reports a missing one that was named.
        return {}
    lines = text.splitlines()
    pairs = (re.split(r"[\s=]+", line.strip(), maxsplit=1) for line in lines if not line.lstrip().startswith("#"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


OPTIONS = {"text": "-e", "row_format": "--format", "verify": "--ca-file"}
"""The options whose names are not those of their values."""


def check_unicode(given: Mapping[str, object]) -> None:
    """Check the values of options, by name: as JSON and in Java, texts are Unicode.

    Raises:
        BadInputError: one has bytes that are not UTF-8.
    """
    for name, value in given.items():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, str | Path) and not _is_unicode(str(part)):
                raise BadInputError(OPTIONS.get(name, f"--{name.replace('_', '-')}"), str(part), "must be UTF-8")


def _is_unicode(text: str) -> bool:
    """Whether a text of the command line, where Python marks other bytes as lone surrogates, was UTF-8."""
    return text.encode("utf-8", errors="replace").decode() == text


def check_share_and_tables(profile: Path | None, tables: str | Path | None) -> None:
    """Check `--profile` and `--tables`, before Spark starts.

    Raises:
        ProfileError: the profile cannot be read.
        BadInputError: there is no such folder of tables.
    """
    from qoop.feedback.profile import read_profile
    from qoop.tables.folder import why_no_folder

    if tables is not None and not Path(tables).is_dir():
        raise BadInputError("--tables", str(tables), why_no_folder(str(tables)))
    if profile is not None:
        read_profile(profile)


def read_query(file: str | None, text: str | None) -> str:
    """The text of the query, from a file or from -e.

    Raises:
        SubmissionError: neither or both were given, or the file cannot be read.
    """
    if file is None and text is None:
        raise SubmissionError("QUERY.sql: required; give it as the last argument, or the text with -e 'SELECT ...'")
    if file is not None and text is not None:
        raise SubmissionError("QUERY.sql, -e: give only one; each of them is the query")
    if text is None:
        assert file is not None
        try:
            # Some editors begin a file with a byte order mark.
            text = Path(file).read_text(encoding="utf-8-sig")
        except OSError as problem:
            raise SubmissionError(
                f"query {file!r}: {os_reason(problem)}; the last argument must be QUERY.sql"
            ) from None
        except UnicodeDecodeError:
            raise SubmissionError(f"query {file!r}: not valid UTF-8") from None
    if not _is_unicode(text):
        raise SubmissionError(f"query {file or '-e'!r}: not valid UTF-8")
    if not text.strip():
        raise SubmissionError(f"query {file or '-e'!r}: the text is empty")
    return text.strip().rstrip(";")


def _count(field: str, text: str) -> int:
    if re.fullmatch(r"[0-9]{1,6}", text) is None or int(text) < 1:
        raise BadInputError(field, text, "must be a whole number, at least 1")
    return int(text)


def _memory(field: str, text: str) -> float:
    """A memory size in Spark's notation (512m, 2g), in MiB."""
    match = re.fullmatch(r"([0-9]{1,12})\s*([kmgt]?)b?", text.strip().lower())
    if match is None:
        raise BadInputError(field, text, "must be a memory size such as 512m or 2g")
    return int(match[1]) * MIB_PER_UNIT[match[2] or "m"]
