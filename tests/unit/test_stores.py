"""Stores of checkpoints: the contract for folders and for HDFS, and what is of HDFS alone."""

import json
import threading

import pytest

from tests.fake_hdfs import FakeHdfs, RefusedError
from tests.http_servers import WebServer
from tests.store_contract import StoreContract
from themis_agent.errors import StoreError
from themis_agent.trial import webhdfs
from themis_agent.trial.store import FileStore, store_at
from themis_agent.trial.webhdfs import HdfsStore, MissingError
from yarn_plugin.errors import BadInputError
from yarn_plugin.observe import bounded


@pytest.fixture
def hdfs():
    made = FakeHdfs()
    yield made
    made.close()


def at(hdfs, path="/user/me/ck", retry_s=(0.01, 0.01), user="me"):
    return HdfsStore(hdfs.url + path, user, retry_s)


@pytest.fixture
def store(hdfs):
    made = at(hdfs)
    made.make_folder("")
    return made


class TestFileStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        (tmp_path / "store").mkdir()
        return FileStore(tmp_path / "store")

    @pytest.fixture
    def missing(self, tmp_path):
        return FileStore(tmp_path / "missing")


class TestHdfsStore(StoreContract):
    @pytest.fixture
    def missing(self, hdfs):
        return at(hdfs, "/missing")


def refuse(hdfs, operation, kind="SafeModeException", times=1, at_data_node=False):
    left = [times]

    def before(asked, path, there):
        if asked == operation and there == at_data_node and left[0]:
            left[0] -= 1
            raise RefusedError(kind, f"{kind} of the test")

    hdfs.before = before


@pytest.mark.parametrize("kind", ["SafeModeException", "StandbyException", "RetriableException"])
@pytest.mark.parametrize("operation", ["CREATE", "RENAME", "OPEN", "LISTSTATUS", "DELETE", "APPEND", "MKDIRS"])
def test_what_a_name_node_refuses_for_now_is_tried_again(hdfs, store, operation, kind):
    refuse(hdfs, operation, kind, times=2)
    store.write("file", b"1")
    store.append("file", b"2")
    store.make_folder("folder")
    assert (store.read("file"), store.names("")) == (b"12", ["file", "folder"])
    store.remove("file")
    assert store.names("") == ["folder"]


def test_after_some_attempts_the_reason_is_said(hdfs, store):
    refuse(hdfs, "CREATE", times=100)
    with pytest.raises(
        StoreError, match=r"store webhdfs://.*/user/me/ck, .*file: SafeModeException: SafeModeExc.* test"
    ):
        store.write("file", b"1")


@pytest.mark.parametrize("kind", ["AccessControlException", "NSQuotaExceededException", "DSQuotaExceededException"])
def test_what_is_refused_for_good_is_not_tried_again_and_leaves_nothing(hdfs, store, kind):
    refuse(hdfs, "CREATE", kind, times=1, at_data_node=True)
    with pytest.raises(StoreError, match=f"{kind}: {kind} of the test"):
        store.write("file", b"1")
    assert store.names("") == []


def test_a_file_whose_rename_was_answered_to_nobody_is_there(hdfs, store):
    hdfs.before = lambda operation, path, there: (
        operation == "RENAME" and hdfs.asked.count((operation, path, there)) < 2
    )
    store.write("file", b"1")
    assert store.read("file") == b"1"


def test_half_an_upload_is_not_seen(hdfs, store, tmp_path):
    seen = []

    def before(operation, path, at_data_node):
        if operation == "RENAME":
            seen.append((store.names(""), store.read("file")))

    store.write("file", b"old")
    hdfs.before = before
    (tmp_path / "new").write_bytes(b"new")
    store.put(tmp_path / "new", "file")
    assert seen == [(["file"], b"old")]
    assert store.read("file") == b"new"


def test_an_append_is_never_sent_twice(hdfs, store):
    store.write("file", b"1")
    hdfs.before = lambda operation, path, at_data_node: operation == "APPEND" and at_data_node
    with pytest.raises(StoreError):
        store.append("file", b"2")
    hdfs.before = lambda *_: None
    assert store.read("file") == b"12"


def test_a_name_node_that_is_not_there_is_named(hdfs, store):
    gone = HdfsStore("webhdfs://127.0.0.1:1/ck", "me", ())
    with pytest.raises(StoreError, match=r"store webhdfs://127.0.0.1:1/ck, file: cannot be reached"):
        gone.read("file")


def test_kerberos_is_refused_in_a_sentence():
    server = WebServer(lambda asked: (401, {"WWW-Authenticate": "Negotiate"}, "Authentication required"))
    store = HdfsStore(f"webhdfs://{server.url.removeprefix('http://')}/ck", "me", ())
    with pytest.raises(StoreError, match=r"Kerberos \(SPNEGO\), which is not supported"):
        store.names("")
    server.close()


def test_another_server_is_no_name_node():
    server = WebServer(lambda asked: (200, {}, "<html>"))
    store = HdfsStore(f"webhdfs://{server.url.removeprefix('http://')}/ck", "me", ())
    with pytest.raises(StoreError, match="is this the NameNode's web address"):
        store.names("")
    with pytest.raises(StoreError, match="is this the NameNode's"):
        store.read("file")
    server.close()


@pytest.fixture
def answering():
    """Makes a store whose NameNode gives an answer to everything."""
    servers = []

    def made(status, headers, text):
        servers.append(WebServer(lambda asked: (status, headers, text)))
        return HdfsStore(f"webhdfs://{servers[-1].url.removeprefix('http://')}/ck", "me", ())

    yield made
    for server in servers:
        server.close()


DEEP = "[" * 200_000
ELSEWHERE = {"Location": "http://127.0.0.1:1/cluster"}


def listing(name):
    return json.dumps({"FileStatuses": {"FileStatus": [{"pathSuffix": name}]}})


@pytest.mark.parametrize(
    ("status", "headers", "text"),
    [
        (200, {}, ""),
        (200, {}, "{}"),
        (200, {}, '{"FileStatus": 1, "FileStatuses": {"FileStatus": [1]}}'),
        (200, {}, DEEP),
        (403, {}, DEEP),
        (302, ELSEWHERE, ""),
    ],
)
def test_answers_that_no_name_node_gives_are_errors_of_the_store(answering, status, headers, text):
    """Such as of the ResourceManager's web address, which leads to a page."""
    store = answering(status, headers, text)
    for ask in (lambda: store.names(""), lambda: store.status("file"), lambda: store.make_folder("folder")):
        with pytest.raises(StoreError, match=r"NameNode's web address|HTTP 403|cannot be made"):
            ask()
    if status != 200:
        with pytest.raises(StoreError):
            store.rename("old", "new")


def test_an_answer_that_is_too_long_is_not_read_to_its_end(answering, monkeypatch):
    monkeypatch.setattr(bounded, "MAX_BYTES", 100)
    assert answering(200, {}, listing("a" * 10)).names("") == ["a" * 10]
    with pytest.raises(StoreError, match="makes no sense"):
        answering(200, {}, listing("a" * 100)).names("")


@pytest.mark.parametrize("name", ["..", "../../above", "/etc"])
def test_names_that_lead_out_of_a_folder_are_refused(answering, name):
    with pytest.raises(StoreError, match="makes no sense"):
        answering(200, {}, listing(name)).names("logs")


@pytest.mark.parametrize("location", ["http://[bad", f"http://{'a' * 70}.com/x", "/here", "file:///etc/hosts", ""])
def test_a_redirection_to_no_data_node_is_an_error_of_the_store(answering, location):
    store = answering(307, {"Location": location}, "")
    for ask in (lambda: store.write("file", b"1"), lambda: store.append("file", b"1"), lambda: store.read("file")):
        with pytest.raises(StoreError):
            ask()


def test_what_a_data_node_leads_elsewhere_is_neither_written_nor_content(answering):
    data_node = answering(302, ELSEWHERE, "<html>").url.replace("webhdfs:", "http:")
    store = answering(307, {"Location": f"{data_node}/file"}, "")
    for ask in (lambda: store.append("file", b"2"), lambda: store.read("file")):
        with pytest.raises(StoreError, match="leads elsewhere"):
            ask()


def test_files_and_folders_are_for_their_owner_alone(hdfs, store):
    store.make_folder("folder")
    store.write("folder/file", b"1")
    assert (store.status("folder").mode, store.status("folder/file").mode) == (0o700, 0o600)
    assert store.status("folder/file").owner == "me"


def test_a_folder_replaces_an_empty_one_alone(store):
    for name in ("new", "empty", "full/one"):
        store.make_folder(name)
    with pytest.raises(StoreError, match="non empty"):
        store.rename("new", "full")
    store.rename("new", "empty")
    assert store.names("") == ["empty", "full"]


def test_a_data_node_that_does_not_answer_is_excluded(hdfs, store, monkeypatch):
    store.write("file", b"1")
    nodes = []

    def redirected(self, name, method, operation, more, real=HdfsStore._redirected):
        nodes.append(more.get("excludedatanodes"))
        location = real(self, name, method, operation, more)
        return location if more.get("excludedatanodes") else location.replace(hdfs.authority, "127.0.0.1:1")

    monkeypatch.setattr(HdfsStore, "_redirected", redirected)
    assert store.read("file") == b"1"
    assert nodes == [None, "127.0.0.1:1"]


def test_one_store_serves_several_threads(store):
    def work(number):
        for step in range(5):
            store.write(f"{number}/{step}", b"%d" % step)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.names(str(number)) for number in range(4)] == [list("01234")] * 4


def test_files_that_are_not_there_are_told_from_a_store_that_is_away(store):
    with pytest.raises(MissingError):
        store.status("nothing")


@pytest.mark.parametrize(
    "url",
    ["webhdfs:///ck", "webhdfs://host/ck", "webhdfs://host:x/ck", "webhdfs://host:9870", "webhdfs://host:1/a/../b"],
)
def test_urls_of_hdfs_need_host_port_and_path(url):
    with pytest.raises(BadInputError, match=r"give webhdfs://HOST:PORT/PATH"):
        store_at(url)


def test_a_url_names_the_same_file_for_yarn():
    store = store_at("webhdfs://host:9870/a%20b/")
    assert isinstance(store, HdfsStore)
    assert store.url_of("c d") == "webhdfs://host:9870/a%20b/c%20d"
    assert webhdfs.SCHEME == "webhdfs"
