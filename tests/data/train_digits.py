"""A training script: softmax regression on handwritten digits, with checkpoints; the loss is of held-out images."""

import argparse
import json
import os
from pathlib import Path

import numpy as np

from themis_agent import trial
from themis_agent.examples.digits_data import Digits

UPDATES = 1500
"""Of a step."""


def softmax(scores):
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def main():
    given = argparse.ArgumentParser()
    given.add_argument("--rate", type=float, required=True)
    given.add_argument("--executed", type=Path, required=True, help="a file to which every executed step is added")
    options = given.parse_args()
    digits, weights, step = Digits(batch=50, seed=0), np.zeros((64, 10)), 0
    images, labels = digits.held_out
    found = trial.newest_checkpoint()
    if found is not None:
        with np.load(found / "state.npz") as state:
            weights, step = state["weights"], int(state["step"])
    while step < int(os.environ["THEMIS_MAX_STEPS"]) and not trial.should_stop():
        for update in range(step * UPDATES + 1, (step + 1) * UPDATES + 1):
            inputs, targets = digits.shard(update, 0, 1)
            errors = softmax(inputs @ weights) - np.eye(10)[targets]
            weights = weights - options.rate * inputs.T @ errors / len(inputs)
        step += 1
        loss = float(-np.log(softmax(images @ weights)[np.arange(len(labels)), labels]).mean())
        with options.executed.open("a") as file:
            file.write(f"{json.dumps([options.rate, step, loss])}\n")
        with trial.save_checkpoint(step) as directory:
            np.savez(directory / "state.npz", weights=weights, step=step)
        trial.report(step, loss)


main()
