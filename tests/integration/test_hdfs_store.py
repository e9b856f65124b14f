"""Stores in a real HDFS: the contract, and what a NameNode and a DataNode do when they refuse or are gone."""

import threading
import uuid

import pytest

from tests.hdfs_daemons import Hdfs
from tests.store_contract import StoreContract
from themis_agent.errors import StoreError
from themis_agent.local import stored_folder
from themis_agent.local.folder import Folder
from themis_agent.trial.webhdfs import HdfsStore
from themis_agent.yarn import stored_journal
from themis_agent.yarn.takeover import Fence, SupersededAttemptError
from yarn_plugin.journal.records import JournalUnavailableError, read_records

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    made = Hdfs(tmp_path_factory.mktemp("hdfs") / "daemons")
    yield made
    made.close()


@pytest.fixture
def store(hdfs):
    return hdfs.store(f"/searches 100%/{uuid.uuid4().hex}")


class TestHdfsStore(StoreContract):
    @pytest.fixture
    def missing(self, hdfs):
        return HdfsStore(f"{hdfs.url}/missing")


def test_files_and_folders_are_for_their_owner_alone(store):
    store.make_folder("folder/deep")
    store.write("folder/deep/made/file", b"1")
    modes = {name: store.status(name).mode for name in ("folder", "folder/deep", "folder/deep/made")}
    assert modes == dict.fromkeys(modes, 0o700)
    assert store.status("folder/deep/made/file").mode == 0o600
    other = HdfsStore(store.url, user="somebody")
    for refused in (
        lambda: other.read("folder/deep/made/file"),
        lambda: other.write("new", b""),
        lambda: other.names(""),
    ):
        with pytest.raises(StoreError, match="AccessControlException: Permission denied: user=somebody"):
            refused()


def test_a_folder_replaces_an_empty_one_alone(store):
    for name in ("new", "empty", "full/one"):
        store.make_folder(name)
    with pytest.raises(StoreError, match=r"(?i)not empty|non-empty|cannot overwrite"):
        store.rename("new", "full")
    store.rename("new", "empty")
    assert store.names("") == ["empty", "full"]


def test_a_file_keeps_the_time_that_it_is_given(store):
    store.write("archive", b"1", modified_ms=315_532_800_000)
    assert store.status("archive").modified_ms == 315_532_800_000


def test_a_full_quota_is_said_and_what_is_there_stays(hdfs, store, tmp_path):
    store.write("kept", b"1")
    hdfs.set_name_quota(store, 2)
    (tmp_path / "large").write_bytes(bytes(8 << 20))
    for write in (lambda: store.put(tmp_path / "large", "more"), lambda: store.make_folder("folder")):
        with pytest.raises(StoreError, match=r"QuotaExceededException"):
            write()
    store.append("kept", b"2")
    assert (store.names(""), store.read("kept")) == (["kept"], b"12")


def attempt(store, root, number):
    folder = Folder(stored_folder.copy_at(store.url, root / str(number)))
    return stored_journal.take_over(folder, folder.store, Fence(folder, number), f"http://host:{number}")


def test_a_journal_is_taken_over_and_its_earlier_writer_acts_no_more(store, tmp_path):
    first = attempt(store, tmp_path, 1)
    for number in range(5):
        first.append({"n": number})
    second = attempt(store, tmp_path, 2)
    with pytest.raises(SupersededAttemptError):
        first.append({"n": 9})
    second.append({"n": 5})
    second.rewrite({"n": 6})
    second.append({"n": 7})
    reader = Folder(stored_folder.copy_at(store.url, tmp_path / "reader"))
    reader.refresh()
    assert [one["n"] for one in read_records(reader.journal)] == [6, 7]


@pytest.mark.matrix
def test_daemons_that_are_killed_stop_nothing_for_good(hdfs, store, tmp_path):
    """Without a DataNode, or a NameNode, an error says so; what was written before is there afterwards."""
    impatient = HdfsStore(store.url, retry_s=(0.1,))
    journal = attempt(impatient, tmp_path, 1)
    journal.append({"n": 1})
    hdfs.kill("dn")
    with pytest.raises(StoreError, match=r"DataNode 127\.0\.0\.1:\d+: cannot be reached|could only be written to 0"):
        impatient.write("more", b"1")
    with pytest.raises(JournalUnavailableError):
        journal.append({"n": 2})
    hdfs.kill("nn")
    with pytest.raises(StoreError, match=r"names?|more: cannot be reached"):
        impatient.read("more")
    # It starts in safe mode, until the DataNode has reported: both are waited for.
    patient, found = HdfsStore(store.url, retry_s=(1.0,) * 60), []
    thread = threading.Thread(target=lambda: found.append(patient.names("")))
    thread.start()
    hdfs.start("nn", "dn")
    thread.join(60)
    assert found == [["agent.json", "journal"]]
    patient.write("more", b"2")
    journal.append({"n": 2})
    journal.append({"n": 3})
    reader = Folder(stored_folder.copy_at(store.url, tmp_path / "reader"))
    reader.refresh()
    assert [one["n"] for one in read_records(reader.journal)] == [1, 2, 3]
