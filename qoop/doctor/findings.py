"""The findings of `qoop doctor`: what was found, whether queries can run with it, and a remedy. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from yarn_plugin.checks import Verdict

JAVA = (17, 21, 25)
"""The versions of Java that Spark 4 runs on: the first, and those that it is tested with."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check.

    `verdict`: `stops` if queries cannot run, `limited` if they run with less. `remedy`: empty if nothing is to be done.
    """

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class JavaFacts:
    """The Java that Spark starts: `version` is None if it cannot be run, and `problem` says why."""

    program: str
    version: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """The Spark that is started. `pyspark`: the version of the Python package. `lacks`: what this version lacks."""

    home: str
    version: str | None
    pyspark: str
    oldest: tuple[int, ...]
    newest: tuple[int, ...]
    numbers: tuple[int, ...]
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The ResourceManager, if the master is YARN. `site`: its yarn-site.xml; `answer`: what it says of itself."""

    master: str
    site: str | None = None
    addresses: tuple[str, ...] = ()
    answer: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ArbiterFacts:
    """The arbiter. `url`: None if there is none. `mode`: how shares are enforced, in words."""

    url: str | None
    option: str = "--arbiter"
    mode: str = ""
    is_enforcing: bool = True
    pools: tuple[str, ...] = ()
    pool: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MetastoreFacts:
    """Where tables are: `site`, the hive-site.xml; `uris`, of the metastore in it, with what was wrong with each."""

    site: str | None
    uris: tuple[tuple[str, str], ...] = ()
    folder: str | None = None
    holder: str = ""
    has_hive: bool = True


def can_run(findings: Sequence[Finding]) -> bool:
    """Whether queries can run at all."""
    return all(finding.verdict != "stops" for finding in findings)


def java(facts: JavaFacts) -> Finding:
    """Java: Spark needs one of its versions."""
    oldest = JAVA[0]
    if facts.version is None:
        return Finding("Java", "stops", f"{facts.program}: {facts.problem}", f"install Java {oldest} and set JAVA_HOME")
    found = f"{facts.version} ({facts.program})"
    if facts.version < oldest:
        return Finding("Java", "stops", found, f"Spark 4 needs Java {oldest} or later; set JAVA_HOME to one")
    if facts.version not in JAVA:
        tested = ", ".join(map(str, JAVA))
        return Finding("Java", "limited", found, f"Spark is tested with Java {tested}; set JAVA_HOME to one of them")
    return Finding("Java", "good", found)


def spark(facts: SparkFacts) -> Finding:
    """Spark: its version, and that the Python package is of the same."""
    if facts.version is None:
        return Finding("Spark", "stops", f"{facts.home}: no Spark", "unset SPARK_HOME, or set it to Spark 4")
    installed, newest = f"{facts.version} ({facts.home})", ".".join(map(str, facts.newest))
    if facts.numbers < facts.oldest:
        oldest = ".".join(map(str, facts.oldest))
        return Finding("Spark", "stops", installed, f"qoop needs Spark {oldest} or later: unset SPARK_HOME, or upgrade")
    if facts.version != facts.pyspark:
        remedy = f"pyspark is {facts.pyspark}: pip install pyspark=={facts.version}, or unset SPARK_HOME"
        return Finding("Spark", "limited", installed, remedy)
    if facts.numbers > facts.newest:
        return Finding("Spark", "limited", installed, f"not tried yet: pip install 'pyspark<={newest}.99'")
    if facts.lacks:
        return Finding("Spark", "limited", installed, f"{'; '.join(facts.lacks)}: upgrade to Spark {newest}")
    return Finding("Spark", "good", installed)


def resource_manager(facts: ClusterFacts) -> Finding:
    """The ResourceManager of the cluster: that it is named, and answers."""
    name = "ResourceManager"
    if facts.master != "yarn":
        return Finding(name, "good", f"not needed: --master {facts.master}")
    if facts.site is None:
        remedy = "set HADOOP_CONF_DIR to the folder with the cluster's yarn-site.xml"
        return Finding(name, "stops", "no yarn-site.xml in HADOOP_CONF_DIR or YARN_CONF_DIR", remedy)
    where = ", ".join(facts.addresses) or facts.site
    if facts.problem:
        remedy = f"check yarn.resourcemanager.webapp.address in {facts.site}, and the network"
        return Finding(name, "stops", f"{where}: {facts.problem}", remedy)
    return Finding(name, "good", f"{facts.answer} at {where}")


def arbiter(facts: ArbiterFacts) -> Finding:
    """The arbiter: that it answers, accepts the token, has the pool, and can enforce shares."""
    if facts.url is None:
        remedy = "give --arbiter URL, or set YARN_ARBITER_URL, for a share of the cluster"
        return Finding("arbiter", "good", "none: the share is fixed", remedy)
    if facts.problem:
        remedy = f"check {facts.option} and the token; `yarn-plugin apps` uses the same"
        return Finding("arbiter", "stops", facts.problem, remedy)
    found = f"{facts.url}, {facts.mode}, pools {', '.join(facts.pools)}"
    if facts.pool is None and len(facts.pools) > 1:
        return Finding("arbiter", "stops", found, f"give --pool: {' or '.join(facts.pools)}")
    if facts.pool is not None and facts.pool not in facts.pools:
        return Finding("arbiter", "stops", found, f"--pool {facts.pool!r}: no such pool; {' or '.join(facts.pools)}")
    if not facts.is_enforcing:
        return Finding("arbiter", "limited", found, "shares are not enforced: see `yarn-plugin doctor --rm URL`")
    return Finding("arbiter", "good", found)


def metastore(facts: MetastoreFacts) -> Finding:
    """The metastore that hive-site.xml names, or the persistent catalogue of this machine."""
    if not facts.has_hive:
        remedy = "use a Spark that was built with Hive, or --tables DIR"
        return Finding("metastore", "limited", "this Spark has no Hive, so tables end with the application", remedy)
    if facts.site is not None:
        return _of_hive_site(facts, facts.site)
    if facts.folder is None:
        found = "no hive-site.xml: a catalogue in memory, which ends with the application"
        return Finding("metastore", "limited", found, "put the cluster's hive-site.xml into SPARK_CONF_DIR")
    if facts.holder:
        found = f"the catalogue in {facts.folder} is in use by {facts.holder}"
        return Finding("metastore", "limited", found, "end that process, or what you create is not kept")
    return Finding("metastore", "good", f"no hive-site.xml: the catalogue in {facts.folder}")


def _of_hive_site(facts: MetastoreFacts, site: str) -> Finding:
    if not facts.uris:
        found = f"{site} names no hive.metastore.uris: an embedded database, which one process at a time can open"
        return Finding("metastore", "limited", found, "set hive.metastore.uris to thrift://HOST:9083")
    reached = [uri for uri, problem in facts.uris if not problem]
    away = "; ".join(f"{uri}: {problem}" for uri, problem in facts.uris if problem)
    if not reached:
        return Finding("metastore", "stops", away, f"start it, or correct hive.metastore.uris in {site}")
    if away:
        return Finding("metastore", "limited", f"{', '.join(reached)} answers; {away}", "start the other one")
    return Finding("metastore", "good", ", ".join(reached))


def server(missing: Sequence[str]) -> Finding:
    """The packages that `qoop server` needs."""
    if missing:
        return Finding(
            "qoop server", "limited", f"{', '.join(missing)} missing", "pip install 'yarn-plugin[server]' to serve JDBC"
        )
    return Finding("qoop server", "good", "its packages are installed")
