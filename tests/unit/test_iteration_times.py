"""The time of an iteration, by the steps that a script reports and by what its log says."""

import pytest

from themis_agent.trial.reading.times import IterationTimes, iteration_s

SAID = [
    ("  45/1875 ━━━━━━━━━━ 5s 3ms/step - accuracy: 0.9012 - loss: 0.3456", 0.003),
    ("1875/1875 [==============================] - 5s 812us/step - loss: nan", 812e-6),
    ("INFO:tensorflow:global_step/sec: 200", 0.005),
    ("Epoch 2:  45%|████▌     | 422/938 [00:03<00:04, 125.00it/s, train_loss=0.123]", 0.008),
    ("Epoch 0:   1%|          | 3/938 [00:09<46:45, 3.00s/it, loss=inf]", 3.0),
    ("step 7: loss -0.5", None),
    ("0.0it/s", None),
]


@pytest.mark.parametrize(("line", "seconds"), SAID)
def test_times_that_a_line_says(line, seconds):
    assert iteration_s(line) == pytest.approx(seconds)


def test_iteration_time_is_the_median_after_the_first_step():
    times = IterationTimes()
    for step, at in enumerate([0, 60, 61, 62, 72, 73]):
        assert times.iteration_s is None or step == 5
        times.step(step, at)
    assert times.iteration_s == 1


def test_iteration_time_of_steps_reported_now_and_then():
    times = IterationTimes()
    for step, at in [(0, 0), (10, 50), (20, 70), (30, 90), (40, 110)]:
        times.step(step, at)
    assert times.iteration_s == 2


def test_steps_that_go_back_do_not_count():
    times = IterationTimes()
    for step, at in [(5, 0), (6, 1), (7, 2), (3, 50), (4, 51), (5, 52)]:
        times.step(step, at)
    assert times.iteration_s == 1


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 0.0, -1.0])
def test_measured_times_that_are_none(seconds):
    times = IterationTimes()
    for _ in range(5):
        times.measured(seconds)
    assert times.iteration_s is None
