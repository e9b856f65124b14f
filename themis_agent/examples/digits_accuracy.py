"""The accuracy of a checkpoint of `digits_jax` on the images that are not trained on.

python -m themis_agent.examples.digits_accuracy best/step-9
"""

import sys
from pathlib import Path

import numpy as np

from themis_agent.examples.digits_data import HELD_OUT, Digits


def accuracy(checkpoint: Path) -> float:
    """The part of the held-out images that the network of a checkpoint, a directory, classifies correctly."""
    images, labels = Digits(batch=1, seed=0).held_out
    with np.load(checkpoint / "state.npz") as state:
        hidden = np.tanh(images @ state["into"] + state["into_bias"])
        scores = hidden @ state["out"] + state["out_bias"]
    return float(np.mean(scores.argmax(axis=1) == labels))


if __name__ == "__main__":
    print(f"{accuracy(Path(sys.argv[1])):.1%} of {HELD_OUT} images")  # noqa: T201 - this is what the script is for
