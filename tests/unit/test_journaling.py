"""The arbiter on a journal that names what is not installed."""

from dataclasses import replace

import pytest

from tests.arbiter_world import ALLOWED, SQL, node
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.events import Configured, ManagerReached, NodesChanged, Registered
from yarn_plugin.decide.policies import max_min
from yarn_plugin.drive.journaling import open_intake
from yarn_plugin.drive.replay import replay
from yarn_plugin.drive.virtual_time import UncompactedJournal, VirtualClock
from yarn_plugin.journal.records import JournalError, RecordFile

KIND = replace(BUILT_IN.kinds["share"], name="mine")
RICHER = replace(
    BUILT_IN, kinds={**BUILT_IN.kinds, "mine": KIND}, policies={**BUILT_IN.policies, "even": max_min}
)  # fmt: skip


def picky(pool, registry):
    raise ArithmeticError("settings of long ago")


def write(path, pool):
    journal = RecordFile(path)
    intake = open_intake(journal, VirtualClock(1000.0), RICHER)
    intake.take(Configured((pool,)))
    intake.take(ManagerReached("http://rm", ALLOWED))
    intake.take(NodesChanged((node(1),), ()))
    intake.take(Registered("r1", "a", "ann", "sql", 1.0, None, 5.0, None))
    assert intake.state.registered
    intake.close()


@pytest.mark.parametrize(
    ("pool", "registry", "said"),
    [
        (replace(SQL, policy="even"), BUILT_IN, "pool sql: policy 'even': .*max_min"),
        (replace(SQL, controller="mine"), BUILT_IN, "pool sql: controller 'mine': .*share"),
        (
            replace(SQL, controller="mine"),
            replace(RICHER, kinds={**RICHER.kinds, "mine": replace(KIND, make=picky)}),
            "pool sql: ArithmeticError: settings of long ago",
        ),
    ],
)
def test_a_journal_with_an_unknown_controller_is_refused_and_left_unchanged(tmp_path, pool, registry, said):
    path = tmp_path / "journal"
    write(path, pool)
    before = path.read_bytes()
    journal = RecordFile(path)
    with pytest.raises(JournalError, match=said):
        open_intake(journal, VirtualClock(1000.0), registry)
    journal.close()
    with pytest.raises(JournalError, match=said):
        replay(path, registry)
    assert path.read_bytes() == before
    journal = RecordFile(path)
    assert open_intake(journal, VirtualClock(1000.0), RICHER).state.registered
    journal.close()


def test_an_input_that_was_not_decided_on_is_not_lost_by_starts_without_its_controller():
    journal = UncompactedJournal()
    intake = open_intake(journal, VirtualClock(1000.0), RICHER)
    intake.take(Configured((replace(SQL, policy="even"),)))
    intake.compact()
    intake.take(NodesChanged((node(1),), ()))
    # The process ended before it had decided.
    journal.rewrite(*[record for record in journal.read() if record["kind"] != "decision" or record["seq"] == 1])
    for _ in range(3):
        with pytest.raises(JournalError, match="policy 'even'"):
            open_intake(journal, VirtualClock(1000.0), BUILT_IN)
    again = open_intake(journal, VirtualClock(1000.0), RICHER)
    assert (again.skipped, list(again.state.cluster.nodes)) == (0, [node(1).id])
