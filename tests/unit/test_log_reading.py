"""What is read from the logs of training scripts: values of the metric, their steps, and where those come from."""

import math
import re

import pytest

from themis_agent.trial.logs import Lines
from themis_agent.trial.reading.numbering import MAX_STEPS, Steps
from themis_agent.trial.reading.reader import LogReader

STEPS, EPOCHS, COUNTED = Steps.STEPS, Steps.EPOCHS, Steps.COUNTED


def read(lines, metric="loss", **given):
    """The reader of a log, and the values that it found."""
    reader = LogReader(metric, **given)
    found = [one for line in lines for one in reader.read(line)] + [*reader.release(has_ended=True)]
    return reader, [(one.step, one.value) for one in found if one.value is not None]


def values(lines, metric="loss", **given):
    return read(lines, metric, **given)[1]


def each(line, *rows):
    """A line for each row, with its values in place of `{}`."""
    return [line.format(*row) for row in rows]


LOGS = {
    "epochs": (each("epoch {} loss {}", (1, 0.5), (2, 0.4)), [(1, 0.5), (2, 0.4)], EPOCHS),
    "epochs from 0": (each("epoch {}: loss={}", (0, 0.5), (1, 0.4)), [(1, 0.5), (2, 0.4)], EPOCHS),
    "parts of epochs": (
        each("{{'loss': {}, 'learning_rate': 5e-05, 'epoch': {}}}", (0.5, 0.5), (0.4, 1.0), (0.3, 1.5)),
        [(1, 0.5), (2, 0.4), (3, 0.3)],
        COUNTED,
    ),
    "epochs that become parts": (
        each("{{'loss': {}, 'epoch': {}}}", (0.5, 1.0), (0.4, 1.5)),
        [(1, 0.5), (2, 0.4)],
        COUNTED,
    ),
    "texts for numbers": (
        each("{{'loss': '{}', 'grad_norm': '2.1', 'epoch': '{}'}}", (0.5, 1), (0.4, 2)),
        [(1, 0.5), (2, 0.4)],
        EPOCHS,
    ),
    "steps of known epochs": (
        each("Epoch [{}/2], Step [{}/200], Loss: {}", (1, 100, 0.5), (1, 200, 0.4), (2, 100, 0.3), (2, 200, 0.2)),
        [(100, 0.5), (200, 0.4), (300, 0.3), (400, 0.2)],
        STEPS,
    ),
    "steps of epochs of unknown length": (
        each("Epoch {}, Step {}, Loss: {}", (1, 50, 0.5), (1, 100, 0.4), (2, 50, 0.3), (2, 100, 0.2), (3, 50, 0.1)),
        [(50, 0.5), (100, 0.4), (150, 0.3), (200, 0.2), (250, 0.1)],
        STEPS,
    ),
    "one step an epoch": (
        each("epoch {} batch 100 loss {}", (1, 0.5), (2, 0.4), (3, 0.3)),
        [(100, 0.5), (200, 0.4), (300, 0.3)],
        STEPS,
    ),
    "steps that start again without an epoch": (
        each("step {} loss {}", (10, 0.5), (20, 0.4), (10, 0.3), (20, 0.2), (10, 0.1)),
        [(10, 0.5), (20, 0.4), (30, 0.3), (40, 0.2), (50, 0.1)],
        STEPS,
    ),
    "global steps beside epochs": (
        each("epoch {} step {} loss {}", (1, 100, 0.5), (1, 200, 0.4), (2, 300, 0.3)),
        [(100, 0.5), (200, 0.4), (300, 0.3)],
        STEPS,
    ),
    "steps repeated in a summary": (
        [*each("[{}]\tloss: {}", (1, 0.5), (2, 0.2), (3, 0.4), (4, 0.6)), "best iteration is:", "[2]\tloss: 0.2"],
        [(1, 0.5), (2, 0.2), (3, 0.4), (4, 0.6)],
        STEPS,
    ),
    "folds of a cross validation": (
        each("fold {} epoch {} loss {}", (1, 1, 0.5), (1, 2, 0.4), (2, 1, 0.6), (2, 2, 0.3)),
        [(1, 0.5), (2, 0.4), (3, 0.6), (4, 0.3)],
        EPOCHS,
    ),
    "values within an epoch": (
        each("epoch {} loss {}", (1, 0.5), (1, 0.45), (1, 0.44), (2, 0.4)),
        [(1, 0.5), (2, 0.45), (3, 0.44), (4, 0.4)],
        COUNTED,
    ),
    "a value twice in an epoch": (
        each("epoch {} loss {}", (1, 0.5), (1, 0.5), (2, 0.4), (2, 0.4)),
        [(1, 0.5), (2, 0.4)],
        EPOCHS,
    ),
    "a step that does not rise": (
        each("[3] loss {}", (0.5,), (0.4,), (0.3,)),
        [(3, 0.5), (4, 0.4), (5, 0.3)],
        COUNTED,
    ),
    "no steps": (each("loss {}", (0.5,), (0.4,)), [(1, 0.5), (2, 0.4)], COUNTED),
    "the epoch above": (
        ["Epoch 1/2", "10/10 - 1s - loss: 0.5", "Epoch 2/2", " 5/10 - loss: 0.4", "10/10 - loss: 0.3"],
        [(10, 0.5), (15, 0.4), (20, 0.3)],
        STEPS,
    ),
    "the epoch above, alone": (
        ["-- Epoch 1", "Norm: 1.2, Avg. loss: 0.5", "-- Epoch 2", "Norm: 1.2, Avg. loss: 0.4"],
        [(1, 0.5), (2, 0.4)],
        EPOCHS,
    ),
    "the step above": (["Step 5", "loss: 0.5", "Step 6", "loss: 0.4"], [(5, 0.5), (6, 0.4)], STEPS),
    "examples of an epoch": (
        each("Train Epoch: {} [{}/60000 ({}%)]\tLoss: {}", (1, 0, 0, 2.3), (1, 640, 1, 1.7), (2, 0, 0, 1.5)),
        [(0, 2.3), (640, 1.7), (60000, 1.5)],
        STEPS,
    ),
    "batches of epochs from 0": (
        each("Epoch: [{}][ {}/50]\tTime  0.5 ( 0.6)\tLoss {} (7.0)", (0, 10, 6.9), (0, 50, 6.8), (1, 10, 6.7)),
        [(10, 6.9), (50, 6.8), (60, 6.7)],
        STEPS,
    ),
    "a bar": (
        [f"Epoch 1: {n:3}%|█| {n}/4 [00:0{n}<00:00,  1.00it/s, loss={0.5 - n / 10:g}]" for n in (0, 1, 4)],
        [(0, 0.5), (1, 0.4), (4, 0.1)],
        STEPS,
    ),
    "bars without epochs": (
        each(
            "100%|█| {}/4 [00:00<00:00, 1.00it/s, loss={}]",
            (2, 0.5), (2, 0.45), (4, 0.4), (4, 0.39), (1, 0.3), (4, 0.2), (4, 0.1),
        ),
        [(2, 0.5), (4, 0.39), (5, 0.3), (8, 0.1)],
        STEPS,
    ),
    "a bar that is emptied": (
        each(
            "Epoch {}:  50%|█| {}/4 [00:00<00:00, 1.00it/s, loss={}]",
            (0, 2, 0.5), (0, 4, 0.4), (0, 0, 0.4), (1, 0, 0.4), (1, 2, 0.3), (1, 4, 0.2), (1, 0, 0.2),
        ),
        [(2, 0.5), (4, 0.4), (6, 0.3), (8, 0.2)],
        STEPS,
    ),
    "evaluations in a bar": (
        [
            *each("Epoch {}:  50%|█| {}/4 [00:00<00:00, 1.00it/s]", (0, 2), (0, 4)),
            *each(
                "Epoch {}:  50%|█| {}/4 [00:00<00:00, 1.00it/s, loss={}]",
                (0, 4, 0.5), (1, 0, 0.5), (1, 2, 0.5), (1, 4, 0.5), (1, 4, 0.3), (2, 2, 0.3), (2, 4, 0.3), (2, 4, 0.1),
            ),
        ],
        [(4, 0.5), (8, 0.3), (12, 0.1)],
        STEPS,
    ),
    "a date in brackets": (
        each("[11/28 12:00:{}] loss 0.{}", (10, 5), (20, 4)),
        [(1, 0.5), (2, 0.4)],
        COUNTED,
    ),
    "wide columns": (
        each(" iteration       {}/    1000 | lm loss: 9 | loss: 1.{}E+00 | loss scale: 1.0 |", (10, 5), (20, 4)),
        [(10, 1.5), (20, 1.4)],
        STEPS,
    ),
    "a loss that is": (
        each("epoch: {}, batch_id: 3, loss is: [0.{}]", (1, 5), (2, 4)),
        [(1, 0.5), (2, 0.4)],
        EPOCHS,
    ),
    "behind a bar": (
        each("  {0}%|█| {0}/4 [00:00<00:00,  1.00it/s]epoch {0}: loss 0.{1}", (1, 5), (2, 4)),
        [(1, 0.5), (2, 0.4)],
        EPOCHS,
    ),
    "rounds from 0": (each("[{}]\ttrain-loss:{}", (0, 0.5), (1, 0.4)), [(1, 0.5), (2, 0.4)], STEPS),
    "thousands": (
        each("step {} loss {}", ("1,000", "1,234.5"), ("2,000", "1_000"), ("1,000,000", "987")),
        [(1000, 1234.5), (2000, 1000.0), (1000000, 987.0)],
        STEPS,
    ),
    "TensorFlow": (
        each("INFO:tensorflow:loss = {}, step = {} (0.512 sec)", (2.302, 100), (2.1, 200)),
        [(100, 2.302), (200, 2.1)],
        STEPS,
    ),
    "lines of JSON": (
        each('{{"epoch": {}, "val": {{"loss": 0.9}}, "train": {{"loss": {}}}}}', (1, 0.5), (2, 0.4)),
        [(1, 0.5), (2, 0.4)],
        EPOCHS,
    ),
    "text in JSON": (
        each('{{"level": "INFO", "message": "epoch {} loss {}"}}', (1, 0.5), (2, 0.4)),
        [(1, 0.5), (2, 0.4)],
        EPOCHS,
    ),
    "a table with a head": (
        ["epoch     train_loss  valid_loss  time", "0         0.523       0.43        00:05", "1  0.423  0.33  00:05"],
        [(1, 0.523), (2, 0.423)],
        EPOCHS,
    ),
    "comma-separated values": (["epoch,acc,loss", "0,0.9,0.5", "1,0.9,0.4"], [(1, 0.5), (2, 0.4)], EPOCHS),
}  # fmt: skip


@pytest.mark.parametrize("log", LOGS)
def test_steps_of_a_log(log):
    lines, expected, steps = LOGS[log]
    reader, found = read(lines)
    assert (found, reader.source.steps) == (expected, steps)


NUMBERS = {
    "0.5": 0.5, "-0.5": -0.5, "+0.5": 0.5, ".5": 0.5, "5.": 5.0, "1e-3": 1e-3, "1E+05": 1e5, "5e-05": 5e-5,
    "1,234.5": 1234.5, "12,345,678": 12345678.0, "1_000.5": 1000.5, "91.5%": 91.5, "0.5,": 0.5, "0.5)": 0.5,
    "0.5.": 0.5, "0.5...": 0.5, "nan": math.nan, "NaN": math.nan, "-nan(ind)": math.nan, "1.#QNAN": math.nan,
    "inf": math.inf, "-Infinity": -math.inf, "-1.#INF": -math.inf, "−0.5": -0.5,
    "tensor(0.5123, grad_fn=<NllLossBackward0>)": 0.5123, "np.float64(0.5)": 0.5, "Array(0.5, dtype=float32)": 0.5,
    "tf.Tensor(0.5, shape=(), dtype=float32)": 0.5, "[0.5]": 0.5, "'0.5'": 0.5, "9823/10000 (98%)": 0.9823,
}  # fmt: skip

NO_NUMBERS = [
    "1.234,5", "0,512", "12,5", "1.2.3", "0.5s", "1.2k", "10K", "0x1p-3", "2026-11-01", "12:30", "[0.5, 0.4]",
    "0.5 -> 0.4", "0.5->0.4", "none", "None", "N/A", "", "-", "0.35.ckpt", "0.35-step=3.ckpt", "0.5/s", "true",
    "info", "nano", "tensor([0.5, 0.4])", "<tf.Tensor>", "0.5±", "1,2,3",
]  # fmt: skip


@pytest.mark.parametrize("written", NUMBERS)
def test_a_number(written):
    ((step, value),) = values([f"loss: {written}"])
    assert step == 1
    assert value == pytest.approx(NUMBERS[written], nan_ok=True)


@pytest.mark.parametrize("written", [one for one in NO_NUMBERS if one != "0.5±"])
def test_no_number_that_is_certain(written):
    assert values([f"loss: {written}"]) == []


def test_after_a_decimal_comma_a_group_of_three_digits_is_not_certain():
    reader, found = read(["loss: 0,512", "loss: 1,234"])
    assert found == []
    assert "decimal commas in its log, such as 0,512" in reader.nothing_read()


NAMED = [
    ("val_loss", "loss: 0.5, val_loss: 0.6", 0.6),
    ("val_loss", "Train Loss: 0.5 | Val Loss: 0.6", 0.6),
    ("val_loss", "train/loss=0.5 val/loss=0.6", 0.6),
    ("val_loss", "loss 0.5 - valLoss 0.6", 0.6),
    ("val/loss", "{'loss': 0.5, 'val_loss': 0.6}", 0.6),
    ("loss", "val_loss: 0.6 - loss: 0.5", 0.5),
    ("loss", "Val loss: 0.6, Train loss: 0.5", 0.5),
    ("loss", "weight_loss: 12, loss_step: 0.5", 0.5),
    ("loss", "Loss/val: 0.6 Loss/train: 0.5", 0.5),
    ("loss", "train_loss: 0.9, loss: 0.5", 0.5),
    ("loss", "\x1b]0;training\x07\x1b[1mloss\x1b[0m: \x1b[32m0.5\x1b[0m", 0.5),
    ("accuracy", "10/10 - 0s - 5ms/step - accuracy: 0.5 - loss: 0.7 - val_accuracy: 0.4 - val_loss: 0.8", 0.5),
    ("acc", "test_acc            0.8999999761581421", 0.9),
    ("test_acc", "│         test_acc          │    0.8999999761581421     │", 0.9),
    ("ep_rew_mean", "|    ep_rew_mean     | 23.5     |", 23.5),
    ("mAP@[.5:.95]", "mAP@[.5:.95] = 0.3", 0.3),
    ("F1 (macro)", "F1 (micro): 0.4, F1 (macro): 0.3", 0.3),
    ("eval.f1+", "eval.f1: 0.4 eval.f1+: 0.3", 0.3),
    ("Acc@1", "Acc@1  12.50 ( 13.00)\tAcc@5  40.00 ( 41.00)", 12.5),
    ("top-1", "top-1: 70.1%", 70.1),
    ("valid_0's auc", "[5]\ttraining's auc: 0.8\tvalid_0's auc: 0.7", 0.7),
    ("validation-rmse", "[0]\ttrain-rmse:0.5\tvalidation-rmse:0.6", 0.6),
    ("b.c", '{"step": 3, "a": {"b": {"c": 0.5}}, "b": {"c": 0.6}}', 0.6),
]


@pytest.mark.parametrize(("metric", "line", "expected"), NAMED)
def test_the_named_metric_is_read(metric, line, expected):
    lines = Lines().cut(f"{line}\n".encode())
    if metric == "acc":
        assert values(lines, metric) == []
        return
    assert [value for _, value in values(lines, metric)] == [pytest.approx(expected)]


NOTHING = [
    "val_loss: 0.5", "Found lossless codec 3", "Using 2 GPUs", "loss: none", "weight_loss: 12", "loss0.5", "lossy: 3",
    "best loss: 0.3", "test loss 0.3", "loss_fn: 3", "loss_scale=65536", "Epoch 1: loss improved from 0.5 to 0.4",
    "saved model-loss-0.5.pt", "epoch=2-loss=0.35.ckpt", "{'loss': [0.5, 0.4], 'epoch': [1, 2]}", "{'loss': None}",
    "2026-11-01 10:00:00 loading data", "reconstruction loss: 0.3", "loss: 0.5 -> 0.4", "{" * 3000, "\ufffd" * 3000,
]  # fmt: skip


@pytest.mark.parametrize("line", NOTHING)
def test_other_lines(line):
    assert values([line]) == []


def test_the_name_that_was_read_first_is_kept_unless_the_metrics_own_appears():
    lines = ["train_loss: 0.5, total_loss: 0.7", "total_loss: 0.6", "train_loss: 0.4", "loss: 0.3", "train_loss: 0.2"]
    reader, found = read(lines)
    assert found == [(1, 0.5), (2, 0.4), (3, 0.3)]
    assert reader.source.name == "loss"


@pytest.mark.parametrize(
    "line",
    [
        "Test: [{}/2]  Time: 0.2  loss: 9 (9)",
        "Epoch(val) [1][{}/2]  loss: 9",
        "[eval] step {}0 loss: 9",
        "2026-01-02 03:04:05,678 - INFO - Validation set: [{}/2] loss: 9",
        "step {}0 val: loss 9",
    ],
)
def test_a_line_of_an_evaluation_has_another_metric_if_the_training_has_it_too(line):
    evaluation = [line.format(1), line.format(2)]
    log = ["step 1 loss 0.5", *evaluation, "step 3 loss 0.4", *evaluation, "step 5 loss 0.3"]
    assert values(log) == [(1, 0.5), (3, 0.4), (5, 0.3)]
    reader, alone = read([line.format(number) for number in (1, 2)])
    assert [value for _, value in alone] == [9, 9]
    assert reader.source.name in ("test_loss", "val_loss", "eval_loss", "validation_loss")


def test_a_nested_metric_of_an_evaluation_is_another_one():
    rows = [("train", 0.5, 1), ("val", 9, 2), ("train", 0.4, 3)]
    assert values(each('{{"{}": {{"loss": {}}}, "step": {}}}', *rows)) == [(1, 0.5), (3, 0.4)]
    assert values(['{"accuracy": "98/100", "step": 1}'], "accuracy") == [(1, 0.98)]
    assert values(each('{{"loss": [{}], "step": {}}}', (0.5, 1), (0.4, 2))) == [(1, 0.5), (2, 0.4)]


def test_parts_of_a_line():
    log = each("step {} val: loss {} train: loss {}", (1, 9, 0.5), (2, 9, 0.4))
    assert values(log) == [(1, 0.5), (2, 0.4)]
    results = each(
        "{} Results - Epoch: {} Avg loss: {}", ("Training", 1, 0.5), ("Validation", 1, 9), ("Training", 2, 0.4)
    )
    assert values(results) == [(1, 0.5), (2, 0.4)]
    rows = [("train", 1, 0.5), ("val", 2, 9), ("train", 3, 0.4), ("val", 4, 9)]
    assert values(each('{{"mode": "{}", "step": {}, "loss": {}}}', *rows)) == [(1, 0.5), (3, 0.4)]
    assert values(each('{{"split": "val", "step": {}, "loss": {}}}', (1, 0.5), (2, 0.4))) == [(1, 0.5), (2, 0.4)]
    assert values(each("step {} val: {} loss: {}", (1, 0.9, 0.5), (2, 0.8, 0.4))) == [(1, 0.5), (2, 0.4)]


def test_a_log_without_the_metric_says_what_it_has():
    reader, found = read(["Epoch 1/3", "10/10 - 0s - accuracy: 0.5 - val_loss: 0.7"], "acuracy")
    assert (found, reader.source) == ([], None)
    assert reader.nothing_read().startswith(
        "no acuracy in its log, which has accuracy, val_loss; formats read: `acuracy:"
    )


def test_own_pattern_replaces_the_formats():
    pattern = re.compile(r"after (?P<step>[\d,]+): J=(?P<loss>\S+)(?: in (?P<iteration_s>\S+)s)?")
    reader = LogReader("J", pattern)
    (first,) = reader.read("after 3: J=0.5 in 0.25s")
    assert (first.step, first.value, first.iteration_s) == (3, 0.5, 0.25)
    assert math.isnan(reader.read("after 1,004: J=NaN")[0].value)
    assert reader.read("after 5: J=much") == reader.read("step 7: loss 0.5") == ()
    assert reader.source.name == "J by loss_pattern"


def test_a_pattern_without_a_step_takes_the_steps_of_its_lines():
    pattern = re.compile(r"val_acc=(?P<loss>[0-9.]+)")
    lines = each("epoch {}: val_acc={}", (1, 0.5), (2, 0.6), (3, 0.7))
    assert values(lines, "val_acc", pattern=pattern) == [(1, 0.5), (2, 0.6), (3, 0.7)]
    assert values(["val_acc=0.5", "val_acc=0.6"], pattern=pattern) == [(1, 0.5), (2, 0.6)]


@pytest.mark.parametrize("step", ["9" * 400, str(MAX_STEPS)])
def test_steps_out_of_range(step):
    lines = ["step 1 loss 0.5", f"step {step} loss 0.25", f"step {step}", f"epoch {step}", "step 2 loss 0.125"]
    assert values(lines) == [(1, 0.5), (2, 0.125)]


def test_a_value_that_is_no_number_is_not_held_back():
    reader = LogReader()
    (found,) = reader.read("100%|█| 4/4 [00:00<00:00, 1.00it/s, loss=nan]")
    assert found.step == 4
    assert math.isnan(found.value)


@pytest.mark.parametrize("line", ["loss " * 800, "a" * 4000, "a " * 2000, "loss: " + "1," * 2000, "'" * 4000 + "loss"])
def test_long_lines_take_no_long_time(line):
    # A pattern that looks again and again would take minutes.
    assert values([line] * 20) == []


def resumed(before, after, at):
    """Steps before a checkpoint at a step, and those of the process that goes on from it."""
    first = LogReader()
    steps = [one.step for line in before for one in first.read(line)]
    second = LogReader(resumed=at, saved=first.save())
    return steps, [one.step for line in after for one in second.read(line)]


def test_a_resumed_script_goes_on_with_the_steps_that_it_prints():
    assert resumed(["step 10 loss 1", "step 20 loss 1"], ["step 30 loss 1"], 20) == ([10, 20], [30])
    assert resumed(["step 10 loss 1", "step 20 loss 1"], ["step 20 loss 1", "step 30 loss 1"], 10) == (
        [10, 20],
        [20, 30],
    )
    assert resumed(["epoch 1 loss 1", "epoch 2 loss 1"], ["epoch 3 loss 1"], 2) == ([1, 2], [3])
    assert resumed(["epoch 0 loss 1", "epoch 1 loss 1"], ["epoch 2 loss 1"], 2) == ([1, 2], [3])


def test_steps_that_a_resumed_script_repeats_have_the_same_numbers():
    before = each("epoch {} loss {}", (1, 0.5), (2, 0.4), (3, 0.3))
    assert resumed(before, before[1:], 1) == ([1, 2, 3], [2, 3])
    within = each("Epoch {}, Step {}, Loss: {}", (1, 50, 0.5), (1, 100, 0.4), (2, 50, 0.3), (2, 100, 0.2))
    after = [*within[2:], "Epoch 3, Step 50, Loss: 0.1"]
    assert resumed(within[:3], after, 150) == ([50, 100, 150], [150, 200, 250])
    assert resumed(within, ["Epoch 3, Step 50, Loss: 0.1"], 200) == ([50, 100, 150, 200], [250])


def test_a_script_that_ignores_its_checkpoint_begins_with_its_first_step():
    assert resumed(["step 1 loss 1", "step 2 loss 1"], ["step 1 loss 1", "step 2 loss 1"], 2) == ([1, 2], [1, 2])


def test_counted_steps_go_on_from_the_checkpoint():
    assert resumed(["loss 5", "loss 4", "loss 3"], ["loss 2"], 3) == ([1, 2, 3], [4])
    # One more was read before the checkpoint was noticed: it comes again.
    assert resumed(["loss 5", "loss 4", "loss 3"], ["loss 3"], 2) == ([1, 2, 3], [3])
    # The checkpoint has another unit.
    assert resumed(["loss 5", "loss 4", "loss 3"], ["loss 2"], 500) == ([1, 2, 3], [4])


def test_epochs_of_bars_that_begin_anew_go_on_after_a_resume():
    bars = [f"100%|█| {n}/4 [00:00<00:00, 1.00it/s, loss={0.5 - n / 10:g}]" for n in (2, 4)]
    first = LogReader()
    steps = [one.step for line in [*bars, *bars] for one in first.read(line)] + [one.step for one in first.release()]
    second = LogReader(resumed=8, saved=first.save())
    again = [one.step for line in bars for one in second.read(line)] + [one.step for one in second.release()]
    assert (steps, again) == ([2, 4, 6, 8], [10, 12])


def test_without_what_was_saved_the_step_of_the_checkpoint_tells():
    assert values(["loss 1"], resumed=20) == [(21, 1.0)]
    assert values(["Epoch [3/9], Step [5/10], Loss: 1"], resumed=20) == [(25, 1.0)]
    assert values(["Epoch: [2][ 5/10]\tLoss 1"], resumed=20) == [(25, 1.0)]
    assert values(["100%|█| 5/10 [00:00<00:00, 1.00it/s, loss=1]"], resumed=20) == [(25, 1.0)]


@pytest.mark.parametrize(
    ("log", "steps"),
    [
        (
            [
                "Epoch 1 [50/100] loss: 5",
                "Epoch 2 [50/100] loss: 4",
                "Epoch 2 [60/100] lr: 1",
                "Epoch 2 [70/100] loss: 3",
            ],
            [50, 150, 160, 170],
        ),
        (["step 1 loss: 5", "step 2 lr: 1", "step 3 loss: 4"], [1, 2, 3]),
        (["Epoch [1][50/100] loss: 5", "Test: [1/10] loss: 9", "Epoch [1][60/100] loss: 4"], [50, 60]),
        (["epoch 1 step 9 loss 5", "epoch 2 step 1 loss 4", "epoch 2 step 2 lr 1", "epoch 3 step 3 lr 1"], [9, 10, 11]),
    ],
)
def test_steps_without_a_value_are_counted_like_those_with_one(log, steps):
    reader = LogReader()
    assert [one.step for line in log for one in reader.read(line)] == steps
