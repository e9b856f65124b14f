"""The record of earlier runs: it survives whatever happens to its files, and says so."""

import json
import math
import os
from dataclasses import replace

import platformdirs
import pytest

from qoop.estimate.guard import PastRun
from qoop.plans.plan import BlockShape, StageName
from qoop.run import past_runs
from qoop.run.past_runs import MAX_COUNTED, MAX_GIVEN_UP, MAX_PLANS, MAX_RUNS, Past, PastRuns

RUN = PastRun(
    planned=True,
    seconds=12.1,
    slots=4.0,
    core_seconds=30.0,
    cold=False,
    kept=True,
    switched=True,
    expected=3.0,
)
OTHER = PastRun(planned=False, seconds=9.0, slots=2.5, core_seconds=0.0, cold=True)
COUNTED = {StageName("qoop_result", ("a", "b")): 12.0, StageName("sales", ()): 0.0}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    return tmp_path / "qoop" / "runs-1"


def record(query="q", data="d"):
    warned = []
    return PastRuns(query, data, warned.append), warned


def runs():
    return list(record()[0].read().runs)


def test_rows_are_kept_as_last_counted():
    record()[0].add([], COUNTED)
    more = {StageName("sales", ()): 3.0, StageName("qoop_result", ("a", "c")): 1.0}
    record()[0].add([RUN], more)
    assert record()[0].read() == Past((RUN,), COUNTED | more)


SHAPE = (BlockShape("qoop_result", (("a", "b"),), ()),)


def test_the_plans_of_the_latest_runs_are_kept():
    begun = replace(RUN, plan="0123")
    record()[0].add([begun], {}, {begun.plan: SHAPE})
    assert record()[0].read() == Past((begun,), {}, {begun.plan: SHAPE})
    for number in range(MAX_PLANS):
        record()[0].add([replace(RUN, plan=str(number))], {}, {str(number): SHAPE})
    assert record()[0].read().plans == {str(number): SHAPE for number in range(MAX_PLANS)}
    assert [run.plan for run in record()[0].read().runs] == ["", *map(str, range(MAX_PLANS))]
    record()[0].add([replace(OTHER, cold=RUN.cold)] * MAX_RUNS, {})
    assert record()[0].read().plans == {}


def test_plans_that_were_given_up_are_kept_whatever_becomes_of_their_runs():
    record()[0].add([], {}, {"0": SHAPE}, {"0", "1"})
    assert record()[0].read() == Past(given_up=frozenset({"0", "1"}))
    record()[0].add([RUN], {})
    assert record()[0].read() == Past((RUN,), given_up=frozenset({"0", "1"}))
    record()[0].add([], {}, given_up=set(map(str, range(MAX_GIVEN_UP))))
    record()[0].add([], {}, given_up={"new"})
    assert len(record()[0].read().given_up) == MAX_GIVEN_UP and "new" in record()[0].read().given_up
    assert record(data="e")[0].read() == Past()


def test_plans_that_take_too_much_space_are_left_out_before_row_counts(folder):
    long = {"1": (BlockShape("q", (("a" * 2**17, "b"),), ()),)}
    record()[0].add([replace(RUN, plan="1")], COUNTED, long)
    assert record()[0].read() == Past((RUN,), COUNTED)


def test_the_latest_row_counts_are_kept():
    record()[0].add([], {StageName("q", (str(number),)): 1.0 for number in range(MAX_COUNTED)})
    record()[0].add([], {StageName("q", ("new",)): 2.0})
    kept = record()[0].read().counted
    assert len(kept) == MAX_COUNTED and kept[StageName("q", ("new",))] == 2.0 and StageName("q", ("0",)) not in kept


def test_row_counts_that_take_too_much_space_are_not_kept(folder):
    long = {StageName("q", ("a" * 1000, str(number))): 1.0 for number in range(MAX_COUNTED)}
    record()[0].add([RUN], long)
    assert record()[0].read() == Past((RUN,))


def test_a_record_of_an_earlier_version_has_no_row_counts(folder):
    folder.mkdir(parents=True)
    (folder / "q.json").write_bytes(file_of())
    kept, warned = record()
    assert len(kept.read().runs) == 1 and not kept.read().counted and not warned


def test_runs_are_kept_in_order():
    kept, warned = record()
    assert kept.read() == Past()
    kept.add([RUN], {})
    kept.add([OTHER, RUN], {})
    assert runs() == [RUN, OTHER, RUN] and not warned


def test_runs_of_other_queries_and_on_other_data_do_not_count():
    record()[0].add([RUN], COUNTED)
    assert record(query="p")[0].read() == Past() == record(data="e")[0].read()
    record(data="e")[0].add([OTHER], {})
    assert record(data="e")[0].read() == Past((OTHER,))
    assert record()[0].read() == Past(), "the earlier data is gone"


def file_of(rows=None, **changed):
    run = {"planned": True, "seconds": 1.0, "slots": 1.0, "core_seconds": 0.0, "cold": False} | changed
    counted = {"counted": [["qoop_result", ["a"], rows]]} if rows is not None else {}
    return json.dumps({"version": 1, "data": "d", "runs": [run], **counted}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff",
        file_of(seconds=math.nan),
        file_of(seconds=-1.0),
        file_of(slots=0.0),
        file_of(seconds=1e-200),
        file_of(slots=1e-200),
        file_of(seconds=1e200),
        file_of(core_seconds=math.inf),
        file_of(rows=-1),
        file_of(rows=1e300),
        file_of(rows="many"),
        file_of(rows=1.0).replace(b'["a"], 1.0]', b'["a"], 1.0]' + b', ["q", [], 1.0]' * MAX_COUNTED),
        b'{"version": 2, "data": "d", "runs": []}',
        b'{"version": 1, "data": "d", "runs": []' + b" " * past_runs.MAX_BYTES + b"}",
    ],
    ids=[
        "empty",
        "binary",
        "no number",
        "negative",
        "no slots",
        "no time",
        "hardly a slot",
        "for ever",
        "infinite work",
        "negative rows",
        "too many rows",
        "no rows",
        "too many counts",
        "a later version",
        "huge",
    ],
)
def test_garbage_is_ignored_with_a_line_and_replaced(folder, content):
    folder.mkdir(parents=True)
    (folder / "q.json").write_bytes(content)
    kept, warned = record()
    assert kept.read() == Past() and len(warned) == 1
    kept.add([RUN], COUNTED)
    assert record()[0].read() == Past((RUN,), COUNTED)


def test_a_file_that_cannot_be_read_is_reported(folder):
    (folder / "q.json").mkdir(parents=True)
    kept, warned = record()
    assert kept.read() == Past() and "is a directory" in warned[0]
    kept.add([RUN], {})


def test_where_nothing_can_be_written_nothing_is_kept(folder):
    folder.parent.mkdir()
    folder.write_text("no directory")
    kept, _ = record()
    kept.add([RUN], {})
    assert folder.read_text() == "no directory"


def test_the_latest_runs_are_kept_of_each_kind():
    kept, _ = record()
    kept.add([OTHER], {})
    for number in range(MAX_RUNS + 10):
        kept.add([PastRun(True, 1.0 + number, 1.0, 0.0, False)], {})
    found = runs()
    assert found[0] == OTHER and len(found) == MAX_RUNS + 1
    assert found[-1].seconds == 10.0 + MAX_RUNS and found[1].seconds == 11.0


def test_the_queries_that_ran_longest_ago_are_forgotten(folder, monkeypatch):
    monkeypatch.setattr(past_runs, "MAX_QUERIES", 3)
    for number in range(5):
        record(query=f"q{number}")[0].add([RUN], {})
        os.utime(folder / f"q{number}.json", (number, number))
    assert sorted(file.name for file in folder.iterdir()) == ["q2.json", "q3.json", "q4.json"]


def test_a_run_without_a_measurable_time_is_not_kept():
    kept, warned = record()
    kept.add([PastRun(True, 0.0, 1.0, 0.0, False)], {})
    assert kept.read() == Past() and not warned


def test_a_killed_process_leaves_the_record_as_it_was(folder, monkeypatch):
    kept, _ = record()
    kept.add([RUN], {})

    def killed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        kept.add([OTHER], {})
    assert runs() == [RUN]
