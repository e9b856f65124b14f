"""Who may write a pool's queues: one arbiter at a time, identified by a record in YARN's configuration."""

import stat

import pytest

from tests.fake_scheduler import PREFIX, FakeScheduler
from tests.http_servers import WebServer, reply
from yarn_plugin.act.ownership import OwnedError, Owner, Ownership, claim, identity, is_arbiter_at, owner_of
from yarn_plugin.observe.resource_manager import ManagerAwayError, ManagerRefusedError
from yarn_plugin.observe.scheduler_configuration import SchedulerConfiguration

KEY = f"{PREFIX}.root.sql.arbiter-owner"
POOLS = ("root.sql", "root.default")


@pytest.fixture
def store():
    return FakeScheduler()


def take(store, name, is_live=lambda url, identity: False):
    return claim(store, POOLS, name, f"http://{name}:1", is_live, pause=0.0)


def test_the_first_arbiter_owns_all_queues_of_its_pools(store):
    assert take(store, "first") == Ownership(Owner("first", "http://first:1", 1), POOLS)
    assert {owner_of(store.configuration, parent) for parent in POOLS} == {Owner("first", "http://first:1", 1)}
    assert len(store.written) == 1


def test_a_restarted_arbiter_still_owns_its_queues(store):
    take(store, "first")
    again = take(store, "first", is_live=lambda url, identity: True)
    assert again.owner.epoch == 2
    assert again.successor(store.configuration) is None


def test_a_live_owner_means_refusal_in_a_line(store):
    take(store, "first")
    asked = []
    with pytest.raises(
        OwnedError, match=r"pool queue 'root\.sql': another arbiter, http://first:1, already controls it; stop that one"
    ):
        take(store, "second", is_live=lambda *who: asked.append(who) or True)
    assert asked == [("http://first:1", "first")]
    assert len(store.written) == 1


def test_ownership_is_taken_over_from_a_dead_arbiter_and_the_old_one_notices(store):
    first = take(store, "first")
    second = take(store, "second")
    assert second.owner.epoch == 2
    assert first.successor(store.configuration) == "http://second:1"
    assert second.successor(store.configuration) is None


def test_of_two_concurrent_claims_the_one_that_reads_the_others_record_gives_way(store):
    put = store.put

    def overtaken(path, body):
        put(path, body)
        store.conf[KEY] = "other|http://other:1|1"

    store.put = overtaken
    with pytest.raises(OwnedError, match="http://other:1"):
        take(store, "first")


def test_a_record_that_comes_during_the_pause_is_found(store):
    readings, get = [], store.get

    def later(path):
        readings.append(path)
        if len(readings) == 3:
            store.conf[KEY] = "other|http://other:1|1"
        return get(path)

    store.get = later
    with pytest.raises(OwnedError, match="http://other:1"):
        take(store, "first")


def test_without_a_store_that_keeps_records_there_is_no_ownership(store):
    store.deaf = True
    assert take(store, "first") is None
    store.writable = False
    assert take(store, "first") is None


def test_the_arbiter_runs_even_if_the_store_refuses_its_ownership_record(store):
    def refuse(path, body):
        raise ManagerRefusedError(400, "User is not admin of all modified queues.")

    store.put = refuse
    assert take(store, "first") is None


def test_a_manager_that_is_away_is_an_error(store):
    def away(path, body=None):
        raise ManagerAwayError("no answer")

    store.get = away
    with pytest.raises(ManagerAwayError):
        take(store, "first")


@pytest.mark.parametrize(
    "record",
    ["", "a|b", "a|http://x|", "a|http://x|-1", "a|ftp://x|1", "a|http://x|1|2", "a b|http://x|1",
     "a|http://x|" + "9" * 40, "|http://x|1", "a|http://x y|1", "a|http://x|1\n", "a|file:///etc/passwd|1"],
)  # fmt: skip
def test_an_invalid_ownership_record_means_no_owner(store, record):
    store.conf[KEY] = record
    assert owner_of(store.configuration, "root.sql") is None
    assert take(store, "first", is_live=lambda url, identity: True).owner.epoch == 1


def test_an_arbiter_is_live_if_it_answers_by_its_name():
    def health(asked):
        return reply({"status": "ok", "id": "first"}) if asked.path == "/v1/health" else reply({}, 404)

    server = WebServer(health)
    try:
        assert is_arbiter_at(server.url, "first")
        assert not is_arbiter_at(server.url, "second")
        for said in ((200, {}, "hello"), reply(["first"]), reply({"id": "first"}, 503), (200, {}, "[" * 60_000)):
            server.answer = lambda asked, said=said: said
            assert is_arbiter_at(server.url, "first") is (said[0] == 503)
    finally:
        server.close()
    assert not is_arbiter_at(server.url, "first")


def test_an_identity_stays_with_its_folder_and_is_private(tmp_path):
    made = identity(tmp_path / "state")
    assert identity(tmp_path / "state") == made != identity(tmp_path / "another")
    file = tmp_path / "state" / "identity"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("cut", ["", "abc", "0" * 31, "\0" * 32, "../../etc"])
def test_an_identity_that_was_cut_is_made_anew(tmp_path, cut):
    (tmp_path / "identity").write_text(cut)
    made = identity(tmp_path)
    assert len(made) == 32
    assert identity(tmp_path) == made


@pytest.mark.parametrize(
    "record",
    [
        "id|http://evil@169.254.169.254/latest|3",
        "id|http://host:8780/?x=|3",
        "id|http://host\x1b[2J|3",
        "id|ftp://host|3",
        "id|http://host:8780|x",
        "|http://host:8780|3",
    ],
)
def test_an_ownership_record_without_an_arbiter_address_is_ignored(record):
    assert owner_of(SchedulerConfiguration({KEY: record}), "root.sql") is None


def test_a_record_of_every_kind_of_address_is_one():
    for url in ("http://127.0.0.1:8780", "https://rm-1.example.com:8780", "http://[::1]:8780"):
        found = SchedulerConfiguration({KEY: f"id|{url}|3"})
        assert owner_of(found, "root.sql").url == url
