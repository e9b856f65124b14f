"""Mends of leases and fencing, each taken back: `python -m tests.chaos.reverts` shows that some seed finds it.

The name is what the mend says; the edits restore what was decided before. An edit whose text is not in its function, or
more than once, is an error: the mend must be taken back there where it is now.
"""

import argparse
import logging
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby

from tests.chaos.__main__ import play, seeds_of
from tests.chaos.edits import Edit, edited

LEASE = "yarn_plugin.decide.pools.lease"
END_VACATED = f"{LEASE}.handover", "end_vacated"
TAKE_BACK = f"{LEASE}.handover", "take_back_unplaced"
IS_EMPTY = "(listed == 0 and held.lists_tell)"


@dataclass(frozen=True)
class Revert:
    """`seed`: one that finds it."""

    seed: int
    edits: tuple[Edit, ...]

    @staticmethod
    def of(seed, *edits):
        return Revert(seed, tuple(Edit(*one) for one in edits))


REVERTS = {
    "an arbiter whose pools another one controls ends its leases": Revert.of(
        0, (f"{LEASE}.controller", "LeaseController.advance", "handover.stand_down(turn, view.superseded)", "pass")
    ),
    "no round opens while the ResourceManager does not answer": Revert.of(
        6, (f"{LEASE}.rounds", "open_if_due", "not turn.view.steering or ", "")
    ),
    "nothing is offered to an application that YARN does not run": Revert.of(
        0,
        (f"{LEASE}.members", "update_members", " and claim.yarn_app is not None", ""),
        (f"{LEASE}.members", "update_members", " and not claim.is_submitted", ""),
    ),
    "a GPU is handed over only when it is known to be vacated": Revert.of(
        10, (*END_VACATED, IS_EMPTY, "(listed is not None and is_unlisted)")
    ),
    "a container that ends on another GPU vacates no revoked one": Revert.of(
        21, (*END_VACATED, IS_EMPTY, "(listed is not None and is_unlisted and held.lists_tell)")
    ),
    "a grant in use does not come back because of an old list": Revert.of(
        0, (*TAKE_BACK, "if held.listed_at is not None and listed == app:", "if True:")
    ),
    "unused GPUs come back though a listing was lost": Revert.of(
        0,
        (*TAKE_BACK, " or held.listed_at + within <= turn.at:", ":"),
    ),
    "unused GPUs beside some in use are revoked, not taken at once": Revert.of(
        0, (*TAKE_BACK, "if here and turn.settings.rules > 2:", "if False:")
    ),
    "revoked GPUs may be those that are not in use": Revert.of(
        0, (*TAKE_BACK, "leaving = _leaving(turn, app, machine) if turn.settings.rules > 2 else 0", "leaving = 0")
    ),
    "after a restart, open commands are issued again": Revert.of(
        0, (f"{LEASE}.controller", "_take", "_repeat(turn)", "pass")
    ),
    "a late solver takes nothing of the grace period": Revert.of(
        0, (f"{LEASE}.rounds", "_decision_time", " if turn.at - due <= turn.settings.grace_s / 2 else turn.at", "")
    ),
    "one missed bid leaves no GPUs idle for good": Revert.of(
        0, (f"{LEASE}.rounds", "_finish", "turn.trigger(RETRY, turn.settings.lease_s)", "pass")
    ),
    "of two arbiters with equal epochs one stands down": Revert.of(
        0, ("yarn_plugin.act.ownership", "Ownership.successor", "found.epoch >= self", "found.epoch > self")
    ),
    "a search keeps no GPUs that its trial would not move to": Revert.of(
        0, ("themis_agent.agent.leasing", "_wanted", "if state.settings.rules < 3 or ", "if True or ")
    ),
}


@contextmanager
def reverted(name):
    """What was decided before a mend.

    Raises:
        EditError: an edit does not apply.
    """
    with ExitStack() as stack:
        for (module, function), edits in groupby(REVERTS[name].edits, lambda one: (one.module, one.function)):
            stack.enter_context(edited(module, function, edits))
        yield


def finder(name, seeds):
    """The first seed that finds a revert, and what it says; None if none does."""
    with reverted(name):
        for seed in seeds:
            _, problem = play(seed, replays=False)
            if problem:
                return seed, problem
    return None


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.reverts", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default=range(200), metavar="FIRST-LAST")
    parser.add_argument("--only", default="", help="only those with this in their names")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    missed = 0
    for name in [name for name in REVERTS if options.only in name]:
        found = finder(name, (REVERTS[name].seed, *options.seeds))
        missed += found is None
        print(f"{name}: " + ("NOT found" if found is None else f"seed {found[0]}: {found[1]}"), flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
