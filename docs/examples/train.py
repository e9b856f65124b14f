"""A training script under `themis-agent`: logistic regression on two clouds of points, with checkpoints."""

import argparse
import os
import time

import numpy as np

from themis_agent import trial

given = argparse.ArgumentParser()
given.add_argument("--rate", type=float, required=True)
given.add_argument("--optimizer", required=True)
given.add_argument("--momentum", type=float, default=0.0)
options = given.parse_args()

draws = np.random.default_rng(0)
points = np.concatenate([draws.normal(-0.5, 1.0, (500, 2)), draws.normal(0.5, 1.0, (500, 2))])
labels = np.repeat([-1.0, 1.0], 500)

weights, velocity, step = np.zeros(2), np.zeros(2), 0
if (checkpoint := trial.newest_checkpoint()) is not None:
    saved = np.load(checkpoint / "state.npz")
    weights, velocity, step = saved["weights"], saved["velocity"], int(saved["step"])

while step < int(os.environ["THEMIS_MAX_STEPS"]) and not trial.should_stop():
    time.sleep(0.1)
    margins = labels * (points @ weights)
    gradient = -(points * (labels / (1 + np.exp(margins)))[:, None]).mean(axis=0)
    velocity = options.momentum * velocity - options.rate * gradient
    weights, step = weights + velocity, step + 1
    loss = float(np.log1p(np.exp(-labels * (points @ weights))).mean())
    with trial.save_checkpoint(step) as folder:
        np.savez(folder / "state.npz", weights=weights, velocity=velocity, step=step)
    trial.report(step, loss)
