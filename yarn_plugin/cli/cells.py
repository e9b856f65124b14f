"""`yarn-plugin cells`: clusters of cells, checked, shown and replayed; whether a gang fits; what a change would do."""

import getpass
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from yarn_plugin import console
from yarn_plugin.api import wire
from yarn_plugin.api.jobs import TENANT
from yarn_plugin.cells.answers import answer_figures, answer_lines
from yarn_plugin.cells.cases import read_case
from yarn_plugin.cells.cell_map import map_lines
from yarn_plugin.cells.cell_tree import quota_rows, tree_lines
from yarn_plugin.cells.changes import Change, change_of
from yarn_plugin.cells.discovery import find_cells, render
from yarn_plugin.cells.file import read_cells
from yarn_plugin.cells.findings import Finding, Replay
from yarn_plugin.cells.levels import level_rows
from yarn_plugin.cells.node_faults import SeenNode, find_faults
from yarn_plugin.cells.replay import follow, run_freely
from yarn_plugin.cells.running import as_json
from yarn_plugin.cli.cells_source import (
    AskedPool,
    Source,
    naming,
    pool_options,
    read_source,
    read_work,
    running_option,
)
from yarn_plugin.cli.options import json_option, rm_option
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import Allocator, Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Bind, Wait
from yarn_plugin.decide.mechanisms.buddy_cells.cells import MAX_PRIORITY
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.explanation import ask, explain, latest_start
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Request
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import record_of
from yarn_plugin.errors import BadInputError, os_reason
from yarn_plugin.model.resources import GPU
from yarn_plugin.observe.capabilities import probe
from yarn_plugin.observe.nodes import parse_nodes
from yarn_plugin.observe.resource_manager import ResourceManager, addresses
from yarn_plugin.quantities import count
from yarn_plugin.toml_files import read_text


@click.group(context_settings=console.CONTEXT)
def cells() -> None:
    """Virtual clusters as quotas of cells (HiveD): a gang never waits longer than in a private cluster.

    A cell is a piece of the cluster at some level: a GPU, a PCIe switch, a socket, a node, a rack. FILE describes the
    cells and the quota of each virtual cluster, in TOML; files that end in .yaml, .yml or .json are read as
    configurations of Microsoft's HiveD scheduler, as they are.

    \b
    Example:
      [cell_types.rack]
      child = "node"              # a rack consists of 2 nodes,
      number = 2
      [cell_types.node]
      child = "gpu"               # a node of 8 GPUs
      number = 8
      is_node = true              # a pod's GPUs are on one node; nodes have host names
      [[cells]]
      type = "rack"
      nodes = ["n1", "n2"]
      [[cells]]
      type = "rack"
      nodes = ["n3", "n4"]
      [virtual_clusters.prod]
      cells = [{ type = "rack", number = 1 }]
      [virtual_clusters.research]
      cells = [{ type = "node", number = 1 }, { type = "gpu", number = 4 }]

    \b
      yarn-plugin cells check FILE
      yarn-plugin cells fit FILE --vc prod --gang 2x8
      yarn-plugin cells replay CASE.json --json -
    """


_FILE = click.argument("file", type=click.Path(path_type=Path))


_ASKED_FILE = click.argument("file", required=False, type=click.Path(path_type=Path))
_RUNNING = running_option("what runs, if the arbiter is asked; else nothing runs")


@cells.command()
@_FILE
@click.option(
    "--rm",
    metavar="URL[,URL]",
    help="Compare the nodes and their GPUs with those of this ResourceManager, too.",
)
@console.ca_option
@click.option("--vc", metavar="NAME", help="The virtual cluster of --gang.")
@click.option(
    "--gang", metavar="NxM[,NxM]", help="Check also that a gang of so many pods and GPUs of each can ever fit."
)
@json_option
def check(
    file: Path, rm: str | None, verify: str | bool, vc: str | None, gang: str | None, json_file: Path | None
) -> int:
    """Check that all quotas in FILE can be served at once, whatever is used first.

    Prints, for each chain and level, how many cells there are, how many are pinned or assured to virtual clusters, and
    how many more could be. An infeasible quota is an error with the level and the number missing.

    With --rm, exits with 1 if the ResourceManager reports fewer GPUs than FILE has, or does not know a node; or if
    quotas have cells below nodes although NodeManagers choose the GPUs of containers themselves. With --gang, exits
    with 1 if it would wait for ever.
    """
    if (vc is None) != (gang is None):
        raise BadInputError("--vc" if vc is None else "--gang", None, "required; give --vc and --gang, or neither")
    cluster = _cluster(file)
    fit = None if vc is None or gang is None else _fit(cluster, vc, gang)
    rows = [row for state in cluster.chains.values() for row in level_rows(state, cluster)]
    columns = ("chain", "#level", "type", "#leaves", "#cells", "#pinned", "#assured", "#spare")
    console.out.print(console.table(None, columns, rows))
    leaves = sum(len(levels[0]) for levels in cluster.forest.levels.values())
    console.out.print(
        f"feasible: {count(leaves, 'leaf', 'leaves')}, {count(len(cluster.forest.nodes), 'node')}, "
        f"{count(len(cluster.virtual), 'virtual cluster')}"
    )
    if json_file is not None:
        names = ("chain", "level", "type", "leaves", "cells", "pinned", "assured", "spare")
        console.write_json(json_file, {"levels": [dict(zip(names, row, strict=True)) for row in rows]})
    if fit is not None:
        console.out.print("\n".join(fit.lines), soft_wrap=True)
    agrees = rm is None or _agrees_with_manager(cluster, rm, verify)
    return 0 if agrees and (fit is None or fit.is_possible) else 1


@dataclass(frozen=True, slots=True)
class _Fit:
    """Whether a gang can ever fit, and what is printed of it."""

    is_possible: bool
    lines: Sequence[str]


def _fit(cluster: Cluster, vc: str, gang: str) -> _Fit:
    pods = _parse_gang(gang)
    request = Request(f"{gang} (asked)", vc, 0, pods, ignores_exclusions=True)
    allocator, call = Allocator(cluster), Call(request.gang, pods[0][1], request)
    answer = ask(allocator, call)
    if isinstance(answer, Wait):
        return _Fit(False, list(answer_lines(answer, explain(allocator, call, answer, {}), request, cluster.spec, {})))
    return _Fit(True, [f"{gang} fits in {vc}"])


def _agrees_with_manager(cluster: Cluster, rm: str, verify: str | bool) -> bool:
    manager = ResourceManager(addresses(rm), getpass.getuser(), verify=verify)
    found = parse_nodes(manager.get("/nodes"))
    seen = {node.host: SeenNode(node.capacity[GPU], is_broken=True) for node in found.broken.values()}
    seen |= {node.host: SeenNode(node.capacity[GPU]) for node in found.values()}
    faults = list(find_faults(cluster, seen))
    for fault in faults:
        console.out.print(str(fault), soft_wrap=True)
    below = _quotas_below_nodes(cluster) if probe(manager).isolates_gpus else []
    for where in below:
        console.out.print(
            f"{where}: NodeManagers choose the GPUs of containers here; quotas must be of nodes or larger cells",
            soft_wrap=True,
        )
    if not faults and not below:
        console.out.print(f"agrees with {manager.url}")
    return not below and not any(fault.is_bad for fault in faults)


def _quotas_below_nodes(cluster: Cluster) -> list[str]:
    return [
        f"virtual_clusters.{name}.cells: type {root.type!r}"
        for name, virtual in cluster.virtual.items()
        for partition in virtual.partitions()
        for root in {root.level: root for root in partition.cells.roots}.values()
        if root.level < root.chain.node_level
    ]


@cells.command()
@click.argument("file", type=click.Path(path_type=Path), default="cells.toml")
@rm_option
@click.option(
    "--vc",
    "clusters",
    multiple=True,
    metavar="NAME",
    help="A virtual cluster; repeat it for several, which get equal parts.  [default: one, default]",
)
@click.option("--racks/--no-racks", default=True, help="Whether racks are cells, above nodes.  [default: they are]")
@console.ca_option
def init(file: Path, rm: str, clusters: tuple[str, ...], racks: bool, verify: str | bool) -> None:
    """Write FILE (cells.toml) from the nodes, racks, labels and GPUs that a ResourceManager reports.

    Each node label is a type of GPU. A gang stays in one chain: racks that differ in size are different chains, unless
    --no-racks is given. An existing FILE is not replaced. Edit the quotas then, and `check` them.

    \b
    Example:
      yarn-plugin cells init --rm http://rm:8088 --vc prod --vc research
    """
    if file.suffix.lower() != ".toml":
        raise BadInputError("FILE", str(file), "must end in .toml")
    names = clusters or ("default",)
    if len(set(names)) < len(names):
        raise BadInputError("--vc", " ".join(names), "must be different names")
    for name in names:
        if not re.fullmatch(f"{TENANT}(/{TENANT})*", name):
            expected = "must be a path of names of letters, digits and . _ @ -, such as vision/nightly, as jobs name it"
            raise BadInputError("--vc", name, expected)
    manager = ResourceManager(addresses(rm), getpass.getuser(), verify=verify)
    listed = parse_nodes(manager.get("/nodes"))
    found = find_cells([*listed.values(), *listed.broken.values()], listed.partitions, racks)
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(render(found, names))
    except FileExistsError:
        raise BadInputError("FILE", str(file), "exists already; remove it, or choose another name") from None
    except OSError as problem:
        raise BadInputError("FILE", str(file), f"cannot be written ({os_reason(problem)})") from None
    console.out.print(f"{file} written; `yarn-plugin cells check {file}` shows what it assures", soft_wrap=True)


@cells.command()
@_ASKED_FILE
@click.option(
    "--map", "is_map", is_flag=True, help="A line for each node and a letter for each GPU, instead of a tree."
)
@_RUNNING
@pool_options
@json_option
def show(file: Path | None, is_map: bool, running_file: Path | None, pool: AskedPool, json_file: Path | None) -> None:
    """Show the cells as a tree: which are free, who holds which, and which are bad.

    Without FILE, the cells of a running arbiter; this needs the administrator's token. Cells that are free as a whole
    are one line. Then each virtual cluster: the cells of its quota, how many are in use, and how many are bad or doomed
    (nothing healthy is left for them). With --map, one letter for each GPU, and how many nodes cannot take a guaranteed
    pod of all their GPUs, since guaranteed work holds some (fragmentation).

    \b
    Example:
      yarn-plugin cells show --token-file arbiter/admin.token
    """
    source = read_source(file, running_file, pool)
    cluster, jobs = source.build().allocator.cluster, source.work.jobs()
    for line in map_lines(cluster) if is_map else tree_lines(cluster, jobs):
        console.out.print(line, soft_wrap=True)
    rows = [row for name in cluster.virtual for row in quota_rows(cluster, name)]
    columns = ("virtual cluster", "chain", "type", "#cells", "#in use", "#bad")
    console.out.print(console.table(None, columns, rows))
    if json_file is not None:
        gangs = [as_json(record_of(gang), jobs.get(gang.name, "")) for gang in cluster.gangs.values()]
        console.write_json(json_file, {"gangs": gangs, "bad_nodes": cluster.bad_hosts()})


@cells.command()
@_ASKED_FILE
@click.option("--vc", required=True, metavar="NAME", help="The virtual cluster.")
@click.option("--gang", required=True, metavar="NxM[,NxM]", help="Pods and GPUs of each, such as 4x8 or 2x8,1x4.")
@click.option(
    "--priority",
    type=click.IntRange(-1, MAX_PRIORITY),
    default=0,
    show_default=True,
    help="-1 is opportunistic: uses what others leave, and is evicted for guaranteed work.",
)
@click.option("--leaf-type", default="", metavar="TYPE", help="Type of GPU.  [default: any]")
@click.option("--pinned", default="", metavar="ID", help="Use this pinned cell.")
@click.option(
    "--grace",
    type=console.Number(0, 86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long evicted gangs have to leave (the pool's grace_s).",
)
@_RUNNING
@pool_options
@json_option
def fit(
    file: Path | None,
    vc: str,
    gang: str,
    priority: int,
    leaf_type: str,
    pinned: str,
    grace: float,
    running_file: Path | None,
    pool: AskedPool,
    json_file: Path | None,
) -> None:
    """Answer where a gang would be placed now, whom it would evict, or what it would wait for. Changes nothing.

    Without FILE, on the cells of a running arbiter, beside what runs there; this needs the administrator's token.

    When it starts at the latest is said where that is known: evicted gangs leave within the grace period, and running
    ones end as `ends_in_s` in --running says. The exit code is 0 whatever the answer; bad input is an error.
    """
    pods = _parse_gang(gang)
    source = read_source(file, running_file, pool)
    allocator, jobs = source.build().allocator, source.work.jobs()
    request = Request(f"{gang} (asked)", vc, priority, pods, leaf_type, pinned, ignores_exclusions=True)
    call = Call(request.gang, pods[0][1], request)
    answer = ask(allocator, call)
    explanation = explain(allocator, call, answer, jobs) if isinstance(answer, Wait) else None
    for line in answer_lines(answer, explanation, request, source.spec, jobs):
        console.out.print(line, soft_wrap=True)
    ends = source.work.ends_in_s()
    latest = None if isinstance(answer, Bind) else latest_start(allocator, call, ends, grace)
    if latest is not None:
        console.out.print(f"at the latest in {latest:g} s, if nobody else comes")
    if json_file is not None:
        console.write_json(json_file, {**answer_figures(answer, explanation, jobs), "latest_s": latest})


def _parse_gang(text: str) -> tuple[tuple[int, int], ...]:
    pods: list[tuple[int, int]] = []
    for part in text.split(","):
        number, _, size = part.partition("x")
        if not (number.isascii() and number.isdigit() and size.isascii() and size.isdigit()) or len(part) > 12:
            raise BadInputError("--gang", text, "must be pods and GPUs of each, such as 4x8 or 2x8,1x4")
        pods.append((int(number), int(size)))
    if sum(number * size for number, size in pods) > 1_000_000:
        raise BadInputError("--gang", text, "must have at most 1,000,000 GPUs")
    return tuple(pods)


@cells.command()
@click.argument("new", type=click.Path(path_type=Path))
@running_option("what runs on the arbiter")
@pool_options
@json_option
def plan(new: Path, running_file: Path | None, pool: AskedPool, json_file: Path | None) -> None:
    """Show what the configuration NEW would mean for the work that runs. Changes nothing.

    An infeasible NEW is an error. Otherwise: which gangs would go on as opportunistic work, as their virtual cluster's
    quota no longer has cells for them, and which run on GPUs that are no longer part of the cluster. Without --running,
    a running arbiter is asked; this needs the administrator's token.

    \b
    Example:
      yarn-plugin cells plan new.toml --token-file arbiter/admin.token
    """
    spec = _cluster(new).spec
    work = read_work(running_file, pool)
    after = Source(f"file {str(new)!r}", spec, work).build()
    change = change_of(after, [gang.gang for gang in work.gangs], work.jobs())
    for line in change.lines():
        console.out.print(line, soft_wrap=True)
    if json_file is not None:
        console.write_json(json_file, asdict(change))


@cells.command()
@pool_options
@json_option
def running(pool: AskedPool, json_file: Path | None) -> None:
    """List the gangs that run on the cells of an arbiter, in the order in which they would keep them.

    With --json, writes a file for --running of `show`, `fit` and `plan`. Needs the administrator's token.

    \b
    Example:
      yarn-plugin cells running --token-file arbiter/admin.token --json running.json
      yarn-plugin cells plan new.toml --running running.json
    """
    asked = pool.cells()
    by_job: dict[str, list[wire.RunningGang]] = {}
    for gang in asked.gangs:
        by_job.setdefault(gang.job or gang.gang, []).append(gang)
    rows = [(name, *_held(gangs)) for name, gangs in by_job.items()]
    console.out.print(console.table(None, ("gang", "virtual cluster", "priority", "cells"), rows))
    if asked.bad_nodes:
        console.out.print(f"bad nodes: {', '.join(asked.bad_nodes)}", soft_wrap=True)
    if json_file is not None:
        console.write_json(json_file, asked.model_dump(include={"gangs", "bad_nodes"}))


def _held(gangs: Sequence[wire.RunningGang]) -> tuple[str, object, str]:
    """The virtual cluster, priority and cells of a gang, or of the gangs of a job."""
    pods = [pod for gang in gangs for pod in gang.pods]
    priority = gangs[0].priority if any(pod.quota_types for pod in pods) else "opportunistic"
    places = (f"{pod.node}[{','.join(pod.leaves)}]" for pod in pods)
    return gangs[0].virtual_cluster, priority, " ".join(places)


@cells.command()
@click.argument("new", type=click.Path(path_type=Path))
@pool_options
@json_option
def apply(new: Path, pool: AskedPool, json_file: Path | None) -> None:
    """Replace the cells file of a running arbiter by NEW, which takes effect without a restart.

    Does what `plan` shows: gangs for which the new quotas have no cells become opportunistic, and continue. Their
    applications are notified before: NEW takes effect after the notice (notice_s of the allocator's settings), or at
    once if nobody is downgraded. To take a change back within the notice, apply the earlier file. NEW must have the
    format of the present file. Needs the administrator's token.

    \b
    Example:
      yarn-plugin cells apply new.toml --token-file arbiter/admin.token
    """
    where = f"file {str(new)!r}"
    read_cells(where, new)
    client = pool.client()
    name = pool.name_at(client)
    made = client.replace_cells(name, read_text(where, new))
    change = Change(tuple(made.downgraded), tuple(made.restarted), tuple(made.outside), made.unchanged)
    for line in change.lines():
        console.out.print(line, soft_wrap=True)
    when = f"in {made.in_s:g} s; their applications have been told" if made.in_s else "now"
    console.out.print(f"pool {name}: in effect {when}", soft_wrap=True)
    if json_file is not None:
        console.write_json(json_file, made.model_dump())


@cells.command()
@click.argument("case_files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="CASE.json...")
@json_option
def replay(case_files: tuple[Path, ...], json_file: Path | None) -> int:
    """Replay recorded cases, and compare the answers with the recorded ones of the HiveD scheduler.

    Each case is replayed twice. `follow`: each recorded answer is compared with ours and then applied, so that every
    step is compared in the recorded state. `free`: our own answers are applied, and only invariants are checked.

    better: placed, where the recorded scheduler waits. survived: answered, where it crashed. broken: a rule that must
    hold does not; then the exit code is 1. A configuration is looked up by its name in `../configs`, seen from the
    case, and beside it.
    """
    results: list[tuple[str, Replay]] = []
    for path in case_files:
        case = read_case(f"case {str(path)!r}", path)
        results += [(case.file.name, follow(case)), (case.file.name, run_freely(case))]
    rows = [_replay_row(name, result) for name, result in results]
    columns = ("case", "mode", "#steps", "outcomes", "exact", "shapes", "state", "legal served", "#better", "#broken")
    console.out.print(console.table(None, columns, rows))
    for name, result in results:
        for kind in ("better", "survived", "differing", "broken"):
            findings: list[Finding] = getattr(result, kind)
            for found in findings:
                console.out.print(f"{name} step {found.step} ({result.mode}): {kind}: {found.pod}: {found.text}")
    if json_file is not None:
        console.write_json(json_file, [{"case": name, **result.figures()} for name, result in results])
    return 1 if any(result.broken for _, result in results) else 0


def _replay_row(name: str, result: Replay) -> tuple[object, ...]:
    tallies = (result.outcomes, result.exact, result.shapes, result.after, result.served)
    parts = [f"{tally.agreed}/{tally.compared}" if tally.compared else "" for tally in tallies]
    return name, result.mode, result.steps, *parts, len(result.better), len(result.broken)


def _cluster(file: Path) -> Cluster:
    where = f"file {str(file)!r}"
    spec = read_cells(where, file)
    with naming(where):
        return Cluster(spec)
