"""`yarn-plugin queues`: YARN's queues compared with a file, changed and shown."""

import getpass
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from yarn_plugin import console
from yarn_plugin.cli.options import json_option, rm_option
from yarn_plugin.observe.queue_tree import WEIGHT, QueueReport
from yarn_plugin.observe.resource_manager import ResourceManager, addresses
from yarn_plugin.quantities import count
from yarn_plugin.queues import apply as writing
from yarn_plugin.queues.effective import Deviation
from yarn_plugin.queues.file import load
from yarn_plugin.queues.live import read_tree
from yarn_plugin.queues.plan import Plan
from yarn_plugin.queues.specification import number

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group(context_settings=console.CONTEXT)
def queues() -> None:
    """Compare, change and show YARN's queues: `plan` and `apply` a TOML file, `show` the live tree.

    Needs a ResourceManager with the CapacityScheduler; `apply` also needs an administrator of the queues (--user) and
    a writable configuration store: yarn.scheduler.configuration.store.class=fs, on a shared file system such as HDFS,
    or zk; leveldb only without an HA pair.

    \b
    Example: a queue for the arbiter's pool.
      [[queue]]
      path = "root.default"
      weight = 2                  # queues of one parent: all have a weight, or all a capacity
      [[queue]]
      path = "root.sql"
      weight = 8                  # or: capacity = 60, in percent of the parent's
      maximum_capacity = 100      # percent of the parent's
      dynamic_leaves = true       # create a leaf queue for each application
      [queue.leaf_template]
      weight = 1
      user_limit_factor = 1000    # otherwise a user cannot use more than the queue's capacity
      maximum_am_resource_percent = 0.9
      maximum_applications = 10000    # otherwise a queue with a small weight rejects a second application
      # [[queue]]
      # path = "root.old"
      # remove = true             # must be STOPPED and empty

    A queue uses the nodes of a partition (node label) if it and its parents have a part of it. Leave it without
    dynamic leaves: in partitions YARN gives those nothing.

    \b
      [[queue]]
      path = "root"
      [queue.partition.gpu]       # nodes with label gpu, which must exist
      capacity = 100
      [[queue]]
      path = "root.gpu"
      weight = 2                  # of the nodes without label: for application masters
      default_partition = "gpu"   # of containers whose request names neither a node nor a label
      [queue.partition.gpu]
      weight = 1

    Further properties: user_limit_factor, maximum_am_resource_percent, maximum_applications, disable_preemption, state
    (RUNNING or STOPPED), acl_submit_applications, acl_administer_queue. Queues and properties that the file does not
    name stay unchanged.

    \b
      yarn-plugin queues plan --rm http://rm:8088 queues.toml
      yarn-plugin queues apply --rm http://rm:8088 queues.toml
    """


def _manager_options(command: _Command) -> _Command:
    user = click.option(
        "--user",
        default=getpass.getuser,
        metavar="NAME",
        help="YARN user as whom queues are read and changed (simple authentication).  [default: your login name]",
    )
    return rm_option(user(console.ca_option(json_option(command))))


_FILE = click.argument("file", type=click.Path(path_type=Path))


@queues.command()
@_FILE
@_manager_options
def plan(file: Path, rm: str, user: str, verify: str | bool, json_file: Path | None) -> None:
    """Show what `apply` would change to match FILE. Changes nothing.

    Exits with 0 whether or not there are changes.
    """
    manager, specs = ResourceManager(addresses(rm), user, verify=verify), load(file)
    comparison = writing.compare(manager, specs)
    _print_plan(comparison)
    if comparison.changes:
        click.echo(f"{_counted(comparison)}; apply with: {_apply_command(file, rm, user, verify)}")
    else:
        click.echo(f"nothing to do: the queues match {file}")
    if not comparison.changes:
        _warn(writing.not_in_effect(manager, specs, 0.0))
    if comparison.unnamed:
        click.echo(f"not in the file, unchanged: {', '.join(comparison.unnamed)}")
    _write(json_file, comparison)


@queues.command()
@_FILE
@_manager_options
def apply(file: Path, rm: str, user: str, verify: str | bool, json_file: Path | None) -> None:
    """Change the queues to match FILE in one request, then read them back and compare.

    Does not ask for confirmation: run `plan` before. The ResourceManager makes all changes or none. To undo them, apply
    a file with the values that `plan` shows as current.

    Exits with 1 if YARN has stored a capacity and does not use it.
    """
    manager, specs = ResourceManager(addresses(rm), user, verify=verify), load(file)
    made = writing.apply(manager, specs)
    _print_plan(made)
    ignored = writing.not_in_effect(manager, specs, writing.SETTLE_S)
    if made.changes:
        click.echo(f"{_counted(made)} made{'' if ignored else ' and verified'}")
    else:
        click.echo(f"nothing to do: the {'configuration matches' if ignored else 'queues match'} {file}")
    _write(json_file, made, ignored)
    _warn(ignored)
    if ignored:
        raise click.exceptions.Exit(1)


@queues.command()
@_manager_options
def show(rm: str, user: str, verify: str | bool, json_file: Path | None) -> None:
    """Show the live queues, their capacities and their usage. Works with a read-only configuration too.

    guaranteed, maximum and used are percentages of the cluster; pending counts requested containers. Column leaves:
    `parent` = a dynamic leaf queue is created in it for each application; `leaf` = such a leaf queue; empty = neither.
    """
    tree = read_tree(ResourceManager(addresses(rm), user, verify=verify))
    columns = (
        *("queue", "state", "#capacity", "#guaranteed", "#maximum", "#used", "#apps", "#pending"),
        *("allocated", "leaves"),
    )
    console.out.print(console.table(None, columns, [_row(queue) for queue in tree.values()]))
    if json_file is not None:
        console.write_json(json_file, {"queues": [_figures(queue) for queue in tree.values()]})


def _warn(ignored: Sequence[Deviation]) -> None:
    for one in ignored:
        console.err.print(f"warning: {one}; {_ADVICE}", soft_wrap=True)


_ADVICE = "restart the ResourceManager, which then uses what it has stored, or use weights"


def _print_plan(shown: Plan) -> None:
    rows: list[tuple[str, str, str, str, str]] = [
        (change.path, change.kind, difference.name, _value(difference.now), _value(difference.then))
        for change in shown.changes
        if change.kind != "remove"
        for difference in change.differences
    ]
    rows += [(change.path, change.kind, "", "", "") for change in shown.changes_of("remove")]
    if rows:
        console.out.print(console.table(None, ("queue", "change", "property", "current", "new"), _once(rows)))


def _apply_command(file: Path, rm: str, user: str, verify: str | bool) -> str:
    identity = () if user == getpass.getuser() else ("--user", user)
    trust = ("--ca-file", verify) if isinstance(verify, str) else ()
    return shlex.join(("yarn-plugin", "queues", "apply", "--rm", rm, *identity, *trust, str(file)))


def _once(rows: list[tuple[str, str, str, str, str]]) -> Iterator[tuple[str, str, str, str, str]]:
    """Blank the queue and change of rows that repeat them."""
    before = ""
    for row in rows:
        yield ("", "", *row[2:]) if row[0] == before else row
        before = row[0]


def _value(value: str | None) -> str:
    return "not set" if value is None else value if value.strip() else repr(value)


def _counted(shown: Plan) -> str:
    differences = sum(max(len(change.differences), 1) for change in shown.changes)
    return f"{count(differences, 'change')} in {count(len(shown.changes), 'queue')}"


def _row(queue: QueueReport) -> tuple[object, ...]:
    depth = queue.path.count(".")
    capacity = f"{number(queue.weight)}w" if queue.mode == WEIGHT else f"{queue.percent:.4g}%"
    kind = "leaf" if queue.dynamic else "parent" if queue.makes_leaves else ""
    return (
        "  " * depth + queue.path.rpartition(".")[2],
        queue.state,
        capacity,
        *(f"{part:.1%}" for part in (queue.guaranteed, queue.maximum, queue.used)),
        queue.apps,
        queue.pending,
        queue.held,
        kind,
    )


def _figures(queue: QueueReport) -> Mapping[str, object]:
    return {
        "path": queue.path,
        "state": queue.state,
        "mode": queue.mode,
        "weight": queue.weight if queue.mode == WEIGHT else None,
        "capacity": None if queue.mode == WEIGHT else queue.percent,
        "guaranteed": queue.guaranteed,
        "maximum": queue.maximum,
        "used": queue.used,
        "holds": queue.held.as_dict(),
        "apps": queue.apps,
        "pending_containers": queue.pending,
        "dynamic": queue.dynamic,
        "makes_leaves": queue.makes_leaves,
    }


def _write(json_file: Path | None, shown: Plan, ignored: Sequence[Deviation] = ()) -> None:
    if json_file is None:
        return
    changes = [
        {
            "queue": change.path,
            "change": change.kind,
            "properties": [{"name": one.name, "now": one.now, "then": one.then} for one in change.differences],
        }
        for change in shown.changes
    ]
    figures = {"changes": changes, "unnamed": list(shown.unnamed)}
    if ignored:
        figures["not_in_effect"] = [asdict(one) for one in ignored]
    console.write_json(json_file, figures)
