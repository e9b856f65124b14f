"""What the launchers recorded: who held which GPU, from when until when."""

import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Interval:
    """Times are monotonic seconds. `is_alone`: nobody else held the GPU when it began."""

    cell: str
    app: str
    begun: float
    ended: float
    is_alone: bool


def recorded(folder):
    """The intervals in a folder of launchers, by their begin."""
    return sorted(filter(None, map(_read, folder.glob("container_*"))), key=lambda one: (one.begun, one.cell))


def _read(path):
    lines = path.read_text().splitlines()
    # A launcher that is just starting has written nothing yet.
    if len(lines) < 2:
        return None
    what = json.loads(lines[0])
    return Interval(what["cell"], app_of(what["container"]), what["begun"], float(lines[-1]), what["is_alone"])


def app_of(container):
    """The application of a container, by its id: container_[eEPOCH_]CLUSTER_APP_ATTEMPT_NUMBER."""
    return "_".join(["application", *container.split("_")[-4:-2]])


def overlaps(intervals):
    """Pairs of intervals in which a GPU was held twice at a time, and intervals that found it locked."""
    by_cell = defaultdict(list)
    for one in intervals:
        by_cell[one.cell].append(one)
    found = [(one,) for one in intervals if not one.is_alone]
    for held in by_cell.values():
        for before, after in pairwise(held):
            if after.begun < before.ended:
                found.append((before, after))
    return found
