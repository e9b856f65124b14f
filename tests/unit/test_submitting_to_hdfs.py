"""Submitting a search whose store is in HDFS, and the commands that take its URL."""

import getpass
import json

import pytest

from tests.fake_hdfs import FakeHdfs, RefusedError
from tests.unit.test_submitting import YARN_APP, world  # noqa: F401
from themis_agent.agent import events
from themis_agent.cli import cli
from themis_agent.live import LiveAgent
from themis_agent.local.folder import Folder, folder_at
from themis_agent.submitting import client, recent
from themis_agent.submitting.request import SubmissionError
from themis_agent.trial.webhdfs import HdfsStore
from themis_agent.yarn import start, stored_journal, submission
from themis_agent.yarn.takeover import Fence
from yarn_plugin import console


@pytest.fixture
def hdfs(monkeypatch):
    monkeypatch.setattr(HdfsStore.__init__, "__defaults__", (None, ()))
    made = FakeHdfs()
    HdfsStore(f"{made.url}/searches").make_folder("")
    HdfsStore(f"{made.url}/data").write("digits.tar", b"digits")
    yield made
    made.close()


def submit(world, hdfs, **more):  # noqa: F811
    urls = {"urls": [f"{hdfs.url}/data/digits.tar#digits"]}
    return world.submit(checkpoint=f"{hdfs.url}/searches", data=urls, **more)


def begun(search):
    """As its first attempt leaves it, with one trial."""
    folder = Folder(search.folder)
    journal = stored_journal.take_over(folder, folder.store, Fence(folder, 1), "http://127.0.0.1:1")
    agent = LiveAgent(journal, lambda command: None)
    app, _ = folder.load()
    done = agent.put(events.Begun(app.settings()))
    agent.run(lambda state: done.done())
    agent.close()
    return folder


def test_all_of_a_search_is_in_the_store_for_its_user_alone(world, hdfs, capsys):  # noqa: F811
    search = submit(world, hdfs)
    assert search.place == f"{hdfs.url}/searches/digits"
    found = {path.removeprefix("/searches/") for path in hdfs.nodes if path.startswith("/searches/")}
    for name in ("app.json", "submission.json", "token", "arbiter-token", "checkpoints", "journal"):
        assert f"digits/{name}" in found
    staging = f".staging-{getpass.getuser()}"
    assert sum(name.startswith(f"{staging}/themis-") for name in found) == 3
    assert not [name for name in found if name.startswith(".") and not name.startswith(staging)]
    below = [node for path, node in hdfs.nodes.items() if path.startswith("/searches/")]
    assert {(mode, content is None) for mode, _, _, content in below} == {(0o600, False), (0o700, True)}
    written = submission.read(search.folder)
    for one in written.resources:
        path = one.url.removeprefix(hdfs.url)
        assert (one.size, one.modified_ms) == (len(hdfs.content(path)), hdfs.nodes[path][2])
        assert not one.public
    assert {"train.py", "digits"} <= {one.name for one in written.resources}
    command = world.bodies[YARN_APP]["am-container-spec"]["commands"]["command"]
    assert f"--submission {search.place}" in command and command.count(search.place) == 2
    assert str(search.folder) not in json.dumps(world.bodies[YARN_APP])


def test_archives_are_staged_once(world, hdfs):  # noqa: F811
    submit(world, hdfs)
    hdfs.asked.clear()
    submit(world, hdfs, name="other")
    assert not [path for operation, path, _ in hdfs.asked if operation == "CREATE" and ".staging-" in path]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"checkpoint": "webhdfs://127.0.0.1:1/ck"}, "checkpoint 'webhdfs://127.0.0.1:1/ck': .*cannot be reached"),
        ({"checkpoint": "{hdfs}/nothing"}, "checkpoint '.*/nothing': .*no such file or folder"),
        ({"data": {"urls": ["{hdfs}/data/none"]}}, "data.urls '.*/none': .*no such file or folder"),
        ({"data": {"urls": ["{hdfs}/data"]}}, "data.urls '.*/data': is a directory"),
        ({"data": {"urls": ["webhdfs://host/data"]}}, "data.urls .*: give webhdfs://HOST:PORT/PATH"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(world, hdfs, more, said):  # noqa: F811
    before = dict(hdfs.nodes)
    text = json.dumps({"checkpoint": f"{hdfs.url}/searches", **more}).replace("{hdfs}", hdfs.url)
    with pytest.raises(SubmissionError, match=said):
        client.submit(world.app(**json.loads(text)), world.home, world.access(), print)
    assert hdfs.nodes == before and not world.bodies


def test_a_store_that_cannot_be_written_is_found_before(world, hdfs):  # noqa: F811
    def before(operation, path, at_data_node):
        if operation == "CREATE":
            raise RefusedError("AccessControlException", "Permission denied: user=me")

    hdfs.before = before
    with pytest.raises(SubmissionError, match="AccessControlException: Permission denied: user=me"):
        submit(world, hdfs)


def test_a_name_is_taken_once(world, hdfs):  # noqa: F811
    submit(world, hdfs)
    with pytest.raises(SubmissionError, match=r"name 'digits': webhdfs://.*/searches/digits holds this search already"):
        submit(world, hdfs)


def test_a_search_that_has_ended_is_replaced(world, hdfs):  # noqa: F811
    search = submit(world, hdfs)
    begun(search)
    world.apps[YARN_APP] = "KILLED"
    app = world.app(checkpoint=f"{hdfs.url}/searches", max_steps=27)
    world.refuse = {("POST", "/v1/apps")}
    with pytest.raises(Exception, match="refused here"):
        client.submit(app, world.home, world.access(), print, True)
    assert folder_at(search.place).state() is not None, "the earlier search is there as before"
    world.refuse, world.apps[YARN_APP] = set(), "KILLED"
    again = client.submit(app, world.home, world.access(), print, True)
    assert folder_at(again.place).load()[0].max_steps == 27
    assert not [path for path in hdfs.nodes if "replaced" in path or "digits/journal/" in path]


@pytest.mark.parametrize("refused", [("POST", "/apps"), ("POST", "/apps/new-application")])
def test_a_submission_that_fails_leaves_nothing(world, hdfs, refused):  # noqa: F811
    world.refuse = {refused}
    with pytest.raises(Exception, match="refused here"):
        submit(world, hdfs)
    staging = f"/searches/.staging-{getpass.getuser()}"
    assert [path for path in hdfs.nodes if path.startswith("/searches/") and not path.startswith(staging)] == []


def test_commands_take_the_url(world, hdfs, capsys):  # noqa: F811
    search = submit(world, hdfs)
    for words, said in ((("status", search.place), "is ACCEPTED"), (("list", "--rm", world.rm.url), YARN_APP)):
        assert console.run(cli, "themis-agent", list(words)) == 0
        assert said in capsys.readouterr().out
    begun(search)
    for words, said in (
        (("status", search.place), "digits"),
        (("why", search.place), "digits"),
        (("stop", "--kill", search.place), f"YARN is killing {YARN_APP}"),
    ):
        assert console.run(cli, "themis-agent", list(words)) == 0
        assert said in capsys.readouterr().out
    assert Folder(recent.folder_of(YARN_APP)).store.url == search.place


def test_a_killed_search_is_resumed(world, hdfs, capsys):  # noqa: F811
    search = submit(world, hdfs)
    begun(search)
    first = submission.read(search.folder)
    where = ("--rm", world.rm.url, "--arbiter", world.arbiter.url, "--token-file", str(world.token))
    words = ["resume", search.place, *where]
    assert console.run(cli, "themis-agent", words) == 2
    assert "still runs this search" in capsys.readouterr().err
    world.apps[YARN_APP] = "KILLED"
    assert console.run(cli, "themis-agent", words) == 0, capsys.readouterr().err
    again = submission.read(folder_at(search.place).root)
    assert again.attempts_before == 1
    assert [one for one in again.resources if one.name == "train.py"] == [
        one for one in first.resources if one.name == "train.py"
    ]


def test_a_url_without_a_search_is_refused(hdfs, capsys):
    assert console.run(cli, "themis-agent", ["status", f"{hdfs.url}/searches/none"]) == 2
    assert "holds no search" in capsys.readouterr().err


def test_the_start_program_waits_for_the_submission_in_the_store(hdfs, monkeypatch):
    store = HdfsStore(f"{hdfs.url}/searches/a b")
    monkeypatch.setenv("CONTAINER_ID", "container_17_0001_01_000001")
    monkeypatch.setattr(start, "COMPLETE_WITHIN_S", 0.3)
    assert not start._is_complete(store.url_of(""))
    store.write("submission.json", json.dumps({"yarn_app": "application_17_0001"}).encode())
    assert start._is_complete(store.url_of(""))
