"""The thread that uploads checkpoints outlives every failure."""

import os
import queue

import pytest

from themis_agent.trial.checkpoints import Checkpoints
from themis_agent.trial.store import FileStore
from themis_agent.trial.uploads import Committed, Refused, Uploads


@pytest.fixture
def root(tmp_path):
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def saved(tmp_path, step, name="weights"):
    folder = tmp_path / f"step-{step}"
    folder.mkdir()
    (folder / name).write_text(str(step))
    return folder


def test_a_file_name_that_is_not_utf_8_is_named_and_not_tried_again(root, tmp_path):
    outcomes = queue.Queue()
    uploads = Uploads(Checkpoints(FileStore(root), "t1", 1, 2), outcomes.put)
    uploads.upload(1, saved(tmp_path, 1, os.fsdecode(b"w\xff")))
    refused = outcomes.get(timeout=60)
    assert refused == Refused(1, r"checkpoint step-1: file name 'w\udcff' is not UTF-8")
    assert uploads.finish(10)
    uploads.upload(2, saved(tmp_path, 2))
    assert uploads.finish(10)
    assert outcomes.get(timeout=60).step == 2
    assert outcomes.empty()


def test_an_unexpected_failure_is_told_and_tried_again(root, tmp_path):
    class Broken(FileStore):
        failures = 1

        def put(self, source, name):
            if self.failures:
                self.failures -= 1
                raise RuntimeError(os.fsdecode(b"bad \xff"))
            super().put(source, name)

    outcomes = queue.Queue()
    uploads = Uploads(Checkpoints(Broken(root), "t1", 1, 2), outcomes.put)
    uploads.upload(1, saved(tmp_path, 1))
    assert outcomes.get(timeout=60) == Refused(1, r"RuntimeError: bad \udcff")
    assert uploads.finish(10)
    assert isinstance(outcomes.get(timeout=60), Committed)
