"""Hand-overs: GPUs become free when their holder has vacated them, is gone, or has lost their node.

What runs where is known from container lists. An application without any listed container (it is not in YARN, or YARN
does not answer) is taken to have vacated at the end of its grace period.
"""

from dataclasses import replace

from yarn_plugin.decide.pools.lease import leases
from yarn_plugin.decide.pools.lease.state import Held
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.decide.topology import cell_of_node
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import LeaseReleased, LeaseVacated, NodeLost, NotPlaced
from yarn_plugin.model.resources import GPU

NODES, RELEASED, LEASE_END = "nodes", "released", "lease-end"


def gpus_in_use(turn: Turn) -> dict[str, dict[str, int]]:
    """The GPUs in use by application and machine; an application is missing if no container of it is listed."""
    found: dict[str, dict[str, int]] = {}
    for use in turn.view.use:
        machine = cell_of_node(turn.view.topology, use.node) or use.node
        on = found.setdefault(use.app, {})
        on[machine] = on.get(machine, 0) + use.held[GPU]
    return found


def update_machines(turn: Turn) -> None:
    """End the leases of GPUs that are gone; GPUs that are new open a round."""
    # Also if each machine has as many as before: the description of the topology may have renamed them.
    for held in list(turn.state.leases.values()):
        gone = [gpu for gpu in held.gpus if gpu not in turn.inventory.places]
        if gone:
            leases.end(turn, held.lease.id, gone, NodeLost(gone[0].partition("/")[0]))
    before, now = dict(turn.state.machines), dict(turn.inventory.by_machine)
    if before == now:
        return
    turn.change(machines=turn.inventory.by_machine)
    if any(count > before.get(machine, 0) for machine, count in now.items()):
        turn.trigger(NODES, turn.settings.round_window_s)


def end_vacated(turn: Turn) -> None:
    """End revoked leases whose GPUs are vacated, then start those that waited for them."""
    revoked = [held for held in turn.state.leases.values() if held.leaving]
    if revoked:
        in_use = gpus_in_use(turn)
        for held in sorted(revoked, key=lambda one: (one.by or 0.0, one.lease.id)):
            for machine, gpus in _by_machine(turn, held).items():
                used = in_use.get(held.lease.app)
                is_over = held.by is not None and held.by <= turn.at
                if used is None:
                    is_vacated = is_over
                else:
                    is_vacated = used.get(machine, 0) <= _leased_on(turn, held.lease.app, machine) - len(gpus)
                if is_vacated:
                    after = round(turn.at - (held.revoked_at or turn.at), 6)
                    leases.end(turn, held.lease.id, gpus, LeaseVacated(after))
                    turn.freed(gpus, RELEASED)
    leases.start_vacated(turn)


def _by_machine(turn: Turn, held: Held) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for gpu in held.leaving:
        found.setdefault(turn.inventory.places[gpu].machine, []).append(gpu)
    return found


def _leased_on(turn: Turn, app: str, machine: str) -> int:
    """How many GPUs of a machine an application may still use, those being vacated included."""
    places = turn.inventory.places
    return sum(
        places[gpu].machine == machine
        for held in turn.leases_of(app)
        if held.started_at is not None
        for gpu in held.gpus
    )


def release(turn: Turn, app: str, what: Release) -> None:
    """An application gives GPUs back: revoked ones that it has vacated, or others before the end of their lease."""
    held = turn.state.leases.get(what.lease)
    if held is None or held.lease.app != app or held.started_at is None:
        return
    gpus = [gpu for gpu in held.gpus if not what.gpus or gpu in what.gpus]
    used = gpus_in_use(turn).get(app)
    for machine in dict.fromkeys(turn.inventory.places[gpu].machine for gpu in gpus):
        here = [gpu for gpu in gpus if turn.inventory.places[gpu].machine == machine]
        if used is not None and used.get(machine, 0) > _leased_on(turn, app, machine) - len(here):
            # Its containers are still listed: their end decides, not its word.
            leases.revoke(turn, what.lease, here, LeaseReleased(app))
        else:
            leases.end(turn, what.lease, here, LeaseReleased(app))
            # A leftover that its winner cannot use would be dealt again and again.
            if held.how != "leftover":
                turn.freed(here, RELEASED)


def take_back_unplaced(turn: Turn) -> None:
    """End leases that are not in use `place_within_s` after they began: YARN could not place their containers."""
    within, in_use = turn.settings.place_within_s, None
    for held in list(turn.state.leases.values()):
        if not within or held.is_placed or held.started_at is None or held.started_at + within > turn.at:
            continue
        in_use = gpus_in_use(turn) if in_use is None else in_use
        held = replace(held, is_placed=True)
        turn.set_lease(held)
        used = in_use.get(held.lease.app)
        if used is None or not turn.view.steering:
            continue
        machine = turn.inventory.places[held.gpus[0]].machine
        leased, here = _leased_on(turn, held.lease.app, machine), used.get(machine, 0)
        back = list(held.staying)[max(len(held.staying) - max(leased - here, 0), 0) :]
        if back:
            leases.end(turn, held.lease.id, back, NotPlaced(machine, leased, here, within))


def end_due(turn: Turn) -> None:
    """Have a round open when leases reach their end."""
    if turn.state.round is None and turn.ending():
        turn.trigger(LEASE_END)
