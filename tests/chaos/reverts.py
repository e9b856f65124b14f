"""Mends of leases and fencing, each taken back: `python -m tests.chaos.reverts` shows that some seed finds it.

The name is what the mend says; the patch restores what was decided before.
"""

import argparse
import sys
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from tests.chaos.__main__ import play, seeds_of
from yarn_plugin.act.ownership import Ownership, owner_of
from yarn_plugin.decide.commands import ListContainers
from yarn_plugin.decide.pools.lease import controller, handover, leases, members, rounds
from yarn_plugin.decide.pools.lease.handover import RELEASED
from yarn_plugin.model.causes import LeaseVacated, NotPlaced, UseAsked


def by_counts(tells):
    """Revoked GPUs count as vacated when the lists have as many fewer. `tells(held, used, leased, machine)`."""

    def end_vacated(turn):
        in_use = handover.gpus_in_use(turn)
        revoked = [turn.state.leases[lease] for lease in turn.index.ordered(turn.index.leaving)]
        for held in sorted(revoked, key=lambda one: (one.by or 0.0, one.lease.id)):
            for machine, gpus in handover._by_machine(turn, held).items():
                used = in_use.get(held.lease.app)
                leased = turn.index.on_machine(held.lease.app, machine)
                if held.lists_tell is None:
                    held = replace(held, lists_tell=used is not None and used.get(machine, 0) >= leased)
                    turn.set_lease(held)
                is_over = held.by is not None and held.by <= turn.at
                is_unlisted = used is not None and used.get(machine, 0) <= leased - len(gpus)
                if (is_unlisted and tells(held)) or (is_over and (is_unlisted or used is None)):
                    after = round(turn.at - (held.revoked_at or turn.at), 6)
                    leases.end(turn, held.lease.id, gpus, LeaseVacated(after))
                    turn.freed(gpus, RELEASED)
        turn.start_vacated()

    return patch.object(handover, "end_vacated", end_vacated)


def unplaced(is_again, is_listed_first):
    """Take back unused GPUs: listed again if there was no answer; only after they were listed once more."""

    def take_back(turn, what):
        within, in_use = turn.settings.place_within_s, handover.gpus_in_use(turn)
        listed = getattr(getattr(what, "result", None), "app", None)
        for held in list(turn.state.leases.values()):
            if held.is_placed or held.started_at is None or held.started_at + within > turn.at:
                continue
            app, machine = held.lease.app, turn.inventory.places[held.gpus[0]].machine
            leased, here = turn.index.on_machine(app, machine), in_use.get(app, {}).get(machine, 0)
            back = list(held.staying)[max(len(held.staying) - max(leased - here, 0), 0) :]
            if not back:
                turn.set_lease(replace(held, is_placed=True))
            elif not turn.view.steering:
                continue
            elif (held.listed_at is not None and listed == app) or not is_listed_first:
                turn.set_lease(replace(held, is_placed=True))
                leases.end(turn, held.lease.id, back, NotPlaced(machine, leased, here, within))
            elif held.listed_at is None or (is_again and held.listed_at + within <= turn.at):
                turn.set_lease(replace(held, listed_at=turn.at))
                turn.commands.append(ListContainers(app, turn.claims[app].yarn_app, UseAsked(app)))

    return patch.object(handover, "take_back_unplaced", take_back)


def late_decisions():
    """What is decided late counts from the planned time, however late it is."""
    return patch.object(rounds, "_decision_time", lambda turn, now: now.decide_at or turn.at)


def steers_always(module, name):
    """A function of the controller that believes that the ResourceManager answers."""
    wrapped = getattr(module, name)

    def blind(turn, *values):
        view, turn.view = turn.view, replace(turn.view, steering=True)
        try:
            return wrapped(turn, *values)
        finally:
            turn.view = view

    return patch.object(module, name, blind)


def all_claims():
    """Applications take part when they are registered, whether or not YARN runs them."""
    wrapped = members.update_members

    def update(turn):
        found = {
            app: replace(claim, yarn_app=claim.yarn_app or "not known", is_submitted=False)
            for app, claim in turn.claims.items()
        }
        known, turn._claims = turn.claims, found
        try:
            return wrapped(turn)
        finally:
            turn._claims = known

    return patch.object(members, "update_members", update)


def successor(self, configuration):
    found = owner_of(configuration, self.parents[0])
    is_other = found is not None and found.id != self.owner.id and found.epoch > self.owner.epoch
    return found.url if is_other else None


REVERTS = {
    "an arbiter whose pools another one controls ends its leases": lambda: patch.object(
        handover, "stand_down", lambda turn, by: None
    ),
    "no round opens while the ResourceManager does not answer": lambda: steers_always(rounds, "open_if_due"),
    "nothing is offered to an application that YARN does not run": all_claims,
    "a GPU is handed over only when it is known to be vacated": lambda: by_counts(lambda held: True),
    "a container that ends on another GPU vacates no revoked one": lambda: by_counts(lambda held: held.lists_tell),
    "a grant in use does not come back because of an old list": lambda: unplaced(True, False),
    "unused GPUs come back though a listing was lost": lambda: unplaced(False, True),
    "after a restart, open commands are issued again": lambda: patch.object(controller, "_repeat", lambda turn: None),
    "a late solver takes nothing of the grace period": late_decisions,
    "one missed bid leaves no GPUs idle for good": lambda: patch.object(
        rounds, "_finish", lambda turn, record=None: (turn.change(round=None), record and rounds._record(turn, record))
    ),
    "of two arbiters with equal epochs one stands down": lambda: patch.object(Ownership, "successor", successor),
}


@contextmanager
def reverted(name):
    with REVERTS[name]():
        yield


def finder(name, seeds):
    """The first seed that finds a revert, and what it says; None if none does."""
    with reverted(name):
        for seed in seeds:
            _, problem = play(seed)
            if problem:
                return seed, problem
    return None


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.reverts", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default=range(200), metavar="FIRST-LAST")
    parser.add_argument("--only", default="", help="only those with this in their names")
    options = parser.parse_args()
    missed = 0
    for name in [name for name in REVERTS if options.only in name]:
        found = finder(name, options.seeds)
        missed += found is None
        print(f"{name}: " + ("NOT found" if found is None else f"seed {found[0]}: {found[1]}"), flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
