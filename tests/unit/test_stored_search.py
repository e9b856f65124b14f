"""A search whose folder is in HDFS: its journal, its copy, its application master and launchers."""

import os
import signal
import threading
from types import SimpleNamespace

import pytest

from tests.fake_hdfs import FakeHdfs, RefusedError
from tests.trial_agent import Agent
from tests.unit.test_search_master import Attempt, yarn  # noqa: F401
from themis_agent.errors import StoreError
from themis_agent.local import stored_folder
from themis_agent.local.folder import Folder, folder_at
from themis_agent.trial import agent_link, launch_file, launcher
from themis_agent.trial.log_copies import LogCopies
from themis_agent.trial.logs import BoundedLog
from themis_agent.trial.webhdfs import HdfsStore
from themis_agent.trial.wire import LaunchSpec
from themis_agent.view.journal_reader import JournalReader
from themis_agent.view.trial_logs import TrialLog
from themis_agent.yarn import stored_journal
from themis_agent.yarn.containers import Gone, Launcher
from themis_agent.yarn.launches import last_words
from themis_agent.yarn.takeover import Fence, SupersededAttemptError
from yarn_plugin.journal.records import JournalUnavailableError, read_records


@pytest.fixture
def hdfs(monkeypatch):
    monkeypatch.setattr(stored_journal, "RETRY_S", 0.01)
    monkeypatch.setattr("themis_agent.trial.webhdfs.RETRY_S", (0.01,))
    monkeypatch.setattr(HdfsStore.__init__, "__defaults__", (None, (0.01,)))
    made = FakeHdfs()
    HdfsStore(f"{made.url}/searches/one").make_folder("checkpoints")
    yield made
    made.close()


def copy(hdfs, root):
    return Folder(stored_folder.copy_at(f"{hdfs.url}/searches/one", root))


class Copies:
    """Attempts, each with a copy of its own."""

    def __init__(self, hdfs, root):
        self.hdfs, self.root = hdfs, root

    def attempt(self, number):
        folder = copy(self.hdfs, self.root / str(number))
        return stored_journal.take_over(folder, folder.store, Fence(folder, number), f"http://host:{number}")

    def stored(self):
        """What a reader finds."""
        folder = copy(self.hdfs, self.root / "reader")
        folder.refresh()
        return [one["n"] for one in read_records(folder.journal)] if folder.journal.exists() else []


@pytest.fixture
def copies(hdfs, tmp_path):
    return Copies(hdfs, tmp_path)


def content(records):
    return [one["n"] for one in records.read()]


def test_what_is_appended_is_in_the_store_before_append_returns(copies):
    journal = copies.attempt(1)
    for number in range(4):
        journal.append({"n": number}, durable=number != 2)
        assert copies.stored() == ([0, 1] if number == 2 else list(range(number + 1)))


def test_a_later_attempt_has_the_journal_and_an_earlier_one_acts_no_more(copies):
    first = copies.attempt(1)
    first.append({"n": 1})
    second = copies.attempt(2)
    assert content(second) == [1]
    with pytest.raises(SupersededAttemptError, match="attempt 1 is superseded by attempt 2"):
        first.append({"n": 2})
    with pytest.raises(SupersededAttemptError):
        first.rewrite({"n": 3})
    second.append({"n": 4})
    assert content(second) == copies.stored() == [1, 4]
    with pytest.raises(SupersededAttemptError):
        copies.attempt(1)
    assert content(copies.attempt(3)) == [1, 4]


def test_wherever_an_attempt_is_superseded_its_record_is_known_to_the_next_or_not_acted_on(hdfs, tmp_path):
    """A second attempt takes over before each of the requests of an append of the first one in turn."""
    known = []
    for request in range(1, 20):
        hdfs.nodes = {path: node for path, node in hdfs.nodes.items() if not path.startswith("/searches/one/")}
        copies, later, asked = Copies(hdfs, tmp_path / str(request)), [], [0]
        (tmp_path / str(request)).mkdir()
        first = copies.attempt(1)
        first.append({"n": 1})

        def before(operation, path, at_data_node, copies=copies, later=later, asked=asked, at=request):
            asked[0] += 1
            if asked[0] == at:
                later.append(copies.attempt(2))

        hdfs.before = before
        try:
            first.append({"n": 2})
            acted = True
        except SupersededAttemptError:
            acted = False
        hdfs.before = lambda *_: None
        if not later:
            break
        assert not acted or 2 in content(later[0])
        later[0].append({"n": 3})
        assert content(copies.attempt(3)) == content(later[0])
        known.append((acted, 2 in content(later[0])))
    assert (False, False) in known and (False, True) in known


def test_what_is_deferred_is_sent_at_once_or_again(hdfs, copies):
    journal = copies.attempt(1)
    commit = journal.defer()
    for number in range(3):
        journal.append({"n": number})
    assert copies.stored() == []
    hdfs.asked.clear()
    commit()
    journal.append({"n": 3})
    hdfs.before = lambda *asked: asked[0] == "APPEND" and asked[2]
    with pytest.raises(JournalUnavailableError):
        commit()
    hdfs.before = lambda *_: None
    journal.append({"n": 4})
    commit()
    commit()
    assert copies.stored() == content(journal) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_an_append_that_failed_counts_once_or_not_at_all(hdfs, copies, is_carried_out):
    """Also when it was carried out, and only its answer was lost."""
    journal = copies.attempt(1)
    journal.append({"n": 1})
    journal.append({"n": 2}, durable=False)

    def before(operation, path, at_data_node):
        if operation == "APPEND" and at_data_node:
            if is_carried_out:
                return True
            raise RefusedError("IOException", "the pipeline broke")
        return False

    hdfs.before = before
    with pytest.raises(JournalUnavailableError):
        journal.append({"n": 3})
    assert content(journal) == [1, 2]
    hdfs.before = lambda *_: None
    journal.append({"n": 3})
    journal.append({"n": 4})
    assert copies.stored() == content(journal) == [1, 2, 3, 4]


def test_a_replaced_journal_is_read_anew_and_its_old_files_are_removed(hdfs, copies):
    journal = copies.attempt(1)
    for number in range(3):
        journal.append({"n": number})
    assert copies.stored() == [0, 1, 2]
    journal.rewrite({"n": 9})
    journal.append({"n": 10})
    assert copies.stored() == [9, 10]
    assert [path for path in hdfs.nodes if path.startswith("/searches/one/journal/000001/")] == [
        "/searches/one/journal/000001/000002"
    ]


def test_an_attempt_waits_while_it_cannot_know_whether_it_is_superseded(hdfs, copies):
    journal = copies.attempt(1)
    journal.append({"n": 1})
    left = [5]

    def before(operation, path, at_data_node):
        if operation == "LISTSTATUS" and left[0]:
            left[0] -= 1
            if left[0] == 1:
                copies.attempt(2)
                left[0] = 0
            raise RefusedError("SafeModeException")

    hdfs.before = before
    with pytest.raises(SupersededAttemptError):
        journal.append({"n": 2})


def test_a_reader_beside_a_replacement_finds_a_whole_journal(hdfs, copies):
    journal = copies.attempt(1)
    journal.append({"n": 1})
    later = [copies]

    def before(operation, path, at_data_node):
        # The file that it has found is gone when it reads it.
        if operation == "OPEN" and later:
            later.pop().attempt(2).append({"n": 2})

    hdfs.before = before
    assert copies.stored() == [1, 2]


class TestLogs:
    @pytest.fixture
    def written(self, hdfs, tmp_path):
        (tmp_path / "here").mkdir()
        store = HdfsStore(f"{hdfs.url}/searches/one/logs")
        self.copies = LogCopies(tmp_path / "here", store, "trial-0000/epoch-000001", every_s=3600)
        made = BoundedLog(tmp_path / "here" / "rank-0.log", 64)
        yield made
        made.close()
        self.copies.close(10)

    def read(self, folder):
        log = TrialLog(folder.logs / "trial-0000", 0)
        folder.refresh_log("trial-0000", 0)
        found = b"".join(data for _, data in log.new())
        log.close()
        return found

    def test_they_are_followed_while_they_grow_and_when_they_are_full(self, hdfs, tmp_path, written):
        folder, log, seen = copy(hdfs, tmp_path / "copy"), TrialLog(tmp_path / "copy/logs/trial-0000", 0), b""
        for number in range(12):
            written.write(b"line %03d\n" % number)
            self.copies.flush()
            folder.refresh_log("trial-0000", 0)
            seen += b"".join(data for _, data in log.new())
        log.close()
        assert seen == b"".join(b"line %03d\n" % number for number in range(12))
        assert hdfs.content("/searches/one/logs/trial-0000/epoch-000001/rank-0.log.1").startswith(b"line")

    @pytest.mark.parametrize("is_carried_out", [True, False])
    def test_an_append_that_failed_leaves_no_gap_and_nothing_twice(self, hdfs, tmp_path, written, is_carried_out):
        written.write(b"one\n")
        self.copies.flush()
        written.write(b"two\n")

        def before(operation, path, at_data_node):
            if operation == "APPEND" and at_data_node and not is_carried_out:
                raise RefusedError("IOException")
            return operation == "APPEND" and at_data_node

        hdfs.before = before
        with pytest.raises(StoreError):
            self.copies.flush()
        hdfs.before = lambda *_: None
        written.write(b"three\n")
        self.copies.flush()
        assert self.read(copy(hdfs, tmp_path / "copy")) == b"one\ntwo\nthree\n"

    def test_a_full_log_has_its_new_name_although_the_store_went_away_before_it_said_so(self, hdfs, tmp_path, written):
        written.write(b"one" * 9)
        self.copies.flush()
        written.write(b"two" * 9)
        gone = []

        def before(operation, path, at_data_node):
            if gone:
                raise RefusedError("SafeModeException")
            gone.extend([operation] * (operation == "RENAME" and path.endswith("/rank-0.log")))
            return bool(gone)

        hdfs.before = before
        with pytest.raises(StoreError):
            self.copies.flush()
        hdfs.before = lambda *_: None
        for _ in range(2):
            self.copies.flush()
        assert self.read(copy(hdfs, tmp_path / "copy")) == b"one" * 9 + b"two" * 9

    def test_a_log_that_somebody_removed_from_the_store_is_copied_anew(self, hdfs, written):
        name = "/searches/one/logs/trial-0000/epoch-000001/rank-0.log"
        HdfsStore(f"{hdfs.url}/searches/one/logs").write("trial-0000/epoch-000001/rank-0.log", b"of another launcher\n")
        written.write(b"one\n")
        self.copies.flush()
        del hdfs.nodes[name]
        written.write(b"two\n")
        with pytest.raises(StoreError):
            self.copies.flush()
        self.copies.flush()
        assert hdfs.content(name) == b"one\ntwo\n"

    def test_a_log_that_is_being_renamed_keeps_nothing_else_from_being_copied(self, hdfs, tmp_path, written):
        """A checkpoint whose logs cannot be copied is not stored, and one without its files has been removed."""
        (tmp_path / "here" / "launcher-0.jsonl").symlink_to("nothing")
        written.write(b"one\n")
        self.copies.flush()
        assert self.read(copy(hdfs, tmp_path / "copy")) == b"one\n"

    def test_a_second_launcher_of_an_attempt_goes_on_in_the_same_log(self, hdfs, tmp_path, written):
        written.write(b"first\n")
        self.copies.flush()
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "rank-0.log").write_bytes(b"second\n")
        store = HdfsStore(f"{hdfs.url}/searches/one/logs")
        LogCopies(tmp_path / "other", store, "trial-0000/epoch-000001").close(10)
        assert self.read(copy(hdfs, tmp_path / "copy")) == b"first\nsecond\n"


def test_a_search_runs_and_another_copy_shows_it(hdfs, tmp_path, yarn):  # noqa: F811
    attempt = Attempt(yarn, folder=copy(hdfs, yarn.folder / "master")).join()
    assert attempt.problem is None
    assert yarn.ended[0][0] and attempt.steps() == [[1, 2, 3, 4, 5]] * 2
    folder = Folder(stored_folder.copy_at(f"{hdfs.url}/searches/one", tmp_path / "copy"))
    state = folder.state()
    assert state.finished and state.best.step == 5
    reader = JournalReader(folder.journal, "loss", folder.refresh)
    assert reader.advance() and not reader.advance()
    folder.refresh_log(state.best.id, 0)
    assert (folder.logs / state.best.id / "epoch-000001" / "rank-0.log").exists()
    assert {mode for mode, _, _, content in hdfs.nodes.values() if content is not None} == {0o600}


def test_another_attempt_adopts_the_launchers_and_a_killed_one_goes_on_from_its_checkpoint(hdfs, yarn):  # noqa: F811
    held = yarn.folder / "hold"
    held.touch()
    first = Attempt(yarn, folder=copy(hdfs, yarn.folder / "master-1"), step_s=0.2, max_steps=12)
    first.until_steps(5)
    os.kill(next(iter(yarn.processes.values())).pid, signal.SIGKILL)
    second = Attempt(yarn, 2, folder=copy(hdfs, yarn.folder / "master-2"), step_s=0.2, max_steps=12)
    assert isinstance(first.join().problem, SupersededAttemptError | OSError)
    held.unlink()
    assert second.join().problem is None
    assert len(yarn.started) == 3
    one, other = sorted(second.steps(), key=len)
    assert one == list(range(1, 13))
    assert other[-1] == 12 and sorted(set(other)) == one
    assert len(other) < 20, "it went on from a checkpoint"


@pytest.mark.parametrize("kind", ["FileNotFoundException", "SafeModeException"])
def test_a_launcher_waits_for_a_store_that_is_away_and_its_trial_has_not_crashed(hdfs, monkeypatch, capsys, kind):
    now, looks = [0.0], []

    def before(operation, path, at_data_node):
        raise RefusedError(kind)

    def monotonic():
        looks.append(now[0])
        assert len(looks) < 1000, "it asks without a pause"
        return now[0]

    def wait(seconds):
        now[0] += seconds

    hdfs.before = before
    monkeypatch.setattr(launch_file.read_at, "__defaults__", ((),))
    monkeypatch.setattr(launch_file, "time", SimpleNamespace(monotonic=monotonic, sleep=wait))
    monkeypatch.setattr(launcher.sys, "argv", ["launcher", f"{hdfs.url}/searches/one/spec.json"])
    gone = Gone(Launcher("trial-0000", 1), launcher.main())
    assert now[0] > 50 and "spec.json: " in capsys.readouterr().err
    (ended,) = last_words(gone, (), None)
    assert ended.code is None


def test_a_store_that_hangs_does_not_keep_a_launcher_from_its_agent(hdfs, tmp_path, monkeypatch):
    agent, waiting = Agent(), threading.Event()
    hdfs.before = lambda operation, path, at_data_node: waiting.wait(60) and False
    monkeypatch.setattr(agent_link, "_ADDRESS_TIMEOUT_S", (0.1, 0.1), raising=False)
    spec = LaunchSpec(
        trial="t1",
        epoch=1,
        command=["true"],
        ranks=[0],
        world_size=1,
        host="here",
        checkpoint={"directory": str(tmp_path)},
        log_directory=str(tmp_path),
        heartbeat_s=0.01,
        agent_url=agent.url,
        agent_address=f"{hdfs.url}/searches/one/agent.json",
    )
    link = agent_link.AgentLink(spec, lambda: None)
    with agent.changed:
        assert agent.changed.wait_for(lambda: agent.batches > 2, 60)
    waiting.set()
    link.close(1.0)
    agent.close()


def test_a_folder_is_opened_by_its_url(hdfs, tmp_path, yarn):  # noqa: F811
    Attempt(yarn, folder=copy(hdfs, yarn.folder / "master")).join()
    store = HdfsStore(f"{hdfs.url}/searches/one")
    store.write("app.json", (yarn.folder / "master" / "app.json").read_bytes())
    folder = folder_at(f"{hdfs.url}/searches/one")
    app, _ = folder.load()
    exported = folder.export(app, folder.state().best, tmp_path / "best")
    assert exported == 5 and (tmp_path / "best" / "step-5").is_dir()
    assert str(folder) == f"{hdfs.url}/searches/one"
    assert folder.root.stat().st_mode & 0o077 == 0
