"""A queue of jobs whose workers share GPUs, behind a figure: a plain value, from which its jobs follow."""

from dataclasses import dataclass
from random import Random
from typing import Literal

from yarn_plugin.decide.mechanisms.packing import Limits, PackingProblem
from yarn_plugin.quantities import count
from yarn_plugin.simulation.shared_queues import KINDS, drawn_jobs, drawn_slowdowns, least_disturbing
from yarn_plugin.toml_files import Section

UNLIMITED = Limits(1.0, 100.0, 100.0)


class QueueSize(Section):
    """How large the queues are. `slowdown_scale`: how much workers disturb each other, as a multiple of what Gavel's
    authors measured."""

    jobs: int
    slowdown_scale: float

    @property
    def shown(self) -> str:
        """As a person reads it."""
        return f"{count(self.jobs, 'job')}, slowdowns times {self.slowdown_scale:g}"


@dataclass(frozen=True, slots=True)
class QueueCase:
    """A packed queue. `policy`: by computing and memory alone, by OJPP's heuristic, or by the integer program.
    `collision`, `interference`, `balance`: see `Limits`; best fit has none."""

    seed: int
    size: QueueSize
    policy: Literal["best_fit", "heuristic", "integer_program"]
    collision: float = 0.1
    interference: float = 0.2
    balance: float = 0.1

    def problem(self) -> PackingProblem:
        """Its jobs, and what they may do to each other."""
        draw = Random(f"{self.seed}/workers")
        slowdowns = drawn_slowdowns(draw, self.size.slowdown_scale)
        jobs = drawn_jobs(draw, self.size.jobs, least_disturbing(slowdowns, KINDS // 2))
        limits = Limits(self.collision, self.interference, self.balance)
        return PackingProblem(jobs, slowdowns, UNLIMITED if self.policy == "best_fit" else limits)
