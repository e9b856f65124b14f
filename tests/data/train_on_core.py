"""Training that computes and waits for its input in turn: stochastic gradient descent on least squares."""

import argparse
import os
import time

# One thread: a pinned core plays the part of a GPU.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import numpy as np

from themis_agent import trial


def main():
    given = argparse.ArgumentParser()
    given.add_argument("--width", type=int, default=64, help="parameters")
    given.add_argument("--batch", type=int, default=64)
    given.add_argument("--updates", type=int, default=1, help="in a step")
    given.add_argument("--wait-s", type=float, default=0.0, help="for the input of a step")
    options = given.parse_args()
    rng = np.random.default_rng(0)
    truth, weights = rng.normal(size=options.width), np.zeros(options.width)
    for step in range(1, 10**9):
        time.sleep(options.wait_s)
        for _ in range(options.updates):
            inputs = rng.normal(size=(options.batch, options.width))
            errors = inputs @ (weights - truth)
            weights -= 0.1 * inputs.T @ errors / options.batch / options.width
        trial.report(step, float((errors**2).mean()))


main()
