"""GPUs of a pool as applications see them: in slots of machines in racks, and as pieces that they ask for."""

from dataclasses import dataclass, replace
from typing import Literal

Speeds = tuple[tuple[str, float], ...]
"""How fast a job is on models of GPUs, as a factor on its iterations in a second; 1 for a model that is not named."""

Gpus = tuple[tuple[str, int], ...]
"""How many GPUs of each slot, sorted by slot id; no slot with 0."""


def total(gpus: Gpus) -> int:
    """The number of GPUs."""
    return sum(count for _, count in gpus)


def speed_on(speeds: Speeds, model: str) -> float:
    """How fast a job is on GPUs of a model."""
    return next((speed for name, speed in speeds if name == model), 1.0)


@dataclass(frozen=True, slots=True)
class Slot:
    """GPUs of one machine that communicate fastest, such as those below one PCIe switch; `gpus`: how many are free."""

    id: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine with free GPUs. `model`: of its GPUs; empty if it is not known. `host`: of its node in YARN."""

    id: str
    rack: str
    slots: tuple[Slot, ...]
    model: str = ""
    host: str = ""

    @property
    def gpus(self) -> int:
        """Its free GPUs."""
        return self.slots[0].gpus if len(self.slots) == 1 else sum([slot.gpus for slot in self.slots])


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """Where a GPU is. `slot`, `machine`, `rack`: ids as in `Machine`. `host`: of its node in YARN, where containers for
    it are requested. `ordinal`: its number on its node, from 0, in the order of the topology. `model`: as in `Machine`.
    """

    host: str
    rack: str
    machine: str
    slot: str
    ordinal: int
    model: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A number of GPUs in one machine, or in one slot of a machine.

    `within`: the id of a slot, a machine or a rack that it must lie in; empty: anywhere.
    """

    gpus: int
    within: str = ""
    level: Literal["machine", "slot"] = "machine"


@dataclass(frozen=True, slots=True)
class Slowdown:
    """By what factor (1 or more) an iteration takes longer when a job's GPUs span slots, machines or racks.

    The defaults are the crude ones of Themis (thesis, section 3.4.3.1, footnote).
    """

    slot: float = 1.0
    machine: float = 1.1
    rack: float = 1.3


@dataclass(frozen=True, slots=True)
class Job:
    """A training job (trial) of an application as its owner describes it now.

    `iterations_left`, `iterations_done`: work; with early stopping, until it is expected to be stopped.
    `iteration_s`: seconds of one iteration on one GPU. `min_gpus`, `max_gpus`, `step_gpus`: it can use
    min, min + step, min + 2 step, ... up to max. `attained_gpu_s`: GPU seconds that it has had. `losses`: the latest
    (iteration, loss) pairs, oldest first. `held`: the GPUs that it runs on. `speeds`: a gang is as fast as its
    slowest GPU.
    """

    id: str
    iterations_left: float
    iteration_s: float
    iterations_done: float = 0.0
    min_gpus: int = 1
    max_gpus: int = 1
    step_gpus: int = 1
    slowdown: Slowdown = Slowdown()
    attained_gpu_s: float = 0.0
    losses: tuple[tuple[float, float], ...] = ()
    held: Gpus = ()
    speeds: Speeds = ()

    def holding(self, held: Gpus) -> "Job":
        """The same job on these GPUs."""
        return self if self.held == held else replace(self, held=held)
