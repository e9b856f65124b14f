"""Sixty mistakes of a newcomer, over commands and files: each is answered by one line, with the cure in it."""

import re

import pytest

from themis_agent.cli import cli as themis_agent
from yarn_plugin import console
from yarn_plugin.cli import cli as yarn_plugin

PROGRAMS = {"themis-agent": themis_agent, "yarn-plugin": yarn_plugin}

RAW = re.compile(
    r"Input tag|discriminator|pydantic|Traceback|<class|\bNone\b|\bTrue\b|\bFalse\b|\[key\]|list\[|\.str\b"
)
"""What is Python's, and says nothing to a user."""

SEARCH = """
name = "digits"
command = "python train.py --rate={rate}"
max_steps = 9
[space]
rate = { type = "float", low = 0.001, high = 1.0 }
"""
POOL = '[[pools]]\nname = "sql"\nqueue = "root.sql"\n'
NODES = "[[nodes]]\ncount = 2\nmemory_mb = 4096\nvcores = 4\n"
BATCH = '[[applications]]\nkind = "batch"\narrival_s = 0\ncore_seconds = 10\nmax_cores = 2\nmemory_mb = 1\nvcores = 1\n'
MACHINES = "[[machines]]\ncount = 2\nslots = 1\ngpus_per_slot = 1\n"

FILES = {
    "app.toml": SEARCH,
    "arbiter.toml": POOL,
    "cluster.toml": NODES,
    "workload.toml": BATCH,
    "gpus.toml": MACHINES,
    "queues.toml": '[[queue]]\npath = "root.sql"\nweight = 1\n',
    "broken.toml": "name = \n",
}

# (file: what is replaced in it by what); then the command, and what its one line says.
OF_A_SEARCH = [
    ("max_steps", "max_step", "max_step: unknown key; did you mean 'max_steps'?"),
    ('name = "digits"', "", "name: required"),
    ("max_steps = 9", "max_steps = 0", "max_steps 0: must be at least 1"),
    ("max_steps = 9", "max_steps = 9.5", "max_steps 9.5: must be an integer"),
    ('"digits"', '"my digits"', "name 'my digits': must have 1 to 64 letters, digits"),
    ('type = "float"', 'type = "uniform"', "space.rate.type 'uniform': must be 'float', 'int' or 'categorical'"),
    ('type = "float", ', "", "space.rate.type: required"),
    ("low = 0.001", "lo = 0.001", "space.rate.lo: unknown key; did you mean 'low'?"),
    ("low = 0.001", "low = 2.0", "low 2.0 and high 1.0: low must be at most high"),
    ("low = 0.001", "low = 0, log = true", "must be above 0 with log = true"),
    ("{rate}", "{rat}", "{rat} is not in [space]; it has rate"),
    ("{rate}", "{rate", "write braces that are not a parameter twice: {{ and }}"),
    ('"python train.py --rate={rate}"', "3", "command 3: must be a string or a list"),
    ('"python train.py --rate={rate}"', "[1, 2]", "command #1 1: must be a string"),
    ('"python train.py --rate={rate}"', '""', "command '': must name a program"),
    ("max_steps", 'algorithm = "hyperbnd"\nmax_steps', "algorithm 'hyperbnd': must be 'hyperband'"),
    ("max_steps", 'algorithm = "plain"\nmax_steps', "trials: required by the algorithm plain"),
    ("max_steps", "trials = 5\nmax_steps", "trials 5: Hyperband with max_steps 9 and eta 3 has 17; leave it out"),
    ("max_steps", 'direction = "up"\nmax_steps', "direction 'up': must be 'minimize' or 'maximize'"),
    ("max_steps", 'checkpoint = "s3://bucket"\nmax_steps', "give a folder as file:///PATH"),
    ("max_steps", 'loss_pattern = "loss=(.*)"\nmax_steps', "needs a group named loss, such as loss=(?P<loss>[0-9.]+)"),
    ("[space]", "[environmnt]\n[space]", "environmnt: unknown key; did you mean 'environment'?"),
    ("[space]", "[environment]\nfile = []\n[space]", "environment.file: unknown key; did you mean 'files'?"),
    ("[space]", "[gpus_per_trial]\nmin = 2\n[space]", "max must be at least min, 2"),
    ("rate = {", 'rte = { type = "int", low = 1, high = 2, when = { rat = 1 } }\nrate = {', "'rat': not in [space]"),
    ("rate = {", "rate = [", "'app.toml': not TOML: line 6, column"),
]

OF_COMMANDS = [
    ("themis-agent run app.toml", "--local: required; `themis-agent submit` runs a search on YARN"),
    ("themis-agent run --local broken.toml", "'broken.toml': not TOML: line 1, column 8"),
    ("themis-agent run --local nothing.toml", "APP.toml 'nothing.toml': does not exist"),
    ("themis-agent run --local cluster.toml", "describes a cluster, which `yarn-plugin simulate --cluster` reads"),
    ("themis-agent validate arbiter.toml", "configures an arbiter, which `yarn-plugin arbiter --config` reads"),
    ("themis-agent run --local app.toml --gpus 0", "--gpus 0: must be an integer from 1 to 4,096"),
    ("themis-agent run --locl app.toml", "no such option '--locl'; did you mean '--local'?"),
    ("themis-agent vaildate app.toml", "no such command 'vaildate'; did you mean 'validate'?"),
    ("themis-agent validate app.toml --gpus many", "--gpus 'many': must be an integer from 1 to 4,096"),
    ("themis-agent status nowhere", "DIR 'nowhere': does not exist"),
    ("themis-agent status .", "holds no search; `themis-agent run` begins one"),
    ("themis-agent best .", "holds no search; `themis-agent run` begins one"),
    ("themis-agent report .", "--out: required"),
    ("themis-agent list", "--rm: required"),
    ("themis-agent list --rm rm:8088", "must be the ResourceManager's web URL, such as http://host:8088"),
    ("themis-agent list --rm http://127.0.0.1:1", "no connection (connection refused); is it running there?"),
    ("themis-agent submit app.toml --rm http://127.0.0.1:1", "--token-file: required, or set YARN_ARBITER_TOKEN"),
    ("themis-agent stop digits", "was not submitted from here; give its folder, or --kill and --rm URL"),
    ("themis-agent stop application_1_1 --kill", "--rm: required with --kill"),
    ("themis-agent stop . --kill --for-good", "--for-good: not with --kill, after which a search can be resumed"),
    ("themis-agent resume .", "holds no search; `themis-agent run` begins one"),
    ("yarn-plugin simulat", "no such command 'simulat'; did you mean 'simulate'?"),
    ("yarn-plugin cluster upp", "no such command 'upp'; did you mean 'up'?"),
    ("yarn-plugin cluster up --node 3", "no such option '--node'; did you mean '--nodes'?"),
    ("yarn-plugin cluster up --nodes 0", "--nodes 0: must be from 1 to 250"),
    ("yarn-plugin simulate --cluster cluster.toml", "--workload: required"),
    (
        "yarn-plugin simulate --cluster cluster.toml --workload nothing.toml",
        "'nothing.toml': no such file or directory",
    ),
    (
        "yarn-plugin simulate --cluster cluster.toml --workload workload.toml --policy lottery",
        "choose one of capacity",
    ),
    ("yarn-plugin arbiter --config arbiter.toml", "--rm: required"),
    ("yarn-plugin doctor --rm localhost", "must be the ResourceManager's web URL, such as http://host:8088"),
    ("yarn-plugin apps", "--token-file: required, or set YARN_ARBITER_TOKEN"),
    ("yarn-plugin replay nothing", "must be the file `journal` in an arbiter's --state directory"),
    ("yarn-plugin figures themiss", "no such command 'themiss'; did you mean 'themis'?"),
]

OF_FILES = [
    ("arbiter.toml", "queue", "quue", "pools.sql.quue: unknown key; did you mean 'queue'?"),
    ("arbiter.toml", "[[pools]]", "[[pool]]", "pool: unknown key; did you mean 'pools'?"),
    ("cluster.toml", "vcores", "vcore", "nodes #1.vcore: unknown key; did you mean 'vcores'?"),
    ("cluster.toml", "count = 2", "count = -2", "nodes #1.count -2: must be at least 1"),
    ("workload.toml", "batch", "bath", "kind 'bath': choose one of batch, qoop"),
    ("workload.toml", "core_seconds", "core_second", "core_second: unknown key; did you mean 'core_seconds'?"),
    ("queues.toml", "weight", "wieght", "wieght 1: unknown setting; did you mean 'weight'?"),
    ("queues.toml", "root.sql", "sql", "path 'sql': must be a path from the root, such as root.sql"),
    ("gpus.toml", "gpus_per_slot", "gpus_per_slots", "machines #1.gpus_per_slots: unknown key; did you mean"),
]

READ_BY = {
    "arbiter.toml": "yarn-plugin arbiter --rm http://127.0.0.1:1 --config arbiter.toml --state state",
    "cluster.toml": "yarn-plugin simulate --cluster cluster.toml --workload workload.toml",
    "workload.toml": "yarn-plugin simulate --cluster cluster.toml --workload workload.toml",
    "queues.toml": "yarn-plugin queues plan queues.toml --rm http://127.0.0.1:1",
    "gpus.toml": "yarn-plugin simulate --cluster gpus.toml --workload apps.toml",
}
APPS = '[[apps]]\nname = "a"\n[[apps.jobs]]\niterations = 10\niteration_s = 1\n'


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    for name, content in {**FILES, "apps.toml": APPS}.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    for name in ("YARN_ARBITER_TOKEN", "YARN_ARBITER_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def answer(line, capsys):
    program, *words = line.split()
    assert console.run(PROGRAMS[program], program, words) in (1, 2)
    said = capsys.readouterr()
    assert said.out == ""
    (refusal,) = said.err.splitlines()
    assert refusal.startswith(f"{program}: ")
    assert not RAW.search(refusal), refusal
    return refusal


def replaced(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(("old", "new", "cure"), OF_A_SEARCH, ids=[new for _, new, _ in OF_A_SEARCH])
def test_a_wrong_search(directory, capsys, old, new, cure):
    replaced(directory / "app.toml", old, new)
    # The other problems that follow from some mistakes are in the same line.
    assert cure in answer("themis-agent run --local app.toml", capsys)


@pytest.mark.parametrize(("line", "cure"), OF_COMMANDS, ids=[line for line, _ in OF_COMMANDS])
def test_a_wrong_command(capsys, line, cure):
    assert cure in answer(line, capsys)


@pytest.mark.parametrize(
    ("name", "old", "new", "cure"), OF_FILES, ids=[f"{name} {new}" for name, _, new, _ in OF_FILES]
)
def test_a_wrong_file(directory, capsys, name, old, new, cure):
    replaced(directory / name, old, new)
    assert cure in answer(READ_BY[name], capsys)


def test_they_are_sixty_at_least():
    assert len(OF_A_SEARCH) + len(OF_COMMANDS) + len(OF_FILES) >= 60


def test_validate_prints_a_problem_a_line(directory, capsys):
    (directory / "app.toml").write_text('command = "python {x}"\nmax_step = 3\n[space]\nrate = { type = "uniform" }\n')
    assert console.run(themis_agent, "themis-agent", ["validate", "app.toml"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "themis-agent: 'app.toml': name: required",
        "themis-agent: 'app.toml': max_steps: required",
        "themis-agent: 'app.toml': space.rate.type 'uniform': must be 'float', 'int' or 'categorical'",
        "themis-agent: 'app.toml': max_step: unknown key; did you mean 'max_steps'?",
        "themis-agent: 'app.toml': command 'python {x}': {x} is not in [space]; it has rate",
    ]
