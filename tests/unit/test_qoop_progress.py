"""Which decisions and counts a user sees while a query runs."""

import pytest

from qoop.plans.plan import StageId, view_name
from qoop.replan.causes import FinishedStage, NewShare, NotPlanned, PlansMade, StagesChecked, UntypedCause
from qoop.replan.commands import (
    CancelStages,
    ConfirmVacated,
    Finish,
    Note,
    RunAsWritten,
    SetExecutors,
    SetTimer,
    StartStage,
)
from qoop.replan.decision import Decision
from qoop.replan.state import QueryCounts
from qoop.run.progress import ProgressLines
from qoop.run.query_run import Outcome
from yarn_plugin import console

SHARE = NewShare(8.0, 1.0, "the profile sets 1 slot from 2 s on")
FINISHED = FinishedStage(StageId("qoop_result", 3), ("a", "market_share"))


def shown(capsys, cause, before, plan):
    fates = {"cancel": (), "let_finish": (), "reused": (), "left_behind": ()}
    won_by = "first" if before is None else "kept" if before == plan else "share"
    note = Note(Decision(cause, 1.0, before, plan, (3.0, 2.75), won_by=won_by, fastest=1, needed=0.45, **fates))
    ProgressLines(console.err).show(note)
    return capsys.readouterr().err.partition("] ")[2]


def test_a_plan_kept_although_the_share_changed(capsys):
    verdict = "on 1 slot plan 0 would finish in 3.0 s, plan 1 in 2.8 s: a switch must save at least 0.5 s"
    assert shown(capsys, SHARE, 0, 0) == f"kept plan 0: the profile sets 1 slot from 2 s on; {verdict}\n"


@pytest.mark.parametrize("cause", [SHARE, FINISHED])
def test_a_switch(capsys, cause):
    assert shown(capsys, cause, 0, 1).startswith("switched to plan 1: ")


def test_the_first_plan(capsys):
    assert shown(capsys, NewShare(None, 1.0, ""), None, 1) == (
        "chose plan 1: the first share is 1 slot; on 1 slot plan 1 would finish first, in 2.8 s\n"
    )


@pytest.mark.parametrize("cause", [FINISHED, StagesChecked(), UntypedCause("a share of what is told")])
def test_a_plan_kept_for_any_other_reason_is_not_shown(capsys, cause):
    assert shown(capsys, cause, 0, 0) == ""


STAGE, RESULT_STAGE = StageId("qoop_totals", 0), StageId("qoop_result", 3)


@pytest.mark.parametrize(
    ("command", "values"),
    [
        (StartStage(STAGE, 2, (), 0), (view_name(STAGE), "plan 2")),
        (StartStage(STAGE, 2, (), 1), (view_name(STAGE), "plan 2", "attempt 2")),
        (StartStage(STAGE, 2, (), 0, 0.8), (view_name(STAGE), "plan 2", "resumed", "80%")),
        (CancelStages((STAGE, RESULT_STAGE)), (view_name(STAGE), view_name(RESULT_STAGE))),
        (SetExecutors(7, 12.5), ("executor", "7")),
        (RunAsWritten(NotPlanned(UntypedCause("it has one table"))), ("one stage", "it has one table")),
    ],
)
def test_a_command_of_the_planner_is_one_line_with_its_values(capsys, command, values):
    ProgressLines(console.err).show(command)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("[") and " s] " in line
    assert [value for value in values if value not in line] == []


def test_the_first_attempt_of_a_stage_is_not_numbered(capsys):
    ProgressLines(console.err).show(StartStage(STAGE, 2, (), 0))
    assert "attempt" not in capsys.readouterr().err


@pytest.mark.parametrize("command", [SetTimer(5.0), ConfirmVacated(17), Finish()], ids=lambda one: type(one).__name__)
def test_commands_that_do_not_matter_to_the_user_are_not_shown(capsys, command):
    ProgressLines(console.err).show(command)
    assert capsys.readouterr().err == ""


def test_a_warning_is_one_line(capsys):
    ProgressLines(console.err).warn("two\nlines [/x] \x1b[2J")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("warning: two\\nlines [/x] \\x1b[2J")


def test_lines_carry_the_seconds_since_the_start(capsys, monkeypatch):
    seconds = iter((100.0, 102.5, 221.0))
    monkeypatch.setattr("qoop.run.progress.time.monotonic", lambda: next(seconds))
    progress = ProgressLines(console.err)
    progress.warn("first")
    progress.warn("second")
    assert [line[:11] for line in capsys.readouterr().err.splitlines()] == ["[   2.5 s] ", "[ 121.0 s] "]


@pytest.mark.parametrize(
    ("counts", "shown_counts"),
    [
        (
            QueryCounts(stages=3, switches=2, reused=1),
            "3 stages run, 2 plan switches (1 output reused, 0 unused, 0 stages cancelled)",
        ),
        (
            QueryCounts(stages=3, failed=2, lost=1),
            "3 stages run, 0 plan switches (0 outputs reused, 0 unused, 0 stages cancelled), "
            "2 stages failed, 1 output lost",
        ),
    ],
)
def test_the_summary_reports_failures_if_there_were_any(capsys, counts, shown_counts):
    ProgressLines(console.err).summary(Outcome(counts, 4, 1.5, None, ()))
    assert capsys.readouterr().err.partition("] ")[2] == f"done in 1.5 s: 4 join trees, {shown_counts}\n"


def decided(cause, before, plan, seconds, slots):
    won_by = "share" if before is not None and before != plan else "first" if before is None else "kept"
    fastest = seconds.index(min(seconds))
    return Decision(
        cause, slots, before, plan, seconds, (), (), (), (), won_by, fastest, None if before is None else 0.1
    )


def test_the_summary_says_in_words_what_happened(capsys):
    decisions = (
        decided(PlansMade(2, 2), None, 0, (4.0, 6.0), 4.0),
        decided(NewShare(4.0, 2.0, "app_2 arrived"), 0, 0, (5.0, 6.0), 2.0),
        decided(NewShare(2.0, 1.0, "app_3 arrived"), 0, 1, (9.0, 6.0), 1.0),
    )
    ProgressLines(console.err).summary(Outcome(QueryCounts(stages=2, switches=1), 2, 9.0, None, decisions))
    happened, done = capsys.readouterr().err.splitlines()
    assert happened.partition("] ")[2] == (
        "what happened: it began with plan 0, estimated to take 4.0 s, the slowest of 2 plans in 6.0 s; "
        "the share fell from 4 to 2 slots: plan 0 was still best; app_3 arrived: it switched to plan 1, to save 3.0 s"
    )
    assert "done in 9.0 s (estimate: 4.0 s): 2 join trees" in done
