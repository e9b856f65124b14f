"""Scikit-learn's handwritten digits in an order that depends on a seed and the number of the update alone.

Each update's global batch is the same whatever the number of processes, so the loss after it is too (up to rounding).
"""

from typing import Any

import numpy as np

HELD_OUT = 297
"""Images that are not trained on."""


class Digits:
    """1,500 images of 64 pixels to train on, and `HELD_OUT` others; labels 0 to 9."""

    def __init__(self, batch: int, seed: int) -> None:
        from sklearn.datasets import load_digits

        data = load_digits()
        images, labels = data.data / 16.0, data.target
        self._images, self._labels = images[HELD_OUT:], labels[HELD_OUT:]
        self.held_out = images[:HELD_OUT], labels[:HELD_OUT]
        self._batch, self._seed = batch, seed

    def shard(self, update: int, rank: int, world_size: int) -> tuple[Any, Any]:
        """The images and labels of one process in an update; these count from 1, the batch is divided evenly."""
        per_epoch = len(self._images) // self._batch
        epoch, place = divmod(update - 1, per_epoch)
        order = np.random.default_rng([self._seed, epoch]).permutation(len(self._images))
        each = self._batch // world_size
        begin = place * self._batch + rank * each
        chosen = order[begin : begin + each]
        return self._images[chosen], self._labels[chosen]
