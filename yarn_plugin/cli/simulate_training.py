"""`yarn-plugin simulate` with a workload of training applications."""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import click

from yarn_plugin import console
from yarn_plugin.cli.options import option_group
from yarn_plugin.cli.progress import progress_bar
from yarn_plugin.drive.training_runs import TrainingRun, bidders, check_policy, simulate_all
from yarn_plugin.errors import BadInputError
from yarn_plugin.quantities import count, number
from yarn_plugin.report import write
from yarn_plugin.simulation.figures import training_figures
from yarn_plugin.simulation.page import TRAINING, page
from yarn_plugin.simulation.result import Result
from yarn_plugin.simulation.training.cluster import load as load_cluster
from yarn_plugin.simulation.training.profiles import load as load_profiles
from yarn_plugin.simulation.training.themis_file import TIME_UNITS
from yarn_plugin.simulation.training.workload import GENERATED
from yarn_plugin.simulation.training.workload import read as read_workload
from yarn_plugin.toml_files import read_text, read_toml
from yarn_plugin.validation import one_of

MAX_RUNS = 10_000


class Minutes(click.ParamType[float]):
    """A length of time, in seconds: a bare number is minutes; 90s, 10m and 1.5h work too."""

    name = "time"

    def __init__(self, *, above_zero: bool = False) -> None:
        self.above_zero = above_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the text of an option."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([smh]?)", str(value).strip())
        time_s = float(found[1]) * {"s": 1.0, "m": 60.0, "": 60.0, "h": 3600.0}[found[2]] if found else math.inf
        if not math.isfinite(time_s):
            self.fail(f"{value!r}: must be a number of minutes, such as 10, or 90s, 10m, 1.5h", param, ctx)
        if self.above_zero and time_s == 0:
            self.fail(f"{value!r}: must be above 0", param, ctx)
        return time_s


class Seeds(click.ParamType[tuple[int, ...]]):
    """Numbers, such as 3 or 0,1,5-9."""

    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Parse the text of an option."""
        if isinstance(value, tuple):
            return value
        seeds: list[int] = []
        for part in str(value).split(","):
            found = re.fullmatch(r"(-?\d{1,18})(?:-(\d{1,18}))?", part.strip())
            last = int(found[2] or found[1]) if found else 0
            if not found or last < int(found[1]):
                self.fail(f"{value!r}: must be numbers, such as 3 or 0,1,5-9", param, ctx)
            if last - int(found[1]) >= MAX_RUNS:
                self.fail(f"{value!r}: must be at most {MAX_RUNS:,} seeds", param, ctx)
            seeds += range(int(found[1]), last + 1)
        return tuple(dict.fromkeys(seeds))


COLUMNS = (
    "policy", "#seed", "#max rho", "#median rho", "#max rho app", "#Jain", "#mean job min", "#mean app min",
    "#makespan min", "#GPU min", "#placement", "#rounds", "#bidders", "#wall s",
)  # fmt: skip
"""Times and GPU time in minutes."""


training_options = option_group(
    click.option(
        "--f",
        type=console.Number(0, 1),
        default=0.8,
        show_default=True,
        help="Training: each round offers GPUs to the 1 - f of the applications that are worst off.",
    ),
    click.option(
        "--lease",
        "lease_s",
        type=Minutes(above_zero=True),
        default="10",
        show_default=True,
        help="Training: length of a lease, in minutes.",
    ),
    click.option(
        "--round-window",
        "round_window_s",
        type=Minutes(),
        default="0",
        show_default=True,
        help="Training: minutes within which arrivals and freed GPUs share a round.",
    ),
    click.option(
        "--bidders",
        type=click.Choice(["apps", "jobs"]),
        default="apps",
        show_default=True,
        help="Training: who bids, applications or each of their jobs.",
    ),
    click.option(
        "--payments",
        type=click.Choice(["on", "off"]),
        default="on",
        show_default=True,
        help="Training: hidden payments of the auction.",
    ),
    click.option(
        "--checkpoint-cost",
        "checkpoint_s",
        type=Minutes(),
        default="0",
        show_default=True,
        help="Training: minutes that a job loses when its GPUs change.",
    ),
    click.option("--max-bidders", type=click.IntRange(1), help="Training: at most so many bidders a round."),
    click.option(
        "--error",
        type=console.Number(0, 0.99),
        default=0.0,
        show_default=True,
        help="Training: estimates are off by up to this fraction.",
    ),
    click.option(
        "--lie",
        type=console.Number(0, 10),
        default=0.0,
        show_default=True,
        help="Training: one application exaggerates its slowdowns by this fraction.",
    ),
    click.option("--liar", metavar="NAME", help="Training: the application that lies.  [default: the first]"),
    click.option(
        "--processes", type=click.IntRange(1), help="Training: simulations at a time.  [default: one per CPU]"
    ),
    click.option(
        "--profiles",
        type=click.Path(file_okay=False, exists=True, path_type=Path),
        metavar="DIR",
        help="Training: directory of measured slowdowns of networks (JSON).",
    ),
    click.option(
        "--time-unit",
        type=click.Choice(list(TIME_UNITS)),
        default="minutes",
        show_default=True,
        help="Training: unit of the times in a file of the Themis authors' simulator.",
    ),
)
"""Of workloads of training applications alone; a parameter is called as its field of `TrainingOptions`."""


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """The options of a simulation of training applications; times in seconds."""

    f: float
    lease_s: float
    round_window_s: float
    bidders: Literal["apps", "jobs"]
    payments: Literal["on", "off"]
    checkpoint_s: float
    max_bidders: int | None
    error: float
    lie: float
    liar: str | None
    processes: int | None
    profiles: Path | None
    time_unit: str


def is_training(path: Path) -> bool:
    """Whether a workload is one of training applications: by its name, or by the file's suffix, columns or sections.

    Raises:
        FileError, BadInputError: the file cannot be read, or there is neither.
    """
    suffix = path.suffix.lower()
    if suffix in (".json", ".trace") or (str(path) in GENERATED and not path.exists()):
        return True
    if not suffix and not path.exists():
        raise BadInputError("--workload", str(path), f"no such file; or {one_of(GENERATED, str(path))}")
    where = f"--workload {str(path)!r}"
    if suffix == ".csv":
        return "num_gpus" in read_text(where, path)[:1000].partition("\n")[0]
    table = read_toml(where, path)
    generated = table.get("generate", {})
    is_generated = isinstance(generated, dict) and "workload" in generated and "applications" not in table
    return "apps" in table or is_generated


def simulate(
    workload_file: Path,
    cluster_file: Path,
    policies: Sequence[str],
    seeds: Sequence[int],
    options: TrainingOptions,
    json_file: Path | None,
    report_file: Path | None,
) -> None:
    """Simulate a workload under every policy with every seed; print, and write, the figures of each.

    Raises:
        ReportedError: a file, a policy or an option is wrong, or a simulation cannot go on.
    """
    for policy in policies:
        check_policy(policy)
    if min(seeds) < 0:
        raise BadInputError("--seed", str(min(seeds)), "must be 0 or more")
    cluster, slowdowns = load_cluster(cluster_file), load_profiles(options.profiles) if options.profiles else None
    workload_of = read_workload(workload_file, slowdowns, options.time_unit)
    workloads = {seed: workload_of(seed) for seed in seeds}
    workload = workloads[seeds[0]]
    if len(policies) * len(seeds) > MAX_RUNS:
        raise BadInputError("--seed", len(seeds), f"must be at most {MAX_RUNS:,} simulations in all")
    if options.liar not in (None, *(app.name for app in workload.apps)):
        raise BadInputError("--liar", options.liar, "must be an application of the workload")
    runs = [
        TrainingRun(
            policy, seed, workloads[seed], cluster, options.f, options.lease_s, options.bidders,
            options.payments == "on", options.checkpoint_s, options.max_bidders, options.error, options.lie,
            (options.liar or workload.apps[0].name,) if options.lie else (),
            keeps_holdings=report_file is not None and seed == seeds[0],
            round_window_s=options.round_window_s,
        )
        for policy in policies
        for seed in seeds
    ]  # fmt: skip
    for note in (*workload.notes, *cluster.notes):
        console.err.print(f"note: {note}")
    with progress_bar(options.bidders) as bar:
        task = bar.add_task("", total=sum(map(bidders, runs)))

        def on_ended(count: int) -> None:
            bar.update(task, completed=count)

        results = simulate_all(runs, options.processes or os.cpu_count() or 1, on_ended)
    rows = [_row(result) for result in results]
    console.out.print(console.table(None, COLUMNS, rows))
    for result in results:
        if result.outcome.unfinished:
            console.err.print(
                f"note: {result.policy} with seed {result.seed}: "
                f"{count(result.outcome.unfinished, 'bidder')} never ended"
            )
    if json_file is not None:
        console.write_json(json_file, [_record(workload_file, result) for result in results])
    if report_file is not None:
        write(page(TRAINING, results, _about(workload_file, cluster_file, options), COLUMNS, rows), report_file)


def _row(run: Result) -> tuple[str, ...]:
    """The figures of a simulation, under `COLUMNS`."""
    its = training_figures(run.outcome)
    return (
        str(run.policy), str(run.seed), number(its.max_rho, 2), number(its.median_rho, 2),
        number(its.max_rho_app, 2), number(its.jain, 3), number(its.avg_jct_job, 0), number(its.avg_jct_app, 0),
        number(its.makespan, 0), number(its.gpu_time, 0), number(its.placement_score, 3), str(its.rounds),
        number(its.mean_bidders, 1), number(run.wall_s, 1),
    )  # fmt: skip


def _record(workload_file: Path, result: Result) -> dict[str, Any]:
    """A row of `--json`."""
    named = {"policy": result.policy, "workload": workload_file.stem, "seed": result.seed}
    return {**named, **asdict(training_figures(result.outcome)), "wall_s": result.wall_s}


def _about(workload_file: Path, cluster_file: Path, options: TrainingOptions) -> str:
    return (
        f"{workload_file.name} on {cluster_file.name}; f {options.f:g}, lease {options.lease_s / 60:g} min, "
        f"round window {options.round_window_s / 60:g} min, "
        f"bidders: {options.bidders}, payments {options.payments}, "
        f"checkpoint {options.checkpoint_s:g} s"
    )
