"""The command `qoop`."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qoop.scripts.cli import run, shell
from qoop.submit.words import (
    Command,
    PassThroughCommand,
    arbiter_access,
    arbiter_options,
    check_one_share,
    ends_with_file,
)
from yarn_plugin import console

if TYPE_CHECKING:
    from qoop.submit.job import Job


MAX_ROWS = 1_000_000_000
"""Limit of --rows: Spark's `limit` takes a 32-bit integer."""

MAX_TIMEOUT_S = 1_000_000_000
"""Limit of --timeout, about 32 years: timers of the operating system take no more than a few hundred."""


def _json_option(what: str) -> Callable[[Command], Command]:
    """`--json`, as `json_file`. `what` is written."""
    return click.option(
        "--json",
        "json_file",
        type=click.Path(path_type=Path),
        callback=console.json_path,
        help=f"Also write {what} to FILE as JSON; - is stdout.",
        metavar="FILE",
    )


@click.group(context_settings=console.CONTEXT)
@console.version_option
def cli() -> None:
    """Run SQL on Spark, and replan it while it runs.

    qoop divides a query into stages and stores the output of each. When the query's share of the cluster changes, or
    row counts differ from the estimates, it switches to another plan if that plan would finish sooner; the new plan
    reuses stored outputs.

    A stage here is a part of the query with a stored output; Spark runs it as one or more jobs, each with stages of
    Spark's own. A plan is a join tree (an order of the joins) and the places where it is cut into stages. A query that
    cannot be divided runs as written, in one stage.

    \b
    First:   qoop explain --tables DIR QUERY.sql
    Then:    qoop submit --master 'local[4]' --tables DIR QUERY.sql
    """


@cli.command(cls=PassThroughCommand, takes_file=True, context_settings=console.CONTEXT)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[SPARK-SUBMIT FLAGS] (QUERY.sql | -e SQL)")
@click.option("-e", "--execute", "text", metavar="SQL", help="Text of the query, instead of QUERY.sql.")
@click.option("--name", metavar="NAME", help="Name of the application.  [default: the start of the query]")
@click.option(
    "--tables",
    metavar="DIR",
    help="Local directory with a file, or a directory of files, for each table: Parquet, ORC, CSV, JSON or Delta. With "
    "--master yarn every node must have it at the same path, and fs.defaultFS must be local; for data in HDFS use "
    "Spark's catalog.  [default: Spark's catalog]",
)
@click.option(
    "--output",
    nargs=2,
    metavar="FORMAT PATH",
    help="Write the result to PATH, which must not exist, instead of printing it. FORMAT is parquet or csv.",
)
@click.option(
    "--rows", type=click.IntRange(1, MAX_ROWS), default=1000, show_default=True, help="Maximum number of rows to print."
)
@click.option(
    "--format",
    "row_format",
    type=click.Choice(["table", "csv", "json"]),
    help='How to print rows. csv: with a header; NULL is an empty field, an empty string is "". json: one object per '
    "line.  [default: table]",
)
@arbiter_options()
@click.option(
    "--profile",
    metavar="FILE",
    help="Without an arbiter: a file with the share over time, to try what replanning does: a line SECONDS,SLOTS for "
    "each change, such as 0,4 and then 30,2. The first must be at 0 seconds. Executors stay as they are.",
)
@click.option(
    "--slots",
    type=console.Number(0, min_open=True),
    help="Without an arbiter: how many slots plans are made for. Spark is not limited to them: use --num-executors, or "
    "--master 'local[N]'.  [default: Spark's default parallelism, or the most that dynamic allocation may reach]",
)
@click.option(
    "--checkpoint",
    metavar="URL",
    help="Store stage outputs as Parquet files under this URL, such as hdfs:///user/ME/qoop, which all nodes must "
    "reach. They are deleted when the query ends; what a killed query has left, by your next one.  [default: in the "
    "executors' memory and on their disks]",
)
@click.option(
    "--hysteresis",
    type=console.Number(0, 1),
    default=0.15,
    help="Fraction of the remaining time that a switch must save. 0.15: switch only if the new plan ends at least 15 % "
    "earlier.  [default: 0.15]",
)
@click.option(
    "--timeout",
    type=console.Number(0, MAX_TIMEOUT_S, min_open=True),
    metavar="SECONDS",
    help="Stop the query if it runs for longer, not counting Spark's start; it then fails.  [default: no limit]",
)
@click.option(
    "--plan",
    type=click.Choice(["auto", "always", "never"]),
    help="auto: a query runs as written if Spark would end it before planning could pay off, or if no plan is expected "
    "to win. always: plan every query and cut it into stages. never: run it as written.  [default: the Spark property "
    "spark.qoop.plan, or auto]",
)
@click.option("--no-replanning", is_flag=True, help="The same as --plan never: run the query as written.")
@click.option("--switch-every-stage", is_flag=True, hidden=True, help="For tests: switch join trees after every stage.")
@click.option(
    "--journal", metavar="FILE", help="Record events and decisions in FILE (JSON lines), replacing an earlier journal."
)
@click.option(
    "--report",
    metavar="FILE",
    help="Write an HTML report of plans, stages and decisions, made from the journal, which is written to FILE.journal "
    "unless --journal is given.",
)
def submit(rest: tuple[str, ...], **given: Any) -> int:
    """Run one SQL query on Spark, replanning when its share of the cluster changes.

    \b
    On this machine:  qoop submit --master 'local[4]' --tables DIR QUERY.sql
    On YARN:          qoop submit --master yarn --arbiter http://127.0.0.1:8780 --tables DIR QUERY.sql

    Options that are not listed below are passed to spark-submit unchanged (--master, --executor-memory, --conf, ...).
    The spark-submit of SPARK_HOME is used, or else the one installed with pyspark. With --arbiter, --num-executors is
    the most that the query asks for, dynamic allocation is off, and --queue cannot be given, as the arbiter assigns a
    queue to each query.

    The share is a number of slots (tasks that run at the same time): executors x spark.executor.cores /
    spark.task.cpus. It comes from an arbiter (--arbiter), from a file (--profile) or is fixed (--slots).

    Rows are printed on stdout, progress on stderr. CREATE TABLE AS SELECT and INSERT are supported. --deploy-mode
    cluster needs --output, --checkpoint, and --archives with a packed Python environment (see docs/queries.md).

    Exit code: 0; 1 if the query failed; 2 for wrong options; 128 + N if stopped by signal N.
    """
    from qoop.submit.command import submit as run
    from qoop.submit.job import SparkFlags, read_query, spark_defaults
    from qoop.submit.preflight import check_job

    text = given["text"]
    flags, file = (rest, None) if text is not None else (rest[:-1], next(iter(rest[-1:]), None))
    if file is not None and file.startswith("-"):
        flags, file = rest, None
    if text is not None and ends_with_file(rest):
        file = rest[-1]
    query = read_query(file, str(text) if text is not None else None)
    job, spark_flags = _job(query, given), SparkFlags(flags, spark_defaults(flags, os.environ))
    access = arbiter_access(given)
    check_job(job, spark_flags, os.environ)
    return run(job, spark_flags, access)


@cli.command(context_settings=console.CONTEXT)
@click.argument("file", required=False, metavar="(QUERY.sql | -e SQL)")
@click.option("-e", "--execute", "text", metavar="SQL", help="Text of the query, instead of QUERY.sql.")
@click.option(
    "--tables",
    metavar="DIR",
    help="Local directory with a file, or a directory of files, for each table: Parquet, ORC, CSV, JSON or Delta. For "
    "data in HDFS use Spark's catalog.  [default: Spark's catalog]",
)
@click.option(
    "--shares", default="1,2,4,8", show_default=True, metavar="SLOTS,...", help="Shares to estimate for, in slots."
)
@click.option(
    "--plans",
    type=click.IntRange(1, 64),
    default=4,
    help="How many plans to print, at least those that would be chosen at some share.  [default: 4]",
)
@_json_option("the estimates")
def explain(
    file: str | None, text: str | None, tables: str | None, shares: str, plans: int, json_file: Path | None
) -> None:
    """Show a query's candidate plans, and which one would be chosen at which share.

    \b
    Example:  qoop explain --tables DIR --shares 1,2,4,8 QUERY.sql

    Prints each plan's join trees and stages (see qoop -h), the estimated seconds to completion at each share, and the
    shares between which another plan is chosen. A share is a number of slots (tasks that run at the same
    time). The query is not run. Without --tables a local Spark session is started to read Spark's catalog.

    The last lines say whether qoop submit would plan the query by default, why not, and what would change that
    (docs/planned.md has all causes). With --tables, what only Spark knows is left out, as are earlier runs.
    """
    from qoop.explain import explain as run
    from qoop.explain import parse_shares
    from qoop.submit.job import check_unicode, read_query

    check_unicode({"tables": tables, "json": json_file})
    run(read_query(file, text), tables, parse_shares(shares), plans, json_file)


@cli.command(context_settings=console.CONTEXT)
@click.option("--all", "everything", is_flag=True, help="Show all queries that are kept, not only the latest ten.")
@_json_option("the queries")
def status(everything: bool, json_file: Path | None) -> None:
    """Show your running and latest queries on this machine.

    \b
    Example:  qoop status

    Shows for each query of qoop submit, run, shell and server its progress by the latest estimate, its plan, the
    stages that have finished, its share in slots, its time, and the estimate before it began. Below, why running
    queries have their share. The last 100 queries are kept; those with --deploy-mode cluster are not shown.
    """
    from qoop.status import show_status

    show_status(everything, json_file)


@cli.command(cls=PassThroughCommand, context_settings=console.CONTEXT)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[SPARK-SUBMIT FLAGS]")
@arbiter_options("whose answer is checked; nothing is registered")
@_json_option("the findings")
def doctor(rest: tuple[str, ...], json_file: Path | None, **given: Any) -> int:
    """Check what queries need: Java, Spark, the cluster, the arbiter, the metastore. Changes nothing.

    \b
    On this machine:  qoop doctor
    On YARN:          qoop doctor --master yarn --arbiter http://127.0.0.1:8780 --token-file TOKEN

    Give it the options of qoop submit, run or server that you would use. Each line of the table is one check. Its
    result is good; limited (queries run, with less); or stops (they cannot run until this is changed). No Spark is
    started.

    Exit code: 0 if queries can run; 1 if they cannot; 2 for wrong options.
    """
    from qoop.doctor.command import examine, show
    from qoop.submit.job import SparkFlags, spark_defaults
    from yarn_plugin.api.client import ArbiterError

    access, problem = None, None
    try:
        access = arbiter_access(given)
    except ArbiterError as lacking:
        problem = lacking
    flags = SparkFlags(rest, spark_defaults(rest, os.environ))
    return show(examine(flags, os.environ, given["arbiter"], access, problem), json_file)


@cli.command(cls=PassThroughCommand, context_settings=console.CONTEXT)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[SPARK-SUBMIT FLAGS]")
@click.option(
    "--listen",
    default="127.0.0.1:10000",
    show_default=True,
    metavar="HOST:PORT",
    help="Where to listen. Beyond loopback, --arbiter and a certificate are required.",
)
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="Certificate (PEM) for TLS.")
@click.option(
    "--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Private key (PEM) of the certificate."
)
@click.option("--name", metavar="NAME", default="qoop server", show_default=True, help="Name of the application.")
@click.option(
    "--tables",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Local directory with a file, or a directory of files, for each table: Parquet, ORC, CSV, JSON or Delta.  "
    "[default: Spark's catalog]",
)
@arbiter_options(
    "for a share of the cluster; needs --master yarn. Clients then log in with tokens as passwords",
    "the server's own token",
)
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Without an arbiter: a file with the share over time, from the server's start; see qoop submit -h.",
)
@click.option(
    "--plan",
    type=click.Choice(["auto", "always", "never"]),
    help="Which queries are planned; see qoop submit -h. A session may choose with SET spark.qoop.plan=...  [default: "
    "auto]",
)
@click.option(
    "--max-sessions",
    type=click.IntRange(1, 100_000),
    default=500,
    show_default=True,
    help="Sessions that may be open at once.",
)
@click.option(
    "--max-running",
    type=click.IntRange(1, 1000),
    default=32,
    show_default=True,
    help="Statements that run at the same time; others wait, and sessions take turns.",
)
@click.option(
    "--idle-timeout",
    type=console.Number(1, 1_000_000),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="Close a session that has not been used for so long, and in which no statement runs.",
)
@click.option(
    "--result-memory",
    type=click.IntRange(1, 1_000_000),
    default=256,
    show_default=True,
    metavar="MB",
    help="How much of the results that wait to be fetched is kept in memory. The rest is written to files.",
)
@click.option(
    "--spill",
    type=click.Path(path_type=Path, exists=True, file_okay=False, writable=True),
    metavar="DIR",
    help="Where these files are.  [default: the system's directory for temporary files]",
)
@click.option(
    "--drain",
    type=console.Number(0, 86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long statements may still run after SIGTERM or Ctrl-C.",
)
def server(rest: tuple[str, ...], **given: Any) -> int:
    """Serve SQL to JDBC, ODBC and Python clients, by HiveServer2's protocol.

    \b
    On this machine:  qoop server --master 'local[4]' --tables DIR
    Then:             beeline -u jdbc:hive2://127.0.0.1:10000/default
    On YARN:          qoop server --master yarn --arbiter http://127.0.0.1:8780 --token-file TOKEN

    Each query is run with replanning, as by qoop submit. One port takes Thrift over TCP (SASL PLAIN, and without an
    arbiter NOSASL) and Thrift over HTTP at /cliservice. All clients share one application on the cluster, which is
    registered once; their tasks take turns. It runs until SIGTERM or Ctrl-C.

    Without --arbiter clients need no password, and the server can only be reached from this machine. With it, a
    client's password is a token (yarn-plugin token USER). Statements run with the rights of whoever starts the server.

    Options that are not listed below are passed to spark-submit unchanged (--master, --executor-memory, --conf, ...).
    A statement's log, such as beeline prints it, tells the plan, its switches, and the share with the reason.
    See docs/server.md for clients: beeline, PyHive, impyla, SQLAlchemy, dbt.

    Exit code: 0 after SIGTERM or Ctrl-C; 1 if Spark stops; 2 for wrong options.
    """
    from qoop.server.command import ServerSettings, serve
    from qoop.server.limits import MIB, ServerLimits
    from qoop.submit.job import SparkFlags, check_unicode, spark_defaults
    from yarn_plugin.serving.address import parse_listen

    check_unicode({name: value for name, value in given.items() if name != "token_file"})
    check_one_share(given)
    limits = ServerLimits(
        max_sessions=given["max_sessions"],
        max_running=given["max_running"],
        idle_timeout_s=given["idle_timeout"],
        memory_bytes=given["result_memory"] * MIB,
    )
    address = parse_listen(given["listen"], given["tls_cert"], given["tls_key"], 10000, "passwords")
    chosen = {name: given[name] for name in ("name", "tables", "profile", "plan", "spill")}
    settings = ServerSettings(address, drain_s=given["drain"], limits=limits, **chosen)
    return serve(settings, SparkFlags(rest, spark_defaults(rest, os.environ)), arbiter_access(given))


def _job(query: str, given: dict[str, Any]) -> "Job":
    from qoop.submit.job import Job, Output, SubmissionError, check_share_and_tables, check_unicode
    from yarn_plugin.errors import BadInputError

    # The file with the token is read here, whatever its name.
    check_unicode({name: value for name, value in given.items() if name != "token_file"})
    output = given["output"]
    made = None
    if output is not None:
        if output[0] not in ("parquet", "csv"):
            raise BadInputError("--output", output[0], "must be parquet or csv, followed by the path")
        made = Output(format=output[0], path=output[1])
    if output is not None and given["row_format"] is not None:
        raise SubmissionError("--format, --output: give only one; --format is for printed rows")
    if given["checkpoint"] is not None and not given["checkpoint"].strip():
        raise BadInputError("--checkpoint", given["checkpoint"], "must be a URL, such as hdfs:///user/ME/qoop")
    if given["report"] is not None and given["journal"] is None:
        given["journal"] = f"{given['report']}.journal"
    check_one_share(given)
    check_share_and_tables(None if given["profile"] is None else Path(given["profile"]), given["tables"])
    names = (
        "tables",
        "profile",
        "slots",
        "checkpoint",
        "plan",
        "hysteresis",
        "timeout",
        "switch_every_stage",
        "journal",
        "report",
    )
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


cli.add_command(run)
cli.add_command(shell)


def main() -> None:
    """Run the command line `qoop`."""
    sys.exit(console.run(cli, "qoop"))
