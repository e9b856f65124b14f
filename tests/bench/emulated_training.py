"""A training script whose steps sleep, as long as a step would take on its GPUs; with real checkpoints and reports.

A step takes `--gpu-s` seconds on one GPU, 1 / n of it on n GPUs of a machine, and `--slowdown` times that on GPUs of
several machines. Imports nothing but the standard library, since many processes start at once.
"""

import argparse
import json
import os
import time

from themis_agent import trial


def main():
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--gpu-s", type=float, required=True)
    given.add_argument("--slowdown", type=float, default=1.0)
    given.add_argument("--checkpoint-every", type=int, default=10, metavar="STEPS")
    given.add_argument("--rate", type=float, default=0.5, help="the larger, the sooner the loss falls")
    options = given.parse_args()
    world, here = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    step_s = options.gpu_s / world * (options.slowdown if here < world else 1.0)
    last, is_first, step = int(os.environ["THEMIS_MAX_STEPS"]), os.environ["RANK"] == "0", 0
    found = trial.newest_checkpoint()
    if found is not None:
        step = json.loads((found / "state.json").read_text())["step"]
    next_end = time.monotonic()
    while step < last:
        next_end += step_s
        time.sleep(max(0.0, next_end - time.monotonic()))
        step += 1
        is_stopping = trial.should_stop()
        if is_first:
            trial.report(step, 1 / (1 + options.rate * step))
            if is_stopping or step == last or step % options.checkpoint_every == 0:
                with trial.save_checkpoint(step) as directory:
                    (directory / "state.json").write_text(json.dumps({"step": step}))
        if is_stopping:
            break


main()
