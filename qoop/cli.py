"""The command `qoop`."""

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from yarn_plugin import console
from yarn_plugin.api.client import TOKEN_VARIABLE, URL_VARIABLE

if TYPE_CHECKING:
    from qoop.submit.command import Arbitration
    from qoop.submit.job import Job


MAX_ROWS = 1_000_000_000
"""Rows that can be shown at most; Spark counts them in 32 bits."""


@click.group(context_settings=console.CONTEXT)
def cli() -> None:
    """SQL on Spark that changes its plan in mid-flight when its share of the cluster changes."""


class PassingOn(click.Command):
    """A command that takes its own options wherever they stand, and every other word unchanged, in `rest`.

    Click's own way would take `-Dexample=1` for `-e` with a value.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Sort the words, then let Click read those that are ours."""
        values = {name: _values(option) for option in self.get_params(ctx) for name in option.opts}
        own: list[str] = []
        rest: list[str] = []
        words = list(args)
        while words:
            word = words.pop(0)
            if word in values:
                own += [word, *words[: values[word]]]
                if len(words) < values[word]:
                    # Click says what is missing.
                    return super().parse_args(ctx, own)
                del words[: values[word]]
            else:
                name, equals, _ = word.partition("=")
                (own if equals and name.startswith("--") and name in values else rest).append(word)
        return super().parse_args(ctx, [*own, "--", *rest])


def _values(option: click.Parameter) -> int:
    """How many words follow an option as its value."""
    return 0 if getattr(option, "is_flag", False) or isinstance(option, click.Argument) else option.nargs


@cli.command(cls=PassingOn, context_settings=console.CONTEXT)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[SPARK-SUBMIT FLAGS] [QUERY.sql]")
@click.option("-e", "--execute", "text", metavar="SQL", help="The query itself, instead of a file.")
@click.option("--name", help="The query's name on the cluster.  [default: its first words]")
@click.option("--tables", metavar="DIR", help="Tables: a Parquet file, or a folder of them, per table.")
@click.option("--output", nargs=2, metavar="FORMAT PATH", help="Write the result (parquet, csv) instead.")
@click.option(
    "--rows", type=click.IntRange(1, MAX_ROWS), default=1000, show_default=True, help="How many rows to show."
)
@click.option(
    "--format",
    "row_format",
    type=click.Choice(["table", "csv", "json"]),
    help="How to show rows. csv: with a header, NULL is empty, '' is \"\". json: an object a line.  [default: table]",
)
@click.option("--arbiter", envvar=URL_VARIABLE, metavar="URL", help="The arbiter that tells the share (YARN).")
@click.option("--token-file", type=click.Path(path_type=Path), help=f"Your token for it; or set {TOKEN_VARIABLE}.")
@console.ca_option
@click.option("--pool", help="The pool to join, where the arbiter has several.")
@click.option(
    "--weight", type=click.FloatRange(0, 1000, min_open=True), default=1.0, help="Its weight there.  [default: 1]"
)
@click.option("--profile", metavar="FILE", help="Without an arbiter: slots over time, lines of seconds,slots.")
@click.option("--slots", type=click.FloatRange(0, min_open=True), help="Without an arbiter: a fixed number of slots.")
@click.option("--checkpoint", metavar="URL", help="Keep stage outputs as files there, not on executors.")
@click.option(
    "--hysteresis", type=click.FloatRange(0, 1), default=0.15, help="What a switch must save.  [default: 0.15]"
)
@click.option("--no-replanning", is_flag=True, help="Run the query as written, in one piece.")
@click.option("--switch-every-stage", is_flag=True, hidden=True, help="A test option: after every stage, another tree.")
@click.option("--journal", metavar="FILE", help="Keep the record of the query.")
@click.option("--report", metavar="FILE", help="Write a page with its plans, stages and decisions (HTML).")
def submit(rest: tuple[str, ...], **given: Any) -> int:
    """Run one query with replanning on Spark.

    Every flag that is not listed below goes to spark-submit unchanged (--master, --executor-memory, --conf, ...). The
    query is the last argument, or given with -e. Tables come from the session's catalogue or from --tables.

    \b
    On this machine:   qoop submit --master 'local[4]' --tables DIR QUERY.sql
    On YARN:           qoop submit --master yarn --arbiter http://127.0.0.1:8780 --tables DIR QUERY.sql

    The result is shown, or written with --output. CREATE TABLE AS and INSERT work too. With --deploy-mode cluster,
    --output, --archives (a packed Python environment) and --checkpoint are needed.
    """
    from qoop.submit.command import submit as run
    from qoop.submit.job import SparkFlags, read_query, spark_defaults

    text = given["text"]
    flags, file = (rest, None) if text is not None else (rest[:-1], next(iter(rest[-1:]), None))
    if file is not None and file.startswith("-"):
        flags, file = rest, None
    query = read_query(file, str(text) if text is not None else None)
    return run(_job(query, given), SparkFlags(flags, spark_defaults(flags, os.environ)), _arbitration(given))


@cli.command(context_settings=console.CONTEXT)
@click.argument("file", required=False, metavar="[QUERY.sql]")
@click.option("-e", "--execute", "text", metavar="SQL", help="The query itself, instead of a file.")
@click.option("--tables", metavar="DIR", help="Tables: Parquet, a file or folder each. Left out: Spark's.")
@click.option("--shares", default="1,2,4,8", show_default=True, help="Slots to estimate for.")
@click.option("--plans", type=click.IntRange(1, 64), default=4, help="How many trees to show.  [default: 4]")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the figures to a file too.")
def explain(
    file: str | None, text: str | None, tables: str | None, shares: str, plans: int, json_file: Path | None
) -> None:
    """The candidate plans of a query, their stages, when each would end at each share, and where the choice flips."""
    from qoop.explain import explain as run
    from qoop.explain import parse_shares
    from qoop.submit.job import read_query

    run(read_query(file, text), tables, parse_shares(shares), plans, json_file)


def _job(query: str, given: dict[str, Any]) -> "Job":
    from qoop.submit.job import Job, Output, SubmissionError
    from yarn_plugin.errors import BadInputError

    output = given["output"]
    made = None
    if output is not None:
        if output[0] not in ("parquet", "csv"):
            raise BadInputError("--output", output[0], "choose parquet or csv, then the path")
        made = Output(format=output[0], path=output[1])
    if output is not None and given["row_format"] is not None:
        raise SubmissionError("--format: rows are shown or written; give --format or --output, not both")
    if given["report"] is not None and given["journal"] is None:
        given["journal"] = f"{given['report']}.journal"
    if sum(given[name] is not None for name in ("arbiter", "profile", "slots")) > 1:
        raise SubmissionError("give one of --arbiter, --profile and --slots: a share comes from one place")
    if given["tables"] is not None and not Path(given["tables"]).is_dir():
        raise BadInputError("--tables", given["tables"], "no such folder; a Parquet file or folder per table is needed")
    if given["slots"] is not None and not math.isfinite(given["slots"]):
        raise BadInputError("--slots", given["slots"], "write a number of slots such as 4")
    for flag in ("weight", "hysteresis"):
        if not math.isfinite(given[flag]):
            raise BadInputError(f"--{flag}", given[flag], "write a number")
    if given["profile"] is not None:
        from qoop.feedback.profile import read

        read(Path(given["profile"]))
    names = ("tables", "profile", "slots", "checkpoint", "hysteresis", "switch_every_stage", "journal", "report")
    fields = {name: given[name] for name in names}
    name = given["name"] or " ".join(query.split())[:60]
    rest = {
        "text": query,
        "name": name,
        "rows": given["rows"],
        "format": given["row_format"] or "table",
        "output": made,
        "replanning": not given["no_replanning"],
    }
    return Job.model_validate({**fields, **rest})


def _arbitration(given: dict[str, Any]) -> "Arbitration | None":
    from qoop.submit.command import Arbitration
    from yarn_plugin.api.client import find_token

    if given["arbiter"] is None:
        return None
    token = find_token(given["token_file"])
    return Arbitration(given["arbiter"], token, given["pool"], given["weight"], given["verify"])


def main() -> None:
    """The entry point."""
    sys.exit(console.run(cli, "qoop"))
