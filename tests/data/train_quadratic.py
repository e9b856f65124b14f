"""A training script: gradient descent on a quadratic, with checkpoints. The loss depends on the rate and the step."""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

from themis_agent import trial


def beside(folder):
    """How many processes run on this GPU."""
    here = folder / os.environ["CUDA_VISIBLE_DEVICES"]
    here.mkdir(exist_ok=True)
    (here / str(os.getpid())).touch()
    return sum(Path("/proc", one.name).exists() for one in here.iterdir())


def main():
    given = argparse.ArgumentParser()
    given.add_argument("--rate", type=float, required=True)
    given.add_argument("--steps", type=int, default=int(os.environ["THEMIS_MAX_STEPS"]))
    given.add_argument("--step-s", type=float, default=0.0)
    given.add_argument("--executed", help="a file to which every executed step is added")
    given.add_argument("--hold", type=Path, help="a file: while it exists, no more than --hold-at steps are executed")
    given.add_argument("--hold-at", type=int, default=5)
    given.add_argument("--save-s", type=float, default=0.0, help="how long a checkpoint is written")
    given.add_argument("--weight-mb", type=int, default=0, help="how large a checkpoint is, at least")
    given.add_argument("--beside", type=Path, help="a folder, for steps that are slower by each one on the same GPU")
    options = given.parse_args()
    weights, step = np.linspace(1.0, 2.0, 8), 0
    found = trial.newest_checkpoint()
    if found is not None:
        written = json.loads((found / "state.json").read_text())
        weights, step = np.array(written["weights"]), written["step"]
    while step < options.steps and not trial.should_stop():
        time.sleep(options.step_s * (beside(options.beside) if options.beside else 1))
        if options.hold and options.hold.exists() and step >= options.hold_at:
            continue
        step += 1
        weights = weights - options.rate * weights
        if options.executed:
            with Path(options.executed).open("a") as file:
                file.write(f"{json.dumps([options.rate, step, float((weights**2).sum())])}\n")
        if os.environ["RANK"] != "0":
            continue
        with trial.save_checkpoint(step) as directory:
            (directory / "more").write_bytes(os.urandom(options.weight_mb << 20))
            time.sleep(options.save_s)
            (directory / "state.json").write_text(json.dumps({"weights": weights.tolist(), "step": step}))
        trial.report(step, float((weights**2).sum()))


main()
