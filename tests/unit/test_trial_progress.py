"""Steps, losses and iteration times in logs of the frameworks that people use."""

import re

import pytest

from themis_agent.trial.progress import IterationTimes, LogReader, Progress

LINES = [
    # Keras 3, its terminal sequences removed; Keras 2; with verbose=2; GradientTape loops of the tutorials.
    ("  45/1875 ━━━━━━━━━━ 5s 3ms/step - accuracy: 0.9012 - loss: 0.3456", 45, 0.3456, 0.003),
    ("  45/1875 [>.............................] - ETA: 5s - loss: 0.3456 - accuracy: 0.9", 45, 0.3456, None),
    ("1875/1875 - 5s - 3ms/step - accuracy: 0.9 - loss: 3.5e-01 - val_loss: 0.2", 1875, 0.35, 0.003),
    ("1875/1875 [==============================] - 5s 812us/step - loss: nan", 1875, "nan", 812e-6),
    # TensorFlow estimators.
    ("INFO:tensorflow:loss = 2.302, step = 100 (0.512 sec)", 100, 2.302, None),
    ("INFO:tensorflow:global_step/sec: 200", None, None, 0.005),
    # Lightning and tqdm.
    ("Epoch 2:  45%|████▌     | 422/938 [00:03<00:04, 125.00it/s, v_num=0, train_loss=0.123]", 2298, 0.123, 0.008),
    ("Epoch 0:   1%|          | 3/938 [00:09<46:45, 3.00s/it, loss=inf, v_num=0]", 3, "inf", 3.0),
    # PyTorch's examples.
    ("Epoch: [1][  10/5005]\tTime  0.512 ( 0.600)\tData  0.1 ( 0.1)\tLoss 6.9012e+00 (7.0)", 5015, 6.9012, None),
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.713", 60640, 1.713, None),
    ("step 7: loss -0.5", 7, -0.5, None),
    ("{'loss': 0.4321, 'learning_rate': 5e-05, 'epoch': 1.0}", None, 0.4321, None),
    ("iter 100: loss 1.2345, time 50.1ms", 100, 1.2345, None),
]
NOTHING = [
    "val_loss: 0.5",
    "Found lossless codec 3",
    "Using 2 GPUs",
    "loss: none",
    "weight_loss: 12",
    "2026-11-01 10:00:00 loading data",
]


@pytest.mark.parametrize(("line", "step", "loss", "seconds"), LINES)
def test_known_formats(line, step, loss, seconds):
    found = LogReader().read(line)
    assert found.step == step
    assert found.loss == loss or str(found.loss) == loss
    assert found.iteration_s == pytest.approx(seconds)


@pytest.mark.parametrize("line", NOTHING)
def test_other_lines(line):
    assert LogReader().read(line) is None


def test_keras_counts_steps_over_epochs():
    reader = LogReader()
    lines = ["Epoch 1/3", "10/10 - 1s - loss: 2.0", "Epoch 2/3", " 3/10 - loss: 1.0"]
    assert [found.step for line in lines if (found := reader.read(line))] == [10, 13]


def test_own_pattern_replaces_the_formats():
    reader = LogReader(re.compile(r"after (?P<step>\d+): J=(?P<loss>\S+)(?: in (?P<iteration_s>\S+)s)?"))
    assert reader.read("after 3: J=0.5 in 0.25s") == Progress(3, 0.5, 0.25)
    assert str(reader.read("after 4: J=NaN").loss) == "nan"
    assert reader.read("after 5: J=much") is None
    assert reader.read("step 7: loss 0.5") is None


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
