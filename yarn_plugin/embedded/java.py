"""The Java and the jars that daemons run on: most jars come with pyspark, four are fetched and checked by digest."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from yarn_plugin.embedded.errors import FetchError, JavaError
from yarn_plugin.errors import BadInputError

MIN_VERSION = 17
_ADVICE = f"install Java {MIN_VERSION} or newer, or set JAVA_HOME to its directory"


@dataclass(frozen=True, slots=True)
class Java:
    """An installed Java: its home directory and its major version."""

    home: Path
    version: int

    @property
    def command(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"


def find_java() -> Java:
    """The Java of `JAVA_HOME`, else of `PATH`. Raises `JavaError` if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None:
        raise JavaError(f"java is not on PATH and JAVA_HOME is not set; {_ADVICE}")
    java = _describe(command)
    if java.version < MIN_VERSION:
        raise JavaError(f"{command} is Java {java.version}; {_ADVICE}")
    return java


def _describe(command: str) -> Java:
    try:
        answer = subprocess.run(
            [command, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise JavaError(f"{command} cannot be run ({failed}); {_ADVICE}") from failed
    settings = dict(re.findall(r"^\s+(java\.home|java\.specification\.version) = (\S.*)$", answer.stderr, re.MULTILINE))
    try:
        # Up to Java 8 the specification was numbered 1.8.
        version = int(settings["java.specification.version"].removeprefix("1."))
        return Java(Path(settings["java.home"].strip()), version)
    except (KeyError, ValueError) as unknown:
        output = (answer.stderr or answer.stdout).strip().splitlines() or [f"exit code {answer.returncode}"]
        raise JavaError(f"{command} does not report its version ({output[0]}); {_ADVICE}") from unknown


HADOOP_VERSION = "3.5.0"
_BOUNCY_CASTLE = "1.82"
_FETCH_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class Artifact:
    """A jar in a Maven repository, and the SHA-256 of its bytes."""

    organisation: str
    module: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The jar's name in the cache."""
        return f"{self.module}-{self.revision}.jar"

    def __str__(self) -> str:
        return f"{self.organisation}:{self.module}:{self.revision}"


PINNED = (
    Artifact(
        "org.apache.hadoop",
        "hadoop-client-minicluster",
        HADOOP_VERSION,
        "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
    ),
    Artifact(
        "org.bouncycastle",
        "bcprov-jdk18on",
        _BOUNCY_CASTLE,
        "14cde2fdfaa8890480a8e5b67aceef0c90f96682c1e23c133bafdc9e0b3255ce",
    ),
    Artifact(
        "org.bouncycastle",
        "bcpkix-jdk18on",
        _BOUNCY_CASTLE,
        "bdc723e20834832ac6af136cb5b5ff05e43b71d4fa151cc6510d9212ee086e63",
    ),
    Artifact(
        "org.bouncycastle",
        "bcutil-jdk18on",
        _BOUNCY_CASTLE,
        "4420691958ad1c0ba275a6d6d8a6317adbdbdc9277055b6a72aa89c88cda8c7d",
    ),
)

# The order matters: shaded daemons before shaded clients, logging bridges after both.
_FROM_PYSPARK = (
    "hadoop-client-api-",
    "hadoop-client-runtime-",
    "jcl-over-slf4j-",
    "slf4j-api-",
    "log4j-",
    "jakarta.",
    "leveldbjni-",
    "snappy-java-",
)

Fetch = Callable[[Artifact, Path], None]
"""Fetches an artifact's jar into a directory, as its `file_name`; raises `FetchError`."""


def cache_directory() -> Path:
    """The cache of fetched jars, shared by all clusters of the user."""
    return user_cache_path("yarn-plugin") / f"hadoop-{HADOOP_VERSION}"


def spark_jars() -> Path:
    """The directory of the jars that come with pyspark."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise FetchError(
            "pyspark, whose jars the cluster runs on, is not installed in this Python; reinstall yarn-plugin"
        )
    return Path(found.origin).parent / "jars"


def class_path(java: Java, ivy_settings: Path | None, progress: Callable[[str], None]) -> tuple[Path, ...]:
    """The jars of the daemons, in order; fetches those not cached yet. Raises `FetchError`."""
    hadoop, *others = obtain(PINNED, cache_directory(), ivy_fetcher(java, ivy_settings), progress)
    shipped = spark_jars()
    bundled = [jar for prefix in _FROM_PYSPARK for jar in sorted(shipped.glob(f"{prefix}*.jar"))]
    return (hadoop, *bundled, *others)


def obtain(
    artifacts: tuple[Artifact, ...], cache: Path, fetch: Fetch, progress: Callable[[str], None]
) -> tuple[Path, ...]:
    """The artifacts' jars in `cache`, checked against their digests; missing and damaged ones are fetched."""
    missing = [artifact for artifact in artifacts if not _is_intact(cache / artifact.file_name, artifact)]
    if missing:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / "fetch.lock"):
            for artifact in missing:
                _fetch_once(artifact, cache, fetch, progress)
    return tuple(cache / artifact.file_name for artifact in artifacts)


def _fetch_once(artifact: Artifact, cache: Path, fetch: Fetch, progress: Callable[[str], None]) -> None:
    target = cache / artifact.file_name
    if _is_intact(target, artifact):  # Another process fetched it while this one waited for the lock.
        return
    progress(f"downloading {artifact}")
    draft = cache / "fetching"
    shutil.rmtree(draft, ignore_errors=True)  # Remains of a killed fetch.
    draft.mkdir()
    try:
        fetch(artifact, draft)
        fetched = draft / artifact.file_name
        if not _is_intact(fetched, artifact):
            raise FetchError(
                f"{artifact}: the downloaded file has SHA-256 {_digest(fetched)}, not {artifact.sha256}, "
                "and was discarded; check the mirror"
            )
        fetched.replace(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _is_intact(jar: Path, artifact: Artifact) -> bool:
    return _digest(jar) == artifact.sha256


def _digest(jar: Path) -> str | None:
    try:
        with jar.open("rb") as data:
            return hashlib.file_digest(data, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def ivy_fetcher(java: Java, settings: Path | None) -> Fetch:
    """A function that fetches with pyspark's Apache Ivy, from Maven Central or as `settings` say."""
    if settings is not None and not settings.is_file():
        raise BadInputError("--ivy-settings", str(settings), "no such file")
    program = next(iter(sorted(spark_jars().glob("ivy-*.jar"))))

    def fetch(artifact: Artifact, directory: Path) -> None:
        command = [str(java.command), "-jar", str(program)]
        command += ["-settings", str(settings)] if settings else []
        # A cache of its own: Ivy's shared one may contain damaged files, and is unsafe for concurrent processes.
        command += ["-cache", str(directory / "ivy")]
        command += ["-dependency", artifact.organisation, artifact.module, artifact.revision]
        command += ["-notransitive", "-confs", "default", "-types", "jar"]
        command += ["-retrieve", str(directory / "[artifact]-[revision].[ext]")]
        _run_ivy(command, artifact)

    return fetch


def _run_ivy(command: list[str], artifact: Artifact) -> None:
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as expired:
        raise FetchError(f"cannot download {artifact}: timed out after {_FETCH_TIMEOUT_S} s; try again") from expired
    if answer.returncode != 0:
        raise FetchError(
            f"cannot download {artifact} ({ivy_error(answer.stdout + answer.stderr)}); the first start needs Maven "
            "Central, or --ivy-settings with the Ivy settings file of a mirror"
        )


def ivy_error(output: str) -> str:
    """The line of Ivy's output that names the error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for sign in ("Server access error", "Host ", "Exception", "Error", "not found"):
        for line in lines:
            if sign in line:
                return " ".join(line.strip(": ").split())
    return lines[-1] if lines else "no output from Ivy"
