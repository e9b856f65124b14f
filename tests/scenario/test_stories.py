"""The stories in this folder, of the arbiter, and in `queries`, of queries, event by event.

`pytest --rewrite-stories` writes down the traces that they have now.
"""

from pathlib import Path

import pytest

from tests.scenario.query_teller import QueryTeller
from tests.scenario.storyteller import Storyteller, read, write

FOLDER = Path(__file__).parent
OF_THE_ARBITER = sorted(FOLDER.glob("*.txt"))
OF_QUERIES = sorted((FOLDER / "queries").glob("*.txt"))
STORIES = [
    *(pytest.param(path, Storyteller, id=path.stem) for path in OF_THE_ARBITER),
    *(pytest.param(path, QueryTeller, id=f"query-{path.stem}") for path in OF_QUERIES),
]


@pytest.mark.parametrize(("path", "make_teller"), STORIES)
def test_story(path, make_teller, request):
    scenes = read(path.read_text())
    teller = make_teller()
    traces = [teller.play(scene) for scene in scenes]
    if request.config.getoption("--rewrite-stories"):
        path.write_text(write(scenes, traces))
        return
    for scene, trace in zip(scenes, traces, strict=True):
        assert trace == scene.expected, f"{path.name}: after {' / '.join(scene.lines)}"


def test_there_are_stories():
    assert len(OF_THE_ARBITER) >= 8
    assert len(OF_QUERIES) >= 4


def test_a_story_is_written_as_it_was_read():
    for path in (*OF_THE_ARBITER, *OF_QUERIES):
        scenes = read(path.read_text())
        assert write(scenes, [scene.expected for scene in scenes]) == path.read_text()
