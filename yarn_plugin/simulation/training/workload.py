"""A training workload from a file of any format, or generated."""

from collections.abc import Callable, Mapping
from pathlib import Path

from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Slowdown
from yarn_plugin.simulation.training import own_file, philly, shockwave, themis_file
from yarn_plugin.simulation.training.apps import TrainingWorkload
from yarn_plugin.simulation.training.files import read_json
from yarn_plugin.simulation.training.generate import Generator
from yarn_plugin.toml_files import FileError, read_toml
from yarn_plugin.validation import one_of

GENERATED: Mapping[str, Generator] = {"themis-1": Generator(workload=1), "themis-2": Generator(workload=2)}
"""Generated workloads by name: the two of the thesis, section 3.6.1."""


Seeded = Callable[[int], TrainingWorkload]
"""The workload of each seed."""


def load(
    source: str | Path, seed: int = 0, profiles: dict[str, Slowdown] | None = None, time_unit: str = "minutes"
) -> TrainingWorkload:
    """The workload of a file, or the generated one of this name, with one seed; see `read`."""
    return read(source, profiles, time_unit)(seed)


def read(source: str | Path, profiles: dict[str, Slowdown] | None = None, time_unit: str = "minutes") -> Seeded:
    """Read a file once; the result gives the workload of each seed, by which is drawn what the file leaves open.

    The format is known by the suffix: .toml is our own; .json our own, or a list of jobs of the Themis authors'
    simulator; .csv Philly's; .trace Gavel's and Shockwave's. `profiles`: measured slowdowns of networks, for formats
    that name networks or draw them. `time_unit`: `minutes` or `seconds`, of the Themis authors' format.

    Raises:
        FileError, BadInputError: the file is invalid, or there is neither.
    """
    if str(source) in GENERATED:
        return GENERATED[str(source)].generate
    path, where = Path(source), f"--workload {str(source)!r}"
    match path.suffix.lower():
        case ".toml":
            return own_file.read(where, read_toml(where, path))
        case ".json":
            content = read_json(where, path)
            if isinstance(content, list):
                return _whatever_the_seed(themis_file.workload(where, content, time_unit=time_unit))
            if not isinstance(content, dict):
                raise FileError(f"{where}: must be a list of jobs, or an object with apps")
            return own_file.read(where, content)
        case ".csv":
            return philly.read(where, path, profiles)
        case ".trace":
            return _whatever_the_seed(shockwave.load(where, path, profiles))
        case _:
            expected = f"must be a .toml, .json, .csv or .trace file; or {one_of(GENERATED, str(source))}"
            raise BadInputError("--workload", str(source), expected)


def _whatever_the_seed(workload: TrainingWorkload) -> Seeded:
    return lambda seed: workload
