"""The time of making a bid table: 100 trials under successive halving and Hyperband, 256 GPUs of several machine sizes.

The cluster is that of Themis, thesis section 3.6.1 (see its footnote; with 28 machines of 4 GPUs it has the 256 GPUs
of the text). Offers have all of it free, or a random half; the application holds nothing, or some GPUs.
"""

import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from themis_agent.bids import bid_table
from themis_agent.search import Trial, Work, hyperband, successive_halving, to_the_end
from yarn_plugin.model.auction import GpuOffer
from yarn_plugin.model.gpus import Machine, Slot, Slowdown

TRIALS = 100
OFFERS = 40
CONTENTION = 12.0
SPEEDS = (("large", 2.0), ("small", 0.5))


def measure() -> dict[str, Any]:
    """Milliseconds of a bid table, by kind of search, and the rows of the largest one."""
    times: dict[str, list[float]] = {}
    most_rows = 0
    for kind, work in _searches():
        for offer in _offers():
            started = time.process_time()
            bid = bid_table(work, offer, elapsed_s=600.0)
            times.setdefault(kind, []).append(1e3 * (time.process_time() - started))
            most_rows = max(most_rows, len(bid.rows))
    result: dict[str, Any] = {"rows_of_largest": most_rows}
    for kind, spent in times.items():
        result[f"{kind}_ms_p50"] = statistics.median(spent)
        result[f"{kind}_ms_p95"] = statistics.quantiles(spent, n=20)[-1]
    return result


def machines() -> tuple[Machine, ...]:
    """16 machines of 4 slots with 2 GPUs, 28 of 4 slots with 1 GPU, and 16 with 1 GPU, in 8 racks; each size of machine
    has a model of its own, which matters to the searches that name speeds."""
    kinds = [(2, 2, 2, 2)] * 16 + [(1, 1, 1, 1)] * 28 + [(1,)] * 16
    models = ["large"] * 16 + ["medium"] * 28 + ["small"] * 16
    return tuple(
        Machine(
            f"m{number:02}",
            f"rack-{number % 8}",
            tuple(Slot(f"m{number:02}/s{i}", gpus) for i, gpus in enumerate(slots)),
            models[number],
        )
        for number, slots in enumerate(kinds)
    )


def _searches() -> Iterator[tuple[str, Work]]:
    chance = random.Random(5)
    slowdowns = (Slowdown(1.0, 1.1, 1.3), Slowdown(1.05, 1.4, 2.0))

    def trials(count: int, max_gpus: int) -> list[Trial]:
        slowdown = chance.choice(slowdowns)
        return [
            Trial(f"trial-{number:03}", chance.uniform(0.5, 1.5), 1000.0, max_gpus=max_gpus, slowdown=slowdown)
            for number in range(count)
        ]

    for max_gpus in (1, 4, 8):
        yield "halving", successive_halving(trials(TRIALS, max_gpus), [100.0 * 2**phase for phase in range(7)]).work()
        yield "plain", to_the_end(trials(TRIALS, max_gpus)).work()
        # 32 iterations at most: 32 + 20 + 12 + 8 + 6 + 6 trials.
        brackets = hyperband(trials(84, max_gpus), 32.0)
        yield "hyperband", brackets.work()
        on_models = [replace(one, speeds=SPEEDS) for one in trials(TRIALS, max_gpus)]
        yield "halving_models", successive_halving(on_models, [100.0 * 2**phase for phase in range(7)]).work()


def _offers() -> Iterator[GpuOffer]:
    chance = random.Random(7)
    everything = machines()
    for number in range(OFFERS):
        free = everything
        if number % 2:
            free = tuple(
                Machine(
                    one.id,
                    one.rack,
                    tuple(Slot(slot.id, chance.randint(0, slot.gpus)) for slot in one.slots),
                    one.model,
                )
                for one in everything
            )
        held = ()
        if number % 4 >= 2:
            chosen = sorted(chance.sample([slot.id for one in everything for slot in one.slots], 6))
            held = tuple((slot, 1) for slot in chosen)
        yield GpuOffer(number, free, 600.0, CONTENTION, held, 256)
