"""The speed of a machine, learned from runs and kept; and where the time of a plan goes."""

import platformdirs
import pytest

from qoop.estimate.breakdown import COSTS
from qoop.estimate.cost import CostModel
from qoop.estimate.speed import SECONDS, Speed, TimedRun, at_speed, speed_of
from qoop.run.machine_speed import MAX_RUNS, add_run, read_speed


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    return tmp_path / "qoop" / "speed-1.json"


def test_half_of_the_runs_were_faster_than_expected():
    runs = [TimedRun(1.0, seconds, cold=True) for seconds in (2.0, 4.0, 40.0)]
    assert speed_of(runs) == Speed(cold=pytest.approx(4.0), warm=pytest.approx(4.0), runs=3)
    assert speed_of([*runs, TimedRun(2.0, 3.0, cold=False)]).warm == pytest.approx(1.5)
    assert speed_of([]) == Speed()


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
    assert read_speed().warm == pytest.approx(7.0)


@pytest.mark.parametrize("content", [b"", b"{", b'{"runs": [{"nominal": 0}]}', b"\xff"])
def test_a_spoilt_record_is_no_record(cache, content):
    cache.parent.mkdir()
    cache.write_bytes(content)
    assert read_speed() == Speed()
    add_run(TimedRun(1.0, 2.0, cold=True))
    assert read_speed().cold == pytest.approx(2.0)
