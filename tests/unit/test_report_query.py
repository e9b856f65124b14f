"""Query reports from journals: a recorded one (TPC-DS query 17 on Spark), and short synthetic ones."""

import shutil
from pathlib import Path
from typing import get_args

import pytest

from qoop.as_written.causes import AsWrittenCause
from qoop.plans.plan import RESULT, StageId
from qoop.replan.causes import FailedStage, NotPlanned, UntypedCause
from qoop.replan.commands import CancelStages, Command, Fail, Finish, Note, RunAsWritten, SetExecutors, StartStage
from qoop.replan.decision import Decision, Winner
from qoop.replan.events import (
    ArbiterAway,
    CannotPlan,
    CheckpointLost,
    Event,
    ExecutorsChanged,
    ShareChanged,
    StageCancelled,
    StageFailed,
    StageFinished,
)
from qoop.report import (
    NoRecordError,
    QueryRecord,
    decision_list,
    ensure_writable,
    page,
    read_journal,
    section,
    stages_chart,
    switch_explanations,
    write_report,
)
from qoop.report.decisions import WON_BY
from qoop.report.names import Names
from qoop.report.plans import tree_of
from qoop.report.timeline import axis_of, moments, share_chart
from qoop.run import wording
from qoop.run.journal import QueryJournal
from tests.html_checks import Parsed, checked
from tests.query_journal import record_input
from yarn_plugin.report import Gantt, Page, render
from yarn_plugin.report.page import ReportError
from yarn_plugin.report.tree import format_tree

RECORDED = Path(__file__).parents[1] / "data" / "q17.journal"
ONE, TWO = StageId("qoop_result", 3), StageId("qoop_result", 12)
Steps = list[tuple[float, Event, tuple[Command, ...]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> QueryRecord:
    copy = tmp_path_factory.mktemp("journal") / "q17.journal"
    shutil.copy(RECORDED, copy)
    return read_journal(copy)


def record_of(tmp_path: Path, steps: Steps, cause: AsWrittenCause | None = None) -> QueryRecord:
    path = tmp_path / "made.journal"
    journal = QueryJournal(path)
    journal.query(100.0, "made", "SELECT '<b>' AS x", (), cause)
    for at, event, commands in steps:
        record_input(journal, 100.0 + at, event, commands, "running")
    journal.close()
    return read_journal(path)


def share(slots: float, executors: int | None = None) -> ShareChanged:
    return ShareChanged(slots, executors, f"now {slots:g} slots", 100.0)


def finished(stage: StageId) -> StageFinished:
    return StageFinished(stage, rows=10.0, bytes=1e6, seconds=1.0, core_seconds=0.5)


def decision(before: int | None, plan: int, **more: object) -> Note:
    base = {"cancel": (), "let_finish": (), "reused": (), "left_behind": (), "won_by": "share", "fastest": 1}
    return Note(Decision(UntypedCause("a cause"), 4.0, before, plan, (3.0, 2.0), **{**base, **more}))


def shown(record: QueryRecord) -> Parsed:
    return checked(render(page("Query", {"one": record})))


def test_the_record_of_query_17(recorded: QueryRecord) -> None:
    assert recorded.status == "done"
    assert recorded.seconds == pytest.approx(recorded.ended - recorded.started)
    assert len(recorded.header.plans) == 64
    assert [made.decision.plan for made in recorded.switches] == [35, 28, 31, 26, 35]
    assert recorded.plans_used == [26, 35, 28, 31]
    assert {attempt.outcome for attempt in recorded.attempts} == {"finished"}
    assert [slots.slots for _, slots in recorded.shares] == [4.0, 2.0]
    assert all(one.ended is not None and one.started < one.ended for one in recorded.attempts)


def test_its_page(recorded: QueryRecord) -> None:
    parsed = shown(recorded)
    for said in (
        "output reused after a switch",
        "output unused after a switch",
        "not needed after a switch, allowed to finish",
        "plan 26 → 35",
        "4 → 2 slots, plan 28 → 31",
        "Estimates at the time",
        "58 more candidates",
        "All candidate plans (64)",
        "Plan 26, at the start",
        "26 → 35",
        "Plan 35, at the end",
        "GROUP BY",
    ):
        assert said in parsed.text, said
    assert len(parsed.all("details", class_="data")) == len(parsed.all("figure"))


def test_stages_are_named_as_in_causes(recorded: QueryRecord) -> None:
    names = Names(recorded)
    by_event = [made for made in recorded.decisions if isinstance(made.event, StageFinished)]
    assert by_event
    for made in by_event:
        assert isinstance(made.event, StageFinished)
        assert made.decision.cause == UntypedCause(f"stage {names.relations(made.event.stage)} finished")


def test_labels_show_what_a_stage_adds(recorded: QueryRecord) -> None:
    names = Names(recorded)
    labels = [names.label(stage) for stage in names.ran]
    assert labels[0] == "S1  store_returns + d2"
    assert "S4  S1 + item" in labels
    assert labels[-1].startswith("result: from S")
    assert len(set(labels)) == len(labels)


def test_plans_as_trees(recorded: QueryRecord) -> None:
    tree = format_tree(tree_of(recorded.header.plans[26], Names(recorded)))
    assert tree.startswith("result [(")
    assert "S1 [store_returns ⋈ d2]" in tree or "S1 [d2 ⋈ store_returns]" in tree
    assert tree.count("[") == tree.count("]")


def test_a_chart_shows_each_run_of_a_stage_once(recorded: QueryRecord) -> None:
    chart = stages_chart(recorded)
    bars = [bar for row in chart.rows for bar in row.bars if bar.style != "thread"]
    assert len(bars) == len(recorded.attempts)
    assert all(0 <= bar.start <= bar.end <= recorded.seconds + 0.001 for bar in bars)


def test_lines_across_the_charts(recorded: QueryRecord) -> None:
    lines = moments(recorded, axis_of(recorded))
    assert [line.kind for line in lines].count("switch") == 5
    assert not any(line.label for line in moments(recorded, axis_of(recorded), labelled=False))


def rows(chart: Gantt) -> dict[str, list[str]]:
    return {row.label: [mark.detail.partition("\n")[0] for mark in row.marks] for row in chart.rows}


def test_cancelled_failed_lost_and_run_again(tmp_path: Path) -> None:
    start = StartStage(ONE, 0, (), 0)
    record = record_of(
        tmp_path,
        [
            (0.0, share(4), (decision(None, 0), start, StartStage(TWO, 0, (), 0))),
            (1.0, finished(ONE), ()),
            (2.0, share(2), (decision(0, 1, cancel=(TWO,), reused=(ONE,)), CancelStages((TWO,)))),
            (2.5, StageCancelled(TWO), ()),
            (3.0, CheckpointLost(ONE, "executor 1 lost"), (start,)),
            (4.0, StageFailed(ONE, "out of memory", retry=True), (start,)),
            (5.0, finished(ONE), (StartStage(RESULT, 1, (ONE,), 0),)),
            (6.0, finished(RESULT), (Finish(),)),
        ],
    )
    outcomes = [(attempt.stage, attempt.number, attempt.outcome) for attempt in record.attempts]
    assert outcomes == [
        (ONE, 1, "finished"),
        (TWO, 1, "cancelled"),
        (ONE, 2, "failed"),
        (ONE, 3, "finished"),
        (RESULT, 1, "finished"),
    ]
    signs = list(rows(stages_chart(record)).values())
    assert signs[0] == ["output reused after a switch", "run again", "output lost", "failed", "run again"]
    assert signs[1] == ["cancelled"]
    text = shown(record).text
    for said in ("cancelled", "failed", "output lost", "run again", "4 → 2 slots, plan 0 → 1", "out of memory"):
        assert said in text


def test_a_stage_that_ends_before_it_can_be_stopped(tmp_path: Path) -> None:
    record = record_of(
        tmp_path,
        [
            (0.0, share(4), (decision(None, 0), StartStage(ONE, 0, (), 0))),
            (1.0, share(2), (decision(0, 1, cancel=(ONE,)), CancelStages((ONE,)))),
            (1.1, finished(ONE), ()),
        ],
    )
    assert record.attempts[0].outcome == "finished"
    assert record.status == "unfinished"
    assert list(rows(stages_chart(record)).values()) == [["cancelled, but finished before that took effect"]]
    assert "until the journal ends" in shown(record).text


def test_a_query_of_one_stage(tmp_path: Path) -> None:
    cannot = CannotPlan(UntypedCause("it has one table"))
    record = record_of(
        tmp_path,
        [
            (0.0, cannot, (RunAsWritten(NotPlanned(UntypedCause("it has one table"))),)),
            (0.1, share(4), ()),
            (0.2, ArbiterAway("connection refused"), ()),
            (3.0, finished(RESULT), (Finish(),)),
        ],
        UntypedCause("it has one table"),
    )
    text = shown(record).text
    assert "it has one table" in text
    assert "connection refused" in text
    assert "SELECT '<b>' AS x" in text
    assert "Decisions" not in text


def test_a_query_that_fails(tmp_path: Path) -> None:
    error = "division by zero"
    record = record_of(
        tmp_path,
        [
            (0.0, CannotPlan(UntypedCause("x")), (RunAsWritten(NotPlanned(UntypedCause("x"))),)),
            (1.0, StageFailed(RESULT, error, retry=False), (Fail(FailedStage(RESULT, (), error)),)),
        ],
    )
    assert (record.status, record.error) == ("failed", "division by zero")
    assert "until it failed" in shown(record).text


def test_executors_over_time(tmp_path: Path) -> None:
    record = record_of(
        tmp_path,
        [
            (0.0, share(4, 2), (SetExecutors(2, 100.0),)),
            (1.0, ExecutorsChanged(1), ()),
            (2.0, ExecutorsChanged(2, 3.0), ()),
            (3.0, share(4, 1), (SetExecutors(1, 105.0),)),
        ],
    )
    series = {one.name: one.points for one in share_chart(record).series}
    assert series["running executors"] == ((1.0, 1.0), (2.0, 2.0), (3.0, 2.0))
    assert series["slots of the executors"] == ((2.0, 3.0), (3.0, 3.0))
    assert series["target executors"] == ((0.0, 2.0), (3.0, 1.0), (3.0, 1.0))
    assert [line.label for line in moments(record, axis_of(record))] == ["2 → 1 executors"]


@pytest.mark.parametrize(
    ("won_by", "slots", "said"),
    [
        ("share", 2.0, "Cause: the share."),
        ("row counts", 2.0, "Cause: the row counts."),
        ("share and row counts", 2.0, "Cause: the share and the row counts together."),
        ("share or row counts", 2.0, "Cause: the share or the row counts."),
        ("share or row counts", 4.0, "Cause: the progress."),
        ("forced", 4.0, "Cause: a test option forced the switch"),
    ],
)
def test_a_switch_is_explained(tmp_path: Path, won_by: str, slots: float, said: str) -> None:
    second = decision(0, 1, won_by=won_by)
    told = Note(Decision(**{**_fields(second.decision), "slots": slots}))
    record = record_of(tmp_path, [(0.0, share(4), (decision(None, 0, won_by="first"),)), (1.0, share(slots), (told,))])
    (sentence,) = switch_explanations(record)
    assert sentence.startswith(
        "At 1.0 s (a cause) the query switched from plan 0 (estimated 3 s left) to plan 1 (2 s left). "
    )
    assert said in sentence


@pytest.mark.parametrize("won_by", get_args(Winner))
def test_whatever_made_a_plan_win_has_words(won_by: Winner) -> None:
    assert WON_BY[won_by] and wording.DECIDED_BY[won_by]


def test_a_first_plan_that_earlier_runs_chose(tmp_path: Path) -> None:
    record = record_of(tmp_path, [(0.0, share(4), (decision(None, 0, won_by="earlier runs"),))])
    (entry,) = decision_list(record).entries
    assert any("earlier runs" in getattr(block, "text", "") for block in entry.blocks)


def _fields(of: Decision) -> dict[str, object]:
    return {name: getattr(of, name) for name in of.__dataclass_fields__}


def test_names_in_causes_are_not_capitalized(tmp_path: Path) -> None:
    for cause, said in (("app_17 arrived", "app_17 arrived: start with"), ("node lost", "Node lost: start with")):
        begin = Note(Decision(**{**_fields(decision(None, 0, won_by="first").decision), "cause": UntypedCause(cause)}))
        record = record_of(tmp_path, [(0.0, share(4), (begin,))])
        (entry,) = decision_list(record).entries
        assert entry.what == f"{said} plan 0"
        (tmp_path / "made.journal").unlink()


def test_share_changes_are_counted_by_cause(tmp_path: Path) -> None:
    told = [(4.0, ("arbiter-started",)), (2.0, ("app-arrived", "node-lost")), (2.0, ("grace-over",)), (1.0, ())]
    told += [(0.5, ("app-arrived",))]
    steps: Steps = [
        (float(at), ShareChanged(slots, None, "as told", 100.0, why=why), ()) for at, (slots, why) in enumerate(told)
    ]
    assert "Share changes 3 app arrived 2×, node lost" in shown(record_of(tmp_path, steps)).text


def test_several_queries_on_a_page(recorded: QueryRecord) -> None:
    parsed = checked(render(page("Two", {"one": recorded, "<two>": recorded})))
    assert [one for one in ("one", "<two>") if one in parsed.text] == ["one", "<two>"]
    checked(render(Page("t", "s", (section("again", recorded),))))
    checked(render(page("None", {})))


def test_of_several_queries_in_a_journal_the_last_is_reported(tmp_path: Path) -> None:
    record_of(tmp_path, [(0.0, share(4), ()), (1.0, finished(RESULT), (Finish(),))])
    record = record_of(tmp_path, [(5.0, share(2), ())])
    assert [slots.slots for _, slots in record.shares] == [2.0]
    assert record.status == "unfinished"


def test_write_report(tmp_path: Path) -> None:
    shutil.copy(RECORDED, tmp_path / "q17.journal")
    write_report(tmp_path / "out" / "q17.html", {"q17": tmp_path / "q17.journal"})
    checked((tmp_path / "out" / "q17.html").read_text(encoding="utf-8"))


def test_only_the_owner_can_read_a_report(tmp_path: Path) -> None:
    shutil.copy(RECORDED, tmp_path / "q17.journal")
    report = tmp_path / "q17.html"
    report.write_text("everybody could read an earlier one")
    report.chmod(0o644)
    write_report(report, {"q17": tmp_path / "q17.journal"})
    assert report.stat().st_mode & 0o777 == 0o600


def test_where_no_report_can_be_written_is_known_before(tmp_path: Path) -> None:
    ensure_writable(tmp_path / "new" / "x.html")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    (tmp_path / "file").touch()
    for path, reason in ((tmp_path / "file" / "x.html", "not a directory"), (tmp_path / "new", "is a directory")):
        with pytest.raises(ReportError, match=rf"report '{path}': cannot be written \(.*{reason}"):
            ensure_writable(path)


def test_a_file_that_is_not_a_journal_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(NoRecordError, match="no such file"):
        read_journal(tmp_path / "none.journal")
    assert not list(tmp_path.iterdir())
    (tmp_path / "empty.journal").touch()
    with pytest.raises(NoRecordError, match="not a query journal"):
        read_journal(tmp_path / "empty.journal")
