"""The command `tpcds`: generate data, list queries, run them."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.progress import Progress as ProgressBar

from tpcds import data, queries, run_report, show
from tpcds.generator import TABLES, Progress
from tpcds.results import QueryRow, Report, totals
from yarn_plugin import console
from yarn_plugin.errors import BadInputError
from yarn_plugin.report import write as write_page

if TYPE_CHECKING:
    from tpcds.engines import RunSettings

FILE = click.Path(path_type=Path, dir_okay=False)
NUMBERS = "Query numbers, such as 3 or 1-10,72."
JSON = "Also write the results to FILE as JSON; - is stdout."


@click.group(context_settings=console.CONTEXT)
@console.version_option
def cli() -> None:
    """TPC-DS: generate data, list the 99 queries, run them on an engine and compare the answers.

    Needs `pip install '.[tpcds]'` in the clone. Data comes from tpcgen-cli (Apache License 2.0) instead of the TPC's
    dsdgen, query texts from DuckDB's tpcds extension.
    """


@cli.command()
@click.option(
    "--scale",
    required=True,
    metavar="SCALE",
    help="Scale factor: 1 is about 1 GB of raw data, less than half of that as Parquet; fractions work too.",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory to create, with a subdirectory per table.",
)
@click.option("--parts", type=click.IntRange(1), help="Files per large table.  [default: grows with the scale]")
@click.option("--json", "json_file", type=FILE, callback=console.json_path, help=JSON)
def generate(scale: str, out: Path, parts: int | None, json_file: Path | None) -> None:
    """Generate Parquet tables. A complete data set of the same scale is reused."""
    size = data.parse_scale(scale)
    with show.progress() as bar:
        generated = data.generate(size, out, parts, _show_progress(bar))
    what = "already complete" if generated.reused else f"generated in {generated.seconds:.1f} s"
    console.out.print(f"scale {generated.scale:g}: {what}, {generated.size / 1e6:.0f} MB in {generated.path}")
    if json_file:
        results = {
            "scale": generated.scale,
            "reused": generated.reused,
            "bytes": generated.size,
            "seconds": generated.seconds,
        }
        console.write_json(json_file, results)


@cli.command(name="queries")
@click.option("--queries", "numbers", default="1-99", show_default=True, metavar="NUMBERS", help=NUMBERS)
@click.option(
    "--dialect",
    type=click.Choice(queries.DIALECTS),
    default="spark",
    show_default=True,
    help="SQL dialect to print with --show.",
)
@click.option("--show", "show_text", is_flag=True, help="Print the SQL of each query.")
def list_queries(numbers: str, dialect: str, show_text: bool) -> None:
    """List the queries with joins and tables, or print their SQL."""
    chosen = queries.parse_numbers(numbers)
    if not show_text:
        console.out.print(show.query_list([queries.shape(number) for number in chosen]))
        return
    for number in chosen:
        click.echo(f"-- query {number}\n{queries.text(number, dialect)};\n")


@cli.command()
@click.option("--queries", "numbers", default="1-99", show_default=True, metavar="NUMBERS", help=NUMBERS)
@click.option(
    "--engine",
    default="spark",
    show_default=True,
    metavar="ENGINE",
    help="Engine to measure: qoop, spark or duckdb.",
)
@click.option(
    "--scale",
    metavar="SCALE",
    help="Scale of the data, generated once below ~/.cache/yarn-plugin/tpcds; not with --data.  [default: 0.1]",
)
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Data set to use, such as one from `tpcds generate`; not with --scale.",
)
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    metavar="MASTER",
    help="Spark master, such as local[4] or yarn; unused by duckdb.",
)
@click.option("--conf", "confs", multiple=True, metavar="KEY=VALUE", help="Spark property; may be repeated.")
@click.option(
    "--compare",
    "references",
    metavar="ENGINES",
    help="Reference engines: spark, duckdb or spark,duckdb; '' for none.  [default: for qoop both, for spark duckdb,"
    " for duckdb none]",
)
@click.option("--switch-every-stage", is_flag=True, help="qoop: force a switch after every stage (for testing).")
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Runs of each query; its time is the median, the first run included.",
)
@click.option("--json", "json_file", type=FILE, callback=console.json_path, help=JSON)
@click.option("--html", "html_file", type=FILE, help="Also write the results to FILE as a page with charts.")
def run(
    numbers: str,
    engine: str,
    scale: str | None,
    folder: Path | None,
    master: str,
    confs: tuple[str, ...],
    references: str | None,
    switch_every_stage: bool,
    repeat: int,
    json_file: Path | None,
    html_file: Path | None,
) -> int:
    """Run queries on an engine and compare the answers.

    Times are from a query's text to its last row. With --master yarn, HADOOP_CONF_DIR must be set (see `yarn-plugin
    cluster env`), and every node must be able to read the data at the same path.

    The exit code is 1 if a query failed or an answer differs from a reference.
    """
    # Spark's Python package takes half a second to load, which the other commands do not need.
    from tpcds import engines

    chosen = queries.parse_numbers(numbers)
    engines.check_engine(engine, switch_every_stage)
    compared = engines.parse_references(references, engine)
    properties = _parse_confs(confs)
    settings = engines.RunSettings(_data_set(scale, folder), master, properties, switch_every_stage)
    rows = _run(chosen, engine, compared, settings, repeat)
    report = Report(
        engine=engine,
        compared_with=compared,
        master=master,
        confs=properties,
        scale=settings.data.scale,
        switch_every_stage=switch_every_stage,
        repeat=repeat,
        queries=tuple(rows),
        totals=totals(rows),
    )
    if json_file:
        console.write_json(json_file, report.model_dump(mode="json"))
    if html_file:
        write_page(run_report.page(report), html_file)
    console.out.print(show.query_rows(rows))
    for line in show.summary(report):
        console.out.print(line)
    return int(any(row.is_wrong for row in rows))


def _run(
    chosen: list[int], engine: str, compared: tuple[str, ...], settings: "RunSettings", repeat: int
) -> list[QueryRow]:
    from tpcds.engines import EngineFactory
    from tpcds.suite import run_suite

    rows: list[QueryRow] = []
    with ExitStack() as stack:
        factory = stack.enter_context(EngineFactory(settings))
        measured, references = factory.measured(engine), [factory.reference(name) for name in compared]
        bar = stack.enter_context(show.progress())
        task = bar.add_task(f"query {chosen[0]}", total=len(chosen))
        for row, following in zip(run_suite(chosen, measured, references, repeat), [*chosen[1:], None], strict=True):
            rows.append(row)
            show.print_progress(row, len(chosen), len(rows))
            bar.update(task, advance=1, description=f"query {following}" if following else "done")
    return rows


def _data_set(scale: str | None, folder: Path | None) -> data.DataSet:
    if folder is not None and scale is not None:
        raise BadInputError("--scale", scale, "cannot be combined with --data; a data set has its own scale")
    if folder is not None:
        return data.open_data(folder)
    size = data.parse_scale(scale or "0.1")
    with show.progress() as bar:
        return data.open_data(data.ensure(size, _show_progress(bar)))


def _show_progress(bar: ProgressBar) -> data.OnProgress:
    task = bar.add_task("generating", total=len(TABLES))

    def update(progress: Progress) -> None:
        description = f"{progress.table or 'done'}, {progress.size / 1e6:.0f} MB"
        bar.update(task, completed=progress.finished, description=description)

    return update


def _parse_confs(confs: tuple[str, ...]) -> dict[str, str]:
    parsed = {}
    for conf in confs:
        key, equals, value = conf.partition("=")
        if not (equals and key.strip()):
            raise BadInputError("--conf", conf, "must be KEY=VALUE, such as spark.sql.shuffle.partitions=16")
        parsed[key.strip()] = value
    return parsed


def main() -> None:
    """The entry point of the command `tpcds`."""
    sys.exit(console.run(cli, "tpcds"))
