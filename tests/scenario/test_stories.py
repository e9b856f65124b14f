"""The stories in this folder, of the arbiter; in `queries`, of queries; in `leases`, of leased GPUs;
in `ledger`, of allocators: event by event.

`pytest --rewrite-stories` writes down the traces that they have now.
"""

from pathlib import Path

import pytest

from tests.scenario.arbiter_story import ArbiterStory
from tests.scenario.lease_story import LeaseOnLedgerStory, LeaseStory
from tests.scenario.ledger_story import LedgerStory
from tests.scenario.query_story import QueryStory
from tests.scenario.story import read, write

FOLDER = Path(__file__).parent
OF_THE_ARBITER = sorted(FOLDER.glob("*.txt"))
OF_QUERIES = sorted((FOLDER / "queries").glob("*.txt"))
OF_LEASES = sorted((FOLDER / "leases").glob("*.txt"))
OF_LEDGERS = sorted((FOLDER / "ledger").glob("*.txt"))
STORIES = [
    *(pytest.param(path, ArbiterStory, id=path.stem) for path in OF_THE_ARBITER),
    *(pytest.param(path, QueryStory, id=f"query-{path.stem}") for path in OF_QUERIES),
    *(pytest.param(path, LeaseStory, id=f"lease-{path.stem}") for path in OF_LEASES),
    *(pytest.param(path, LedgerStory, id=f"ledger-{path.stem}") for path in OF_LEDGERS),
]


@pytest.mark.parametrize("path", OF_LEASES, ids=lambda path: path.stem)
def test_a_story_of_leases_is_the_same_on_the_ledger(path):
    story, scenes = LeaseOnLedgerStory(), read(path.read_text())
    if path.stem == "superseded":
        # An auction on the ledger that owns its pool again begins anew: N_avg and service count from then.
        scenes = scenes[:-1]
    for scene in scenes:
        assert story.play(scene) == story.compared(scene.expected), f"{path.name}: after {' / '.join(scene.lines)}"


@pytest.mark.parametrize(("path", "play_as"), STORIES)
def test_story(path, play_as, request):
    scenes = read(path.read_text())
    story = play_as()
    traces = [story.play(scene) for scene in scenes]
    if request.config.getoption("--rewrite-stories"):
        path.write_text(write(scenes, traces))
        return
    for scene, trace in zip(scenes, traces, strict=True):
        assert trace == scene.expected, f"{path.name}: after {' / '.join(scene.lines)}"


def test_there_are_stories():
    assert len(OF_THE_ARBITER) >= 8
    assert len(OF_QUERIES) >= 4
    assert len(OF_LEASES) >= 6
    assert len(OF_LEDGERS) >= 2


def test_a_story_is_written_as_it_was_read():
    for path in (*OF_THE_ARBITER, *OF_QUERIES, *OF_LEASES, *OF_LEDGERS):
        scenes = read(path.read_text())
        assert write(scenes, [scene.expected for scene in scenes]) == path.read_text()
