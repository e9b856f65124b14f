"""What an application leases, as it reads it: in answer to a request, and at the beginning of its stream."""

import pytest

from tests.http_service import SQL, Service, problems, streamed
from tests.lease_world import World, node, row
from yarn_plugin.api import streams as module
from yarn_plugin.api import wire
from yarn_plugin.api.streams import Streams
from yarn_plugin.api.tokens import Principal
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.drive.registry import journal_tags
from yarn_plugin.journal.codec import Codec
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Pool

OFFSET = 1000.0
LEASED = Pool("gpu", "root.gpu", (GPU,), controller="lease", parameters=LeaseSettings())


class Source:
    """A world as the streams see it."""

    def __init__(self, world):
        self._world = world

    @property
    def state(self):
        return self._world.stage.intake.state

    def history(self):
        return tuple(self._world.stage.decided)

    def wall_offset(self):
        return OFFSET


def contest():
    """ann leases both GPUs of n1; then eve wins one of them, which ann has to vacate."""
    world = World.of(node("n1", 2), f=0.0, payments=False)
    ann = world.arrive("ann", rho=4.0, rows=(row(2.0, 2),))
    world.wait(20)
    world.run(ann, n1=[1, 1])
    return world, ann


def eve_wins(world, ann):
    world.agents[ann].rows = (row(3.0, 1),)
    eve = world.arrive("eve", rho=9.0, rows=(row(3.0, 1),))
    world.wait(600)
    return eve


def new_streams(world):
    return Streams(Source(world), codec=Codec(journal_tags(BUILT_IN)))


def test_a_stream_begins_with_what_is_leased_instead_of_all_that_led_to_it():
    world, ann = contest()
    streams = new_streams(world)
    *before, (number, name, leased) = streamed(streams, ann)
    assert (number, name) == (streams.last, "leases")
    assert {kind for _, kind, _ in before} == {"ask", "offer"}
    (lease,) = leased["leases"]
    place = {"host": "n1", "rack": "/r1", "machine": "n1", "slot": "n1", "model": ""}
    held = [{"cell": f"n1/{ordinal}", "place": {**place, "ordinal": ordinal}} for ordinal in (0, 1)]
    assert (lease["holdings"], lease["revoked"], lease["vacate_by"]) == (held, [], None)
    (granted,) = [data for _, kind, data in streamed(streams, ann, "1") if kind == "grant"]
    (of_grant,) = granted["leases"]
    told = [{"cell": one["cell"], "place": one["place"]} for one in of_grant["holdings"]]
    assert told == held
    assert of_grant["until"] == lease["until"]


def test_a_revoked_part_is_named_with_its_time():
    world, ann = contest()
    eve_wins(world, ann)
    (lease,) = new_streams(world).leases(ann).leases
    (held,) = [one for one in world.stage.state().leases.values() if one.lease.app == ann]
    assert (lease.revoked, lease.vacate_by) == (list(held.leaving), held.by + OFFSET)
    assert len(lease.revoked) == 1


def test_a_lease_that_has_not_begun_is_not_told():
    world, ann = contest()
    eve = eve_wins(world, ann)
    assert eve in {held.lease.app for held in world.stage.state().leases.values()}
    assert new_streams(world).leases(eve).leases == []


def test_whoever_was_away_for_longer_than_the_history_reads_its_leases(monkeypatch):
    world, ann = contest()
    seen = [str(one.seq) for one in world.stage.decided][-1]
    eve_wins(world, ann)
    everything = new_streams(world)
    assert "leases" not in {name for _, name, _ in streamed(everything, ann, seen)}
    assert "revoke" in {name for _, name, _ in streamed(everything, ann, seen)}
    monkeypatch.setattr(module, "MAX_DECISIONS", 1)
    short = new_streams(world)
    found = streamed(short, ann, seen)
    (number, name, leased) = found[-1]
    assert (name, len(leased["leases"][0]["revoked"])) == ("leases", 1)
    assert "revoke" not in {name for _, name, _ in found}
    # From there on, nothing is missed.
    assert streamed(short, ann, str(number)) == []
    world.run(ann)
    short.catch_up(world.stage.decided)
    assert [name for _, name, _ in streamed(short, ann, str(number))] == ["lease_ended"]


def test_after_a_restart_with_a_short_history_leases_are_read_again():
    world, ann = contest()
    later = Source(world)
    whole = later.history()
    later.history = lambda: whole[-1:]
    streams = Streams(later, codec=Codec(journal_tags(BUILT_IN)))
    assert [name for _, name, _ in streamed(streams, ann, "3")] == ["leases"]
    assert streamed(streams, ann, str(whole[-1].seq)) == []


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path, SQL, LEASED)
    yield made
    made.arbiter.close()


def get(service, token, app):
    return service.ask(token, "GET", f"/v1/apps/{app}/leases")


def test_an_application_reads_its_own_leases(service):
    world, ann = contest()
    service.arbiter._intake._execution.state = world.stage.intake.state
    answer = get(service, service.tokens.issue(Principal("app", ann)), ann)
    assert answer.status_code == 200
    leased = wire.Leases.model_validate(answer.json())
    assert (leased.app, leased.pool, leased.seq) == (ann, "gpu", service.streams.last)
    assert [one.place.ordinal for one in leased.leases[0].holdings] == [0, 1]


def test_only_its_own_and_only_where_gpus_are_leased(service):
    first, second = service.register("first", pool="gpu"), service.register("second", user="eve", pool="gpu")
    assert get(service, first.token, first.app).json()["leases"] == []
    assert get(service, second.token, first.app).status_code == 403
    assert get(service, "wrong", first.app).status_code == 401
    assert get(service, first.token, "app_99").status_code in (403, 404)
    shared = service.register("query", pool="sql")
    answer = get(service, shared.token, shared.app)
    assert (answer.status_code, problems(answer)[0][0]) == (409, "app")
