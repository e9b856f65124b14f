"""Play seeds: `python -m tests.chaos [--world restless] [--seeds 0-999] [--trace SEED]`."""

import argparse
import gc
import hashlib
import logging
import sys
import time
import traceback
from pathlib import Path

from tests.chaos import cells, restless
from tests.chaos.cells import CellsWorld
from tests.chaos.checks import ViolationError
from tests.chaos.restless import RestlessWorld
from tests.chaos.world import RARE, World

WORLDS = {"auctions": (World, RARE), "cells": (CellsWorld, cells.RARE), "restless": (RestlessWorld, restless.RARE)}
"""By name: searches in auctions, gangs in virtual clusters, and a ledger alone; and the rare states of each."""


def play(seed, replays=True, kind=World):
    """A world, played; and what is wrong with it, if something is. None for one that cannot even begin."""
    world = None
    # A world makes little garbage that only the collector finds, which takes a sixth of the time.
    gc.disable()
    try:
        world = kind(seed, replays)
        world.run()
    except ViolationError as problem:
        return world, str(problem)
    except Exception as problem:  # noqa: BLE001 - a fault of the product, or of its model
        last = traceback.extract_tb(problem.__traceback__)[-1]
        return world, f"{type(problem).__name__}: {problem} ({Path(last.filename).name}:{last.lineno})"
    finally:
        gc.enable()
    return world, None


def seeds_of(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default=range(1000), metavar="FIRST-LAST")
    parser.add_argument("--trace", type=int, metavar="SEED", help="print the trace of this seed, and nothing else")
    parser.add_argument("--world", choices=WORLDS, default="auctions", help="what happens in it")
    options = parser.parse_args()
    kind, rare = WORLDS[options.world]
    # What is skipped is reported below.
    logging.disable(logging.CRITICAL)
    if options.trace is not None:
        world, problem = play(options.trace, kind=kind)
        print(*world.trace, sep="\n")
        print(f"seed {options.trace}: {problem or 'clean'}")
        return 1 if problem else 0
    reached, failed, steps, begun = dict.fromkeys(rare, 0), 0, 0, time.process_time()
    digest = hashlib.sha256()
    for seed in options.seeds:
        world, problem = play(seed, kind=kind)
        steps += world.steps
        digest.update("\n".join(world.trace).encode())
        for name in world.reached & reached.keys():
            reached[name] += 1
        if problem:
            failed += 1
            print(f"seed {seed}: {problem} (step {world.steps}, {world.now:.3f} s)", flush=True)
    for name, count in reached.items():
        print(f"{count:6} seeds reach: {name}")
    missing = [name for name, count in reached.items() if not count]
    cpu_s = time.process_time() - begun
    print(
        f"{len(options.seeds)} seeds, {steps} steps, {failed} failed; "
        f"traces {digest.hexdigest()[:16]}; {cpu_s:.0f} s of CPU"
    )
    for name in missing:
        print(f"never reached: {name}")
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
