"""`qoop submit` with an arbiter: however it is stopped, it deregisters and leaves no token."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from tests.eventually import eventually
from tests.http_servers import CERTIFICATE, RawServer, answer
from tests.sampled import one_in
from yarn_plugin.api import wire

SPARK_SUBMIT = r"""#!{python}
import json, os, signal, sys, time
from pathlib import Path

def leave(number, frame):
    Path(os.environ["RECORD"] + ".stopped").write_text(str(number))
    sys.exit(9)

for number in (signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, leave)
spec = Path([word for word in sys.argv if word.endswith("job.json")][-1])
if not spec.is_absolute():
    # spark-submit takes the last of several.
    files = sys.argv[len(sys.argv) - sys.argv[::-1].index("--files")].split(",")
    spec = Path([file for file in files if file.endswith("job.json")][0])
record = {{"argv": sys.argv[1:], "job": json.loads(spec.read_text()), "folder": str(spec.parent)}}
Path(os.environ["RECORD"] + ".part").write_text(json.dumps(record))
Path(os.environ["RECORD"] + ".part").rename(os.environ["RECORD"])
time.sleep(float(os.environ.get("STAYS", "0")))
"""

AMOUNTS = {"memory-mb": 65536, "vcores": 64}
PORTION = wire.Portion(fraction=1.0, resources=AMOUNTS)
SHARE = wire.Share(
    app="app_1",
    seq=1,
    told_at=1.0,
    effective_at=1.0,
    current=0.0,
    guarantee=PORTION,
    entitlement=PORTION,
    capacity=AMOUNTS,
    apps=1,
    reason="arrived",
)
REGISTERED = wire.Registered(
    app="app_1", pool="sql", queue="root.sql.app_1", token="app.app_1.00", grace_s=30, share=SHARE
)
CLUSTER = wire.Cluster(
    manager="http://rm:8088",
    manager_error=None,
    manager_version="3.5.0",
    enforcement="",
    enforcement_error=None,
    capacity=AMOUNTS,
    least_allocation={"memory-mb": 128},
    nodes=[],
    pools=[],
    apps=1,
)


class Submission:
    """`qoop submit` on a spark-submit that writes down what it is given and stays, with an arbiter of three answers."""

    def __init__(self, folder, *answers, stays=60, hang_up=signal.SIG_DFL, tls=False, words=()):
        program = folder / "spark" / "bin" / "spark-submit"
        program.parent.mkdir(parents=True)
        program.write_text(SPARK_SUBMIT.format(python=sys.executable))
        program.chmod(0o755)
        (folder / "temp").mkdir()
        (folder / "token").write_text("user.ann.00\n")
        self.folder, self.record = folder, folder / "record"
        default = (CLUSTER.model_dump_json(), REGISTERED.model_dump_json())
        self.arbiter = RawServer(*(answers or (*map(answer, default), answer("", "204 No Content"))), tls=tls)
        environment = {
            **{name: value for name, value in os.environ.items() if name != "REQUESTS_CA_BUNDLE"},
            "SPARK_HOME": str(folder / "spark"),
            "RECORD": str(self.record),
            "STAYS": str(stays),
            "TMPDIR": str(folder / "temp"),
        }
        options = ("--arbiter", self.arbiter.url, "--token-file", str(folder / "token"), "--master", "yarn")
        command = [sys.executable, "-c", "from qoop.cli import main; main()", "submit", *options, *words]
        self.process = subprocess.Popen(
            [*command, "-e", "SELECT 1"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, hang_up),
        )

    def started(self):
        eventually(self.record.exists)
        return json.loads(self.record.read_text())

    def end(self):
        out, err = self.process.communicate(timeout=60)
        assert "Traceback" not in err
        return self.process.returncode, out, err

    def end_well(self):
        code, _, err = self.end()
        assert code == 0, err

    def asked(self):
        return [one[""].rpartition(" ")[0] for one in self.arbiter.asked]

    def close(self):
        self.process.kill()
        self.process.communicate()
        self.arbiter.close()


@pytest.fixture
def submit(tmp_path):
    made = []

    def start(*answers, **options):
        made.append(Submission(tmp_path, *answers, **options))
        return made[-1]

    yield start
    for one in made:
        one.close()


WHOLE = ["GET /v1/cluster", "POST /v1/apps", "DELETE /v1/apps/app_1"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_spark_deregisters_and_leaves_no_token(submit, number):
    one = submit()
    assert one.started()["job"]["token"] == "app.app_1.00"
    one.process.send_signal(number)
    assert one.end()[0] == 128 + number
    assert one.record.with_name("record.stopped").read_text() == str(int(signal.SIGTERM))
    assert one.asked() == WHOLE
    assert list((one.folder / "temp").iterdir()) == []


def test_under_nohup_sighup_is_ignored(submit):
    one = submit(stays=1, hang_up=signal.SIG_IGN)
    one.started()
    one.process.send_signal(signal.SIGHUP)
    one.end_well()
    assert not one.record.with_name("record.stopped").exists()
    assert one.asked() == WHOLE


@one_in(2, "number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_registration_ends_it_too(submit, number):
    ended = threading.Event()

    def never_answer():
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
        ended.wait(60)

    one = submit(never_answer(), answer("[]"))
    eventually(lambda: one.asked() == WHOLE[:1])
    one.process.send_signal(number)
    code, _, err = one.end()
    ended.set()
    assert (code, err) == (128 + number, f"qoop: stopped by {signal.Signals(number).name}\n")
    assert not one.record.exists()


@pytest.mark.parametrize("stopped", [True, False])
def test_a_signal_does_not_interrupt_deregistration(submit, stopped):
    signalled = threading.Event()

    def answer_late():
        signalled.wait(60)
        yield answer("", "204 No Content")

    one = submit(
        answer(CLUSTER.model_dump_json()),
        answer(REGISTERED.model_dump_json()),
        answer_late(),
        stays=60 if stopped else 0,
    )
    one.started()
    if stopped:
        one.process.send_signal(signal.SIGTERM)
    eventually(lambda: one.asked() == WHOLE)
    one.process.send_signal(signal.SIGTERM)
    one.process.send_signal(signal.SIGHUP)
    signalled.set()
    code, _, err = one.end()
    assert (code, "warning" in err) == (128 + signal.SIGTERM if stopped else 0, False)
    assert list((one.folder / "temp").iterdir()) == []


# Certificates.


def test_certificates_reach_the_driver_by_absolute_path(submit, tmp_path):
    one = submit(stays=0, tls=True, words=("--ca-file", os.path.relpath(CERTIFICATE)))
    one.end_well()
    assert one.started()["job"]["verify"] == str(CERTIFICATE)


def test_certificates_are_copied_to_a_driver_on_the_cluster(submit):
    needed = ("--deploy-mode", "cluster", "--output", "csv", "x", "--archives", "e.tgz", "--checkpoint", "hdfs:///x")
    one = submit(stays=0, tls=True, words=(*needed, "--files", "a.txt", "--ca-file", str(CERTIFICATE)))
    one.end_well()
    record = one.started()
    assert record["job"]["verify"] == "qoop-ca.pem"
    files = record["argv"][len(record["argv"]) - record["argv"][::-1].index("--files")].split(",")
    assert files == ["a.txt", f"{record['folder']}/job.json", f"{CERTIFICATE}#qoop-ca.pem"]


def test_an_untrusted_certificate_is_one_line(submit):
    code, _, err = submit(tls=True).end()
    assert (code, err.count("\n")) == (1, 1)
    assert "TLS: certificate verify failed: self-signed certificate" in err


# Answers and flags that do not fit.


def test_an_arbiter_without_a_share_is_one_line_and_deregistered(submit):
    bare = REGISTERED.model_copy(update={"share": None}).model_dump_json()
    one = submit(answer(CLUSTER.model_dump_json()), answer(bare), answer("", "204 No Content"))
    code, _, err = one.end()
    assert (code, err.count("\n"), "app_1" in err, "pool sql" in err) == (2, 1, True, True)
    assert one.asked() == WHOLE


@one_in(
    2,
    ("words", "said"),
    [
        (("--name", "n" * 300), "--name 'nnn"),
        (("--executor-memory", "9" * 5000 + "g"), "--executor-memory '999"),
        (("--conf", "spark.executor.memoryOverhead=x"), "spark.executor.memoryOverhead 'x': "),
    ],
)
def test_flags_that_the_arbiter_rejects_are_one_line(submit, words, said):
    one = submit(words=words)
    code, _, err = one.end()
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(f"qoop: {said}")
    assert one.asked() == WHOLE[:1]


@one_in(
    3,
    ("words", "said"),
    [
        (("--num-executors", "many"), "--num-executors 'many': "),
        (("--num-executors", "9" * 5000), "--num-executors '999"),
        (("--executor-cores", "\u0663"), "--executor-cores '\u0663': must be a whole number"),
    ],
)
def test_flags_that_are_no_numbers_are_one_line_before_the_arbiter_is_asked(submit, words, said):
    one = submit(words=words)
    code, _, err = one.end()
    assert (code, err.count("\n"), one.asked()) == (2, 1, [])
    assert err.startswith(f"qoop: {said}")


CLUSTER_MODE = (
    *("--deploy-mode", "cluster", "--output", "csv", "x", "--checkpoint", "hdfs:///q", "--archives", "env.tgz"),
    *("--name", "nightly"),
)


def test_a_query_that_goes_on_in_the_cluster_stays_registered(submit):
    one = submit(words=CLUSTER_MODE)
    one.started()
    one.process.send_signal(signal.SIGTERM)
    code, _, err = one.end()
    assert code == 128 + signal.SIGTERM
    assert "the query goes on in the cluster, if it was submitted already, as 'nightly'" in err
    assert one.asked() == WHOLE[:2]


def test_a_query_that_nobody_waits_for_stays_registered(submit):
    one = submit(words=(*CLUSTER_MODE, "--conf", "spark.yarn.submit.waitAppCompletion=false"), stays=0)
    one.end_well()
    assert one.asked() == WHOLE[:2]
