"""`qoop doctor`: what is found, what follows from it, and that one line names a remedy."""

import fcntl
import json
import socket
from pathlib import Path

import pytest

from qoop.cli import cli
from qoop.doctor import facts
from qoop.doctor.findings import (
    ArbiterFacts,
    ClusterFacts,
    JavaFacts,
    MetastoreFacts,
    SparkFacts,
    arbiter,
    java,
    metastore,
    resource_manager,
    server,
    spark,
)
from qoop.engine import versions
from qoop.errors import QoopError
from qoop.submit import kept_catalogue
from qoop.submit.job import SparkFlags
from yarn_plugin import console


def of_spark(version, pyspark=None):
    numbers = versions.numbers(version)
    lacks = tuple(versions.lacking(version))
    return SparkFacts("/spark", version, pyspark or version, versions.OLDEST, versions.NEWEST, numbers, lacks)


@pytest.mark.parametrize(
    ("finding", "verdict", "remedy"),
    [
        (java(JavaFacts("java", 17)), "good", ""),
        (java(JavaFacts("java", 11)), "stops", "Spark 4 needs Java 17 or later; set JAVA_HOME to one"),
        (java(JavaFacts("java", 24)), "limited", "Spark is tested with Java 17, 21, 25; set JAVA_HOME to one of them"),
        (java(JavaFacts("java", problem="no such file")), "stops", "install Java 17 and set JAVA_HOME"),
        (spark(of_spark("4.3.0")), "good", ""),
        (spark(of_spark("4.2.1")), "limited", "a stage that a switch cancels starts anew, and one that outgrows its"),
        (spark(of_spark("4.0.5")), "limited", "a stage that a switch cancels starts anew, and one that outgrows its"),
        (spark(of_spark("3.5.9")), "stops", "qoop needs Spark 4.0 or later: unset SPARK_HOME, or upgrade"),
        (spark(of_spark("4.4.0")), "limited", "not tried yet: pip install 'pyspark<=4.3.99'"),
        (spark(of_spark("4.2.1", "4.3.0")), "limited", "pyspark is 4.3.0: pip install pyspark==4.2.1, or unset"),
        (resource_manager(ClusterFacts("local[2]")), "good", ""),
        (resource_manager(ClusterFacts("yarn")), "stops", "set HADOOP_CONF_DIR to the folder with the cluster's"),
        (resource_manager(ClusterFacts("yarn", "/c.xml", ("http://rm:8088",), "Hadoop 3.5.0, active")), "good", ""),
        (resource_manager(ClusterFacts("yarn", "/c/yarn-site.xml", problem="refused")), "stops", "check yarn.resour"),
        (arbiter(ArbiterFacts(None)), "good", "give --arbiter URL, or set YARN_ARBITER_URL, for a share"),
        (arbiter(ArbiterFacts("http://a", problem="away")), "stops", "check --arbiter and the token; "),
        (arbiter(ArbiterFacts("http://a", pools=("sql",))), "good", ""),
        (arbiter(ArbiterFacts("http://a", pools=("sql", "etl"))), "stops", "give --pool: sql or etl"),
        (arbiter(ArbiterFacts("http://a", pools=("sql",), pool="x")), "stops", "--pool 'x': no such pool; sql"),
        (arbiter(ArbiterFacts("http://a", pools=("sql",), is_enforcing=False)), "limited", "shares are not enforced"),
        (metastore(MetastoreFacts(None, has_hive=False)), "limited", "use a Spark that was built with Hive"),
        (metastore(MetastoreFacts(None)), "limited", "put the cluster's hive-site.xml into SPARK_CONF_DIR"),
        (metastore(MetastoreFacts(None, folder="/c")), "good", ""),
        (metastore(MetastoreFacts(None, folder="/c", holder="process 7")), "limited", "end that process, or what"),
        (metastore(MetastoreFacts("/h.xml")), "limited", "set hive.metastore.uris to thrift://HOST:9083"),
        (metastore(MetastoreFacts("/h.xml", (("thrift://a", ""),))), "good", ""),
        (metastore(MetastoreFacts("/h.xml", (("thrift://a", ""), ("thrift://b", "refused")))), "limited", "start the"),
        (metastore(MetastoreFacts("/h.xml", (("thrift://b", "refused"),))), "stops", "start it, or correct hive.meta"),
        (server([]), "good", ""),
        (server(["thrift"]), "limited", "pip install 'yarn-plugin[server]' to serve JDBC"),
    ],
)
def test_each_finding_names_a_remedy_unless_all_is_well(finding, verdict, remedy):
    assert finding.verdict == verdict
    assert finding.remedy.startswith(remedy)
    assert finding.found and "\n" not in f"{finding.found}{finding.remedy}"
    assert finding.remedy or verdict == "good"


SITE = "<configuration>{}</configuration>"
PROPERTY = "<property><name>{}</name><value>{}</value></property>"


def write_site(folder, name, **properties):
    (folder / name).write_text(SITE.format("".join(PROPERTY.format(*one) for one in properties.items())))


@pytest.mark.parametrize(
    ("properties", "urls"),
    [
        ({}, ["http://127.0.0.1:8088"]),
        ({"yarn.resourcemanager.hostname": "rm1"}, ["http://rm1:8088"]),
        ({"yarn.resourcemanager.webapp.address": "rm1:80"}, ["http://rm1:80"]),
        (
            {
                "yarn.resourcemanager.hostname": "rm1",
                "yarn.resourcemanager.webapp.address": "${yarn.resourcemanager.hostname}:8089",
            },
            ["http://rm1:8089"],
        ),
        ({"yarn.http.policy": "HTTPS_ONLY", "yarn.resourcemanager.hostname": "rm1"}, ["https://rm1:8090"]),
        (
            {
                "yarn.resourcemanager.ha.rm-ids": "a, b",
                "yarn.resourcemanager.hostname.a": "rm1",
                "yarn.resourcemanager.webapp.address.b": "rm2:99",
            },
            ["http://rm1:8088", "http://rm2:99"],
        ),
    ],
)
def test_the_resource_managers_are_those_of_yarn_site(properties, urls):
    assert facts.web_addresses(properties) == urls


def test_a_resource_manager_that_does_not_answer_is_named(tmp_path):
    write_site(tmp_path, "yarn-site.xml", **{"yarn.resourcemanager.webapp.address": "127.0.0.1:9"})
    found = facts.cluster(SparkFlags(["--master", "yarn"]), {"HADOOP_CONF_DIR": str(tmp_path)})
    assert "127.0.0.1:9" in found.problem
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    broken = facts.cluster(SparkFlags(["--master", "yarn"]), {"HADOOP_CONF_DIR": str(tmp_path)})
    assert broken.problem.startswith("no element found")
    (tmp_path / "yarn-site.xml").write_text("<html/>")
    page = facts.cluster(SparkFlags(["--master", "yarn"]), {"HADOOP_CONF_DIR": str(tmp_path)})
    assert page.problem == "<html>: must be <configuration>, as in files of Hadoop"


def test_metastores_are_those_of_hive_site(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        uris = f"thrift://127.0.0.1:{port},thrift://127.0.0.1:9,nowhere"
        write_site(tmp_path, "hive-site.xml", **{"hive.metastore.uris": uris})
        found = facts.metastore(SparkFlags(["--master", "yarn"]), {"HADOOP_CONF_DIR": str(tmp_path)})
    assert [problem for _, problem in found.uris] == ["", "connection refused", "must be thrift://HOST:PORT"]


def test_who_has_the_catalogue_open_is_named(tmp_path):
    flags, environment = SparkFlags(["--master", "local"]), {kept_catalogue.VARIABLE: str(tmp_path)}
    assert facts.metastore(flags, environment).holder == ""
    with (tmp_path / kept_catalogue.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("process 17")
        lock.flush()
        assert facts.metastore(flags, environment).holder == "process 17"
    assert facts.metastore(flags, environment).holder == ""


def java_that_says(folder, text):
    program = folder / "bin" / "java"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(folder)}


def test_java_is_asked_for_its_version(tmp_path):
    assert facts.java(java_that_says(tmp_path, 'openjdk version "17.0.15" 2025-04-15')).version == 17
    assert facts.java(java_that_says(tmp_path, 'java version "1.8.0_202"')).version == 8
    assert "nonsense" in facts.java(java_that_says(tmp_path, "nonsense")).problem
    assert facts.java({"JAVA_HOME": str(tmp_path / "none")}).problem == "no such file or directory"


def install(folder, version):
    """An installation of Spark, as far as its version is read off it."""
    for name in (f"jars/spark-core_2.13-{version}.jar", "bin/spark-submit"):
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return str(folder)


def test_a_spark_that_is_too_old_is_refused_before_it_is_started(tmp_path, monkeypatch, capsys):
    home = install(tmp_path / "spark", "3.5.9")
    monkeypatch.setenv("SPARK_HOME", home)
    monkeypatch.delenv("YARN_ARBITER_URL", raising=False)
    for words in (["submit", "-e", "SELECT 1"], ["run", "-e", "SELECT 1"]):
        assert console.run(cli, "qoop", words) == 1
        message = f"qoop: SPARK_HOME {home!r}: is Spark 3.5.9; qoop needs Spark 4.0 or later\n"
        assert capsys.readouterr().err == message


@pytest.mark.parametrize("version", ["3.5.9", "3.5.9-vendor.1", "2.4"])
def test_versions_are_told_apart(tmp_path, version):
    assert versions.version_in(Path(install(tmp_path, version))) == version
    with pytest.raises(QoopError, match=rf"^spark: is Spark {version}; qoop needs Spark 4.0 or later$"):
        versions.check(version, "spark")


@pytest.mark.parametrize("version", ["4.0.0", "4.0.5", "4.1.4", "4.2.1", "4.3.0", "5.0.0.dev1"])
def test_versions_from_4_on_are_taken(version):
    versions.check(version, "spark")


def test_a_folder_without_jars_has_no_version(tmp_path):
    assert versions.version_in(tmp_path) is None


def test_the_command_prints_a_line_a_check_and_fails_if_queries_cannot_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(kept_catalogue.VARIABLE, str(tmp_path))
    for name in ("YARN_ARBITER_URL", "YARN_ARBITER_TOKEN", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    written = tmp_path / "found.json"
    assert console.run(cli, "qoop", ["doctor", "--json", str(written)]) == 0
    printed = capsys.readouterr().out
    assert printed.strip().splitlines()[-1].startswith("queries can run here")
    results = json.loads(written.read_text())
    checks = [one["check"] for one in results["findings"]]
    assert checks == ["Java", "Spark", "ResourceManager", "arbiter", "metastore", "qoop server"]
    assert results["can_run"]
    assert console.run(cli, "qoop", ["doctor", "--master", "yarn", "--arbiter", "http://127.0.0.1:9"]) == 1
    assert "queries cannot run here; see the lines marked stops" in capsys.readouterr().out
