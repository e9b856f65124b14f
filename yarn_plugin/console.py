"""How every command of the product talks to a person: one-line errors, tables, results as JSON.

Public: used by `yarn-plugin`, `qoop`, `themis` and `tpcds` alike.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

import click
from rich.console import Console
from rich.table import Table

from yarn_plugin.errors import ReportedError

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

NOT_A_TERMINAL = 200
"""Columns of output that goes to a file or a pipe, where nothing should be cut."""


def _console(stream: TextIO, stderr: bool) -> Console:
    return Console(highlight=False, stderr=stderr, width=None if stream.isatty() else NOT_A_TERMINAL)


out = _console(sys.stdout, stderr=False)
err = _console(sys.stderr, stderr=True)


def run(command: click.Command, name: str, args: Sequence[str] | None = None) -> int:
    """Run a click command; turn every expected error into one line on stderr and an exit code that is not 0."""
    try:
        result = command.main(args=args, prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as shown:
        click.echo(shown.format_message(), err=True)
        return 2
    except click.UsageError as wrong:
        context = f" (see {wrong.ctx.command_path} -h)" if wrong.ctx else ""
        return _fail(name, " ".join(wrong.format_message().split()) + context, 2)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _fail(name, "interrupted", 130)
    except click.ClickException as wrong:
        return _fail(name, wrong.format_message(), wrong.exit_code)
    except ReportedError as wrong:
        return _fail(name, " ".join(str(wrong).split()), wrong.exit_code)
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: not an error, but nothing more may be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return result if isinstance(result, int) else 0


def _fail(name: str, message: str, exit_code: int) -> int:
    click.echo(f"{name}: {message}", err=True)
    return exit_code


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A terminal table; columns whose name starts with '#' hold numbers and are right-aligned."""
    result = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        result.add_column(column.removeprefix("#"), justify="right" if column.startswith("#") else "left")
    for row in rows:
        result.add_row(*("" if cell is None else str(cell) for cell in row))
    return result


def write_json(path: Path, figures: Any) -> None:
    """Write the figures of a command for `--json FILE`, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    draft.write_text(json.dumps(figures, indent=2) + "\n")
    draft.replace(path)
