"""A query's run where what it can do without fails: the answer comes all the same."""

import errno

import pytest

from qoop.journal import QueryJournal
from qoop.plans.plan import GOAL
from qoop.progress import ProgressLines
from qoop.replan.commands import RunAsWritten
from qoop.replan.decision import Rules
from qoop.replan.events import ExecutorsChanged, ShareChanged, StageFinished
from qoop.run import QueryRun
from yarn_plugin import console


class Engine:
    """Runs the one stage there is as soon as executors were asked for."""

    def __init__(self, problem):
        self.problem, self.run = problem, None

    def start(self, stage, query, view, attempt):
        assert stage == GOAL

    def cancel(self, stages):
        raise AssertionError("nothing is to be cancelled")

    def set_executors(self, target):
        self.run.tell(ExecutorsChanged(target))
        self.run.tell(StageFinished(GOAL, 1.0, 1.0, 1.0, None))
        raise self.problem


class Feed:
    """Tells one share."""

    def start(self, tell):
        tell(ShareChanged(2.0, 2, "a share", 1.0, seq=17))

    def close(self):
        pass


@pytest.mark.parametrize("problem", [RuntimeError("Java has gone"), AttributeError(), OSError(5, "input/output error")])
def test_executors_and_confirmations_that_fail_end_no_query(problem):
    warned, confirmed = [], []

    def confirm(seq):
        confirmed.append(seq)
        raise problem

    engine = Engine(problem)
    run = QueryRun("q", "SELECT 1", None, "it has one table", Rules(), QueryJournal(None), confirm, warned.append)
    engine.run = run
    assert run.run(engine, Feed()).tally.stages == 1
    assert confirmed == [17]
    name = type(problem).__name__
    assert [said.partition(name)[0] for said in warned] == [
        "2 executors could not be asked for: ",
        "share 17 could not be confirmed: ",
    ]


def test_progress_is_shown_as_long_as_anybody_reads(capsys):
    class Gone:
        def write(self, text):
            raise OSError(errno.EIO, "the terminal has gone")

        def flush(self):
            raise OSError(errno.EIO, "the terminal has gone")

    ProgressLines(console.PlainConsole(file=Gone())).warn("nobody hears this")
    ProgressLines(console.err).watch(RunAsWritten("[/x] has one\ntable\x1b[2J"))
    assert capsys.readouterr().err.partition("] ")[2] == "one stage: [/x] has one\\ntable\\x1b[2J\n"
