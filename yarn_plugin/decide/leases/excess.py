"""Containers beyond leases: who uses more GPUs of a node than it leases there has the newest containers signalled."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from yarn_plugin.decide.commands import ListContainers, SignalContainers
from yarn_plugin.decide.events import ContainersListed
from yarn_plugin.decide.leases.handover import InUse, Steering, gpus_on_nodes, overstayed
from yarn_plugin.decide.leases.occupancy import Occupancy
from yarn_plugin.decide.leases.settings import LedgerSettings, Rules
from yarn_plugin.decide.leases.state import Entry, Excess
from yarn_plugin.decide.topology import cell_of_node
from yarn_plugin.model.causes import BeyondLease
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.topology import Topology


def find_excess(
    known: Mapping[str, Excess],
    leases: Mapping[str, Entry],
    occupancy: Occupancy,
    in_use: InUse,
    steering: Steering,
    at: float,
    settings: LedgerSettings,
) -> tuple[dict[str, Excess], tuple[ListContainers, ...]]:
    """Who is beyond its leases now; the containers of those that stay so for the grace period are listed.

    Who overstays a revoked lease has had it already. Applications that are in YARN unregistered lease nothing and are
    not looked at.
    """
    found: dict[str, Excess] = {}
    commands: list[ListContainers] = []
    grace_s = settings.grace_s
    for app, node, used, leased, is_overdue in (
        _excesses(leases, occupancy, in_use, steering, at, settings.rules) if steering.is_steering else ()
    ):
        key = f"{app} {node}"
        excess = known.get(key, Excess(at))
        if is_overdue:
            excess = replace(excess, since=min(excess.since, at - grace_s))
        if at >= next_list(excess, grace_s):
            excess = replace(excess, listed_at=at)
            commands.append(ListContainers(app, steering.yarn_apps[app], BeyondLease(app, node, used, leased)))
        found[key] = excess
    return found, tuple(commands)


def next_list(excess: Excess, grace_s: float) -> float:
    """When the containers are listed next, to be signalled: after the grace period, and again after as long."""
    return (excess.since if excess.listed_at is None else excess.listed_at) + grace_s


def _excesses(
    leases: Mapping[str, Entry], occupancy: Occupancy, in_use: InUse, steering: Steering, at: float, rules: Rules
) -> Iterator[tuple[str, str, int, int, bool]]:
    for app, on in in_use.items():
        for node, used in on.items() if app in steering.yarn_apps else ():
            if used > occupancy.gpus_on(app, node) or occupancy.leaving:
                leased, is_overdue = allowed(leases, occupancy, app, node, used, at, rules)
                if used > leased:
                    yield app, node, used, leased, is_overdue


def allowed(
    leases: Mapping[str, Entry], occupancy: Occupancy, app: str, node: str, used: int, at: float, rules: Rules
) -> tuple[int, bool]:
    """How many GPUs of a node an application, which uses `used`, may use now, and whether it had to vacate others
    before. It may not use those that it was leased since by what ran on these. By rules before 5, nor those of other
    nodes."""
    overdue, overstays = 0, 0
    for entry in (leases[key] for key in sorted(occupancy.leaving & occupancy.by_app.get(app, set()))):
        revoked = gpus_on_nodes(entry.leased.revoked, occupancy.cells).get(node, 0)
        if entry.is_overdue(at) and (revoked or rules < 5):
            overdue += revoked
            overstays = max(overstays, overstayed(entry, leases, occupancy, node, used))
    leased = occupancy.gpus_on(app, node) - overdue
    return min(leased, used - overstays) if overstays else leased, overdue > 0


def signal(
    known: Mapping[str, Excess], listed: ContainersListed, topology: Topology, allowed: Callable[[str, int], int]
) -> tuple[SignalContainers, ...]:
    """Signal the newest containers with GPUs beyond the lease, never a master; none if the application complied.

    `allowed`: how many GPUs of a node the application, which uses so many, may use now.
    """
    on: dict[str, list[tuple[str, int, bool]]] = {}
    for container in listed.containers:
        node = cell_of_node(topology, container.node) or container.node
        on.setdefault(node, []).append((container.id, container.resources[GPU], container.master))
    commands = []
    for node, containers in on.items():
        excess = known.get(f"{listed.app} {node}")
        used = sum(gpus for _, gpus, _ in containers)
        leased = allowed(node, used)
        if used <= leased or excess is None or excess.listed_at is None:
            continue
        chosen, left = [], used
        for name, gpus, is_master in sorted(containers, reverse=True):
            if left > leased and gpus and not is_master:
                chosen.append(name)
                left -= gpus
        if chosen:
            commands.append(SignalContainers(listed.app, tuple(chosen), BeyondLease(listed.app, node, used, leased)))
    return tuple(commands)
