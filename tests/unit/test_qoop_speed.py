"""The speed of a machine, learned from runs and kept; and where the time of a plan goes."""

import platformdirs
import pytest

from qoop.estimate.breakdown import COSTS
from qoop.estimate.cost import CostModel
from qoop.estimate.speed import COLD_FACTOR, SECONDS, Line, Speed, TimedRun, at_speed, speed_of
from qoop.run.machine_speed import MAX_RUNS, add_run, read_speed


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    return tmp_path / "qoop" / "speed-1.json"


def test_half_of_the_warm_runs_were_faster_than_expected():
    runs = [TimedRun(1.0, seconds, cold=False) for seconds in (2.0, 4.0, 40.0)]
    assert speed_of(runs) == Speed(Line(0.0, pytest.approx(4.0)), Line(0.0, pytest.approx(4.0)), runs=3)
    assert speed_of([]) == Speed()


def test_a_cold_run_is_a_start_and_work_whose_parts_show_in_runs_of_different_lengths():
    one = speed_of([TimedRun(0.5, 22.0, cold=True)])
    assert one.cold == Line(pytest.approx(20.0), COLD_FACTOR)
    assert one.warm == Line(0.0, COLD_FACTOR)
    runs = [TimedRun(nominal, 20.0 + 10.0 * nominal, cold=True) for nominal in (0.4, 0.5, 0.8, 4.0)]
    assert speed_of(runs).cold.seconds(8.0) == pytest.approx(100.0, rel=0.2)
    no_start = [TimedRun(nominal, 10.0 * nominal, cold=True) for nominal in (0.4, 0.5, 0.8, 4.0)]
    assert speed_of(no_start).cold.seconds(8.0) == pytest.approx(80.0, rel=0.2)


def test_a_slower_machine_is_slower_in_everything_so_plans_stay_as_they_were_to_each_other():
    model = at_speed(CostModel(), 3.0)
    assert all(getattr(model, name) == 3.0 * getattr(CostModel(), name) for name in SECONDS)
    assert (model.broadcast_bytes, model.task_bytes) == (CostModel().broadcast_bytes, CostModel().task_bytes)


def test_every_cost_is_of_one_part_of_a_plan():
    assert sorted(name for names in COSTS.values() for name in names) == sorted(SECONDS)
    assert set(CostModel.__slots__) - set(SECONDS) == {"broadcast_bytes", "task_bytes"}


def test_the_latest_runs_are_kept(cache):
    assert read_speed() == Speed()
    for seconds in range(1, MAX_RUNS + 2):
        add_run(TimedRun(1.0, float(seconds), cold=True))
    add_run(TimedRun(1.0, 0.0, cold=True))
    add_run(TimedRun(1.0, 7.0, cold=False))
    assert read_speed().runs == MAX_RUNS + 1
    assert read_speed().warm.factor == pytest.approx(7.0)


@pytest.mark.parametrize("content", [b"", b"{", b'{"runs": [{"nominal": 0}]}', b"\xff"])
def test_a_spoilt_record_is_no_record(cache, content):
    cache.parent.mkdir()
    cache.write_bytes(content)
    assert read_speed() == Speed()
    add_run(TimedRun(1.0, 2.0, cold=True))
    assert read_speed().cold.seconds(1.0) == pytest.approx(2.0)
