"""The arbiter's messages as the agent's events, and its answers."""

from tests.agent_world import FIRST, PLAIN, Search
from themis_agent.agent import events, messages
from themis_agent.agent.commands import SendBid, SendEstimate, StartTrial
from themis_agent.arbiter_messages import Translation, answer

MACHINES = [{"id": "node-1", "rack": "r1", "slots": [{"id": "node-1", "gpus": 2}]}]
OFFER = {
    "id": "2",
    "bid_by": 1010.0,
    "offer": {"round": 3, "machines": MACHINES, "lease_s": 600.0, "contention": 1.0, "cluster_gpus": 2},
}
PLACE = {"host": "host-1", "rack": "r1", "machine": "node-1", "slot": "node-1", "model": "K80"}
HOLDINGS = [{"cell": f"node-1/{number}", "place": {**PLACE, "ordinal": number}} for number in (0, 1)]
LEASE = {"id": "4", "job": "", "holdings": HOLDINGS, "until": 1600.0}
GRANT = {"id": "5", "leases": [LEASE]}


class Told(Search):
    """An agent without GPUs, and the arbiter that talks to it. The journal began at second 1000."""

    def __init__(self):
        super().__init__(PLAIN, held=0)
        self.translation = Translation(lambda wall: wall - 1000.0)

    def hear(self, name, fields):
        said = [self.take(event) for event in self.translation.translated(messages.read(name, fields))]
        return [command for commands in said for command in commands]


def test_an_agent_bids_trains_on_what_it_is_granted_and_gives_it_back():
    told = Told()
    question = {"round": 3, "contention": 1.0, "cluster_gpus": 2}
    (estimate,) = told.hear("ask", {"id": "1", "answer_by": 1005.0, "question": question})
    assert isinstance(estimate, SendEstimate)
    kind, fields = answer(estimate)
    assert (kind, fields["round"], fields["rho"], len(fields["jobs"])) == ("lease.estimate", 3, None, 2)
    (bid,) = told.hear("offer", OFFER)
    assert isinstance(bid, SendBid)
    kind, fields = answer(bid)
    assert kind == "lease.bid"
    assert [sum(piece["gpus"] for piece in row["pieces"]) for row in fields["rows"]] == [1, 2]
    assert [row["rho"] for row in fields["rows"]] == [2.0, 1.0]
    told.hear("grant", GRANT)
    assert [start.places[0].cells for start in told.of(StartTrial)] == [("node-1/0",), ("node-1/1",)]
    lease = told.state.leases["4"]
    assert lease.until == 600.0
    assert lease.gpus[1] == events.Gpu("node-1/1", "node-1", "node-1", "r1", "host-1", 1, "K80")
    told.hear("renew", {"id": "6", "lease": "4", "until": 2200.0})
    assert told.state.leases["4"].until == 1200.0
    (stop,) = told.hear("revoke", {"id": "7", "lease": "4", "by": 1008.0, "cells": ["node-1/0"]})
    assert (stop.trial, stop.by) == (FIRST, 8.0)
    (release,) = told.take(events.LauncherEnded(FIRST, 1, None))
    assert answer(release) == ("lease.release", {"lease": "4", "gpus": ["node-1/0"]})
    told.hear("lease_ended", {"id": "8", "lease": "4", "cells": ["node-1/0"]})
    told.hear("lease_ended", {"id": "9", "lease": "4"})
    assert told.state.leases == {}
    # A grant that is sent again after its end brings nothing back.
    assert told.hear("grant", GRANT) == []
    assert told.state.leases == {}


def test_what_is_leased_replaces_all_that_was_known_of_leases():
    """An agent that was away trains on what it was granted meanwhile, and leaves what has ended or is revoked."""
    told = Told()
    told.hear("grant", GRANT)
    kept = {**LEASE, "id": "8", "holdings": HOLDINGS[1:], "until": 2200.0, "revoked": [], "vacate_by": None}
    (stop,) = told.hear("leases", {"id": "gpu@9", "leases": [kept]})
    assert (stop.trial, told.state.leases.keys()) == (FIRST, {"8"})
    told.take(events.LauncherEnded(FIRST, 1, None))
    revoked = {**kept, "revoked": ["node-1/1"], "vacate_by": 1010.0}
    (stop,) = told.hear("leases", {"id": "gpu@11", "leases": [revoked]})
    assert stop.by == 10.0
    # A grant that comes a second time changes nothing.
    assert told.hear("grant", {"id": "7", "leases": [kept]}) == []
    assert told.state.leases["8"].revoked == ("node-1/1",)
    (stop,) = told.hear("leases", {"id": "gpu@12", "leases": []})
    assert stop.by == told.at
    assert told.state.leases == {}
