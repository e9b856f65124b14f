"""What every store must satisfy: a class of tests that those of each kind of store inherit."""

import pytest

from themis_agent.errors import StoreError
from themis_agent.trial.checkpoints import Checkpoint, Checkpoints

NAMES = ("plain", "with space", "100%", "50%25", "größe-深い", "a+b&c=d#e?f;g", "it's")


class StoreContract:
    """A subclass has the fixtures `store`, of an empty folder, and `missing`, of a folder that is not there."""

    @pytest.mark.parametrize("name", NAMES)
    def test_a_file_is_read_as_it_was_written_whatever_its_name(self, store, name):
        store.write(f"folder/{name}", b"content")
        assert store.read(f"folder/{name}") == b"content"
        assert store.names("folder") == [name]
        store.rename(f"folder/{name}", f"folder/new {name}")
        assert store.names("folder") == [f"new {name}"]
        store.remove(f"folder/new {name}")
        assert store.names("folder") == []

    def test_files_are_copied_there_and_back(self, store, tmp_path):
        data = bytes(range(256)) * 40_000
        (tmp_path / "source").write_bytes(data)
        store.put(tmp_path / "source", "a/b/file")
        store.fetch("a/b/file", tmp_path / "new" / "target")
        assert (tmp_path / "new" / "target").read_bytes() == data
        assert (store.names(""), store.names("a"), store.names("a/b")) == (["a"], ["b"], ["file"])

    def test_an_empty_file_is_one(self, store, tmp_path):
        store.write("empty", b"")
        store.fetch("empty", tmp_path / "target")
        assert (store.read("empty"), (tmp_path / "target").read_bytes()) == (b"", b"")

    def test_a_file_is_replaced_by_writing_and_by_renaming(self, store):
        store.write("old", b"1")
        store.write("old", b"22")
        assert store.read("old") == b"22"
        store.write("new", b"3")
        store.rename("new", "old")
        assert (store.read("old"), store.names("")) == (b"3", ["old"])

    def test_what_is_removed_is_gone_and_may_be_removed_again(self, store):
        store.write("folder/one", b"1")
        store.write("folder/deep/two", b"2")
        for _ in range(2):
            store.remove("folder")
            assert store.names("") == []

    def test_what_is_not_there_is_said(self, store, tmp_path):
        assert store.names("nothing") == []
        for read in (
            lambda: store.read("nothing"),
            lambda: store.fetch("nothing", tmp_path / "target"),
            lambda: store.rename("nothing", "new"),
        ):
            with pytest.raises(StoreError, match=r"(?i)no such file"):
                read()

    def test_a_folder_that_is_not_there_is_no_empty_one(self, missing):
        for read in (lambda: missing.names(""), lambda: missing.names("folder"), lambda: missing.read("file")):
            with pytest.raises(StoreError, match=r"(?i)no such file"):
                read()

    def test_checkpoints_are_committed_and_restored(self, store, tmp_path):
        source = tmp_path / "step-2"
        (source / "deep").mkdir(parents=True)
        (source / "deep" / "weights 1%").write_bytes(b"weights")
        first = Checkpoints(store, "trial-0000", 1, keep=1)
        assert first.begin(tmp_path / "first") is None
        for step in (1, 2):
            first.commit(step, source)
        later = Checkpoints(store, "trial-0000", 2, keep=1)
        assert later.begin(tmp_path / "second") == Checkpoint(1, 2)
        assert (tmp_path / "second" / "step-2" / "deep" / "weights 1%").read_bytes() == b"weights"
        assert store.names("trial-0000/000001") == ["000000000002", "000000000002.json"]
