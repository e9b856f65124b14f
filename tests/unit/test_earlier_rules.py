"""What pools and searches of earlier rules decided is decided again by their journals; later rules decide otherwise."""

from pathlib import Path

import pytest

from themis_agent.agent.commands import ReleaseGpus, SendBid
from themis_agent.agent.tags import TAGS
from themis_agent.live import MACHINE
from yarn_plugin.decide.commands import SendToApp
from yarn_plugin.decide.pools.commands import Grant, LeaseEnded, Revoke
from yarn_plugin.drive.replay import replay
from yarn_plugin.journal.records import MemoryRecords, read_records
from yarn_plugin.journal.replay import Replay
from yarn_plugin.model.causes import NotPlaced

FIXTURES = Path(__file__).parents[1] / "fixtures"
RULES_2, RULES_3 = FIXTURES / "rules2", FIXTURES / "rules3"


def by_rules(rules, journal, folder):
    """The same inputs, for a pool or a search of these rules."""
    records = MemoryRecords()
    for record in read_records(journal):
        event = record.get("event", {})
        for pool in event.get("pools", ()):
            pool["parameters"] = pool.get("parameters") and {**pool["parameters"], "rules": rules}
        if "settings" in event:
            event["settings"]["rules"] = rules
        records.append(record)
    path = folder / journal.name
    path.write_bytes(records.content())
    return path


def replay_search(journal):
    replayed = Replay(MACHINE, TAGS)
    replayed.take_all(read_records(journal))
    return replayed


def taken_back(replayed):
    """What an application is told about GPUs on which YARN placed nothing."""
    commands = [command for one in replayed.history for command in one.commands]
    messages = [command.message for command in commands if isinstance(command, SendToApp)]
    return [(type(one), one.cells) for one in messages if isinstance(getattr(one, "cause", None), NotPlaced)]


@pytest.mark.parametrize("name", ["lease.journal", "ledger.journal"])
def test_unused_gpus_beside_a_container_came_back_at_once(name, tmp_path):
    recorded = replay(RULES_2 / name)
    assert (recorded.different, recorded.skipped) == (0, 0)
    unused = ("n1/1", "n1/2", "n1/3")
    assert taken_back(recorded) == [(LeaseEnded, unused)]
    again = replay(by_rules(3, RULES_2 / name, tmp_path))
    assert again.different > 0
    assert taken_back(again) == [(Revoke, unused)]


def test_searches_kept_and_bid_for_gpus_that_no_trial_would_move_to(tmp_path):
    recorded = replay_search(RULES_2 / "search.journal")
    # Read, as later versions write more fields.
    written = [one["commands"] for one in read_records(RULES_2 / "search.journal") if "commands" in one]
    commands = [[recorded.codec.read(one) for one in some] for some in written]
    assert [list(one.commands) for one in recorded.history] == commands
    assert told(recorded) == (3, [])
    again = replay_search(by_rules(3, RULES_2 / "search.journal", tmp_path))
    assert told(again) == (1, [ReleaseGpus("lease-2", ("m2/0",))])


def told(replayed):
    """How many rows the bids have, and what is given back."""
    commands = [command for one in replayed.history for command in one.commands]
    rows = sum(len(one.bid.rows) for one in commands if isinstance(one, SendBid))
    return rows, [one for one in commands if isinstance(one, ReleaseGpus)]


def granted(replayed):
    commands = [command for one in replayed.history for command in one.commands]
    messages = [command.message for command in commands if isinstance(command, SendToApp)]
    leases = [lease for one in messages if isinstance(one, Grant) for lease in one.leases]
    return [tuple(holding.cell for holding in lease.holdings) for lease in leases]


def test_gpus_that_unregistered_applications_use_were_leased(tmp_path):
    recorded = replay(RULES_3 / "ledger.journal")
    assert (recorded.different, recorded.skipped) == (0, 0)
    assert granted(recorded) == [("n0/0", "n0/1", "n0/2", "n0/3")]
    again = replay(by_rules(4, RULES_3 / "ledger.journal", tmp_path))
    assert granted(again) == [("n1/0", "n1/1", "n1/2", "n1/3")]
