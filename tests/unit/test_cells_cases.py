"""Cases recorded by running Microsoft's HiveD scheduler, replayed."""

from pathlib import Path

import pytest

from yarn_plugin.cells.cases import Outcome, read_case
from yarn_plugin.cells.replay import follow, run_freely

SCENARIOS = sorted((Path(__file__).parents[1] / "data/hived/scenarios").glob("*.json"))
BETTER = {"r02-racks128-heavy-load": [159, 169]}
"""Where the recorded scheduler waits although the gang fits."""


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_following_the_recorded_answers_each_of_ours_agrees(path):
    case = read_case(path.name, path)
    result = follow(case)
    assert result.broken == [] and result.differing == []
    assert result.steps == len(case.file.steps)
    assert [found.step for found in result.better] == BETTER.get(path.stem, [])
    crashes = [position for position, step in enumerate(case.file.steps) if step.expect.outcome is Outcome.CRASH]
    assert [found.step for found in result.survived] == crashes
    tallies = (result.outcomes, result.exact, result.shapes, result.after, result.served)
    assert all(tally.agreed == tally.compared for tally in tallies)


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_our_own_answers_keep_the_invariants(path):
    case = read_case(path.name, path)
    result = run_freely(case)
    assert (result.broken, result.steps) == ([], len(case.file.steps))


def test_there_are_cases_of_every_kind():
    assert len(SCENARIOS) == 14
