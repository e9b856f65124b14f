"""Options of `qoop submit`: ours, Spark's, and what is rejected before Spark is started."""

import json
import re
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from qoop.cli import cli
from qoop.run.query_status import read_statuses
from qoop.submit import command, job
from yarn_plugin import console

RECORDER = r"""#!{python}
import json, os, sys
from pathlib import Path
spec = [word for word in sys.argv if word.endswith("job.json")]
record = {{"argv": sys.argv[1:], "job": json.loads(Path(spec[0]).read_text())}}
Path(os.environ["RECORD"]).write_text(json.dumps(record))
with Path(spec[0]).with_name("messages").open("w") as messages:
    messages.write("a message for the user: caf\u00e9\n" * 3000)
print("a row")
sys.exit(7)
"""


@pytest.fixture
def spark_home(tmp_path, monkeypatch):
    """A spark-submit that writes down what it is given, and ends with 7."""
    program = tmp_path / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(RECORDER.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("RECORD", str(tmp_path / "record.json"))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def submit(*words):
    return console.run(cli, "qoop", ["submit", *words])


def recorded(folder):
    return json.loads((folder / "record.json").read_text())


PASSED_ON = [
    "--master",
    "local[2]",
    "--driver-java-options",
    "-Dexample.host=1 -Xss4m",
    "--conf",
    "spark.executor.extraJavaOptions=-Dhello=-e",
    "-Dexec=here",
    "-verbose:gc",
    "--verbose",
    "--total-executor-cores=3",
    "-c",
    "spark.x=y=z",
    "--jars",
    "a.jar,b.jar",
]


def test_other_flags_are_passed_on_unchanged_and_in_order(spark_home):
    assert submit("--name", "n", *PASSED_ON, "--slots=3", "-e", "-- a comment\nSELECT 1") == 7
    record = recorded(spark_home)
    assert record["argv"][: len(PASSED_ON)] == PASSED_ON
    assert record["argv"][-2].endswith("driver.py")
    assert (record["job"]["name"], record["job"]["slots"]) == ("n", 3.0)
    assert record["job"]["text"] == "-- a comment\nSELECT 1"


def test_our_flags_may_be_anywhere_and_the_query_is_the_last_argument(spark_home):
    query = spark_home / "query.sql"
    query.write_text("SELECT 1;\n")
    (spark_home / "visits.csv").write_text("id\n1\n")
    assert submit("--tables", str(spark_home), *PASSED_ON, "--output", "csv", "out", str(query)) == 7
    record = recorded(spark_home)
    assert record["argv"][: len(PASSED_ON)] == PASSED_ON
    assert record["job"]["output"] == {"format": "csv", "path": "out"}
    assert (record["job"]["text"], record["job"]["name"]) == ("SELECT 1", "SELECT 1")


def test_a_query_file_may_begin_with_a_byte_order_mark(spark_home):
    query = spark_home / "query.sql"
    query.write_bytes(b"\xef\xbb\xbfSELECT 1")
    assert submit(str(query)) == 7
    assert recorded(spark_home)["job"]["text"] == "SELECT 1"


def test_what_the_user_sets_is_not_overridden(spark_home):
    assert submit("--conf", "spark.log.level=INFO", "--conf=spark.scheduler.mode=FIFO", "-e", "SELECT 1") == 7
    argv = recorded(spark_home)["argv"]
    assert [word for word in argv if word.startswith(("spark.log.level", "spark.scheduler"))] == [
        "spark.log.level=INFO"
    ]
    assert "--conf=spark.scheduler.mode=FIFO" in argv


def test_messages_of_the_driver_are_separate_from_rows(spark_home, capfd):
    submit("-e", "SELECT 1")
    shown = capfd.readouterr()
    assert shown.out == "a row\n"
    assert shown.err == "a message for the user: café\n" * 3000


def test_the_job_file_is_removed(spark_home):
    submit("-e", "SELECT 1")
    (spec,) = [word for word in recorded(spark_home)["argv"] if word.endswith("job.json")]
    assert subprocess.run(["ls", spec], capture_output=True).returncode != 0


@pytest.mark.parametrize(("words", "kind"), [((), "table"), (("--format", "csv"), "csv"), (("--format=json",), "json")])
def test_the_row_format_reaches_the_driver(spark_home, words, kind):
    submit(*words, "-e", "SELECT 1")
    assert recorded(spark_home)["job"]["format"] == kind


CLUSTER = ("--master", "yarn", "--deploy-mode", "cluster")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "qoop: QUERY.sql: required; "),
        (("--master", "local"), "qoop: query 'local': no such file or directory"),
        (("-e", "  "), "qoop: query '-e': "),
        (("-e",), "qoop: option '-e' requires an argument"),
        (("--output", "xml", "x", "-e", "q"), "qoop: --output 'xml': "),
        (
            ("--tables", "/no/such", "-e", "q"),
            "qoop: --tables '/no/such': ",
        ),
        (
            ("--rows", "0", "-e", "q"),
            "qoop: --rows 0: must be an integer from 1 to 1,000,000,000 (see qoop submit -h)",
        ),
        (
            ("--hysteresis", "a", "-e", "q"),
            "qoop: --hysteresis 'a': must be a number from 0 to 1 (see qoop submit -h)",
        ),
        (("--profile", "/no/such", "-e", "q"), "qoop: --profile '/no/such': no such file or directory"),
        (
            ("--format", "csv", "--output", "csv", "x", "-e", "q"),
            "qoop: --format, --output: give only one",
        ),
        (("--weight", "nan", "-e", "q"), "qoop: --weight nan: "),
        (("--hysteresis", "nan", "-e", "q"), "qoop: --hysteresis nan: "),
        (("-e", "SELECT '\udcff'"), "qoop: query '-e': "),
        (("--slots", "inf", "-e", "q"), "qoop: --slots inf: "),
        (("--timeout", "1e12", "-e", "q"), "qoop: --timeout 1000000000000.0: must be a number above 0 and at most "),
        (("--timeout", "inf", "-e", "q"), "qoop: --timeout inf: must be a number above 0 and at most 1,000,000,000 "),
        (("--timeout", "nan", "-e", "q"), "qoop: --timeout nan: must be a finite number"),
        (("--checkpoint", "", "-e", "q"), "qoop: --checkpoint '': must be a URL, "),
        (("--name", "\udcff", "-e", "q"), r"qoop: --name '\udcff': must be UTF-8"),
        (("--output", "csv", "\udcff", "-e", "q"), r"qoop: --output '\udcff': must be UTF-8"),
        (("--report", "\udcff", "-e", "q"), r"qoop: --report '\udcff': must be UTF-8"),
        (
            ("--profile", "x", "--slots", "1", "-e", "q"),
            "qoop: --profile, --slots: give only one",
        ),
        (
            (*CLUSTER, "-e", "q"),
            "qoop: --deploy-mode cluster: also give --output FORMAT PATH, --checkpoint URL, --archives FILE ",
        ),
        (
            (*CLUSTER, "--output", "csv", "x", "--conf=spark.x=1", "--archives", "env.tgz", "-e", "q"),
            "qoop: --deploy-mode cluster: also give --checkpoint URL",
        ),
        (
            ("--arbiter", "http://127.0.0.1:9", "--master", "local", "-e", "q"),
            "qoop: --arbiter: ",
        ),
        (
            ("--arbiter", "http://127.0.0.1:9", "--master", "yarn", "--queue", "root.x", "-e", "q"),
            "qoop: --queue: ",
        ),
        (
            ("--arbiter", "http://127.0.0.1:9", "--master", "yarn", "-e", "q"),
            "qoop: arbiter http://127.0.0.1:9: connection refused",
        ),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_started(spark_home, monkeypatch, capsys, words, said):
    monkeypatch.setenv("YARN_ARBITER_TOKEN", "x")
    assert submit(*words) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(said)
    assert not (spark_home / "record.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--slots", "2"), "--arbiter (from YARN_ARBITER_URL) and --slots: give only one; unset the variable to "),
        ((), "--token-file: required, "),
        (("--token-file", "token"), "--arbiter (from YARN_ARBITER_URL): needs --master yarn; "),
    ],
)
def test_an_arbiter_from_the_environment_is_named_in_errors(spark_home, monkeypatch, capsys, words, message):
    monkeypatch.chdir(spark_home)
    Path("token").write_text("x")
    monkeypatch.setenv("YARN_ARBITER_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("YARN_ARBITER_TOKEN", raising=False)
    assert submit(*words, "-e", "q") in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"qoop: {message}") and ("unset" in line or "--master" in line)
    assert not (spark_home / "record.json").exists()


@pytest.mark.parametrize(
    "words", [("submit", "-e", "q"), ("run", "-e", "q"), ("shell",), ("server",)], ids=lambda words: words[0]
)
def test_only_one_option_sets_the_share_and_the_error_names_where_it_came_from(spark_home, monkeypatch, capsys, words):
    Path("profile").write_text("0,4")
    monkeypatch.setenv("YARN_ARBITER_TOKEN", "x")
    monkeypatch.delenv("YARN_ARBITER_URL", raising=False)
    arbiter, profile = ("--arbiter", "http://127.0.0.1:9"), ("--profile", "profile")
    assert console.run(cli, "qoop", [*words, *arbiter, *profile]) == 2
    expected = "qoop: --arbiter, --profile: give only one; each of them sets the share\n"
    assert capsys.readouterr().err == expected
    monkeypatch.setenv("YARN_ARBITER_URL", "http://127.0.0.1:9")
    assert console.run(cli, "qoop", [*words, *profile]) == 2
    advice = "give only one; unset the variable to run without the arbiter"
    assert capsys.readouterr().err == f"qoop: --arbiter (from YARN_ARBITER_URL) and --profile: {advice}\n"


@pytest.mark.parametrize("command", ["submit", "explain"])
def test_tables_must_be_local(capsys, command):
    assert console.run(cli, "qoop", [command, "--tables", "hdfs:///x", "-e", "SELECT 1"]) in (1, 2)
    assert capsys.readouterr().err.startswith("qoop: --tables 'hdfs:///x': must be a local directory; ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,4", "0 seconds"),
        ("0,4\n5,0", "line 2: slots '0': "),
        ("0,4\n5,many", "line 2: '5,many': "),
        ("0,nan", "line 1: '0,nan': "),
        ("0,4\n5,2\n5,3", "line 3: time '5': "),
    ],
)
def test_a_malformed_profile(spark_home, capsys, text, said):
    profile = spark_home / "profile.csv"
    profile.write_text(text)
    assert submit("--profile", str(profile), "-e", "SELECT 1") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"qoop: --profile '{profile}'") and said in line


def test_a_spark_home_without_a_spark(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert submit("-e", "SELECT 1") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"qoop: SPARK_HOME '{tmp_path}': has no bin/spark-submit; ")


def test_what_an_arbiter_says_does_not_reach_the_terminal_raw(capsys):
    command._print("\x1b[31mred")
    assert capsys.readouterr().err == "qoop: \\x1b[31mred\n"


def test_no_module_beside_the_driver_shadows_the_standard_library():
    modules = {file.stem for file in Path(job.__file__).parent.glob("*.py")}
    assert "driver" in modules
    assert modules.isdisjoint(sys.stdlib_module_names)


def test_help_explains_itself(capsys):
    for words in ((), ("submit",), ("explain",)):
        assert console.run(cli, "qoop", [*words, "-h"]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("Usage: qoop")
    assert console.run(cli, "qoop", ["submit", "-h"]) == 0
    # Click also wraps lines at hyphens.
    shown = " ".join(capsys.readouterr().out.split()).replace("- ", "-")
    for needed in ("qoop submit --master 'local[4]' --tables DIR QUERY.sql", "passed to spark-submit unchanged"):
        assert needed in shown


def test_a_query_in_the_cluster_has_its_name_there_and_a_status_here(spark_home, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(platformdirs, "user_state_dir", lambda name: str(tmp_path / name))
    words = (
        *CLUSTER,
        "--output",
        "csv",
        "x",
        "--checkpoint",
        "hdfs:///q",
        "--archives",
        "env.tgz",
        "--name",
        "nightly",
    )
    submit(*words, "-e", "SELECT 1")
    argv = recorded(spark_home)["argv"]
    assert argv[argv.index("--name") + 1] == "nightly"
    assert [(one.name, one.state, one.error) for one in read_statuses()] == [
        ("nightly", "failed", "spark-submit ended with exit code 7")
    ]
    capsys.readouterr()
    assert console.run(cli, "qoop", ["status"]) == 0
    assert re.search(r"^nightly .* failed +- +in the cluster ", capsys.readouterr().out, re.MULTILINE)


def test_a_file_beside_e_is_refused(spark_home, capsys):
    for words in (("q.sql",), ("--master", "local", "q.sql"), ("--conf=a=b", "q.sql")):
        assert submit("-e", "SELECT 1", *words) == 2
        assert capsys.readouterr().err.startswith("qoop: QUERY.sql, -e: give only one")
    assert submit("-e", "SELECT 1", "--master", "local") == 7
