"""The stories of queries in this folder's `queries`; `pytest --rewrite-stories` writes down the traces of now."""

from pathlib import Path

import pytest

from tests.scenario.query_teller import QueryTeller
from tests.scenario.storyteller import read, write

STORIES = sorted((Path(__file__).parent / "queries").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path, request):
    scenes = read(path.read_text())
    teller = QueryTeller()
    traces = [teller.play(scene) for scene in scenes]
    if request.config.getoption("--rewrite-stories"):
        path.write_text(write(scenes, traces))
        return
    for scene, trace in zip(scenes, traces, strict=True):
        assert trace == scene.expected, f"{path.name}: after {' / '.join(scene.lines)}"


def test_there_are_stories():
    assert len(STORIES) >= 4


def test_a_story_is_written_as_it_was_read():
    for path in STORIES:
        scenes = read(path.read_text())
        assert write(scenes, [scene.expected for scene in scenes]) == path.read_text()
