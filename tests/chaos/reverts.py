"""Mends of leases and fencing, each taken back: `python -m tests.chaos.reverts` shows that some seed finds it.

The name is what the mend says; the edits restore what was decided before. An edit whose text is not in its function, or
more than once, is an error: the mend must be taken back there where it is now.

Two mends are shown by unit tests alone:

- Revoked GPUs may be those that are not in use: YARN has to place only one of an application's two leases on a machine,
  for longer than `place_within_s`, and no seed tried does that.
  `test_no_more_gpus_are_revoked_as_unplaced_than_are_not_in_use`
- A search keeps no GPUs that its trial would not move to: they are idle for the rest of one trial, which breaks
  nobody's lease, and other faults leave GPUs idle for longer.
  `test_gpus_are_given_back_that_are_not_worth_a_move_of_the_trial_that_could_use_them`
"""

import argparse
import logging
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby

from tests.chaos.__main__ import play, seeds_of
from tests.chaos.edits import Edit, edited
from tests.chaos.world import LostListsWorld, MissedBidWorld, World

LEASE = "yarn_plugin.decide.pools.lease"
END_VACATED = f"{LEASE}.handover", "end_vacated"
TAKE_BACK = f"{LEASE}.handover", "take_back_unplaced"
IS_EMPTY = "(listed == 0 and held.lists_tell)"


@dataclass(frozen=True)
class Revert:
    """`seed`: one that finds it, if one is known. `kind`: of the world."""

    seed: int | None
    edits: tuple[Edit, ...]
    kind: type[World]

    @staticmethod
    def of(seed, *edits, kind=World):
        return Revert(seed, tuple(Edit(*one) for one in edits), kind)


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
        1, (*TAKE_BACK, "if held.listed_at is not None and listed == app:", "if True:")
    ),
    "unused GPUs come back though a listing was lost": Revert.of(
        0, (*TAKE_BACK, " or held.listed_at + within <= turn.at:", ":"), kind=LostListsWorld
    ),
    "unused GPUs beside some in use are revoked, not taken at once": Revert.of(
        5, (*TAKE_BACK, "if here and turn.settings.rules > 2:", "if False:")
    ),
    "after a restart, open commands are issued again": Revert.of(
        1, (f"{LEASE}.controller", "_take", "_repeat(turn)", "pass")
    ),
    "a late solver takes nothing of the grace period": Revert.of(
        0, (f"{LEASE}.rounds", "_decision_time", " if turn.at - due <= turn.settings.grace_s / 2 else turn.at", "")
    ),
    "one missed bid leaves no GPUs idle for good": Revert.of(
        0, (f"{LEASE}.rounds", "_finish", "turn.trigger(RETRY, turn.settings.lease_s)", "pass"), kind=MissedBidWorld
    ),
    "of two arbiters with equal epochs one stands down": Revert.of(
        20, ("yarn_plugin.act.ownership", "Ownership.successor", "found.epoch >= self", "found.epoch > self")
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
    """The first seed that finds a revert, the known one or one of these, and what it says; None if none does."""
    known, kind = REVERTS[name].seed, REVERTS[name].kind
    with reverted(name):
        for seed in (*((known,) if known is not None else ()), *seeds):
            _, problem = play(seed, replays=False, kind=kind)
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
        found = finder(name, options.seeds)
        missed += found is None
        print(f"{name}: " + ("NOT found" if found is None else f"seed {found[0]}: {found[1]}"), flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
