"""Whole GPUs: how many of its GPUs a winner keeps after its hidden payment."""

from collections.abc import Sequence

from yarn_plugin.decide.mechanisms.partial_allocation.problem import Gang, Rounding


def usable(gangs: Sequence[Gang], held: int, most: int) -> list[int]:
    """The numbers n of GPUs, 0 < n <= most, that trials can use up together with `held` ones, in ascending order.

    Without gangs, all. If no such number exists, `most`, as the application bid for it.
    """
    if not gangs:
        return list(range(1, most + 1))
    total = held + most
    reached = [True] + [False] * total
    for gang in gangs:
        reached = _with_trials(reached, gang)
    return [n for n in range(1, most + 1) if reached[held + n]] or [most]


def _with_trials(reached: list[bool], gang: Gang) -> list[bool]:
    """The totals that can be used up by these trials in addition."""
    sizes = range(gang.min_gpus, min(gang.max_gpus, len(reached) - 1) + 1, gang.step_gpus)
    needed = [0 if one else gang.trials + 1 for one in reached]
    for total in range(len(reached)):
        if not reached[total]:
            fewest = min((needed[total - size] for size in sizes if size <= total), default=gang.trials)
            needed[total] = min(needed[total], fewest + 1)
    return [count <= gang.trials for count in needed]


def kept_of(share: float, won: int, numbers: Sequence[int], rounding: Rounding = "up") -> int:
    """How many GPUs a winner of `won` GPUs keeps that may keep `share` of them.

    `numbers`: the usable ones (`usable`). "up": the smallest that is at least share x won, so nobody pays more than
    the mechanism asks and every winner keeps something it can use. "nearest": the nearest, of two the larger; "down":
    the largest that is not above; both leave at least the smallest usable number.
    """
    exact = share * won
    above = next((n for n in numbers if n >= exact - _EPSILON), won)
    below = next((n for n in reversed(numbers) if n <= exact + _EPSILON), numbers[0])
    if rounding == "up":
        return above
    if rounding == "down":
        return below
    return above if above - exact <= exact - below + _EPSILON or below > exact + _EPSILON else below


_EPSILON = 0.05
"""Of a GPU, above the errors of a share times the GPUs of a large cluster."""
