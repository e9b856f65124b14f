"""What is typed in the shell, until it is a statement; and the options of qoop run and qoop shell."""

import pytest

from qoop.cli import cli
from qoop.scripts.runner import ScriptEndedError, ScriptFailedError
from qoop.scripts.shell import Completion, read_statements
from yarn_plugin import console


class Runner:
    """Records statements: `fail` fails, `wait` is interrupted, `exit` ends."""

    def __init__(self):
        self.run, self.cancelled = [], 0

    def run_statement(self, statement, where):
        self.run.append(statement.text)
        if statement.text == "fail":
            raise ScriptFailedError(f"{where}: it has failed")
        if statement.text == "wait":
            raise KeyboardInterrupt
        if statement.text == "exit":
            raise ScriptEndedError

    def cancel(self):
        self.cancelled += 1


def typed(*lines):
    """Type these lines: the statements that were run, and the prompts."""
    runner, prompts, left = Runner(), [], list(lines)

    def ask(prompt):
        prompts.append(prompt.strip())
        if not left:
            raise EOFError
        if left[0] is KeyboardInterrupt:
            raise left.pop(0)
        return left.pop(0)

    read_statements(runner, ask)
    return runner, prompts


def test_a_statement_may_have_several_lines_and_a_line_several_statements():
    runner, prompts = typed("SELECT 1,", "", "2; SELECT 3;", "SELECT ';'", ";")
    assert runner.run == ["SELECT 1,\n2", "SELECT 3", "SELECT ';'"]
    assert prompts == ["qoop>", ">", ">", "qoop>", ">", "qoop>"]


def test_ctrl_c_drops_what_was_typed_and_cancels_what_runs(capsys):
    runner, _ = typed("SELECT 1", KeyboardInterrupt, "wait; SELECT 2;", "SELECT 3;")
    assert (runner.run, runner.cancelled) == (["wait", "SELECT 3"], 1)


def test_after_a_failure_the_rest_of_the_line_is_not_run():
    assert typed("fail; SELECT 1;", "SELECT 2;")[0].run == ["fail", "SELECT 2"]


def test_exit_and_commands_need_no_semicolon():
    assert typed("!ls")[0].run == ["!ls"]
    with pytest.raises(ScriptEndedError):
        typed("exit")


class Tables(Completion):
    def __init__(self):
        super().__init__(None)

    def _tables(self):
        return ["sales", "stores"]

    def _columns(self, table):
        return {"sales": ["store", "qty"]}.get(table, [])


@pytest.mark.parametrize(
    ("begun", "line", "expected"),
    [
        ("sal", "SELECT * FROM sal", ["sales"]),
        ("st", "SELECT a FROM sales WHERE st", ["statistics", "store", "stores"]),
        ("SELE", "SELE", ["SELECT"]),
        ("q", "SELECT 1 WHERE q", []),
    ],
)
def test_words_tables_and_columns_are_completed(begun, line, expected):
    assert Tables()(begun, line) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "SCRIPT: required; give it as the last argument, or statements with -e 'SELECT ...'"),
        (["run", "-e", "SELECT 1", "x.sql"], "-e, x.sql: give only one; each of them is the script"),
        (["run", "-f", "y.sql", "x.sql"], "-f y.sql, x.sql: give only one script"),
        (["run", "missing.sql"], "script 'missing.sql': no such file or directory"),
        (["run", "-i", "missing.sql", "-e", "SELECT 1"], "script 'missing.sql': no such file or directory"),
        (["run", "-e", "SELECT 1", "--hivevar", "x"], "--hivevar 'x': must be NAME=VALUE"),
        (["run", "-e", "SELECT 1", "--tables", "/nowhere"], "--tables '/nowhere': no such directory"),
        (["run", "--deploy-mode", "cluster", "-e", "SELECT 1"], "--deploy-mode cluster: cannot be given"),
        (["shell", "--deploy-mode", "cluster"], "--deploy-mode cluster: cannot be given"),
        (["shell", "--hiveconf", "=1"], "--hiveconf '=1': must be NAME=VALUE"),
    ],
)
def test_wrong_options_are_refused_in_one_line_before_spark_is_started(words, message, capsys, monkeypatch):
    monkeypatch.delenv("YARN_ARBITER_URL", raising=False)
    assert console.run(cli, "qoop", words) in (1, 2)
    printed = capsys.readouterr().err
    assert printed.startswith(f"qoop: {message}")
    assert printed.count("\n") == 1
