"""The files that the agent needs on nodes: its own packages, what they depend on, and jars of Hadoop's clients.

They are copies of what is installed here, for the same version of Python; nothing on a node refers to this machine.
"""

import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from yarn_plugin.errors import ReportedError

Files = dict[str, Path]
"""Local files by their names in an archive."""

OUR_PACKAGES = ("themis_agent", "yarn_plugin")

DISTRIBUTIONS = (
    "click",
    "fastapi",
    "filelock",
    "markupsafe",
    "numpy",
    "optuna",
    "packaging",
    "platformdirs",
    "prometheus-client",
    "psutil",
    "py4j",
    "pydantic",
    "requests",
    "rich",
    "urllib3",
    "uvicorn",
)
"""What our packages import on a node; Spark, Arrow and SQL's parser are not among it."""

HADOOP_JARS = ("hadoop-client-api-", "hadoop-client-runtime-", "jcl-over-slf4j-", "slf4j-api-", "log4j-")
"""Beginnings of names, in the order of the class path: the shaded clients before the logging bridges."""

_OMITTED = re.compile(r"(^|/)(__pycache__|tests?)/|\.(pyc|pyi|pxd|h|a)$")
"""Of a distribution: what nothing imports at run time."""


class NotInstalledError(ReportedError):
    """Something that nodes need is not installed here in a way that it can be copied."""


def interpreter() -> str:
    """The default interpreter on nodes: of this version, found there through PATH."""
    return "python{}.{}".format(*sys.version_info)


def own_code() -> Files:
    """The files of our packages."""
    found: Files = {}
    for package in OUR_PACKAGES:
        folder = _folder_of(package)
        inside = {f"{package}/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*")}
        found |= {name: path for name, path in inside.items() if path.is_file() and not _OMITTED.search(name)}
    return found


def dependencies(also: Iterable[str] = ()) -> Files:
    """The files of the installed distributions that our packages need on nodes. `also`: more distributions.

    Raises:
        NotInstalledError: one is not installed, or without a list of its files.
    """
    found: Files = {}
    for distribution in closure((*DISTRIBUTIONS, *also)):
        found |= _files_of(distribution)
    return found


def closure(names: Iterable[str]) -> Iterator[Distribution]:
    """These installed distributions and all that they require, without extras.

    Raises:
        NotInstalledError: one is not installed.
    """
    known: set[str] = set()
    waiting = list(names)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in known:
            continue
        known.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except PackageNotFoundError:
            raise NotInstalledError(f"{name}, which nodes need, is not installed in this Python") from None
        yield distribution
        needs = map(Requirement, distribution.requires or ())
        waiting += [one.name for one in needs if one.marker is None or one.marker.evaluate({"extra": ""})]


def hadoop_jars() -> Files:
    """Hadoop's clients and py4j, as pyspark has them, in the order of the class path.

    Raises:
        NotInstalledError: pyspark is not installed.
    """
    folder = _folder_of("pyspark") / "jars"
    found = [jar for start in (*HADOOP_JARS, "py4j-") for jar in sorted(folder.glob(f"{start}*.jar"))]
    if not found:
        raise NotInstalledError(f"{folder}: has no jars of Hadoop's clients; give --class-path, of the nodes")
    return {jar.name: jar for jar in found}


def py4j_jar() -> Files:
    """py4j's jar alone.

    Raises:
        NotInstalledError: it is not installed.
    """
    files = importlib.metadata.distribution("py4j").files or ()
    found = [Path(str(one.locate())).resolve() for one in files if one.name.endswith(".jar")]
    if not found:
        raise NotInstalledError("py4j is installed without its jar; install it with pip")
    return {jar.name: jar for jar in found}


def drivers(storage: str | None) -> list[str]:
    """The distributions with the database driver of an Optuna storage's URL, if it is one of SQLAlchemy's.

    Raises:
        NotInstalledError: the driver is not installed.
    """
    if storage is None:
        return []
    try:
        url = make_url(storage)
    except ArgumentError:
        return []
    try:
        module = url.get_dialect().import_dbapi().__name__
    except (ImportError, NoSuchModuleError) as problem:
        shown = url.render_as_string(hide_password=True)
        raise NotInstalledError(f"storage {shown!r}: its driver is not installed: {problem}") from None
    return importlib.metadata.packages_distributions().get(module.partition(".")[0], [])


def _files_of(distribution: Distribution) -> Files:
    if distribution.files is None:
        raise NotInstalledError(f"{distribution.name} is installed without a list of its files; install it with pip")
    names = [PurePosixPath(str(file)) for file in distribution.files]
    kept = [one for one in names if ".." not in one.parts and not one.is_absolute() and not _OMITTED.search(str(one))]
    located = {str(one): Path(str(distribution.locate_file(str(one)))) for one in kept}
    found = {name: path for name, path in located.items() if path.is_file()}
    if not any(name.endswith((".py", ".so")) for name in found):
        raise NotInstalledError(f"{distribution.name} is installed in development mode; install a copy with pip")
    return found


def _folder_of(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise NotInstalledError(f"{package}, which nodes need, is not installed in this Python")
    return Path(found.origin).parent
