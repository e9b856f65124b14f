"""What launchers and agents accept of each other."""

import json

import pytest
from pydantic import ValidationError

from themis_agent.trial.wire import Answer, Batch, CheckpointSpec, LaunchSpec

REPORTED = {"type": "reported", "sequence": 1, "at": 1.0, "step": 1, "loss": 0.5}
PROFILED = {"type": "profiled", "sequence": 1, "at": 1.0, "iteration_s": 0.5}
STARTED = {"type": "started", "sequence": 1, "at": 1.0, "host": "here"}


def batch(event):
    return Batch.model_validate_json(json.dumps({"launcher": "x", "epoch": 1, "events": [event]}))


@pytest.mark.parametrize(
    "event",
    [
        *(PROFILED | {"iteration_s": value} for value in ("Infinity", "NaN", float("inf"), 0, -1)),
        *(REPORTED | {"step": value} for value in (-1, 10**12, 10**400)),
        REPORTED | {"at": "Infinity"},
        STARTED | {"port": 65536},
        STARTED | {"resumed": 10**12},
    ],
)
def test_numbers_out_of_range_are_refused(event):
    with pytest.raises(ValidationError):
        batch(event)


@pytest.mark.parametrize("loss", ["NaN", "Infinity", "-Infinity"])
def test_losses_may_be_no_numbers(loss):
    sent = batch(REPORTED | {"loss": loss})
    assert json.loads(sent.model_dump_json())["events"][0]["loss"] == loss


def test_a_time_to_stop_is_a_number():
    with pytest.raises(ValidationError):
        Answer.model_validate_json('{"acknowledged": 0, "stop_in_s": "Infinity"}')


@pytest.mark.parametrize("trial", [".", "..", ".hidden", "a/b", "a\n", "", "x" * 201])
def test_a_trial_is_the_name_of_a_folder(trial):
    with pytest.raises(ValidationError, match="trial"):
        LaunchSpec(
            trial=trial,
            epoch=1,
            command=["true"],
            ranks=[0],
            world_size=1,
            checkpoint=CheckpointSpec(directory="x"),
            log_directory="x",
        )
