"""What `qoop doctor` looks up: programs, files, and services that may not answer. Changes nothing."""

import getpass
import importlib.util
import re
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from qoop.doctor.findings import ArbiterFacts, ClusterFacts, JavaFacts, MetastoreFacts, SparkFacts
from qoop.engine import versions
from qoop.submit import kept_catalogue
from qoop.submit.job import SparkFlags
from qoop.submit.registration import ArbiterAccess
from yarn_plugin.api.client import ArbiterClient, ArbiterError
from yarn_plugin.errors import ReportedError, os_reason
from yarn_plugin.hadoop_files import properties_in
from yarn_plugin.observe.resource_manager import ResourceManager, addresses

JAVA_S = 20.0
"""Seconds that `java -version` may take."""

METASTORE_S = 3.0
"""Seconds until a metastore must accept a connection."""

THRIFT_PORT = 9083
"""A metastore's usual port."""

SERVER_PACKAGES = ("h11", "thrift", "TCLIService")

NOT_ENFORCED = ("feedback_only", "superseded")
"""The arbiter's words for how it enforces shares, if it does not."""

CONF_DIRS = ("YARN_CONF_DIR", "HADOOP_CONF_DIR")


def java(environment: Mapping[str, str]) -> JavaFacts:
    """The Java that Spark's scripts start."""
    home = environment.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else "java"
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=JAVA_S, check=False)
    except OSError as problem:
        return JavaFacts(program, problem=os_reason(problem))
    except subprocess.TimeoutExpired:
        return JavaFacts(program, problem=f"java -version has not ended within {JAVA_S:g} s")
    # 17.0.15, 21, and 1.8.0 for Java 8.
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    if found is None:
        return JavaFacts(program, problem=f"java -version says {(done.stderr or done.stdout).strip()[:100]!r}")
    return JavaFacts(program, int(found[1]))


def spark(environment: Mapping[str, str]) -> SparkFacts:
    """The Spark that a query would start, and the Python package."""
    installed = importlib.util.find_spec("pyspark")
    assert installed is not None and installed.origin is not None
    home = Path(environment.get("SPARK_HOME") or Path(installed.origin).parent)
    version = versions.version_in(home)
    return SparkFacts(
        str(home),
        version,
        versions.installed(),
        versions.OLDEST,
        versions.NEWEST,
        versions.numbers(version or ""),
        tuple(versions.lacking(version or "")),
    )


def cluster(flags: SparkFlags, environment: Mapping[str, str]) -> ClusterFacts:
    """The ResourceManager that yarn-site.xml names, if the master is YARN."""
    if not flags.is_yarn:
        return ClusterFacts(flags.master)
    places = (Path(folder, "yarn-site.xml") for name in CONF_DIRS if (folder := environment.get(name)))
    site = next(filter(Path.is_file, places), None)
    if site is None:
        return ClusterFacts(flags.master)
    try:
        urls = web_addresses(properties_in(site.read_bytes()))
        info = ResourceManager(addresses(",".join(urls)), getpass.getuser()).get("/info")["clusterInfo"]
    except (ReportedError, OSError, ValueError, KeyError, TypeError) as problem:
        return ClusterFacts(flags.master, str(site), problem=" ".join(str(problem).split()))
    answer = f"Hadoop {info.get('hadoopVersion', '?')}, {str(info.get('state', '?')).lower()}"
    return ClusterFacts(flags.master, str(site), tuple(urls), answer)


def web_addresses(properties: Mapping[str, str]) -> list[str]:
    """The ResourceManagers' web URLs in the properties of yarn-site.xml: one, or those of an HA pair."""
    is_https = properties.get("yarn.http.policy") == "HTTPS_ONLY"
    scheme, port, kind = ("https", 8090, "webapp.https.address") if is_https else ("http", 8088, "webapp.address")
    ids = [one.strip() for one in properties.get("yarn.resourcemanager.ha.rm-ids", "").split(",") if one.strip()]
    found = []
    for suffix in [f".{one}" for one in ids] or [""]:
        host = properties.get(f"yarn.resourcemanager.hostname{suffix}", "127.0.0.1")
        usual = f"{host}:{port}"
        given = properties.get(f"yarn.resourcemanager.{kind}{suffix}", usual)
        address = given.replace("${yarn.resourcemanager.hostname}", host)
        found.append(f"{scheme}://{address}")
    return found


def arbiter(url: str | None, access: ArbiterAccess | None, problem: ArbiterError | None = None) -> ArbiterFacts:
    """The arbiter, asked with the user's token. `problem`: why there is no access to one that was given."""
    if access is None:
        return ArbiterFacts(url, problem="" if problem is None else str(problem))
    try:
        known = ArbiterClient(access.url, access.token, access.verify).get_cluster()
    except ArbiterError as refused:
        return ArbiterFacts(access.url, access.option, problem=str(refused))
    return ArbiterFacts(
        access.url,
        access.option,
        known.enforcement,
        known.mode not in NOT_ENFORCED,
        tuple(pool.name for pool in known.pools),
        access.pool,
    )


def metastore(flags: SparkFlags, environment: Mapping[str, str]) -> MetastoreFacts:
    """Where tables are, and whether that can be reached."""
    has_hive = kept_catalogue.has_hive()
    site = kept_catalogue.hive_site(environment)
    if site is None:
        kept = kept_catalogue.folder_of(flags, environment)
        if kept is None:
            return MetastoreFacts(None, has_hive=has_hive)
        return MetastoreFacts(None, folder=str(kept), holder=kept_catalogue.holder(kept) or "", has_hive=has_hive)
    try:
        uris = properties_in(site.read_bytes()).get("hive.metastore.uris", "")
    except (OSError, ValueError) as problem:
        return MetastoreFacts(str(site), ((str(site), " ".join(str(problem).split())),), has_hive=has_hive)
    pairs = [(uri, _why_not_reached(uri)) for uri in (part.strip() for part in uris.split(",")) if uri]
    return MetastoreFacts(str(site), tuple(pairs), has_hive=has_hive)


def missing_for_server() -> list[str]:
    """The packages of `qoop server` that are not installed."""
    return [name for name in SERVER_PACKAGES if importlib.util.find_spec(name) is None]


def _why_not_reached(uri: str) -> str:
    """Why a metastore does not accept a connection; empty if it does."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port or THRIFT_PORT
    except ValueError:
        host = None
    if host is None:
        return "must be thrift://HOST:PORT"
    try:
        with socket.create_connection((host, port), METASTORE_S):
            return ""
    except TimeoutError:
        return f"no answer within {METASTORE_S:g} s"
    except OSError as problem:
        return os_reason(problem)
