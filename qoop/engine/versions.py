"""Which versions of Spark this works with, and what each lacks."""

import importlib.metadata
import re
from pathlib import Path

from qoop.errors import QoopError

OLDEST = (4, 0)
"""The first with the classes that are used here."""

NEWEST = (4, 3)
"""The newest that was tried, and the one that all tests run with."""

LACKS = {
    (4, 3): "a stage that a switch cancels starts anew, and one that outgrows its estimate is noticed late",
    (4, 1): "Iceberg tables are read as written, and rows that INSERT stores are not counted",
}
"""What a Spark lacks that is older than these."""


def installed() -> str:
    """The version of the Python package, which is not imported for it."""
    return importlib.metadata.version("pyspark")


def numbers(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, such as (4, 3); fewer if it has none."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def check(version: str, where: str) -> None:
    """Check that Spark is not too old.

    Args:
        where: what has this version, as an error names it.

    Raises:
        QoopError: it is.
    """
    if numbers(version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise QoopError(f"{where}: is Spark {version}; qoop needs Spark {oldest} or later")


def lacking(version: str) -> list[str]:
    """What a version lacks, in words."""
    return [what for since, what in LACKS.items() if numbers(version) < since]


def version_in(home: Path) -> str | None:
    """The version of an installation of Spark, by its jars; None if there is none."""
    names = [jar.stem for jar in (home / "jars").glob("spark-core_*.jar")]
    return names[0].partition("-core_")[2].partition("-")[2] if names else None
