"""Clusters of GPUs: presets, files in our own format, and those with the keys of the Themis simulator.

Our own format, TOML or JSON: groups of equal machines.

    [[machines]]
    count = 16
    slots = 4
    gpus_per_slot = 2
    racks = 4          # dealt evenly among racks 1 to 4; or rack = "r7"
    model = "P100"     # optional

The keys of the Themis simulator, JSON: racks_in_cluster, machines_per_rack, slots_per_machine, gpus_per_slot.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Machine, Slot
from yarn_plugin.simulation.training.files import ignored_keys, read_table
from yarn_plugin.toml_files import FileError, Section, validate
from yarn_plugin.validation import one_of

MAX_GPUS = 100_000


@dataclass(frozen=True, slots=True)
class TrainingCluster:
    """Machines with all their GPUs. `notes`: for a person, what was taken or ignored when the file was read."""

    machines: tuple[Machine, ...]
    notes: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """How many GPUs it has."""
        return sum(machine.gpus for machine in self.machines)


class MachineGroup(Section):
    """`count` equal machines, dealt evenly among `racks` racks, or all in the rack `rack`. `model`: of their GPUs."""

    count: int = Field(ge=1, le=MAX_GPUS)
    slots: int = Field(default=1, ge=1, le=64)
    gpus_per_slot: int = Field(ge=1, le=1000)
    racks: int | None = Field(default=None, ge=1, le=MAX_GPUS)
    rack: str | None = Field(default=None, min_length=1, max_length=100)
    model: str = Field(default="", max_length=100)

    @model_validator(mode="after")
    def _one_placement(self) -> Self:
        if self.racks is not None and self.rack is not None:
            raise ValueError("give racks, the number of racks, or rack, a rack's name, not both")
        return self

    @property
    def gpus(self) -> int:
        """Of all its machines."""
        return self.count * self.slots * self.gpus_per_slot


class GpuClusterFile(Section):
    """Groups of machines."""

    machines: tuple[MachineGroup, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        total = sum(group.gpus for group in self.machines)
        if total > MAX_GPUS:
            raise ValueError(f"machines: have {total:,} GPUs; must have at most {MAX_GPUS:,}")
        return self


class ThemisClusterFile(BaseModel):
    """A cluster of equal machines with the keys of the Themis simulator; values may be strings."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    racks_in_cluster: int = Field(ge=1, le=MAX_GPUS)
    machines_per_rack: int = Field(ge=1, le=MAX_GPUS)
    slots_per_machine: int = Field(ge=1, le=64)
    gpus_per_slot: int = Field(ge=1, le=1000)

    def groups(self) -> GpuClusterFile:
        """The same in our own format."""
        count = self.racks_in_cluster * self.machines_per_rack
        group = {"slots": self.slots_per_machine, "gpus_per_slot": self.gpus_per_slot, "racks": self.racks_in_cluster}
        return GpuClusterFile.model_validate({"machines": ({"count": count, **group},)})


PRESETS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    # The cluster on which the Themis authors' workloads are compared: 2 racks of 2 machines of 2 slots of 4 GPUs.
    "themis-32": ({"count": 4, "slots": 2, "gpus_per_slot": 4, "racks": 2},),
    # The testbed of the thesis, section 3.6.1: 12 machines of 4 GPUs and 8 of 2. Assumptions: the 2 GPUs of a K80 card
    # are a slot; 4 racks.
    "themis-64": (
        {"count": 12, "slots": 2, "gpus_per_slot": 2, "racks": 4},
        {"count": 8, "slots": 1, "gpus_per_slot": 2, "racks": 4},
    ),
    # Thesis, footnote to section 3.6.1. It prints 6 machines of 4 GPUs, which gives 168 GPUs; with 28 of them they are
    # the 256 of the text. Racks are not stated: 4 of 64 GPUs.
    "themis-256": (
        {"count": 16, "slots": 4, "gpus_per_slot": 2, "racks": 4},
        {"count": 28, "slots": 4, "gpus_per_slot": 1, "racks": 4},
        {"count": 16, "slots": 1, "gpus_per_slot": 1, "racks": 4},
    ),
    # For the jobs of the Philly trace, which ran on 2,232 GPUs. Assumptions: 207 machines of 8 GPUs and 288 of 2, in
    # 9 equal racks of 248 GPUs.
    "philly-2232": (
        {"count": 207, "slots": 2, "gpus_per_slot": 4, "racks": 9},
        {"count": 288, "slots": 1, "gpus_per_slot": 2, "racks": 9},
    ),
}
"""Clusters by name."""


def load(source: str | Path) -> TrainingCluster:
    """The cluster of a file, or the preset of this name.

    Raises:
        FileError, BadInputError: the file is invalid, or there is neither.
    """
    if str(source) in PRESETS:
        return _cluster(GpuClusterFile.model_validate({"machines": PRESETS[str(source)]}))
    path = Path(source)
    where = f"--cluster {str(source)!r}"
    if path.suffix.lower() not in (".toml", ".json"):
        raise BadInputError("--cluster", str(source), f"must be a .toml or .json file; or {one_of(PRESETS)}")
    table = read_table(where, path)
    if not isinstance(table, dict):
        raise FileError(f"{where}: must be a table with machines, or with racks_in_cluster and so on")
    if "machines" in table or not table.keys() & ThemisClusterFile.model_fields.keys():
        return _cluster(validate(GpuClusterFile, table, where, keys_in="docs/training-workloads.md"))
    file = validate(ThemisClusterFile, table, where)
    return _cluster(file.groups(), ignored_keys(table, ThemisClusterFile.model_fields))


def _cluster(file: GpuClusterFile, notes: tuple[str, ...] = ()) -> TrainingCluster:
    machines: list[Machine] = []
    for group in file.machines:
        for place in range(group.count):
            name = f"m{len(machines) + 1:04d}"
            slots = tuple(Slot(f"{name}/s{number + 1}", group.gpus_per_slot) for number in range(group.slots))
            rack = group.rack or f"r{place % (group.racks or 1) + 1}"
            machines.append(Machine(name, rack, slots, group.model))
    return TrainingCluster(tuple(machines), notes)
