"""Which simulations each figure and table of the thesis needs, and which have none."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from yarn_plugin.simulation.themis_figures.case import Case

BASELINES = ("gandiva", "tiresias", "optimus", "slaq", "srtf", "srsf")
POLICIES = ("themis", *BASELINES)
PARTS = (1, 2, 4)
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
ERRORS = (0.0, 0.05, 0.1, 0.2)
LIES = (0.0, 0.3, 0.4, 1.0)
FS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
LEASES_S = (600.0, 1200.0, 2400.0)

CHECKPOINT_S = 45.0
"""Of figure 3.19: a new allocation took 35 s, a checkpoint 5 to 10 s (section 3.6.2.3). Elsewhere moves are free."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure or table. `title`: what it shows. `not_reproduced`: why there is nothing to simulate. `thesis`: what the
    thesis says of it that is no claim about policies."""

    number: str
    title: str
    not_reproduced: str = ""
    thesis: str = ""


FIGURES: tuple[Figure, ...] = (
    Figure("3.1", "GPU demand over time", thesis="bursty, about 50 GPUs on average (section 3.2.2)"),
    Figure("3.2", "Jobs of an application", thesis="about 10% have 1 job; median 75, up to 100 (section 3.2.2)"),
    Figure("3.3", "GPU time of an application", thesis="median 11.5 GPU days (section 3.2.2)"),
    Figure("3.4", "GPU time of a task", thesis="median 3.75 GPU hours (section 3.2.2)"),
    Figure(
        "3.5",
        "An allocation by DRF that ignores placement",
        thesis="A1 gets the machine of 4, and A2, which needs it more, is spread (section 3.3.1.2)",
    ),
    Figure("3.6", "Architecture", "a drawing; docs/leases.md describes ours"),
    Figure("3.7", "Interface between agent and search", "a listing; ours is themis_agent/search/tuner.py"),
    Figure(
        "3.8",
        "Workloads 1 and 2: tasks of a job, jobs of an application",
        thesis="workload 1: jobs of 1 or 2 GPUs (section 3.6.2). Workload 2: in the first phase; they double with each",
    ),
    Figure("3.9", "Finish-time fairness, workload 1"),
    Figure("3.10", "Finish-time fairness, workload 2"),
    Figure("3.11", "GPU time, workload 1"),
    Figure("3.12", "GPU time, workload 2"),
    Figure("3.13", "Placement scores, workload 2"),
    Figure("3.14", "Contention and max rho, workload 1"),
    Figure("3.15", "Network-intensive applications and max rho"),
    Figure("3.16", "Network-intensive applications and GPU time"),
    Figure("3.17", "Errors of estimates and max rho"),
    Figure("3.18", "An application that lies"),
    Figure("3.19", "Fairness knob f and length of a lease"),
    Figure("table 3.1", "Throughput of VGG16 and Inception-v3", "needs P100 GPUs; figure 3.5 takes its numbers"),
    Figure("table 3.2", "Form of a bid table", "an empty form; table 3.3 is one filled in"),
    Figure("table 3.3", "Bids of the example in section 3.4.3.3"),
    Figure(
        "table 3.4",
        "Networks of the workloads",
        thesis="computer vision 10%, language 60%, speech 30%; slowdowns are not given",
    ),
    Figure("table 3.5", "Short and long applications under Themis and Tiresias"),
)
"""Measured on 64 K80 GPUs in the thesis, simulated here: 3.9 to 3.14 and table 3.5."""

NUMBERS = tuple(figure.number for figure in FIGURES)

_SCENARIO: Mapping[str, str] = {
    "3.9": "1",
    "3.11": "1",
    "3.14": "1",
    "table 3.5": "1",
    "3.18": "liar",
    "3.5": "example",
}
"""What a figure simulates; others workload 2."""


def base(figure: str, seed: int, size: str) -> Case:
    """The case of Themis from which the others of a figure differ."""
    case = Case("themis", seed, _SCENARIO.get(figure, "2"), size)  # type: ignore[arg-type]
    if figure == "3.5":
        # Of two applications, f = 0.8 would have only one bid.
        return replace(case, f=0.0)
    return replace(case, checkpoint_s=CHECKPOINT_S) if figure == "3.19" else case


def cases(figures: Sequence[str], seeds: Sequence[int], size: str) -> list[Case]:
    """The simulations of these figures, each once: all of the first seed first."""
    found = (case for seed in seeds for figure in figures for case in _cases(figure, base(figure, seed, size)))
    return list(dict.fromkeys(found))


def _cases(figure: str, one: Case) -> Iterator[Case]:
    match figure:
        case "3.9" | "3.10" | "3.11" | "3.12" | "3.13":
            yield from (replace(one, policy=policy) for policy in POLICIES)
        case "3.14":
            yield from (replace(one, policy=policy, part=part) for part, policy in product(PARTS, POLICIES))
        case "3.15" | "3.16":
            yield from (replace(one, policy=policy, network_share=share) for share, policy in product(SHARES, POLICIES))
        case "3.17":
            yield from (replace(one, error=error) for error in ERRORS)
        case "3.18":
            yield from (replace(one, lie=lie) for lie in LIES)
        case "3.19":
            yield from (replace(one, f=f, lease_s=lease) for lease, f in product(LEASES_S, FS))
        case "3.5":
            yield from (replace(one, policy=policy) for policy in ("themis", "drf", "max_min"))
        case "table 3.5":
            yield from (replace(one, policy=policy) for policy in ("themis", "tiresias"))
