"""The commands of the product: their help, and what they print for wrong invocations."""

import contextlib
import io
import shlex
from pathlib import Path

import click
import pyarrow
import pyarrow.parquet

from qoop.cli import cli as qoop
from themis_agent.cli import cli as themis_agent
from tpcds.cli import cli as tpcds
from tpcds.demo.__main__ import demo
from yarn_plugin import console
from yarn_plugin.cli import cli as yarn_plugin

PROGRAMS = {"yarn-plugin": yarn_plugin, "qoop": qoop, "tpcds": tpcds, "tpcds.demo": demo, "themis-agent": themis_agent}

FILES = {
    "bad.toml": "pools = [",
    "unknown.toml": '[[pools]]\nname = "sql"\nqueue = "root.sql"\ncolour = 1\n',
    "negative.toml": '[[pools]]\nname = "sql"\nqueue = "root.sql"\ngrace_s = -3\n',
    "old.toml": '[[pools]]\nname = "sql"\nqueue = "root.sql"\noverstay_s = 3\n',
    "policy.toml": '[[pools]]\nname = "sql"\nqueue = "root.sql"\npolicy = "lottery"\n',
    "queues.toml": '[[queue]]\npath = "sql"\nweight = -2\n',
    "cluster.toml": "[[nodes]]\ncount = 0\n",
    "work.toml": '[[applications]]\nkind = "fancy"\n',
    "search.toml": 'name = "a b"\nmax_steps = 0\ncommand = "x {y}"\n[space]\nz = { type = "float" }\n',
    "wide.toml": 'name = "w"\nmax_steps = 1\ncommand = "x"\ngpus_per_trial = { min = 8, max = 8 }\n'
    '[space]\nz = { type = "float", low = 0, high = 1 }\n',
    "profile.csv": "1,4\n",
    "shrinking.csv": "0,4\n5,0\n",
    "not.journal": "hello\n",
    "token": "user.ann.0\n",
    "empty": "",
    "cells.toml": '[cell_types.node]\nchild = "gpu"\nnumber = 4\nis_node = true\n[[cells]]\ntype = "node"\n'
    '[virtual_clusters.prod]\ncells = [{ type = "node", number = 2 }]\n',
}

WRONG = (
    "yarn-plugin walk",
    "yarn-plugin apps --url nowhere",
    "yarn-plugin apps --arbiter nowhere --token-file token",
    "yarn-plugin apps --arbiter http://127.0.0.1:9",
    "yarn-plugin apps --arbiter http://127.0.0.1:9 --token-file token",
    "yarn-plugin apps --arbiter http://127.0.0.1:9 --token-file missing",
    "yarn-plugin apps --arbiter http://127.0.0.1:9 --token-file empty",
    "yarn-plugin why --arbiter http://127.0.0.1:9",
    "yarn-plugin token --arbiter http://127.0.0.1:9 --token-file token ann",
    "yarn-plugin cells check cells.toml",
    "yarn-plugin cells check missing.toml",
    "yarn-plugin cells check bad.toml",
    "yarn-plugin cells fit cells.toml --vc prod --gang four",
    "yarn-plugin cells replay empty",
    "yarn-plugin doctor",
    "yarn-plugin doctor --rm 127.0.0.1:8088",
    "yarn-plugin doctor --rm http://127.0.0.1:9",
    "yarn-plugin doctor --rm http://127.0.0.1:9 --config bad.toml",
    "yarn-plugin arbiter --rm http://127.0.0.1:9 --state state",
    "yarn-plugin arbiter --rm http://127.0.0.1:9 --state state --config missing.toml",
    "yarn-plugin arbiter --rm http://127.0.0.1:9 --state state --config bad.toml",
    "yarn-plugin arbiter --rm http://127.0.0.1:9 --state state --config unknown.toml",
    "yarn-plugin arbiter --rm http://127.0.0.1:9 --state state --config negative.toml",
    "yarn-plugin arbiter --rm http://127.0.0.1:9 --state state --config old.toml",
    "yarn-plugin arbiter --rm http://127.0.0.1:9 --state state --config policy.toml",
    "yarn-plugin arbiter --rm http://127.0.0.1:9 --state state --listen 8780",
    "yarn-plugin arbiter --rm http://127.0.0.1:9 --state empty",
    "yarn-plugin queues plan missing.toml --rm http://127.0.0.1:9",
    "yarn-plugin queues plan queues.toml --rm http://127.0.0.1:9",
    "yarn-plugin queues apply bad.toml --rm http://127.0.0.1:9",
    "yarn-plugin queues show --rm http://127.0.0.1:9",
    "yarn-plugin replay missing",
    "yarn-plugin replay not.journal",
    "yarn-plugin simulate --workload work.toml --cluster missing.toml",
    "yarn-plugin simulate --workload work.toml --cluster cluster.toml",
    "yarn-plugin simulate --workload missing.csv --cluster cluster.toml",
    "yarn-plugin cluster up --nodes 0 --dir cluster",
    "yarn-plugin cluster up --nodes many",
    "yarn-plugin cluster status --dir cluster",
    "yarn-plugin cluster env --dir cluster",
    "yarn-plugin cluster start rm --dir cluster",
    "qoop explain --tables tables",
    "qoop explain --tables missing -e 'SELECT 1'",
    "qoop explain --tables tables -e 'SELECT * FROM items JOIN JOIN items'",
    "qoop explain --tables tables -e 'SELECT * FROM item'",
    "qoop explain --tables tables -e 'SELECT pric FROM items'",
    "qoop explain --tables tables -e 'SELECT 1; SELECT 2'",
    "qoop explain --tables tables --shares 0 -e 'SELECT * FROM items'",
    "qoop explain --tables tables missing.sql",
    "qoop submit",
    "qoop submit --rows 0 -e 'SELECT 1'",
    "qoop submit --slots none -e 'SELECT 1'",
    "qoop submit --slots 0 -e 'SELECT 1'",
    "qoop submit --profile missing.csv -e 'SELECT 1'",
    "qoop submit --profile profile.csv --slots 4 -e 'SELECT 1'",
    "qoop submit --profile profile.csv -e 'SELECT 1'",
    "qoop submit --profile shrinking.csv -e 'SELECT 1'",
    "qoop submit --output xml out -e 'SELECT 1'",
    "qoop submit --tables missing -e 'SELECT 1'",
    "qoop submit --arbiter http://127.0.0.1:9 --token-file token --master local -e 'SELECT 1'",
    "qoop submit --arbiter http://127.0.0.1:9 --token-file token --master yarn -e 'SELECT 1'",
    "qoop submit --arbiter nowhere --token-file token --master yarn -e 'SELECT 1'",
    "qoop submit --deploy-mode cluster --master yarn -e 'SELECT 1'",
    "themis-agent validate missing.toml",
    "themis-agent validate bad.toml",
    "themis-agent validate search.toml",
    "themis-agent validate wide.toml --gpus 4",
    "themis-agent run wide.toml",
    "themis-agent run --local search.toml",
    "themis-agent run --local wide.toml --gpus 4",
    "themis-agent resume tables",
    "themis-agent status tables",
    "themis-agent best tables",
    "themis-agent logs tables trial-00000",
    "tpcds generate",
    "tpcds generate --scale tiny --out data",
    "tpcds generate --scale -1 --out data",
    "tpcds generate --scale 1 --out empty",
    "tpcds queries --queries 100",
    "tpcds queries --dialect oracle",
    "tpcds run --engine impala",
    "tpcds run --data missing",
    "tpcds run --data tables",
    "tpcds run --scale 1 --data tables",
    "tpcds run --engine qoop --conf spark.x",
    "tpcds.demo --scale tiny --out demo",
    "tpcds.demo --scale 1 --out empty",
)

WRONG_ON_SPARK = (
    "qoop submit --tables tables --slots 1 -e 'SELECT * FROM item'",
    "qoop submit --tables tables --slots 1 -e 'SELECT * FORM items'",
    "qoop submit --output csv empty -e 'SELECT 1'",
)
"""Invocations that are refused once Spark runs: half a minute each."""


def help_texts():
    """Each command: the words that call it, the command, its help."""
    for name, program in PROGRAMS.items():
        yield from _help(program, click.Context(program, info_name=name, **console.CONTEXT))


def _help(command, context):
    yield context.command_path, command, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            yield from _help(child, click.Context(child, info_name=name, parent=context, **console.CONTEXT))


def write_files():
    """The files that wrong invocations name, in the working directory."""
    for name, text in FILES.items():
        Path(name).write_text(text)
    Path("tables").mkdir()
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2], "price": [1.5, 2.5]}), "tables/items.parquet")


def run_wrong_invocations(invocations=WRONG):
    """Each wrong invocation: its words, its exit code, what it printed. Writes into the working directory."""
    write_files()
    for line in invocations:
        program, *words = shlex.split(line)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = console.run(PROGRAMS[program], program, words)
        yield line, code, printed.getvalue().replace(str(Path.cwd()), "FOLDER")
