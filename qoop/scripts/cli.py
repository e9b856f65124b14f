"""The commands `qoop run` and `qoop shell`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from qoop.submit.words import (
    PassThroughCommand,
    arbiter_access,
    arbiter_options,
    check_one_share,
    ends_with_file,
)
from yarn_plugin import console
from yarn_plugin.errors import BadInputError

if TYPE_CHECKING:
    from qoop.scripts.command import ScriptSettings

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS = (
    click.option("-i", "init", multiple=True, metavar="FILE", help="Run the statements of FILE first."),
    click.option("-S", "--silent", is_flag=True, help="Print rows and errors only."),
    click.option("-v", "--verbose", is_flag=True, help="Print each statement on stdout before it is run."),
    click.option(
        "--hiveconf",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of the session. hive.cli.print.header=true prints column names; with "
        "hive.cli.errors.ignore=true the statements after one that has failed are run, too.",
    ),
    click.option(
        "-d", "--define", "--hivevar", "hivevar", multiple=True, metavar="NAME=VALUE", help="A variable, as ${NAME}."
    ),
    click.option("--database", metavar="NAME", help="The database to begin in."),
    click.option(
        "--dialect",
        type=click.Choice(["spark", "hive"]),
        default="spark",
        help="hive: casts, divisions and overflows as in Hive, LIMIT a, b, and for what Spark lacks, what to write "
        "instead (docs/scripts.md).  [default: spark]",
    ),
    click.option("--name", metavar="NAME", help="Name of the application."),
    click.option(
        "--tables",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Local directory of tables, which are shown as temporary views; see qoop submit -h.",
    ),
    arbiter_options("once for all statements, for a share of the cluster; needs --master yarn"),
    click.option(
        "--profile",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Without an arbiter: a file with the share over time, from the start; see qoop submit -h.",
    ),
    click.option(
        "--plan",
        type=click.Choice(["auto", "always", "never"]),
        help="Which queries are planned; see qoop submit -h.  [default: auto]",
    ),
)
"""What both commands take besides spark-submit's flags."""


def _with_options(command: Command) -> Command:
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.command(cls=PassThroughCommand, takes_file=True, context_settings=console.CONTEXT)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[SPARK-SUBMIT FLAGS] (SCRIPT | -e SQL)")
@click.option("-f", "file", metavar="SCRIPT", help="The script, instead of the last argument.")
@click.option("-e", "text", metavar="SQL", help="Statements, instead of a script.")
@_with_options
def run(rest: tuple[str, ...], file: str | None, text: str | None, **given: Any) -> int:
    """Run the statements of a script, with replanning, as spark-sql would.

    \b
    On this machine:  qoop run --master 'local[4]' SCRIPT.sql
    On YARN:          qoop run --master yarn --arbiter http://127.0.0.1:8780 SCRIPT.hql

    It takes spark-sql's options and prints what spark-sql prints: rows on stdout, their values separated by tabs.
    Plans, switches, and how each statement was run, are on stderr. The statements run one after the other in one
    application, which is registered once.

    Besides SQL a script may have source FILE, !COMMAND, dfs COMMAND, exit and quit. ${NAME}, ${hiveconf:NAME},
    ${hivevar:NAME}, ${env:NAME} and ${system:NAME} are replaced.

    Options that are not listed below are passed to spark-submit unchanged (--master, --executor-memory, --conf, ...).
    Tables are those of the metastore that hive-site.xml names; without one, on this machine, of the persistent
    catalogue (see docs/scripts.md).

    Exit code: 0; 1 if a statement failed, after which no further one is run; 2 for wrong options; 128 + N if stopped
    by signal N.
    """
    from qoop.scripts.command import run_script
    from qoop.submit.job import SparkFlags, SubmissionError, spark_defaults

    flags = rest
    if ends_with_file(rest):
        if file is not None:
            raise SubmissionError(f"-f {file}, {rest[-1]}: give only one script")
        flags, file = rest[:-1], rest[-1]
    if (file is None) == (text is None):
        raise SubmissionError(
            "SCRIPT: required; give it as the last argument, or statements with -e 'SELECT ...'"
            if file is None
            else f"-e, {file}: give only one; each of them is the script"
        )
    settings = _settings(given, Path(file).name if file is not None else "qoop run")
    return run_script(settings, text, file, SparkFlags(flags, spark_defaults(flags, os.environ)), arbiter_access(given))


@click.command(cls=PassThroughCommand, context_settings=console.CONTEXT)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[SPARK-SUBMIT FLAGS]")
@_with_options
def shell(rest: tuple[str, ...], **given: Any) -> int:
    """Type statements and see their rows, with replanning.

    \b
    On this machine:  qoop shell --master 'local[4]' --tables DIR

    A statement ends with a semicolon, and may have several lines. The arrow keys bring back earlier statements, those
    of earlier shells too; the tab key completes words of SQL and names of tables and columns. Ctrl-C cancels the
    statement that runs, or drops what has been typed; Ctrl-D, exit or quit ends the shell.

    It takes the same statements, options and catalogue as qoop run; see there.
    """
    from qoop.scripts.shell import run_shell
    from qoop.submit.job import SparkFlags, spark_defaults

    return run_shell(
        _settings(given, "qoop shell"), SparkFlags(rest, spark_defaults(rest, os.environ)), arbiter_access(given)
    )


def _settings(given: dict[str, Any], name: str) -> "ScriptSettings":
    from qoop.scripts.command import ScriptSettings
    from qoop.submit.job import check_share_and_tables, check_unicode

    check_unicode({option: value for option, value in given.items() if option != "token_file"})
    check_one_share(given)
    check_share_and_tables(given["profile"], given["tables"])
    pairs = [("--hiveconf", pair) for pair in given["hiveconf"]] + [("--hivevar", pair) for pair in given["hivevar"]]
    return ScriptSettings(
        name=given["name"] or name,
        settings=dict(_name_and_value(option, pair) for option, pair in pairs),
        database=given["database"],
        init=given["init"],
        tables=given["tables"],
        profile=given["profile"],
        plan=given["plan"],
        is_hive=given["dialect"] == "hive",
        is_silent=given["silent"],
        is_verbose=given["verbose"],
    )


def _name_and_value(option: str, pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not name or not equals:
        raise BadInputError(option, pair, "must be NAME=VALUE")
    return name, value
