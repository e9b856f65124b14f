"""Checks that training which was interrupted has lost nothing, by what launchers recorded."""

import itertools
import json

import pytest


def executed_by_epoch(logs, trial="trial-00000"):
    """The steps of a trial with their losses, in order, start by start. `logs`: the folder of a search's logs."""
    return [
        [(one["step"], one["loss"]) for one in events(path) if one["type"] == "reported"]
        for path in sorted((logs / trial).glob("epoch-*/launcher-0.jsonl"))
    ]


def events(path):
    """What a launcher recorded, up to the line that it writes now, or had not finished when it was killed."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def check_resumed(epochs, reference, interruptions, interval):
    """Steps 1 to N without gaps; at most an interval executed again for each interruption; the losses of the
    reference. `epochs`: the (step, loss) of each start, in order; `reference`: of training without interruptions.
    """
    assert [step for step, _ in reference] == list(range(1, len(reference) + 1))
    for before, after in itertools.pairwise(epochs):
        assert after[0][0] <= before[-1][0] + 1
    for one in epochs:
        assert [step for step, _ in one] == list(range(one[0][0], one[0][0] + len(one)))
    again = sum(map(len, epochs)) - len({step for one in epochs for step, _ in one})
    assert again <= interval * interruptions, f"{again} steps were executed again"
    assert {step for one in epochs for step, _ in one} == set(range(1, epochs[-1][-1][0] + 1))
    expected = dict(reference)
    for one in epochs:
        for step, loss in one:
            assert loss == pytest.approx(expected[step], abs=1e-5)
