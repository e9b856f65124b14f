"""The persistent catalogue of this machine: tables that one command creates are there for the next.

It is a metastore of Hive's in an embedded Derby database, which one process at a time can open. While another has it,
a process works with a copy: it sees the tables, and what it creates in it ends with it.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from qoop.submit.job import SparkFlags
from yarn_plugin.errors import BadInputError, os_reason

VARIABLE = "QOOP_CATALOGUE"
"""The environment variable with another folder for the catalogue; none, if it is empty."""

IMPLEMENTATION = "spark.sql.catalogImplementation"
WAREHOUSE = "spark.sql.warehouse.dir"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
METASTORE = "metastore"
LOCK = "in-use"

COPY_S = 120.0
"""Seconds after which making the copy is given up."""

AS_COPY = """\
UPDATE TBLS SET TBL_TYPE = 'EXTERNAL_TABLE' WHERE TBL_TYPE = 'MANAGED_TABLE';
DELETE FROM TABLE_PARAMS WHERE PARAM_KEY = 'EXTERNAL';
INSERT INTO TABLE_PARAMS (TBL_ID, PARAM_KEY, PARAM_VALUE) SELECT TBL_ID, 'EXTERNAL', 'TRUE' FROM TBLS
  WHERE TBL_TYPE = 'EXTERNAL_TABLE';
UPDATE DBS SET DB_LOCATION_URI = '{warehouse}/' || NAME || '.db';
"""
"""In a copy tables are external, so that DROP TABLE leaves the files, and new ones are stored elsewhere."""


@contextmanager
def kept_catalogue(
    flags: SparkFlags,
    environment: Mapping[str, str],
    warn: Callable[[str], None],
    creates: bool = True,
) -> Iterator[dict[str, str]]:
    """Within this context the catalogue is this process's. The properties with which Spark opens it.

    The user's own comes first: a metastore that hive-site.xml names, or what spark.sql.catalogImplementation says. On a
    cluster there is no other.

    Args:
        creates: make it if there is none yet.

    Raises:
        BadInputError: the catalogue's folder cannot be used.
    """
    if flags.conf(IMPLEMENTATION) is not None or not has_hive():
        yield {}
    elif hive_site(environment) is not None:
        yield {IMPLEMENTATION: "hive"}
    elif (folder := folder_of(flags, environment)) is not None and (creates or (folder / METASTORE).exists()):
        with _opened(folder, warn) as (metastore, warehouse):
            yield _properties(flags, metastore, warehouse)
    else:
        yield {}


def exists(flags: SparkFlags, environment: Mapping[str, str]) -> bool:
    """Whether the catalogue was made already."""
    folder = folder_of(flags, environment)
    return folder is not None and (folder / METASTORE).exists()


def hive_site(environment: Mapping[str, str]) -> Path | None:
    """The hive-site.xml that Spark will find; None if there is none."""
    home = environment.get("SPARK_HOME")
    named = [environment.get(name) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")]
    places = (Path(one, "hive-site.xml") for one in (*named, home and f"{home}/conf") if one)
    return next(filter(Path.is_file, places), None)


def holder(folder: Path) -> str | None:
    """Which process has a catalogue open; None if nobody has."""
    try:
        with (folder / LOCK).open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock.read().strip() or "another process"
    except OSError:
        # It was not made yet.
        return None
    return None


def _jars(pattern: str) -> list[Path]:
    from qoop.engine.session import spark_home

    return sorted(Path(spark_home(), "jars").glob(pattern))


def has_hive() -> bool:
    """Whether this Spark was built with Hive's classes."""
    return bool(_jars("spark-hive_*.jar") and _jars("derby-*.jar"))


def folder_of(flags: SparkFlags, environment: Mapping[str, str]) -> Path | None:
    """The folder of the catalogue; None if there is none."""
    given = environment.get(VARIABLE)
    if not flags.master.startswith("local"):
        return None
    if given is None:
        return Path(platformdirs.user_data_dir("qoop"), "catalogue")
    return Path(given).absolute() if given else None


def _properties(flags: SparkFlags, metastore: Path, warehouse: Path) -> dict[str, str]:
    properties = {
        IMPLEMENTATION: "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={metastore};create=true",
        "spark.hadoop.hive.exec.scratchdir": str(metastore.with_name("scratch")),
    }
    if flags.conf(WAREHOUSE) is None:
        properties[WAREHOUSE] = warehouse.as_uri()
    if flags.value("--driver-java-options") is None:
        # Derby's log would be in the working directory.
        log = f"-Dderby.stream.error.file={metastore.with_name('derby.log')}"
        properties[JAVA_OPTIONS] = " ".join(filter(None, (flags.conf(JAVA_OPTIONS), log)))
    return properties


@contextmanager
def _opened(folder: Path, warn: Callable[[str], None]) -> Iterator[tuple[Path, Path]]:
    """The metastore and the warehouse of a catalogue that nobody else has, or of a copy."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("a+")
    except OSError as problem:
        raise BadInputError(
            VARIABLE, str(folder), f"{os_reason(problem)}; must be a folder that you can write to, or empty for none"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            with _copied(folder, lock.read().strip(), warn) as copy:
                yield copy
            return
        lock.truncate(0)
        lock.write(f"process {os.getpid()}")
        lock.flush()
        yield folder / METASTORE, folder / "warehouse"


@contextmanager
def _copied(folder: Path, holder: str, warn: Callable[[str], None]) -> Iterator[tuple[Path, Path]]:
    """A copy of a catalogue that another process has."""
    with tempfile.TemporaryDirectory(prefix="qoop-catalogue-") as place:
        metastore, warehouse = Path(place, METASTORE), Path(place, "warehouse")
        in_use = f"catalogue {str(folder)!r}: is in use by {holder or 'another process'}"
        if _copy(folder / METASTORE, metastore, warehouse):
            warn(f"{in_use}; its tables can be read and filled, but what is created or dropped here is not kept")
        else:
            shutil.rmtree(metastore, ignore_errors=True)
            warn(f"{in_use}, and cannot be copied now; its tables are missing here, and what is created is not kept")
        yield metastore, warehouse


def _copy(metastore: Path, copy: Path, warehouse: Path) -> bool:
    """Copy a metastore that is in use: Derby opens it as after a crash. Whether that went well."""
    try:
        shutil.copytree(metastore, copy, ignore=shutil.ignore_patterns("*.lck", "tmp"))
    except (OSError, shutil.Error):
        return False
    uri = warehouse.as_uri().replace("'", "''")
    return _run_in_derby(copy, AS_COPY.format(warehouse=uri).split(";\n")[:-1])


def _run_in_derby(metastore: Path, statements: Sequence[str]) -> bool:
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
    classes = os.pathsep.join(map(str, _jars("derby*.jar")))
    script = ";\n".join((f"CONNECT 'jdbc:derby:{metastore}'", *statements, "EXIT")) + ";\n"
    log = f"-Dderby.stream.error.file={metastore.with_name('derby.log')}"
    try:
        done = subprocess.run(
            [java, "-cp", classes, log, "org.apache.derby.tools.ij"],
            input=script,
            capture_output=True,
            text=True,
            timeout=COPY_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and "ERROR" not in done.stdout
