"""The command line of the digits examples."""

import argparse
import os
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """This process in its gang, from the environment; alone without a launcher."""

    rank: int
    world_size: int
    master: str

    @classmethod
    def from_environment(cls) -> "Place":
        """See docs/trials.md."""
        variable = os.environ.get
        address = f"{variable('MASTER_ADDR', 'localhost')}:{variable('MASTER_PORT', '29500')}"
        return cls(int(variable("RANK", "0")), int(variable("WORLD_SIZE", "1")), address)


def parse(description: str, place: Place) -> argparse.Namespace:
    """The arguments. The global batch must be divisible by the number of processes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=200, help="train until this step")
    parser.add_argument("--learning-rate", type=float, default=0.1, help="of SGD with momentum")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--hidden", type=int, default=32, help="units of the hidden layer")
    parser.add_argument("--batch", type=int, default=96, help="images of an update, over all processes")
    parser.add_argument("--batches-per-step", type=int, default=1, metavar="N", help="updates of a step; 15: an epoch")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of the order of the images")
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    parser.add_argument(
        "--emulated-step-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="make a step last as long as on GPUs: this on one, half of it on two, ...; the loss stays real",
    )
    arguments = parser.parse_args()
    if arguments.batches_per_step < 1:
        parser.error(f"--batches-per-step {arguments.batches_per_step}: must be at least 1")
    if arguments.batch % place.world_size:
        parser.error(f"--batch {arguments.batch}: give a multiple of {place.world_size}, the number of processes")
    return arguments


class EmulatedStep:
    """Waits at the end of each step until it has lasted as long as on GPUs with linear speedup."""

    def __init__(self, step_ms: float, world_size: int) -> None:
        self._step_s = step_ms / 1000 / world_size
        self._begin = time.monotonic()

    def end(self) -> None:
        """Wait."""
        time.sleep(max(0.0, self._begin + self._step_s - time.monotonic()))
        self._begin = time.monotonic()
