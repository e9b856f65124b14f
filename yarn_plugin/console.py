"""The console of every command: one-line errors, tables, results as JSON.

Public: used by `yarn-plugin`, `qoop`, `themis` and `tpcds`.
"""

import contextlib
import io
import json
import logging
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from yarn_plugin import files
from yarn_plugin.checks import Verdict
from yarn_plugin.control_characters import escape_controls
from yarn_plugin.errors import ReportedError, os_reason
from yarn_plugin.usage_errors import usage_error

Command = TypeVar("Command", bound=Callable[..., Any])

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

_JSON_STREAM = "yarn_plugin.json_stream"

UNLIMITED_WIDTH = 100_000_000
"""The width of output to a file or a pipe, where rows are never wrapped."""

_COLOURS: dict[Verdict, str] = {"good": "green", "limited": "yellow", "stops": "red"}

CA_VARIABLE = "REQUESTS_CA_BUNDLE"


class Number(click.FloatRange):
    """The type of an option with a number in a range. NaN, which compares false with any limit, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{number}: must be a finite number", param, ctx)
        return number


class PlainConsole(Console):
    """Prints text verbatim: brackets and colons in values and names are neither markup nor emoji.

    Text with a style is a `rich.text.Text`. When the reader of the output is gone (head, less), printing raises
    BrokenPipeError, as everywhere else in Python.
    """

    def on_broken_pipe(self) -> None:
        """Raise the error; Rich would exit here, with 1."""
        raise


def _console(stream: TextIO, stderr: bool) -> Console:
    width = None if stream.isatty() else UNLIMITED_WIDTH
    return PlainConsole(highlight=False, markup=False, emoji=False, stderr=stderr, width=width)


out = _console(sys.stdout, stderr=False)
err = _console(sys.stderr, stderr=True)


def ca_option(command: Command) -> Command:
    """Add `--ca-file` to a command that uses HTTPS; it is passed on as `verify`, as in `requests`: a path, or True."""
    return click.option(
        "--ca-file",
        "verify",
        type=click.Path(exists=True),
        metavar="FILE",
        callback=_verify,
        help=f"Certificates (PEM) to trust, for https.  [default: the env var {CA_VARIABLE}, or Python's own]",
    )(command)


def _verify(context: click.Context, option: click.Parameter, given: str | None) -> str | bool:
    # Not the option's `envvar`, which would be checked: without TLS, it does not matter whether the file exists.
    return given or os.environ.get(CA_VARIABLE) or True


def version_option(command: Command) -> Command:
    """Add `--version`, which prints the name and version of the installed package."""
    return click.version_option(
        package_name="yarn-plugin", message="%(package)s %(version)s", help="Print the version and exit."
    )(command)


def run(command: click.Command, name: str, args: Sequence[str] | None = None) -> int:
    """Run a click command; print every expected error as one line on stderr, and return a nonzero exit code for it."""
    escape_unencodable()
    try:
        result = _invoke(command, name, args)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as shown:
        click.echo(shown.format_message(), err=True)
        return 2
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except (click.Abort, KeyboardInterrupt, EOFError):
        return _fail(name, "interrupted", 130)
    except click.ClickException as wrong:
        return _fail(name, usage_error(wrong), wrong.exit_code)
    except ReportedError as wrong:
        return _fail(name, " ".join(str(wrong).split()), wrong.exit_code)
    except BrokenPipeError:
        # The reader of our output (head, less) is gone: not an error, but nothing more can be written.
        _discard_output()
        return 0
    except OSError as wrong:
        # A file that cannot be written (--json), or output on a full disk.
        _discard_output()
        where = f"{os.fspath(wrong.filename)!r}: " if wrong.filename else ""
        return _fail(name, f"{where}{os_reason(wrong)}", 1)
    return result if isinstance(result, int) else 0


def _invoke(command: click.Command, name: str, args: Sequence[str] | None) -> object:
    if f"_{name}_complete".upper().replace("-", "_") in os.environ:
        # The shell asks Click for completions.
        return command.main(args=args, prog_name=name, standalone_mode=False)
    # Click's own `main` exits with 1 when the reader of the output is gone.
    with command.make_context(name, list(sys.argv[1:] if args is None else args)) as context:
        return command.invoke(context)


def escape_unencodable() -> None:
    """Print escapes, instead of failing, for characters that the terminal's encoding lacks and for invalid Unicode."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Discard what is still in Python's buffers; otherwise the interpreter prints an error as it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())


def _fail(name: str, message: str, exit_code: int) -> int:
    # The terminal (SIGHUP) or the reader of a pipe may be gone; then the exit code has to do.
    with contextlib.suppress(OSError):
        click.echo(escape_controls(f"{name}: {message}"), err=True)
    return exit_code


class OneLineFormatter(logging.Formatter):
    """Escapes line breaks and control characters: messages contain texts that users choose."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - overrides logging.Formatter
        """The message on one line."""
        return escape_controls(super().formatMessage(record))


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table; columns whose name starts with '#' are right-aligned, for numbers.

    Cells are printed verbatim, with control characters as escapes; a cell that is a `Text` keeps its style. Nothing is
    truncated: cells are wrapped on a narrow terminal, and never elsewhere.
    """
    return data_table(title, [(name.removeprefix("#"), name.startswith("#")) for name in columns], rows)


def checks(title: str | None, last: str, rows: Iterable[tuple[str, Verdict, str, str]]) -> Table:
    """The table of a doctor: what was checked, the verdict, what was found, and a column `last`."""
    shown = ((topic, Text(verdict, style=_COLOURS[verdict]), *texts) for topic, verdict, *texts in rows)
    return table(title, ("check", "result", "found", last), shown)


def data_table(title: str | None, columns: Iterable[tuple[str, bool]], rows: Iterable[Sequence[object]]) -> Table:
    """A table as `table` makes it, for data whose column names are not ours: (name, whether it is right-aligned)."""
    shown = None if title is None else Text(escape_controls(title), style="table.title")
    result = Table(title=shown, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for name, right in columns:
        result.add_column(Text(escape_controls(name)), justify="right" if right else "left", overflow="fold")
    for row in rows:
        result.add_row(*(cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in row))
    return result


def _cell(value: object) -> str:
    return "" if value is None else escape_controls(str(value))


def tell(program: str, line: str) -> None:
    """Print a line on stderr as `PROGRAM: LINE`, if there is still a terminal or file to write to."""
    with contextlib.suppress(OSError):
        err.print(escape_controls(f"{program}: {line}"), soft_wrap=True)


def json_path(context: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    """The callback of `--json FILE`: if FILE is `-`, stdout has nothing but the JSON, and all text goes to stderr."""
    if path is not None and str(path) == "-":
        context.meta[_JSON_STREAM] = sys.stdout
        context.with_resource(contextlib.redirect_stdout(sys.stderr))
    return path


def write_json(path: Path, results: Any) -> None:
    """Write the results of a command for `--json FILE`, atomically; `-` is stdout."""
    if str(path) == "-":
        context = click.get_current_context(silent=True)
        stream: TextIO | None = None if context is None else context.meta.get(_JSON_STREAM)
        print(json.dumps(results, indent=2), file=stream, flush=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, json.dumps(results, indent=2) + "\n")
