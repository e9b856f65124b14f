"""`themis-agent communication`: measure, trace, plan and show the communication of a training job."""

import importlib.util
import statistics
from pathlib import Path

import click
import numpy as np

from themis_agent.communication import figures, formats, launch
from themis_agent.communication.baselines import System
from themis_agent.communication.capture import iteration_of, typical, waits
from themis_agent.communication.costs import CostTable
from themis_agent.communication.formats import Trace
from themis_agent.communication.page import Shown, page
from themis_agent.communication.plan import Plan, check
from themis_agent.communication.planning import make_plan
from themis_agent.communication.search import Limits
from themis_agent.communication.settings import CHANNELS, COSTS, FOLDER, MODE, PLAN, Mode
from yarn_plugin import console
from yarn_plugin.errors import BadInputError
from yarn_plugin.report import write

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_PROCESSES = click.option(
    "--processes", type=click.IntRange(1, 64), default=2, show_default=True, help="Processes to start on this machine."
)
_CHANNELS = click.option(
    "--channels",
    default=",",
    metavar="NAME,NAME",
    help="Network interface of each channel, such as eth0,eth1; empty for the default one.  [default: two on that one]",
)
_COSTS = click.option("--costs", type=_FILE, metavar="FILE", help="Costs, as written by `measure`.")


@click.group(context_settings=console.CONTEXT)
def communication() -> None:
    """Plan the communication of a training job: how collective operations are divided, ordered and overlapped.

    \b
    What operations cost here:   themis-agent communication measure --out costs.json
    What a job does:             themis-agent communication trace --out traces -- python train.py
    A plan for it:               themis-agent communication plan traces/rank-0.json --costs costs.json --out plan.json
    A page about all of it:      themis-agent communication show traces/rank-0.json --plan plan.json --out page.html

    docs/communication.md describes how, and how a job is planned while it runs.
    """


@communication.command(context_settings=console.CONTEXT)
@_PROCESSES
@_CHANNELS
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("costs.json"), show_default=True,
              help="File of the costs.")  # fmt: skip
def measure(processes: int, channels: str, out: Path) -> None:
    """Measure what collective operations cost on each channel, alone and side by side.

    On several hosts, start it with torchrun instead: `torchrun ... -m themis_agent.communication.measuring costs.json`.
    """
    _need_torch()
    command = ["python", "-m", "themis_agent.communication.measuring", str(out.absolute())]
    launch.run(command, processes, {CHANNELS: channels})
    _print_costs(formats.load(CostTable, out))


@communication.command(context_settings={**console.CONTEXT, "allow_interspersed_args": False})
@_PROCESSES
@_CHANNELS
@_COSTS
@click.option("--plan", "plan_file", type=_FILE, metavar="FILE", help="Run the job under this plan.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("traces"), show_default=True,
              help="Directory of the traces, a file for each process.")  # fmt: skip
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def trace(
    processes: int, channels: str, costs: Path | None, plan_file: Path | None, out: Path, command: tuple[str, ...]
) -> None:
    """Run a training command in several processes, and write what each computes and communicates in an iteration.

    The script calls `themis_agent.communication.init_process_group` instead of `torch.distributed.init_process_group`.
    """
    _need_torch()
    mode = Mode.TRACED if plan_file is None else Mode.PLANNED
    environment = {MODE: mode.value, FOLDER: str(out.absolute()), CHANNELS: channels}
    environment |= {
        name: str(path.absolute()) for name, path in ((COSTS, costs), (PLAN, plan_file)) if path is not None
    }
    launch.run(command, processes, environment)
    for file in sorted(out.glob("rank-*.json")):
        seen = formats.load(Trace, file).iterations
        same = typical(seen)
        operations = len(same[0].operations) if same else 0
        console.out.print(f"{file}: {len(seen)} iterations, {len(same)} of them with the same {operations} operations")


@communication.command(context_settings=console.CONTEXT)
@click.argument("trace_file", type=_FILE, metavar="TRACE.json")
@_COSTS
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the search.")
@click.option(
    "--steps",
    type=click.IntRange(1, 1_000_000),
    default=500,
    show_default=True,
    help="Maximum number of steps of the search.",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("plan.json"), show_default=True,
              help="File of the plan.")  # fmt: skip
def plan(trace_file: Path, costs: Path | None, seed: int, steps: int, out: Path) -> None:
    """Search for the plan with the shortest iteration."""
    seen = formats.load(Trace, trace_file)
    table = formats.load(CostTable, costs) if costs is not None else seen.costs
    if table is None:
        raise BadInputError("--costs", None, "required, as the trace has no costs")
    iterations = typical([one for one in seen.iterations if not one.version] or seen.iterations)
    if not iterations:
        raise BadInputError("TRACE.json", str(trace_file), "must have iterations")
    made, found = make_plan(iteration_of(iterations), table, np.random.default_rng(seed), Limits(steps=steps))
    check(made, waits(iterations))
    formats.save(made, out)
    columns = ("#", "operation", "#elements", "planned as")
    rows = [
        (number, operation.kind, operation.elements, option)
        for number, (operation, option) in enumerate(zip(made.operations, made.options, strict=True))
    ]
    console.out.print(console.table(None, columns, rows))
    console.out.print(
        f"iteration: {made.period_s * 1000:.1f} ms predicted, {100 * found.best.idle:.0f}% without computation; "
        f"{found.steps} steps; plan: {out}"
    )


@communication.command(context_settings=console.CONTEXT)
@click.argument("trace_file", type=_FILE, metavar="TRACE.json")
@_COSTS
@click.option("--plan", "plan_file", type=_FILE, metavar="FILE", help="Plan, as written by `plan`.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("communication.html"),
              show_default=True, help="File of the page.")  # fmt: skip
def show(trace_file: Path, costs: Path | None, plan_file: Path | None, out: Path) -> None:
    """Write a page: a timeline for each channel, planned beside measured."""
    seen = formats.load(Trace, trace_file)
    table = formats.load(CostTable, costs) if costs is not None else seen.costs
    made = formats.load(Plan, plan_file) if plan_file is not None else seen.plan
    write(page(Shown(seen, table, made)), out)
    console.out.print(f"page: {out}")


def _need_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise BadInputError("torch", "missing", "must be installed, as pip install 'yarn-plugin[torch]' does")


def _print_costs(costs: CostTable) -> None:
    rows = [
        (curve.kind, costs.channels[curve.channel], size, f"{seconds * 1000:.3f}")
        for curve in costs.curves
        if not curve.destinations
        for size, seconds in zip(curve.bytes, curve.seconds, strict=True)
    ]
    console.out.print(console.table(None, ("operation", "channel", "#bytes", "#ms"), rows))


@communication.command("figures", context_settings=console.CONTEXT)
@click.option(
    "--instances", type=click.IntRange(1, 10_000), help="Number of instances.  [default: that of the declared figures]"
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("syndicate.html"),
              show_default=True, help="File of the page.")  # fmt: skip
def syndicate_figures(instances: int | None, out: Path) -> None:
    """Compare modelled DLRM instances with the figures of the Themis thesis' chapter on Syndicate.

    The ranges of the instances, the baselines and the claims were fixed before any result was computed.
    """
    of = figures.specification()
    parameters = of.parameters.model_copy(update={} if instances is None else {"instances": instances})
    kept = figures.instances(parameters)
    checked = figures.check(of.claims, kept)
    write(figures.page(of, checked, kept), out)
    columns = ("claim", "#thesis", "#median", "#10th percentile", "#90th", "as expected")
    rows = [
        (one.claim.text, one.claim.paper, f"{one.median:.3f}", f"{one.low:.3f}", f"{one.high:.3f}", _YES_NO[one.holds])
        for one in checked
    ]
    console.out.print(console.table(None, columns, rows))
    medians = [
        (system, *(f"{statistics.median(figures.values(measure, system, kept)):.3f}" for measure in _SHOWN))
        for system in System
    ]
    console.out.print(console.table(None, ("system", "#iteration / last-in-first-out", "#idle, %"), medians))
    console.out.print(f"page: {out}")


_YES_NO = {True: "yes", False: "no", None: ""}
_SHOWN: tuple[figures.Measure, ...] = ("iteration_of_lifo", "idle_percent")
