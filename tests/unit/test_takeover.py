"""A later attempt of an application master takes over from one that still lives."""

import threading

import pytest

from themis_agent.local.folder import Folder
from themis_agent.trial.wire import AgentAddress
from themis_agent.yarn.takeover import Fence, SupersededAttemptError, take_over
from yarn_plugin.journal.records import JournalUnavailableError


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def attempt(folder, number):
    return take_over(folder, Fence(folder, number), f"http://host:{number}")


def content(records):
    return [one["n"] for one in records.read()]


def test_a_later_attempt_has_the_journal_and_an_earlier_one_writes_no_more(folder):
    first = attempt(folder, 1)
    first.append({"n": 1})
    second = attempt(folder, 2)
    assert content(second) == [1]
    with pytest.raises(SupersededAttemptError, match="attempt 1 is superseded by attempt 2"):
        first.append({"n": 2})
    with pytest.raises(SupersededAttemptError):
        first.rewrite({"n": 3})
    second.append({"n": 4})
    assert content(second) == [1, 4]
    assert AgentAddress.model_validate_json(folder.address.read_text()) == AgentAddress(url="http://host:2", attempt=2)


def test_an_earlier_attempt_takes_nothing_over(folder):
    second = attempt(folder, 2)
    second.append({"n": 1})
    with pytest.raises(SupersededAttemptError):
        attempt(folder, 1)
    second.append({"n": 2})
    assert content(second) == [1, 2]


def test_a_record_of_an_attempt_that_is_just_superseded_is_known_to_the_next_or_not_acted_on(folder):
    """Wherever the second attempt interrupts an append of the first one."""
    first = attempt(folder, 1)
    fence = Fence(folder, 2)
    files = []

    def check():
        # Between the write and the look, a later attempt takes over.
        files.append(take_over(folder, fence, "http://host:2"))
        Fence(folder, 1).check()

    first._check = check
    with pytest.raises(SupersededAttemptError):
        first.append({"n": 1})
    assert content(files[0]) == [1]


@pytest.mark.parametrize("sees_it", [True, False])
def test_an_attempt_that_is_superseded_while_it_compacts_the_journal_does_not_replace_it(folder, sees_it):
    first = attempt(folder, 1)
    first.append({"n": 1})
    taken = []

    def check():
        taken.append(attempt(folder, 2))
        if sees_it:
            Fence(folder, 1).check()

    first._check = check
    with pytest.raises(SupersededAttemptError if sees_it else JournalUnavailableError):
        first.rewrite({"n": 0})
    (second,) = taken
    second.append({"n": 2})
    assert content(second) == [1, 2]


def test_an_attempt_that_is_superseded_does_not_replace_the_journal_by_the_draft_of_its_successor(folder):
    first, taken = attempt(folder, 1), []
    first.append({"n": 1})
    written, replaced = threading.Event(), threading.Event()

    def check():
        # The second attempt takes over, and is compacting the journal when the first one replaces it.
        second = attempt(folder, 2)
        second._check = lambda: (written.set(), replaced.wait(10))
        thread = threading.Thread(target=second.rewrite, args=({"n": 2},))
        taken.extend((second, thread))
        thread.start()
        assert written.wait(10)

    first._check = check
    with pytest.raises(JournalUnavailableError):
        first.rewrite({"n": 0})
    second, thread = taken
    replaced.set()
    thread.join(10)
    assert content(second) == [2]
    assert not [one.name for one in folder.root.iterdir() if one.suffix == ".part"]
