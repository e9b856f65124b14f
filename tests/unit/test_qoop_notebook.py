"""The cell magic `%%qoop`: what a cell shows while its query runs, and after it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import qoop
from qoop import notebook
from qoop.api import Answer
from qoop.errors import QoopError
from qoop.notebook import Shown, parse, report_of, table

JOURNAL = Path(__file__).parents[1] / "data" / "q17.journal"
COLUMNS = [("name", "string"), ("n<", "bigint")]


def outcome(reason=None):
    counts = SimpleNamespace(stages=4, switches=1, reused=0, unused=0, cancelled=0, failed=0, lost=0)
    return SimpleNamespace(counts=counts, seconds=2.0, one_stage_reason=reason, decisions=(), join_trees=6)


def test_progress_is_shown_when_it_changes_and_holds_the_latest_lines():
    pages = []
    shown = Shown(pages.append)
    for number in range(20):
        shown.write(f"stage {number} <started>\n")
    shown.progress("tasks: 1 of 4")
    shown.progress("tasks: 1 of 4")
    shown.progress("tasks: 2 of 4")
    assert len(pages) == 2
    assert pages[1].count("\n") == notebook.MAX_LINES
    assert "stage 19 &lt;started&gt;\ntasks: 2 of 4" in pages[1]


def test_rows_are_a_table_with_nothing_that_html_would_read():
    answer = Answer(COLUMNS, [("<b>", 1), (None, 2)], outcome())
    assert table(answer, 1) == (
        "<table><thead><tr><th>name</th><th>n&lt;</th></tr></thead>"
        "<tbody><tr><td>&lt;b&gt;</td><td>1</td></tr></tbody></table>"
    )
    assert "<td>NULL</td>" in table(answer, 2)


@pytest.mark.parametrize(
    ("reason", "summary"),
    [(None, "4 stages, 1 plan switch, in 2.0 s"), ("no joins", "as written, in 2.0 s: no joins")],
)
def test_how_it_ran_is_below_the_rows(reason, summary):
    pages = []
    Shown(pages.append).answer(Answer(COLUMNS, [("a", 1), ("b", 2)], outcome(reason)), 1, "REPORT")
    (page,) = pages
    assert f"<summary>{summary}</summary>" in page
    assert "only the first 1 rows" not in page and "only the first row is shown" in page
    assert "REPORT" in page


def test_the_report_has_the_plan_as_a_picture(tmp_path):
    page = report_of(JOURNAL)
    assert page.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert "&lt;svg" in page
    assert report_of(tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--plan sometimes", "argument --plan: invalid choice: 'sometimes'"),
        ("--rows 0", "%%qoop --rows 0: must be at least 1"),
        ("--rows many", "argument --rows: invalid int value: 'many'"),
        ("SELECT 1", "%%qoop 'SELECT': must be --plan auto|always|never, --rows N or --into NAME"),
        ("--into 'x", "No closing quotation"),
    ],
)
def test_wrong_options_are_named(line, message):
    with pytest.raises(QoopError) as failure:
        parse(line)
    assert message in str(failure.value)


def test_a_notebook_loads_it_and_a_cell_without_a_session_is_told_so(monkeypatch):
    known = {}
    shell = SimpleNamespace(
        register_magic_function=lambda function, kind, name: known.update({(kind, name): function}), user_ns={}
    )
    qoop.load_ipython_extension(shell)
    monkeypatch.setattr(notebook.SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(QoopError, match="there is no Spark session; make one first"):
        known["cell", "qoop"]("", "SELECT 1")


def test_a_cell_runs_its_text_shows_tasks_and_keeps_its_rows(monkeypatch):
    updates, given = [], []
    handle = SimpleNamespace(update=updates.append)
    display = SimpleNamespace(HTML=str, display=lambda first, display_id: handle)
    monkeypatch.setattr(notebook, "import_module", lambda name: display)
    stage = SimpleNamespace(numCompletedTasks=3, numTasks=8)
    tracker = SimpleNamespace(getActiveStageIds=lambda: [1, 2], getStageInfo=lambda number: {1: stage}.get(number))
    session = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    monkeypatch.setattr(notebook, "REFRESH_S", 0.01)

    def collect(spark, text, options, rows):
        given.append((spark, text, options.plan, rows))
        options.warn("a warning")
        while not any("tasks: 3 of 8" in page for page in updates):
            pass
        return Answer(COLUMNS, [("a", 1)], outcome())

    monkeypatch.setattr(notebook, "collect", collect)
    shell = SimpleNamespace(user_ns={"spark": session})
    notebook.magic(shell, "--plan always --rows 5 --into rows", "SELECT 1;\n")
    assert given == [(session, "SELECT 1", "always", 6)]
    assert shell.user_ns["rows"] == [("a", 1)]
    assert "warning: a warning" in updates[0]
    assert updates[-1].startswith("<table>")
