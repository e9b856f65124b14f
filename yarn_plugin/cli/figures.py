"""`yarn-plugin figures`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from yarn_plugin import console
from yarn_plugin.cli.options import json_option, option_group
from yarn_plugin.cli.progress import progress_bar
from yarn_plugin.drive.figure_runs import run_cases
from yarn_plugin.errors import BadInputError
from yarn_plugin.report import write
from yarn_plugin.simulation.paper_figures import specification
from yarn_plugin.simulation.paper_figures.claims import Claim, claims
from yarn_plugin.simulation.paper_figures.page import COLUMNS, page, row
from yarn_plugin.simulation.paper_figures.specification import Paper
from yarn_plugin.validation import one_of

Command = Callable[..., None]


@click.group(context_settings=console.CONTEXT)
def figures() -> None:
    """Reproduce the figures of papers by simulation."""


def _options(name: str) -> Callable[[Command], Command]:
    """The options of a paper's command."""
    return option_group(
        click.option("--only", metavar="FIGURES", help="Figures and tables, separated by commas.  [default: all]"),
        click.option(
            "--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="Number of paired seeds."
        ),
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
            default=Path(f"{name}-figures"),
            show_default=True,
            help="Directory of the page and of the results, which the next run continues from.",
        ),
        click.option("--processes", type=click.IntRange(1), help="Simulations at a time.  [default: one per CPU]"),
        json_option,
    )


@figures.command(context_settings=console.CONTEXT)
@_options("themis")
@click.option(
    "--size",
    type=click.Choice(["small", "medium", "large", "paper"]),
    default="small",
    show_default=True,
    help="Size of the simulations, see above. Figures 3.1 to 3.4, 3.8 and "
    "tables 3.3 and 3.4 ignore it, as they simulate nothing; 3.5 and 3.18 do too, as the thesis gives their size.",
)
def themis(**options: Any) -> None:
    """Reproduce figures 3.1 to 3.19 and tables 3.1 to 3.5 of the Themis thesis, and compare with what it says.

    Writes figures.html to --out, and prints the thesis' claims with what was measured: mean over seeds, with the 95%
    interval by Student's t. Every simulation's result is kept as a file in --out/runs: a run that was interrupted, or
    that has more seeds or figures, simulates only what is missing.

    \b
    Sizes:
      small   10 applications of at most 4 jobs on 8 GPUs
      medium  40 of at most 8 on 64; 20 s of processor time with auctions, 5 s without
      large   40 of at most 100 on 256; minutes
      paper   85 of at most 100 on 256, with the thesis' durations; much longer

    \b
    Example:
      yarn-plugin figures themis --only 3.9,3.11 --seeds 5 --size small
    """
    _show("themis", **options)


@figures.command(context_settings=console.CONTEXT)
@_options("hived")
def hived(**options: Any) -> None:
    """Compare what HiveD (OSDI '20) says of virtual clusters of cells with simulations of generated gangs."""
    _show("hived", **options)


@figures.command(context_settings=console.CONTEXT)
@_options("allox")
def allox(**options: Any) -> None:
    """Compare what AlloX (EuroSys '20) says of jobs on GPUs or cores with simulations of generated jobs."""
    _show("allox", **options)


@figures.command(context_settings=console.CONTEXT)
@_options("sharing")
def sharing(**options: Any) -> None:
    """Compare what OJPP says of workers that share GPUs with packings of generated queues of jobs."""
    _show("sharing", **options)


def _show(
    name: str,
    only: str | None,
    seeds: int,
    out: Path,
    processes: int | None,
    json_file: Path | None,
    size: str | None = None,
) -> None:
    """Simulate what a paper's specification says; write its page, and print its claims and what is not reproduced."""
    paper = _chosen(specification.read(name), only)
    size, numbers = size or next(iter(paper.sizes)), range(seeds)
    cases = paper.cases(numbers, size)
    with progress_bar("simulations") as bar:
        task = bar.add_task("", total=len(cases))
        results = run_cases(cases, out / "runs", processes, lambda done: bar.update(task, completed=done))
    found = claims(paper, results, numbers, size)
    write(page(name, paper, found, results, numbers, size), out / "figures.html")
    console.out.print(console.table(None, COLUMNS, map(row, found)))
    for figure in paper.figures:
        if figure.not_reproduced:
            console.out.print(f"{figure.number}: not reproduced: {figure.not_reproduced}")
    for told in paper.told:
        console.out.print(f"not reproduced: {told.effect}: {told.why}")
    console.out.print(f"page: {out / 'figures.html'}")
    if json_file is not None:
        console.write_json(json_file, [_record(one) for one in found])


def _chosen(paper: Paper, only: str | None) -> Paper:
    """The paper with the figures of --only alone.

    Raises:
        BadInputError: it has no such figure.
    """
    if only is None:
        return paper
    chosen = [part.strip() for part in only.split(",")]
    unknown = next((part for part in chosen if part not in paper.numbers), None)
    if unknown is not None:
        raise BadInputError("--only", unknown, one_of(paper.numbers, unknown))
    return paper.only(chosen)


def _record(claim: Claim) -> dict[str, Any]:
    one = claim.measured
    return {
        "figure": claim.figure, "effect": claim.text, "paper": claim.paper, "mean": one.mean, "low": one.low,
        "high": one.high, "seeds": claim.effects, "verdict": claim.verdict,
    }  # fmt: skip
