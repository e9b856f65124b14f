"""Measured slowdowns of networks, from a directory of profiles.

- `model_NAME.json`: a profile of the Themis authors' simulator: cross_slot_slowdown, cross_machine_slowdown,
  cross_rack_slowdown, speed multipliers of at most 1.
- `*throughputs*.json`: iterations per second as measured for Gavel, by GPU type (`p100`, and `p100_unconsolidated` for
  GPUs in several machines), network with batch size and number of GPUs, and `null` for a job on its own. A network's
  speed across machines is the median over its batch sizes of unconsolidated over consolidated on 4 GPUs, at most 1.
  That across racks was not measured: its square is taken, as is nearly so in the other profiles. P100: the GPUs of
  table 3.1.

Where both have a network, Gavel's measurement is taken.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import BaseModel, ConfigDict

from yarn_plugin.errors import os_reason
from yarn_plugin.model.gpus import Slowdown
from yarn_plugin.simulation.training.files import read_json
from yarn_plugin.simulation.training.themis_file import Multiplier
from yarn_plugin.toml_files import FileError, validate

GPU, GPUS = "p100", 4

THEMIS_NAMES = {
    "alexnet": "AlexNet",
    "inception3": "Inception-v3",
    "resnet50": "ResNet50",
    "vgg16": "VGG16",
    "vgg19": "VGG19",
}
"""The networks of table 3.4 by the names in the files; others keep theirs."""

GAVEL_NAMES = {"ResNet-50": "ResNet50", "LM": "LangModel"}

_JOB_TYPE = re.compile(r"\('(?P<family>.+?)(?: \(batch size \d+\))?', (?P<gpus>\d+)\)")


class ModelFile(BaseModel):
    """A profile of the Themis authors' simulator."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    cross_slot_slowdown: Multiplier
    cross_machine_slowdown: Multiplier
    cross_rack_slowdown: Multiplier

    def slowdown(self) -> Slowdown:
        """As time factors."""
        return Slowdown(1 / self.cross_slot_slowdown, 1 / self.cross_machine_slowdown, 1 / self.cross_rack_slowdown)


def load(directory: Path) -> dict[str, Slowdown]:
    """The slowdowns in a directory, by network.

    Raises:
        FileError: the directory cannot be read or has no profiles, or a file in it is invalid.
    """
    where = f"--profiles {str(directory)!r}"
    try:
        files = sorted(directory.iterdir())
    except OSError as problem:
        raise FileError(f"{where}: {os_reason(problem)}") from None
    found: dict[str, Slowdown] = {}
    for path in files:
        if path.match("model_*.json"):
            name = path.stem.removeprefix("model_")
            file = validate(ModelFile, read_json(f"{where}, {path.name}", path), f"{where}, {path.name}")
            found[THEMIS_NAMES.get(name, name)] = file.slowdown()
    for path in files:
        if path.match("*throughputs*.json"):
            found |= _gavel(f"{where}, {path.name}", read_json(f"{where}, {path.name}", path))
    if not found:
        raise FileError(f"{where}: must have model_*.json or *throughputs*.json files")
    return found


def _gavel(where: str, throughputs: Any) -> dict[str, Slowdown]:
    if not isinstance(throughputs, Mapping):
        raise FileError(f"{where}: must be an object of GPU types")
    together, apart = throughputs.get(GPU), throughputs.get(f"{GPU}_unconsolidated")
    if not isinstance(together, Mapping) or not isinstance(apart, Mapping):
        raise FileError(f"{where}: must have {GPU!r} and '{GPU}_unconsolidated'")
    speeds: dict[str, list[float]] = defaultdict(list)
    for name in together.keys() & apart.keys():
        matched = _JOB_TYPE.fullmatch(name)
        if matched and int(matched["gpus"]) == GPUS:
            speeds[matched["family"]].append(_alone(where, name, apart) / _alone(where, name, together))
    found = {}
    for family, ratios in sorted(speeds.items()):
        speed = min(median(ratios), 1.0)
        found[GAVEL_NAMES.get(family, family)] = Slowdown(1.0, 1 / speed, 1 / speed**2)
    return found


def _alone(where: str, name: str, measured: Mapping[str, Any]) -> float:
    """Iterations per second of a job that shares its GPUs with none."""
    rates = measured[name]
    rate = rates.get("null") if isinstance(rates, Mapping) else None
    if not isinstance(rate, int | float) or not 0 < rate < 1e9:
        raise FileError(f"{where}: {name}: null {rate!r}: must be iterations per second, above 0")
    return float(rate)
