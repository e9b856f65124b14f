"""`yarn-plugin figures`."""

from pathlib import Path
from typing import Any

import click

from yarn_plugin import console
from yarn_plugin.cli.options import json_option
from yarn_plugin.cli.progress import progress_bar
from yarn_plugin.drive.figure_runs import run_cases
from yarn_plugin.drive.paper_figures import measure
from yarn_plugin.report import write
from yarn_plugin.simulation.paper_figures import specification
from yarn_plugin.simulation.themis_figures import plan
from yarn_plugin.simulation.themis_figures.case import SIZES
from yarn_plugin.simulation.themis_figures.claims import Claim, claims
from yarn_plugin.simulation.themis_figures.page import page, shown
from yarn_plugin.validation import one_of


class Figures(click.ParamType[tuple[str, ...]]):
    """Numbers of figures, such as 3.9,3.10,table 3.5."""

    name = "figures"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Parse the text of an option."""
        if isinstance(value, tuple):
            return value
        chosen = [part.strip() for part in str(value).split(",")]
        unknown = next((part for part in chosen if part not in plan.NUMBERS), None)
        if unknown is not None:
            self.fail(f"{unknown!r}: {one_of(plan.NUMBERS)}", param, ctx)
        return tuple(number for number in plan.NUMBERS if number in chosen)


@click.group(context_settings=console.CONTEXT)
def figures() -> None:
    """Reproduce the figures of papers by simulation."""


@figures.command(context_settings=console.CONTEXT)
@click.option(
    "--only",
    type=Figures(),
    default=plan.NUMBERS,
    help="Figures and tables, such as 3.9,table 3.5.  [default: all]",
)
@click.option("--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="Number of paired seeds.")
@click.option(
    "--size",
    type=click.Choice(list(SIZES)),
    default="small",
    show_default=True,
    help="Size of the simulations, see above. Figures 3.1 to 3.4, 3.8 and "
    "tables 3.3 and 3.4 ignore it, as they simulate nothing; 3.5 and 3.18 do too, as the thesis gives their size.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("themis-figures"),
    show_default=True,
    help="Directory of the page and of the results, which the next run continues from.",
)
@click.option("--processes", type=click.IntRange(1), help="Simulations at a time.  [default: one per CPU]")
@json_option
def themis(
    only: tuple[str, ...], seeds: int, size: str, out: Path, processes: int | None, json_file: Path | None
) -> None:
    """Figures 3.1 to 3.19 and tables 3.1 to 3.5 of the Themis thesis, beside what the thesis says about them.

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
    numbers = range(seeds)
    cases = plan.cases(only, numbers, size)
    with progress_bar("simulations") as bar:
        task = bar.add_task("", total=len(cases))
        results = run_cases(cases, out / "runs", processes, lambda done: bar.update(task, completed=done))
    found = claims(results, only, numbers, size)
    write(page(results, found, only, numbers, size), out / "figures.html")
    columns = ("figure", "effect", "thesis", "#here", "95% interval", "sign and shape")
    rows = [(one.figure, one.text, one.paper, *shown(one), one.verdict) for one in found]
    console.out.print(console.table(None, columns, rows))
    for figure in plan.FIGURES:
        if figure.number in only and figure.not_reproduced:
            console.out.print(f"{figure.number}: not reproduced: {figure.not_reproduced}")
    console.out.print(f"page: {out / 'figures.html'}")
    if json_file is not None:
        console.write_json(json_file, [_record(one) for one in found])


@figures.command(context_settings=console.CONTEXT)
@click.option("--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="Number of workloads.")
@json_option
def hived(seeds: int, json_file: Path | None) -> None:
    """What HiveD (OSDI '20) says of virtual clusters of cells, beside what is measured on generated gangs."""
    _show_paper("hived", seeds, json_file)


@figures.command(context_settings=console.CONTEXT)
@click.option("--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="Number of workloads.")
@json_option
def allox(seeds: int, json_file: Path | None) -> None:
    """What AlloX (EuroSys '20) says of jobs on GPUs or cores, beside what is measured on generated jobs."""
    _show_paper("allox", seeds, json_file)


@figures.command(context_settings=console.CONTEXT)
@click.option("--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="Number of queues.")
@json_option
def sharing(seeds: int, json_file: Path | None) -> None:
    """What OJPP says of workers that share GPUs, beside what is measured on generated queues."""
    _show_paper("sharing", seeds, json_file)


def _show_paper(name: str, seeds: int, json_file: Path | None) -> None:
    """Simulate what a paper's specification says; print its claims with what was found, and what is only told."""
    paper = specification.read(name)
    with progress_bar("seeds") as bar:
        task = bar.add_task("", total=seeds)
        effects = measure(paper, seeds, lambda done: bar.update(task, completed=done))
    rows, records = [], []
    for claim, found in zip(paper.claims, effects, strict=True):
        holds = sum(claim.low <= effect <= claim.high for effect in found)
        shown_effects = ", ".join(f"{effect:.3g}" for effect in found[:5])
        rows.append((claim.section, claim.effect, claim.paper, shown_effects, f"{holds} of {seeds} seeds"))
        records.append({**claim.model_dump(include={"section", "effect", "paper"}), "seeds": found, "holds": holds})
    console.out.print(paper.title)
    console.out.print(console.table(None, ("section", "effect", "paper", "#here, by seed", "as claimed"), rows))
    for told in paper.told:
        console.out.print(f"not reproduced: {told.effect}: {told.why}")
    if json_file is not None:
        console.write_json(json_file, records)


def _record(claim: Claim) -> dict[str, Any]:
    one = claim.measured
    return {
        "figure": claim.figure, "effect": claim.text, "thesis": claim.paper, "mean": one.mean, "low": one.low,
        "high": one.high, "seeds": claim.effects, "verdict": claim.verdict,
    }  # fmt: skip
