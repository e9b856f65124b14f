"""Mistakes of a newcomer with queries, clusters, pools, cells and traces: one line each, and nothing is started."""

import re
import shlex
import socket
import subprocess

import pyspark.java_gateway
import pytest

from qoop.cli import cli as qoop
from tpcds.cli import cli as tpcds
from yarn_plugin import console
from yarn_plugin.cli import cli as yarn_plugin

PROGRAMS = {"qoop": qoop, "tpcds": tpcds, "yarn-plugin": yarn_plugin}

RAW = re.compile(r"Input should|pydantic|Traceback|<class|\bNone\b|\(\(|\[key\]")
"""What is Python's, and says nothing to a user."""

CELLS = """
[cell_types.rack]
child = "node"
number = 2
[cell_types.node]
child = "gpu"
number = 4
is_node = true
[[cells]]
type = "rack"
nodes = ["n1", "n2"]
[virtual_clusters.prod]
cells = [{ type = "node", number = 1 }]
[chain_order]
gpu = ["rack"]
"""
POOL = '[[pools]]\nname = "sql"\nqueue = "root.sql"\npolicy = "fair"\n'
GANGS = """[[pools]]
name = "gpu"
queue = "root.gpu"
resources = ["yarn.io/gpu"]
controller = "ledger"
parameters = { allocator = "cells", grace_s = 30, settings = { cells = "cells.toml", default_cluster = "prod" } }
"""
LEASES = """[[pools]]
name = "gpu"
queue = "root.gpu"
resources = ["yarn.io/gpu"]
controller = "lease"
parameters = { lease_s = 60 }
"""
TRACE = "timestamp,duration,num_gpus,cluster\n2017-10-03 10:00:00,3600,1,vc1\n"

FILES = {
    "cells.toml": CELLS,
    "pool.toml": POOL,
    "gangs.toml": GANGS,
    "leases.toml": LEASES,
    "trace.csv": TRACE,
    "gpus.toml": "[[machines]]\ncount = 2\nslots = 1\ngpus_per_slot = 1\n",
    "nodes.toml": "[[nodes]]\ncount = 2\nmemory_mb = 4096\nvcores = 4\n",
    "work.toml": '[[applications]]\nkind = "batch"\ncore_seconds = 10\nmax_cores = 2\n',
    "queues.toml": '[[queue]]\npath = "root.sql"\nweight = 1\n',
    "q.sql": "select 1",
    "two.sql": "select 1; select 2",
    "typo.sql": "-- a query\nselct a from t",
    "empty.sql": "",
    "share.csv": "0,4\n30,2\n",
    "semicolons.csv": "0;4\n",
    "negative.csv": "0,-4\n",
    "empty.csv": "",
    "empty.toml": "",
    "token": "abc\n",
    "empty.json": "{}",
}
BINARY = bytes(range(256))

QUERIES = [
    ("qoop submt q.sql", "no such command 'submt'; did you mean 'submit'?"),
    ("qoop submit", "QUERY.sql: required"),
    ("qoop submit nothing.sql", "query 'nothing.sql': no such file or directory"),
    ("qoop submit folder", "query 'folder': is a directory"),
    ("qoop submit binary", "query 'binary': not valid UTF-8"),
    ("qoop submit empty.sql", "query 'empty.sql': the text is empty"),
    ("qoop submit two.sql", "query: 2 statements; must be exactly one; `qoop run` runs scripts"),
    ("qoop submit typo.sql", "the first word 'selct': begins no statement; did you mean 'SELECT'?"),
    ("qoop submit q.sql q.sql", "argument 'q.sql': only the last argument is a file"),
    ("qoop submit -e 'select 1' q.sql", "QUERY.sql, -e: give only one"),
    ("qoop submit --tables nothing q.sql", "--tables 'nothing': no such directory"),
    ("qoop submit --tables folder -e 'select * from t'", "--tables 'folder': has no tables"),
    (
        "qoop submit --tabels folder q.sql",
        "--tabels: no such option of qoop or of spark-submit; did you mean '--tables'?",
    ),
    ("qoop submit --slots nan q.sql", "--slots nan: must be a finite number"),
    ("qoop submit --slots 4x q.sql", "--slots '4x': must be a number above 0"),
    ("qoop submit --timeout 10m q.sql", "--timeout '10m': must be a number above 0"),
    ("qoop submit --hysteresis 15% q.sql", "--hysteresis '15%': must be a number from 0 to 1"),
    ("qoop submit --plan alwys q.sql", "--plan 'alwys': choose one of always, auto, never; did you mean 'always'?"),
    ("qoop submit --output parqet out q.sql", "--output 'parqet': must be parquet or csv"),
    ("qoop submit --profile semicolons.csv q.sql", "line 1: '0;4': must be SECONDS,SLOTS, such as 30,2"),
    ("qoop submit --profile negative.csv q.sql", "line 1: slots '-4': must be above 0"),
    ("qoop submit --profile empty.csv q.sql", "the first line must set the slots at 0 seconds, such as 0,4"),
    ("qoop submit --profile share.csv --slots 3 q.sql", "--profile, --slots: give only one"),
    ("qoop submit --master lcal q.sql", "--master 'lcal': must be local[N], yarn"),
    ("qoop submit --master local[0] q.sql", "--master 'local[0]': must be local[N], yarn"),
    ("qoop submit --num-executors two q.sql", "--num-executors 'two': must be a whole number, at least 0"),
    ("qoop submit --executor-cores 0 q.sql", "--executor-cores '0': must be a whole number, at least 1"),
    ("qoop submit --executor-memory 2x q.sql", "--executor-memory '2x': must be a memory size such as 512m or 2g"),
    ("qoop submit --conf spark.qoop.maxStored=lots q.sql", "must be a size, such as 50g"),
    ("qoop submit --conf spark.qoop.pln=never q.sql", "qoop has no such property; did you mean 'spark.qoop.plan'?"),
    ("qoop submit --journal folder q.sql", "--journal 'folder': is a directory; choose a file"),
    ("qoop submit --master yarn --arbiter rm:8780 --token-file token q.sql", "--arbiter 'rm:8780': must be a URL"),
    ("qoop submit --master yarn --arbiter http://h --token-file nothing q.sql", "--token-file 'nothing': no such file"),
    (
        "qoop submit --master yarn --arbiter http://h --token-file binary q.sql",
        "--token-file 'binary': contains no token",
    ),
    ("qoop submit --master yarn --arbiter http://h q.sql", "--token-file: required, or set YARN_ARBITER_TOKEN"),
    ("qoop explain q.sql --tables folder --shares 1,two", "--shares '1,two': must be numbers of slots above 0"),
    ("qoop status --al", "no such option '--al'; did you mean '--all'?"),
    ("qoop run nothing.sql", "script 'nothing.sql': no such file or directory"),
    ("qoop run q.sql q.sql", "argument 'q.sql': only the last argument is a file"),
    ("qoop run --dialect hiv q.sql", "--dialect 'hiv': choose one of hive, spark; did you mean 'hive'?"),
    ("qoop run --hivevar x q.sql", "--hivevar 'x': must be NAME=VALUE"),
    ("qoop shell q.sql", "argument 'q.sql': must be left out; this command takes no file"),
    ("qoop shell -i nothing", "script 'nothing': no such file or directory"),
    ("qoop server q.sql", "argument 'q.sql': must be left out"),
    ("qoop server --listen 127.0.0.1", "--listen '127.0.0.1': must be HOST:PORT"),
    ("qoop server --listen 127.0.0.1:{busy}", "address already in use; choose another port"),
    ("qoop server --idle-timeout nan", "--idle-timeout nan: must be a finite number"),
    ("qoop server --result-memory 2g", "--result-memory '2g': must be an integer from 1 to"),
]

BENCHMARKS = [
    ("tpcds genrate", "no such command 'genrate'; did you mean 'generate'?"),
    ("tpcds generate --scale 1GB --out d", "--scale '1GB': must be a number from 0.001 to 100,000"),
    ("tpcds queries --queries 100", "--queries '100': must be numbers from 1 to 99"),
    ("tpcds run --engine spak", "--engine 'spak': choose one of duckdb, qoop, spark; did you mean 'spark'?"),
    ("tpcds run --data nothing", "--data 'nothing': no such directory; create it with `tpcds generate --out`"),
    ("tpcds run --data folder --scale 1", "--scale '1': cannot be combined with --data"),
]

OPERATIONS = [
    ("yarn-plugin apps --arbiter rm:8780 --token-file token", "--arbiter 'rm:8780': must be a URL"),
    ("yarn-plugin apps --token-file folder", "--token-file 'folder': is a directory"),
    ("yarn-plugin replay binary", "journal 'binary': not a journal; must be the file `journal`"),
    ("yarn-plugin cells check cells.toml --gang 1x4", "--vc: required; give --vc and --gang, or neither"),
    ("yarn-plugin cells check cells.toml --vc prod", "--gang: required; give --vc and --gang, or neither"),
    (
        "yarn-plugin cells check cells.toml --vc prd --gang 1x4",
        "virtual cluster 'prd': must be one of prod; did you mean",
    ),
    ("yarn-plugin cells check cells.toml --vc prod --gang 0x4", "pods '0x4': must be at least one pod"),
    ("yarn-plugin cells fit cells.toml --vc prod --gang 1x4 --grace nan", "--grace nan: must be a finite number"),
    ("yarn-plugin cells check empty.json", "physicalCluster: required; virtualClusters: required"),
    (
        "yarn-plugin simulate --cluster nodes.toml --workload work.toml --policy fiar",
        "policy 'fiar': not installed; choose one of capacity, fair, fifo, max_min, max_min_users; did you mean",
    ),
    ("yarn-plugin simulate --cluster gpus.toml --workload trace.csv --policy themi", "did you mean 'themis'?"),
    (
        "yarn-plugin simulate --cluster gpus.toml --workload trace.csv --error nan",
        "--error nan: must be a finite number",
    ),
    ("yarn-plugin simulate --cluster gpus.toml --workload trace.csv --lease 10x", "--lease '10x': must be a number of"),
]

ARBITER = "yarn-plugin arbiter --rm http://127.0.0.1:1 --listen 127.0.0.1:0 --state state --config "
SIMULATION = "yarn-plugin simulate --cluster gpus.toml --workload trace.csv"

# (the command, which file, what is replaced in it by what, and what the one line says)
EDITED = [
    (ARBITER + "pool.toml", '"fair"', '"fiar"', "pools.sql.policy 'fiar': choose one of capacity, fair, fifo"),
    (ARBITER + "pool.toml", "policy", "polcy", "pools.sql.polcy: unknown key; did you mean 'policy'?"),
    (ARBITER + "gangs.toml", '"cells",', '"cels",', "themis; did you mean 'cells'?"),
    (ARBITER + "gangs.toml", 'allocator = "cells", ', "", "allocator: required; choose one of allox, cells"),
    (ARBITER + "gangs.toml", "grace_s", "grce_s", "unknown key; did you mean 'grace_s'?"),
    (ARBITER + "gangs.toml", "default_cluster", "defalt_cluster", "unknown key; did you mean 'default_cluster'?"),
    (ARBITER + "leases.toml", "lease_s", "leas_s", "unknown key; did you mean 'lease_s'?"),
    (ARBITER + "leases.toml", "lease_s = 60", 'lease_s = "60s"', "lease_s '60s': must be a number"),
    (ARBITER + "leases.toml", "60", '60, policy = "tiresia"', "did you mean 'tiresias'?"),
    ("yarn-plugin cells check cells.toml", 'type = "rack"', 'type = "rak"', "must be one of rack, node; did you mean"),
    (
        "yarn-plugin cells check cells.toml",
        '{ type = "node"',
        '{ type = "nod"',
        "rack, node, gpu; did you mean 'node'?",
    ),
    (SIMULATION, "num_gpus", "gpus", "column kind: required for applications; jobs of a training trace have"),
    (SIMULATION, "2017-10-03 10:00:00", "yesterday", "'yesterday': must be a date and time, such as 2017-10-03"),
    (SIMULATION, ",3600,", ",-3600,", "rows #1.duration '-3600': must be above 0"),
    (SIMULATION, ",1,", ",1.5,", "rows #1.num_gpus '1.5': must be an integer"),
]


class NothingStarts(subprocess.Popen):
    def __init__(self, command, *args, **options):
        raise AssertionError(f"started {command}")


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "binary").write_bytes(BINARY)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("YARN_ARBITER_TOKEN", "YARN_ARBITER_URL", "HADOOP_CONF_DIR", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    for module in (subprocess, pyspark.java_gateway):
        monkeypatch.setattr(module, "Popen", NothingStarts)
    return tmp_path


@pytest.fixture(scope="module")
def busy():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def answer(line, capsys, code=2):
    program, *words = shlex.split(line)
    assert console.run(PROGRAMS[program], program, words) == code
    said = capsys.readouterr()
    assert said.out == ""
    (refusal,) = said.err.splitlines()
    assert refusal.startswith(f"{program}: ")
    assert not RAW.search(refusal), refusal
    return refusal


@pytest.mark.parametrize(("line", "cure"), [pytest.param(*row, id=row[0]) for row in QUERIES + BENCHMARKS + OPERATIONS])
def test_a_wrong_command(capsys, busy, line, cure):
    assert cure in answer(line.format(busy=busy), capsys)


@pytest.mark.parametrize(("line", "old", "new", "cure"), [pytest.param(*row, id=row[0] + row[2]) for row in EDITED])
def test_a_wrong_file(directory, capsys, line, old, new, cure):
    path = directory / line.split()[-1]
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert cure in answer(line, capsys)


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ("--state token --listen 127.0.0.1:0", "--state 'token': must be a directory, not a file"),
        ("--state state --listen 127.0.0.1:{busy}", "address already in use; choose another port"),
    ],
)
def test_what_may_be_over_when_systemd_restarts_the_arbiter_has_another_exit_code(capsys, busy, words, cure):
    line = f"yarn-plugin arbiter --rm http://127.0.0.1:1 {words}"
    assert cure in answer(line.format(busy=busy), capsys, code=1)


def test_they_are_eighty_at_least():
    assert len(QUERIES) + len(BENCHMARKS) + len(OPERATIONS) + len(EDITED) >= 80
