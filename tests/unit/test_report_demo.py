"""The page of the demo, from its files."""

import json
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest

from qoop.report import NoRecordError, read_journal
from tests.html_checks import Parsed, checked
from tpcds.demo.effects import Times, effects
from tpcds.demo.record import DemoRecord, DemoReportError, read_samples
from tpcds.demo.report import write_report

RECORDED = Path(__file__).parents[1] / "data" / "q17.journal"


def test_a_record_that_does_not_fit_on_the_disk_leaves_the_one_before(folder):
    path = folder / "demo.json"
    before = path.read_text()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    record = DemoRecord.read(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(DemoReportError, match=r"demo.json': cannot be written \(file too large\)"):
            record.write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of a demo: in each scenario, B runs alongside A from second 2 on."""
    shutil.copy(RECORDED, tmp_path / "a.journal")
    started = read_journal(tmp_path / "a.journal").started - 1.0
    a = run("A", 17, started, 8.0, journal="a.journal", equal_to_duckdb=True)
    b = run("B", 3, started + 2.0, 3.0, equal_to_duckdb=True, rows=5)
    together = {"runs": [a, b], "samples": "samples.jsonl"}
    write_samples(tmp_path / "samples.jsonl", started)
    demo = {
        "scale": 0.1,
        "switching": together,
        "once": {"runs": [{**a, "switching": False, "journal": None, "seconds": 10.0}, b]},
        "fixed": {"runs": [{**a, "switching": False, "journal": None, "seconds": 12.0}, b]},
        "alone": {"runs": [a], "samples": "samples.jsonl"},
        "environment": {
            "versions": {"Spark": "4.3.0"},
            "machine_cores": 2,
            "machine_memory_mb": 16000,
            "nodes": 4,
            "node_vcores": 2,
            "node_memory_mb": 2048,
            "cpu_per_node": 0.5,
            "quotas": "control groups",
            "executor": "1 core",
        },
        "notes": ["Nothing forces a switch."],
    }
    save(tmp_path, demo)
    return tmp_path


def run(name: str, query: int, submitted: float, seconds: float, **more: Any) -> dict[str, Any]:
    times = {"submitted_at": submitted, "ended_at": submitted + seconds + 1, "seconds": seconds}
    return {"name": name, "query": query, "switching": True, "rows": 100, **times, **more}


def write_samples(path: Path, started: float) -> None:
    lines = []
    for second in range(-2, 12):
        both = 2 <= second < 6
        apps = [app("A", 0.5 if both else 1.0)] if 0 <= second < 9 else []
        apps += [app("B", 0.5)] if both else []
        lines.append(json.dumps({"at": started + second, "memory_mb": 8192, "vcores": 8, "apps": apps}))
    path.write_text("\n".join(lines) + "\n")


def app(name: str, share: float) -> dict[str, Any]:
    vcores = int(8 * share)
    used = {"memory_mb": 1024 * vcores, "vcores": vcores, "containers": vcores}
    return {"name": name, **used, "guarantee": share, "entitlement": share}


def save(folder: Path, demo: dict[str, Any]) -> None:
    (folder / "demo.json").write_text(json.dumps(demo))


def change(folder: Path, *path: str | int, value: object) -> None:
    demo = json.loads((folder / "demo.json").read_text())
    place = demo
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    save(folder, demo)


def report(folder: Path) -> Parsed:
    write_report(folder / "demo.json", folder / "report.html")
    return checked((folder / "report.html").read_text(encoding="utf-8"))


def test_the_page_describes_the_demo(folder: Path) -> None:
    parsed = report(folder)
    for expected in (
        "TPC-DS query 17",
        "Query 17 (A) started alone on the cluster. 2 s later, query 3 (B) was submitted.",
        "The arbiter notified A of each change of its share: 4 → 2 slots.",
        "A switched plans while running: 26 → 35 → 28 → 31 → 26 → 35.",
        "Why A switched plans",
        "Cluster use: allocated memory",
        "A starts",
        "capacity",
        "B submitted",
        "Share of each application, as sent by the arbiter",
        "Stages of A (query 17)",
        "7 of 7",
        "planned once, alongside B",
        "Planned once, A took 10 s, 2 s (17 %) less than as written; switching saved a further 2 s (20 %).",
        "B recorded no events",
        "0.5 cores per node: control groups",
        "Nothing forces a switch.",
    ):
        assert expected in parsed.text, expected
    assert len(parsed.all("figure")) > 8


def test_the_report_says_when_switching_was_slower_or_answers_differ(folder: Path) -> None:
    change(folder, "once", "runs", 0, "seconds", value=6.0)
    change(folder, "switching", "runs", 0, "equal_to_duckdb", value=False)
    change(folder, "switching", "runs", 0, "differences", value=["row 1, <x>: 1 / 2"])
    text = report(folder).text
    assert "switching gained nothing: with it A took 2 s (33 %) more." in text
    assert "query 17 (with switching)" in text
    assert "A with switching: row 1, <x>: 1 / 2" in text
    assert "6 of 7" in text


LESS = "40 s (40 %) less than as written"
MORE = "50 s (50 %) more than as written"
NOTHING = "switching gained nothing: with it A took"


@pytest.mark.parametrize(
    ("written", "once", "switching", "planned", "switched"),
    [
        (100, 60, 50, LESS, "switching saved a further 10 s (17 %)"),
        (100, 60, 60.5, LESS, f"{NOTHING} 60.5 s"),
        (100, 60, 75, LESS, f"{NOTHING} 15 s (25 %) more"),
        (100, 101, 80, "no different from as written", "switching saved 21 s (21 %)"),
        (100, 101, 101, "no different from as written", f"{NOTHING} 101 s"),
        (100, 150, 80, MORE, "switching saved 70 s (47 %)"),
        (100, 150, 150, MORE, f"{NOTHING} 150 s"),
        (100, 150, 180, MORE, f"{NOTHING} 30 s (20 %) more"),
    ],
)
def test_what_planning_and_switching_gained_follows_from_the_times(written, once, switching, planned, switched):
    assert effects(Times(written, once, switching)) == f"Planned once, A took {once} s, {planned}; {switched}."


def test_two_runs_of_one_plan_are_not_put_down_to_switching():
    said = effects(Times(205, 93, 127), 0)
    assert said.startswith("Planned once, A took 93 s, 112 s (55 %) less than as written.")
    assert "switching saved" not in said and "switching gained" not in said
    assert "A kept its first plan too, and took 127 s with it: they differ by chance." in said
    assert effects(Times(205, 93, 80), 1) == effects(Times(205, 93, 80))


def test_what_planning_alone_gained_is_not_said_where_it_was_not_measured():
    assert effects(Times(205, None, 86)) == (
        "With switching A took 86 s, 119 s (58 %) less than as written; how much of that is due to its first plan was "
        "not measured."
    )


def test_a_demo_of_three_runs_is_still_read(folder: Path) -> None:
    demo = json.loads((folder / "demo.json").read_text())
    del demo["once"]
    save(folder, demo)
    text = report(folder).text
    assert "5 of 5" in text and "With switching A took 8 s, 4 s (33 %) less than as written" in text


def test_the_report_says_when_nothing_was_recorded_or_no_plan_switched(folder: Path) -> None:
    change(folder, "switching", "runs", 0, "journal", value=None)
    change(folder, "switching", "samples", value=None)
    text = report(folder).text
    assert "A recorded no events" in text
    assert "The cluster was not sampled in this run." in text


def test_samples_end_where_the_sampler_was_ended(folder: Path) -> None:
    file = folder / "samples.jsonl"
    file.write_text(file.read_text() + '{"at": 17952')
    assert len(list(read_samples(file))) == 14
    file.write_text('{"at": 17952\n' + file.read_text())
    with pytest.raises(DemoReportError, match="line 1: "):
        list(read_samples(file))


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("scale",), "large", "scale: "),
        (("switching", "runs"), [], "switching.runs: "),
        (("switching", "runs", 0, "journals"), "x", "switching.runs.0.journals: "),
        (("version",), 2, "version: "),
    ],
)
def test_an_invalid_record_is_one_line_with_its_field(
    folder: Path, path: tuple[str | int, ...], value: object, expected: str
) -> None:
    change(folder, *path, value=value)
    with pytest.raises(DemoReportError, match=expected):
        DemoRecord.read(folder / "demo.json")


def test_missing_files_are_one_line(folder: Path) -> None:
    with pytest.raises(DemoReportError, match=r"none.json': no such file"):
        write_report(folder / "none.json", folder / "report.html")
    change(folder, "switching", "runs", 0, "journal", value="none.journal")
    with pytest.raises(NoRecordError, match="no such file"):
        report(folder)
    assert not (folder / "report.html").exists()
