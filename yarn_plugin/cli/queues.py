"""`yarn-plugin queues`: YARN's queues as a file, compared, written and shown."""

import getpass
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from yarn_plugin import console
from yarn_plugin.observe.queue_tree import WEIGHT, QueueReport
from yarn_plugin.observe.resource_manager import ResourceManager, addresses
from yarn_plugin.queues import apply as writing
from yarn_plugin.queues.file import load
from yarn_plugin.queues.live import read_tree
from yarn_plugin.queues.plan import Plan
from yarn_plugin.queues.specification import number

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group(context_settings=console.CONTEXT)
def queues() -> None:
    """YARN's queue configuration as a file (TOML), for a ResourceManager whose configuration store can be written.

    \b
    [[queue]]
    path = "root.sql"
    weight = 8                  # or: capacity = 60, in percent
    maximum_capacity = 100      # percent
    dynamic_leaves = true       # each application gets a queue of its own
    [queue.leaf_template]
    weight = 1
    user_limit_factor = 1000
    maximum_am_resource_percent = 0.9
    [[queue]]
    path = "root.old"
    remove = true               # it must be STOPPED and empty

    Also: user_limit_factor, maximum_am_resource_percent, disable_preemption, state, acl_submit_applications,
    acl_administer_queue. What a file does not say stays as it is: queues that it does not name, properties that it
    does not give.
    """


def _manager_options(command: _Command) -> _Command:
    url = click.option(
        "--rm", required=True, metavar="URL[,URL]", help="The ResourceManager's web address; both of an HA pair."
    )
    user = click.option(
        "--user", default=getpass.getuser, metavar="NAME", help="Who asks (simple authentication).  [default: you]"
    )
    figures = click.option(
        "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here too."
    )
    return url(user(console.ca_option(figures(command))))


_FILE = click.argument("file", type=click.Path(path_type=Path))


@queues.command()
@_FILE
@_manager_options
def plan(file: Path, rm: str, user: str, verify: str | bool, json_file: Path | None) -> None:
    """Show what `apply` would change; nothing is written."""
    found = writing.compare(ResourceManager(addresses(rm), user, verify=verify), load(file))
    _print_plan(found)
    if found.changes:
        click.echo(f"{_counted(found)} to make; `yarn-plugin queues apply --rm {rm} {file}` makes them")
    else:
        click.echo(f"nothing to do: the ResourceManager has what {file} says")
    if found.unnamed:
        click.echo(f"not in the file, left as they are: {', '.join(found.unnamed)}")
    _write(json_file, found)


@queues.command()
@_FILE
@_manager_options
def apply(file: Path, rm: str, user: str, verify: str | bool, json_file: Path | None) -> None:
    """Make the ResourceManager have what the file says, in one request; read it back and compare."""
    made = writing.apply(ResourceManager(addresses(rm), user, verify=verify), load(file))
    _print_plan(made)
    if made.changes:
        click.echo(f"{_counted(made)} made, and read back from the ResourceManager")
    else:
        click.echo(f"nothing to do: the ResourceManager has what {file} says")
    _write(json_file, made)


@queues.command()
@_manager_options
def show(rm: str, user: str, verify: str | bool, json_file: Path | None) -> None:
    """Show the live tree of queues with its use. Works with every CapacityScheduler, writable or not.

    least, most and used are parts of the whole cluster; waits: containers asked for; leaves: queues of applications.
    """
    tree = read_tree(ResourceManager(addresses(rm), user, verify=verify))
    columns = ("queue", "state", "#capacity", "#least", "#most", "#used", "#apps", "#waits", "holds", "leaves")
    console.out.print(console.table(None, columns, [_row(queue) for queue in tree.values()]))
    if json_file is not None:
        console.write_json(json_file, {"queues": [_figures(queue) for queue in tree.values()]})


def _print_plan(shown: Plan) -> None:
    rows: list[tuple[str, str, str, str, str]] = [
        (change.path, change.kind, difference.name, _value(difference.now), _value(difference.then))
        for change in shown.changes
        if change.kind != "remove"
        for difference in change.differences
    ]
    rows += [(change.path, change.kind, "", "", "") for change in shown.of("remove")]
    if rows:
        console.out.print(console.table(None, ("queue", "change", "property", "now", "then"), _once(rows)))


def _once(rows: list[tuple[str, str, str, str, str]]) -> Iterator[tuple[str, str, str, str, str]]:
    """The rows with queue and change only where they begin."""
    before = ""
    for row in rows:
        yield ("", "", *row[2:]) if row[0] == before else row
        before = row[0]


def _value(value: str | None) -> str:
    return "not set" if value is None else value if value.strip() else repr(value)


def _counted(shown: Plan) -> str:
    count = sum(max(len(change.differences), 1) for change in shown.changes)
    return f"{count} change{'' if count == 1 else 's'} in {len(shown.changes)} queue{_s(len(shown.changes))}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _row(queue: QueueReport) -> tuple[object, ...]:
    depth = queue.path.count(".")
    capacity = f"{number(queue.weight)}w" if queue.mode == WEIGHT else f"{queue.percent:.4g}%"
    kind = "is one" if queue.dynamic else "makes them" if queue.makes_leaves else ""
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


def _write(json_file: Path | None, shown: Plan) -> None:
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
    console.write_json(json_file, {"changes": changes, "unnamed": list(shown.unnamed)})
