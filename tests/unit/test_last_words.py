"""What the agent learns of a launcher whose container is gone, from what it wrote and from YARN."""

import pytest

from themis_agent.agent.events import Checkpointed, LauncherEnded, Reported
from themis_agent.trial import wire
from themis_agent.yarn.containers import Gone, Launcher
from themis_agent.yarn.launches import last_words

LAUNCHER = Launcher("trial-00000", 3, 1)


def reported(step):
    return wire.Reported(sequence=step, at=1.0, step=step, loss=1.0 / step)


def words(said, exit_status=0, known_step=None, diagnostics=""):
    newest_first = list(reversed(said))
    return last_words(Gone(LAUNCHER, exit_status, diagnostics), newest_first, known_step)


def test_reports_that_the_agent_did_not_hear_come_before_the_end():
    stored = [wire.Checkpointed(sequence=9, at=1.0, step=step, epoch=3) for step in (2, 3)]
    said = [reported(1), reported(2), stored[0], reported(3), stored[1], reported(4)]
    end = wire.Ended(sequence=99, at=2.0, cause="exited", code=0)
    assert words([*said, end], known_step=2) == [
        Reported("trial-00000", 3, 3.0, 1 / 3),
        Checkpointed("trial-00000", 3, 3.0),
        Reported("trial-00000", 3, 4.0, 0.25),
        LauncherEnded("trial-00000", 3, 0, (), 1),
    ]


@pytest.mark.parametrize(
    ("cause", "code", "expected"),
    [("exited", 3, 3), ("stopped", 0, None), ("refused", None, 1), ("killed", None, None)],
)
def test_a_launcher_says_itself_how_it_ended(cause, code, expected):
    (end,) = words([wire.Ended(sequence=1, at=1.0, cause=cause, code=code, last_lines=["line"])], exit_status=137)
    assert (end.code, end.last_lines) == (expected, ("line",))


@pytest.mark.parametrize(
    ("exit_status", "has_run", "expected"),
    [
        (None, False, None),  # YARN allocated no container.
        (-100, False, None),  # The node was lost.
        (-105, True, None),  # Stopped by us.
        (137, True, None),
        (143, False, None),
        (127, False, 127),  # There is no such interpreter on the node.
        (-1000, False, 1),  # A file could not be localised.
        (-104, True, -9),  # More memory than it may use.
    ],
)
def test_without_its_word_yarn_says_whose_fault_it_was(exit_status, has_run, expected):
    said = [reported(1)] if has_run else []
    *_, end = words(said, exit_status, diagnostics="\n".join(map(str, range(30))))
    assert end == LauncherEnded("trial-00000", 3, expected, tuple(map(str, range(10, 30))), 1)
