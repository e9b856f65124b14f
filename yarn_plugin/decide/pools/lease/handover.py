"""Hand-overs: GPUs become free when their holder has vacated them, is gone, or has lost their node.

What runs where is known from container lists. They have numbers of GPUs, not which ones, and are a little older than
what runs: where the holder goes on with other GPUs of the machine, one of those may have become idle. So revoked GPUs
are vacated when their holder says which ones are and as many fewer are listed; or, if all that it leases on the machine
was in use, when nothing is listed there any more. Otherwise, and without any listed container (it is not in YARN, or
YARN does not answer), it is taken to have vacated at the end of its grace period.

Nor is it known which GPUs YARN placed no containers on, if it placed some on the machine: such GPUs are revoked.
"""

from dataclasses import replace

from yarn_plugin.decide.commands import ListContainers
from yarn_plugin.decide.events import ContainersListed
from yarn_plugin.decide.pools.commands import Revoke
from yarn_plugin.decide.pools.inputs import Input, Outcome
from yarn_plugin.decide.pools.lease import leases, members
from yarn_plugin.decide.pools.lease.state import Held
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import LeaseReleased, LeaseVacated, NodeLost, NotPlaced, PoolSuperseded, UseAsked

NODES, RELEASED, LEASE_END, SUPERSEDED = "nodes", "released", "lease-end", "superseded"


def update_machines(turn: Turn) -> None:
    """End the leases of GPUs that are gone. GPUs that are new, or can replace those, open a round."""
    # Also if each machine has as many as before: the description of the topology may have renamed them.
    has_ended = False
    for held in [] if turn.index.is_checked else list(turn.state.leases.values()):
        gone = [gpu for gpu in held.gpus if gpu not in turn.inventory.places]
        if gone:
            leases.end(turn, held.lease.id, gone, NodeLost(gone[0].partition("/")[0]))
            has_ended = True
    turn.index.is_checked = True
    if has_ended and turn.offerable():
        turn.trigger(NODES, turn.settings.round_window_s)
    if turn.state.machines is turn.inventory.by_machine:
        return
    before, now = dict(turn.state.machines), dict(turn.inventory.by_machine)
    if before != now and turn.settings.rules > 1:
        # An equal part has another size from now on.
        members.count_until_now(turn)
    turn.change(machines=turn.inventory.by_machine)
    if before == now:
        return
    if any(count > before.get(machine, 0) for machine, count in now.items()):
        turn.trigger(NODES, turn.settings.round_window_s)


def end_vacated(turn: Turn) -> None:
    """End revoked leases whose GPUs are vacated, then start those that waited for them."""
    revoked = [turn.state.leases[lease] for lease in turn.index.ordered(turn.index.leaving)]
    if revoked:
        in_use = turn.in_use()
        for held in sorted(revoked, key=lambda one: (one.by or 0.0, one.lease.id)):
            for machine, gpus in _by_machine(turn, held).items():
                used = in_use.get(held.lease.app)
                leased = turn.index.on_machine(held.lease.app, machine)
                if held.lists_tell is None:
                    # Revoked in this call.
                    held = replace(held, lists_tell=used is not None and used.get(machine, 0) >= leased)
                    turn.set_lease(held)
                is_over = held.by is not None and held.by <= turn.at
                listed = None if used is None else used.get(machine, 0)
                vacated = [gpu for gpu in gpus if gpu in held.released]
                if listed is None or listed > leased - len(vacated):
                    vacated = []
                is_unlisted = listed is None or listed <= leased - len(gpus)
                if (listed == 0 and held.lists_tell) or (is_over and is_unlisted):
                    vacated = gpus
                if vacated:
                    after, is_unplaced = round(turn.at - (held.revoked_at or turn.at), 6), _is_unplaced(turn, held)
                    leases.end(turn, held.lease.id, vacated, LeaseVacated(after))
                    if is_unplaced:
                        _offer_unplaced(turn)
                    else:
                        turn.freed(vacated, RELEASED)
    turn.start_vacated()


def _by_machine(turn: Turn, held: Held) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for gpu in held.leaving:
        found.setdefault(turn.inventory.places[gpu].machine, []).append(gpu)
    return found


def release(turn: Turn, app: str, what: Release) -> None:
    """An application gives GPUs back: revoked ones that it has vacated, or others before the end of their lease."""
    held = turn.state.leases.get(what.lease)
    if held is None or held.lease.app != app or held.started_at is None:
        return
    gpus = [gpu for gpu in held.gpus if not what.gpus or gpu in what.gpus]
    used = turn.in_use().get(app)
    for machine in dict.fromkeys(turn.inventory.places[gpu].machine for gpu in gpus):
        here = [gpu for gpu in gpus if turn.inventory.places[gpu].machine == machine]
        if used is not None and used.get(machine, 0) > turn.index.on_machine(app, machine) - len(here):
            # Its containers are still listed: their end decides, not its word alone.
            if not set(here) <= set(held.leaving):
                leases.revoke(turn, what.lease, here, LeaseReleased(app))
            held = turn.state.leases[what.lease]
            released = tuple(gpu for gpu in held.leaving if gpu in here or gpu in held.released)
            turn.set_lease(replace(held, released=released))
        else:
            is_unplaced = _is_unplaced(turn, held)
            leases.end(turn, what.lease, here, LeaseReleased(app))
            if is_unplaced:
                _offer_unplaced(turn)
            # A leftover that its winner cannot use would be dealt again and again.
            elif held.how != "leftover":
                turn.freed(here, RELEASED)


def take_back_unplaced(turn: Turn, what: Input) -> None:
    """Take back GPUs that are not in use `place_within_s` after their lease began: YARN could not place containers.

    The known list may be older than the containers, so they are listed once more before, when the ResourceManager
    answers. GPUs of a machine where nothing runs are free at once. Where something does, it may be on these very GPUs:
    their holder has the grace period to vacate them.
    """
    within, in_use = turn.settings.place_within_s, None
    listed = what.result.app if isinstance(what, Outcome) and isinstance(what.result, ContainersListed) else None
    for held in list(turn.state.leases.values()) if within else ():
        if held.is_placed or held.started_at is None or held.started_at + within > turn.at:
            continue
        in_use = turn.in_use() if in_use is None else in_use
        app, machine = held.lease.app, turn.inventory.places[held.gpus[0]].machine
        yarn_app = turn.claims[app].yarn_app
        leased, here = turn.index.on_machine(app, machine), in_use.get(app, {}).get(machine, 0)
        # Revoked ones may be those that are not in use.
        leaving = _leaving(turn, app, machine) if turn.settings.rules > 2 else 0
        back = held.staying[max(len(held.staying) - max(leased - here - leaving, 0), 0) :]
        if here >= leased or not (back or leaving):
            turn.set_lease(replace(held, is_placed=True))
            continue
        if not back or yarn_app is None or not turn.view.steering:
            continue
        if held.listed_at is not None and listed == app:
            turn.set_lease(replace(held, is_placed=True))
            cause = NotPlaced(machine, leased, here, within)
            if here and turn.settings.rules > 2:
                leases.revoke(turn, held.lease.id, back, cause)
            else:
                leases.end(turn, held.lease.id, back, cause)
                _offer_unplaced(turn)
        elif held.listed_at is None or held.listed_at + within <= turn.at:
            # Again if there was no answer: the ResourceManager was away, or this arbiter.
            turn.set_lease(replace(held, listed_at=turn.at))
            turn.commands.append(ListContainers(app, yarn_app, UseAsked(app)))


def _leaving(turn: Turn, app: str, machine: str) -> int:
    """How many GPUs of a machine an application has to vacate."""
    leaving = [gpu for held in turn.leases_of(app) for gpu in held.leaving]
    return sum(turn.inventory.places[gpu].machine == machine for gpu in leaving)


def _is_unplaced(turn: Turn, held: Held) -> bool:
    """Whether GPUs of a lease are revoked as YARN could not place containers."""
    command = turn.state.open.get(held.revoke or "")
    return isinstance(command, Revoke) and isinstance(command.cause, NotPlaced)


def _offer_unplaced(turn: Turn) -> None:
    # Alone, an application would be offered the same again and again: once a lease is often enough.
    is_alone = len(turn.active()) < 2
    turn.trigger(RELEASED, turn.settings.lease_s if is_alone else turn.settings.round_window_s)


def stand_down(turn: Turn, by: str) -> None:
    """End all leases at once, and the round without a result: another arbiter leases these GPUs. It adopts none of the
    leases. If this arbiter controls the pool again, it opens a round."""
    leases.end_all(turn, dict.fromkeys(turn.state.members, PoolSuperseded(by)))
    turn.change(round=None, open={}, idle={}, excess={})
    turn.trigger(SUPERSEDED)


def end_due(turn: Turn) -> None:
    """Have a round open when leases reach their end."""
    if turn.state.round is None and turn.ending():
        turn.trigger(LEASE_END)
