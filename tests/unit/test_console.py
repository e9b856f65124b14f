"""What commands print: foreign text unchanged, complete rows in a pipe, one-line errors."""

import io
import json
import logging
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from rich.text import Text

from qoop.cli import cli as qoop
from tests.http_servers import CERTIFICATE, RawServer, answer
from tests.printed.commands import help_texts
from themis_agent.cli import cli as themis_agent
from tpcds.cli import cli as tpcds
from yarn_plugin import console
from yarn_plugin.api import wire
from yarn_plugin.cli import cli
from yarn_plugin.control_characters import escape_controls

STRANGE = ["[a]", "[/x]", "[bold]b[/bold]", ":cat:", "\\[c]", "[link=http://x]y[/link]"]


def shown(table, width=console.UNLIMITED_WIDTH, **more):
    """A table as a console of this width prints it."""
    stream = io.StringIO()
    console.PlainConsole(file=stream, width=width, highlight=False, markup=False, emoji=False, **more).print(table)
    return stream.getvalue()


def test_a_command_line_imports_what_a_command_needs_when_that_is_used():
    code = "import sys, qoop.cli, themis_agent.cli, yarn_plugin.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "optuna", "pydantic", "pyspark", "requests"} & set(loaded)


def test_commands_that_are_imported_late_are_listed_as_they_describe_themselves():
    context = click.Context(themis_agent)
    listed = re.findall(r"^  (\w+) +(.+)\.$", themis_agent.get_help(context).partition("Commands:")[2], re.MULTILINE)
    assert [name for name, _ in listed] == themis_agent.list_commands(context)
    for name, line in listed:
        described = " ".join(themis_agent.get_command(context, name).help.split())
        assert described.startswith(line), name


def test_cells_names_and_titles_are_never_markup():
    text = shown(console.table("[/t]", ["[h]", "#[/n]"], [[value, value] for value in STRANGE]))
    title, header, *lines = text.splitlines()
    assert (title.strip(), header.split()) == ("[/t]", ["[h]", "[/n]"])
    assert [line.split() for line in lines] == [[value, value] for value in STRANGE]


def test_lines_are_never_markup(capsys):
    for value in STRANGE:
        console.out.print(value)
    assert capsys.readouterr().out.splitlines() == STRANGE


def test_a_cell_with_a_style_keeps_it():
    table = console.table(None, ["a"], [[Text("good", style="green")], ["good"]])
    styled = shown(table, color_system="standard", force_terminal=True)
    assert styled.count("\x1b[32mgood") == 1


def test_no_row_is_truncated():
    row = ["x" * 5000, "word " * 3000, *map(str, range(300))]
    text = shown(console.table(None, [f"c{number}" for number in range(len(row))], [row]))
    _, line = text.splitlines()
    assert "…" not in text
    assert line.split() == " ".join(row).split()


def test_long_words_are_wrapped_on_a_narrow_terminal():
    text = shown(console.table(None, ["a", "b"], [["x" * 90, 1]]), width=40)
    assert text.count("x") == 90
    assert "…" not in text


def test_control_characters_are_escaped():
    row = ["a\nb", "\x1b[31mred", "\x9b2J", "\u2028", "\u202eabc", "\ud800", "\t", "\x00", "caf\u00e9 \u4e2d\U0001f600"]
    _, line = shown(console.table(None, ["c"] * len(row), [row])).splitlines()
    expected = ["a\\nb", "\\x1b[31mred", "\\x9b2J", "\\u2028", "\\u202eabc", "\\ud800", "\\t", "\\x00", "café", "中😀"]
    assert line.split() == expected


@click.command()
@click.option("--to", type=click.Path(path_type=Path))
@click.option("--word", default="word")
def talk(to, word):
    """Prints, or writes."""
    if to is not None:
        console.write_json(to, {})
    console.out.print(f"{word} [/x]")


def run_talk(*words):
    return console.run(talk, "talk", words)


def test_a_file_that_cannot_be_written_is_one_line(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert run_talk("--to", str(tmp_path / "file" / "figures.json")) == 1
    said = capsys.readouterr().err
    assert said.startswith("talk: ") and said.count("\n") == 1 and str(tmp_path) in said


def process(code, **more):
    """What a Python process with this module's commands at hand comes to: exit code, output, errors."""
    command = [sys.executable, "-c", f"import sys; from tests.unit.test_console import *; {code}"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    done = subprocess.run(command, text=True, timeout=60, check=False, **streams)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("code", ["sys.exit(run_talk())", "sys.exit(console.run(cli, 'yarn-plugin', ['-h']))"])
def test_a_closed_pipe_is_no_error(code):
    reader, writer = os.pipe()
    os.close(reader)
    assert process(code, stdout=writer) == (0, None, "")
    os.close(writer)


def test_output_on_a_full_disk_is_one_line():
    with Path("/dev/full").open("w") as full:
        assert process("sys.exit(run_talk())", stdout=full) == (1, None, "talk: no space left on device\n")


def test_a_terminal_without_utf_8_shows_escapes():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    code, out, _ = process("sys.exit(run_talk('--word', 'caf\\u00e9'))", env=environment)
    assert (code, out) == (0, "caf\\xe9 [/x]\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("walk", "no such command 'walk' (see yarn-plugin -h)"),
        ("doctor", "--rm: required (see yarn-plugin doctor -h)"),
        ("why", "APP: required (see yarn-plugin why -h)"),
        ("why a --limit 0", "--limit 0: must be an integer from 1 to 1,000 (see yarn-plugin why -h)"),
        ("replay a --limit x", "--limit 'x': must be an integer of at least 1 (see yarn-plugin replay -h)"),
        ("apps --ca-file /no", "--ca-file '/no': does not exist (see yarn-plugin apps -h)"),
        ("simulate --workload / --cluster x", "--workload '/': is a directory (see yarn-plugin simulate -h)"),
    ],
)
def test_a_wrong_command_line_names_the_option_and_what_would_be_right(words, expected, capsys):
    assert console.run(cli, "yarn-plugin", words.split()) == 2
    assert capsys.readouterr().err == f"yarn-plugin: {expected}\n"


def test_no_option_accepts_a_number_that_is_not_finite():
    options = [(path, option) for path, command, _ in help_texts() for option in command.params]
    accepting = click.types.FloatParamType | click.FloatRange
    assert not [
        f"{path} {option.opts[0]}"
        for path, option in options
        if isinstance(option.type, accepting) and not isinstance(option.type, console.Number)
    ]


def test_a_time_that_is_too_long_for_a_number_is_refused(capsys):
    words = ["simulate", "--cluster", os.devnull, "--workload", os.devnull, "--lease", "9" * 400]
    assert console.run(cli, "yarn-plugin", words) == 2
    assert f"--lease {'9' * 400!r}: must be a number of minutes" in capsys.readouterr().err


@pytest.mark.parametrize("program", [cli, qoop, tpcds])
def test_every_program_prints_the_version_of_the_package(program, capsys):
    assert console.run(program, "name", ["--version"]) == 0
    assert capsys.readouterr().out == f"yarn-plugin {version('yarn-plugin')}\n"


# `yarn-plugin apps`, `why` and `token`.

PORTION = wire.Portion(fraction=0.5, resources={"memory-mb": 1024})


def app(name):
    share = wire.Share(
        app="app_1",
        seq=1,
        told_at=1.0,
        effective_at=2.0,
        current=0.0,
        guarantee=PORTION,
        entitlement=PORTION,
        capacity={},
        apps=2,
        reason=f"{name} arrived",
    )
    return wire.App(
        app="app_1",
        yarn_app=None,
        name=name,
        user="ann",
        pool="sql",
        queue="root.sql.app_1",
        registered=True,
        weight=1.0,
        state="running",
        used={},
        pending={},
        containers=0,
        share=share,
    ).model_dump()


CLUSTER = wire.Cluster(
    manager="http://rm:8088",
    manager_error=None,
    manager_version="3.5.0",
    enforcement="queue weights, YARN preemption, container signals",
    enforcement_error="queue root.sql.[/x]: refused",
    capacity={},
    least_allocation={},
    nodes=[],
    pools=[],
    apps=0,
).model_dump()


@pytest.fixture
def ask(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    servers = []
    (tmp_path / "token").write_text("user.ann.00\n")

    def run(said, *words, tls=False):
        scripts = [answer(json.dumps(one)) for one in (said, CLUSTER)]
        servers.append(RawServer(*scripts, tls=tls))
        options = ("--arbiter", servers[-1].url, "--token-file", str(tmp_path / "token"))
        code = console.run(cli, "yarn-plugin", [*words, *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    yield run
    for server in servers:
        server.close()


def test_an_application_with_a_strange_name_is_listed(ask):
    names = [*STRANGE, "x" * 200, "a\nb\x1b[2J"]
    code, out, _ = ask([app(name) for name in names], "apps")
    assert code == 0
    *listed, enforced = out.splitlines()[1:]
    for name, line in zip(names, listed, strict=True):
        assert line.count(escape_controls(name)) == 2
    expected = "queue weights, YARN preemption, container signals; queue root.sql.[/x]: refused"
    assert enforced == f"enforcement: {expected}"


def test_why_quotes_the_managers_diagnostics(ask):
    decision = {"seq": 1, "at": 1.0, "cause": "c", "kind": "TellShare", "app": "app_1", "reason": "[/r]", "detail": {}}
    said = {"app": app("[/x]"), "decisions": [decision], "manager_says": ["[/y] has no room\x1b[2J"]}
    code, out, _ = ask(said, "why", "app_1")
    assert code == 0
    assert "[/r]" in out
    assert "[/y] has no room\\x1b[2J\n" in out


@pytest.mark.parametrize("words", [("apps",), ("why", "app_1"), ("token", "ann")])
def test_certificates_come_from_the_option_or_the_environment(ask, monkeypatch, tmp_path, words):
    said = {"apps": [], "why": {"app": None, "decisions": [], "manager_says": []}, "token": {"user": "a", "token": "t"}}
    code, _, err = ask(said[words[0]], *words, tls=True)
    assert (code, "TLS: certificate verify failed: self-signed certificate" in err) == (1, True)
    assert ask(said[words[0]], *words, "--ca-file", str(CERTIFICATE), tls=True)[0] == 0
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))
    assert ask(said[words[0]], *words, tls=True)[0] == 0
    assert ask(said[words[0]], *words, "--ca-file", str(tmp_path / "none"), tls=True)[0] == 2


def test_a_missing_bundle_of_the_environment_matters_only_for_https(ask, monkeypatch, tmp_path):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none"))
    assert ask([], "apps")[0] == 0
    code, _, err = ask([], "apps", tls=True)
    assert (code, err.count("\n"), str(tmp_path / "none") in err) == (1, 1, True)


@pytest.mark.parametrize("user", ["", "a\nb", "x" * 500, "[/x]"])
def test_a_user_that_can_have_no_token_is_one_line(ask, user):
    code, out, err = ask({}, "token", user)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("yarn-plugin: USER '")


def test_a_logged_text_cannot_end_its_line_or_control_a_terminal():
    record = logging.LogRecord(
        "x", logging.INFO, "", 0, "statement: %s", ("SELECT '\x1b[2J\u202e'\n2026 forged",), None
    )
    shown = console.OneLineFormatter("%(levelname)s %(message)s").format(record)
    assert shown == r"INFO statement: SELECT '\x1b[2J\u202e'\n2026 forged"
