"""DLRM training as the thesis models it (Syndicate figure 4.14, table 4.2), with times drawn from ranges.

The thesis gives neither message sizes nor times of its models, only what they lead to: so times are drawn, and an
instance is one of model A2 if the compute stream idles as much under last-in-first-out as figure 4.12 says. Of A1 and
A3 not even that is given.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from themis_agent.communication.iteration import Iteration, Kind, Need, Operation, Task
from themis_agent.communication.options import Algorithm, Option, TimedMotif, TimedOption
from themis_agent.communication.search import Numbers

RDMA, HOST = 0, 1
"""The two channels: NVLink and GPUDirect RDMA; PCIe and TCP over the host's Ethernet."""

RANGES: Mapping[str, tuple[float, float]] = {
    "forward_embeddings": (5, 12),
    "forward_bottom": (5, 10),
    "forward_top": (8, 16),
    "backward_embeddings": (8, 20),
    "data_preparation": (5, 20),
    "embeddings_forward": (15, 40),
    "embeddings_backward_ratio": (0.9, 1.1),
    "reduce_top": (5, 15),
    "reduce_bottom": (20, 50),
    "all_to_all_on_host": (1, 2),
    "all_reduce_on_host": (2, 4),
    "other_algorithm": (1.1, 1.5),
    "spline_gain": (0, 0.4),
    "dispatch": (0.1, 0.3),
}
"""In units of which an iteration has about 100. Backward passes of the perceptrons take twice as long as forward ones.

`..._on_host`: how many times longer there. `other_algorithm`: the ring for the small all-reduce of the top perceptron,
and the tree for the large one of the bottom perceptron, against the better one. `spline_gain`: the part of the time of
an all-to-all that a 4-way spline saves, as it relieves incast; a 2-way spline saves half of it.
"""

SEGMENTS = (1, 2, 4, 8)
A2_IDLE = (0.42, 0.48)
"""Of last-in-first-out: 1.64 times 27.4% is 44.9% (section 4.6.5.1)."""

Times = Mapping[str, float]


def draw(numbers: Numbers) -> Times:
    """Times of an instance, each even over its range."""
    return {name: float(numbers.uniform(low, high)) for name, (low, high) in RANGES.items()}


@dataclass(frozen=True)
class Model:
    """An instance: its iteration as the program is, and with the data of the next batch fetched one batch ahead."""

    iteration: Iteration
    prefetching: Iteration
    options: Mapping[int, tuple[TimedOption, ...]]


def model(times: Times) -> Model:
    """The instance with these times."""
    tasks, prefetching = (_tasks(times, ahead) for ahead in (False, True))
    options = {place: _options(task.name, times) for place, task in enumerate(tasks) if task.operation}
    return Model(Iteration(tasks), Iteration(prefetching), options)


def _tasks(times: Times, prefetch: bool) -> tuple[Task, ...]:
    def exchange(kind: Kind) -> Operation:
        return Operation(kind, 1 << 30, "float32", 4, 128)

    # What is received for a batch is free when its embeddings have been looked up: then the next may come.
    return (
        Task("data preparation", (Need(1, 1) if prefetch else Need(10, 1),), operation=exchange(Kind.ALL_TO_ALL)),
        Task("forward embeddings", (Need(0), Need(10, 1)), times["forward_embeddings"]),
        Task("embeddings forward", (Need(1),), operation=exchange(Kind.ALL_TO_ALL)),
        Task("forward bottom", (Need(9, 1),), times["forward_bottom"]),
        Task("forward top", (Need(2), Need(3), Need(6, 1)), times["forward_top"]),
        Task("backward top", (Need(4),), 2 * times["forward_top"]),
        Task("reduce top", (Need(5),), operation=exchange(Kind.ALL_REDUCE)),
        Task("embeddings backward", (Need(5),), operation=exchange(Kind.ALL_TO_ALL)),
        Task("backward bottom", (Need(5),), 2 * times["forward_bottom"]),
        Task("reduce bottom", (Need(8),), operation=exchange(Kind.ALL_REDUCE)),
        Task("backward embeddings", (Need(7),), times["backward_embeddings"]),
    )


def _options(name: str, times: Times) -> tuple[TimedOption, ...]:
    forward = times["embeddings_forward"]
    seconds = {
        "data preparation": times["data_preparation"],
        "embeddings forward": forward,
        "embeddings backward": forward * times["embeddings_backward_ratio"],
        "reduce top": times["reduce_top"],
        "reduce bottom": times["reduce_bottom"],
    }[name]
    if name.startswith("reduce"):
        better = Algorithm.TREE if name == "reduce top" else Algorithm.RING
        kinds = [(one, 2 if one is Algorithm.TREE else 1, 1.0 if one is better else times["other_algorithm"])
                 for one in (Algorithm.RING, Algorithm.TREE)]  # fmt: skip
        slower = times["all_reduce_on_host"]
    else:
        gain = times["spline_gain"]
        kinds = [(Algorithm.WHOLE, 1, 1.0), (Algorithm.SPLINE, 2, 1 - gain / 2), (Algorithm.SPLINE, 4, 1 - gain)]
        slower = times["all_to_all_on_host"]
    found = []
    for channel, factor in ((RDMA, 1.0), (HOST, slower)):
        for algorithm, ways, relative in kinds:
            for segments in SEGMENTS:
                parts = segments * (ways if algorithm is Algorithm.SPLINE else 1)
                part_s = seconds * factor * relative / parts + times["dispatch"]
                option = Option(algorithm, ways, segments, (channel,))
                found.append(TimedOption(option, tuple(TimedMotif(channel, part_s) for _ in range(parts))))
    return tuple(found)
