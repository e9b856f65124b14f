"""Which catalogue a command opens: the user's metastore, the one that lasts on this machine, a copy of it, or none."""

import subprocess
import sys

import pytest

from qoop.submit import kept_catalogue as module
from qoop.submit.job import SparkFlags
from qoop.submit.kept_catalogue import kept_catalogue
from yarn_plugin.errors import BadInputError

HIVE = "spark.sql.catalogImplementation"
URL = "spark.hadoop.javax.jdo.option.ConnectionURL"
LOCAL = SparkFlags(["--master", "local[2]"])


def opened(flags, environment, warned, **more):
    with kept_catalogue(flags, environment, warned.append, **more) as properties:
        return properties


def test_on_this_machine_it_lasts_in_the_folder_that_the_variable_names(tmp_path):
    warned = []
    properties = opened(LOCAL, {"QOOP_CATALOGUE": str(tmp_path)}, warned)
    assert properties[HIVE] == "hive"
    assert properties[URL] == f"jdbc:derby:;databaseName={tmp_path}/metastore;create=true"
    assert properties["spark.sql.warehouse.dir"] == (tmp_path / "warehouse").as_uri()
    assert f"-Dderby.stream.error.file={tmp_path}/derby.log" in properties["spark.driver.extraJavaOptions"]
    assert not warned


def test_what_the_user_has_set_stays(tmp_path):
    conf = ["--conf", "spark.sql.warehouse.dir=file:/w", "--conf", "spark.driver.extraJavaOptions=-Xss4m"]
    properties = opened(SparkFlags(["--master", "local", *conf]), {"QOOP_CATALOGUE": str(tmp_path)}, [])
    assert "spark.sql.warehouse.dir" not in properties
    assert properties["spark.driver.extraJavaOptions"].startswith("-Xss4m -Dderby")


@pytest.mark.parametrize(
    ("flags", "environment"),
    [
        (SparkFlags(["--master", "yarn"]), {}),
        (SparkFlags(["--master", "local", "--conf", f"{HIVE}=in-memory"]), {}),
        (LOCAL, {"QOOP_CATALOGUE": ""}),
    ],
)
def test_on_a_cluster_and_where_it_is_not_wanted_there_is_none(flags, environment):
    assert opened(flags, environment, []) == {}


def test_the_metastore_that_hive_site_names_comes_first(tmp_path):
    (tmp_path / "hive-site.xml").write_text("<configuration/>")
    for flags in (LOCAL, SparkFlags(["--master", "yarn"])):
        assert opened(flags, {"SPARK_CONF_DIR": str(tmp_path)}, []) == {HIVE: "hive"}


def test_a_query_opens_only_one_that_exists(tmp_path):
    environment = {"QOOP_CATALOGUE": str(tmp_path)}
    assert opened(LOCAL, environment, [], creates=False) == {}
    (tmp_path / "metastore").mkdir()
    assert opened(LOCAL, environment, [], creates=False)[HIVE] == "hive"


HOLD = """
import sys, time
from qoop.submit.job import SparkFlags
from qoop.submit.kept_catalogue import kept_catalogue
with kept_catalogue(SparkFlags(["--master", "local"]), {"QOOP_CATALOGUE": sys.argv[1]}, print):
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(("copies", "said"), [(True, "its tables can be read"), (False, "cannot be copied now")])
def test_while_another_process_has_it_a_copy_is_opened_and_one_line_says_so(tmp_path, monkeypatch, copies, said):
    monkeypatch.setattr(module, "_copy", lambda metastore, copy, warehouse: copies)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], text=True, **pipes) as holder:
        assert holder.stdout.readline() == "open\n"
        warned = []
        properties = opened(LOCAL, {"QOOP_CATALOGUE": str(tmp_path)}, warned)
        assert str(tmp_path) not in properties[URL]
        assert len(warned) == 1 and said in warned[0]
        assert f"is in use by process {holder.pid}" in warned[0]
        holder.kill()
    warned = []
    # A process that was killed has it no more.
    assert str(tmp_path) in opened(LOCAL, {"QOOP_CATALOGUE": str(tmp_path)}, warned)[URL]
    assert not warned


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match=r"QOOP_CATALOGUE .*must be a folder that you can write to, or empty"):
        opened(LOCAL, {"QOOP_CATALOGUE": str(tmp_path / "file")}, [])
