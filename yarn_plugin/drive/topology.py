"""The topology file (TOML): what nodes lie in, and what lies in them, beyond what YARN knows."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from yarn_plugin.decide.topology import NODE, RACK, is_pattern
from yarn_plugin.drive.config import ConfigError, said
from yarn_plugin.model.resources import GPU, Resources, total_of
from yarn_plugin.model.topology import CellDescription, NodeDescription, TopologyDescription

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]+$", max_length=100)]
Above = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./-]+$", max_length=200)]
Host = Annotated[str, StringConstraints(pattern=r"^[^\s/:]+$", max_length=255)]
Amount = Annotated[int, Field(ge=0, le=10**15)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CellSection(_Section):
    """A part of a node. `gpus`: short for a cell `gpu-INDEX` with one GPU for each."""

    name: Name
    capacity: dict[str, Amount] = {}
    gpus: list[Annotated[int, Field(ge=0, le=1023)]] = []
    cells: list["CellSection"] = []

    @model_validator(mode="after")
    def _holds_its_parts(self) -> Self:
        _all_different("cells", [part.name for part in self.parts()], f"cell {self.name!r}")
        inner = total_of(part.description().capacity or Resources() for part in self.parts())
        for resource, amount in self.capacity.items():
            if inner[resource] > amount:
                raise ValueError(f"the cells in {self.name!r} hold {inner[resource]} {resource}, and it has {amount}")
        return self

    def parts(self) -> "list[CellSection]":
        """The cells in it, GPUs too."""
        return [*self.cells, *(CellSection(name=f"gpu-{index}", capacity={GPU: 1}) for index in self.gpus)]

    def description(self) -> CellDescription:
        """The cell as a noun; what its capacity does not say is what its parts hold."""
        parts = tuple(part.description() for part in self.parts())
        inner = total_of(part.capacity or Resources() for part in parts)
        return CellDescription(self.name, Resources.of({**inner.as_dict(), **self.capacity}), parts)

    def depth(self) -> int:
        """How many levels it takes."""
        return 1 + max((part.depth() for part in self.parts()), default=0)

    def all_gpus(self) -> list[int]:
        """The indices of the GPUs in it, at any depth."""
        return [*self.gpus, *(index for cell in self.cells for index in cell.all_gpus())]


class NodesSection(_Section):
    """Nodes that are alike."""

    hosts: list[Host] = Field(min_length=1)
    within: dict[str, Above] = {}
    cells: list[CellSection] = []
    gpus: list[Annotated[int, Field(ge=0, le=1023)]] = []

    @model_validator(mode="after")
    def _apart(self) -> Self:
        parts = self.parts()
        _all_different("cells", [part.name for part in parts], "the node")
        gpus = [index for part in self.cells for index in part.all_gpus()]
        _all_different("gpus", [*self.gpus, *gpus], "the node")
        return self

    def parts(self) -> list[CellSection]:
        """The cells in each of the nodes."""
        return [*self.cells, *(CellSection(name=f"gpu-{index}", capacity={GPU: 1}) for index in self.gpus)]


class TopologyFile(_Section):
    """The whole file."""

    levels: list[Name] = [RACK, NODE]
    nodes: list[NodesSection] = []

    @field_validator("levels")
    @classmethod
    def _known(cls, levels: list[str]) -> list[str]:
        _all_different("levels", levels, "the file")
        if NODE not in levels:
            raise ValueError(f"name {NODE!r} among them, from the largest to the smallest")
        if RACK in levels and levels.index(RACK) > levels.index(NODE):
            raise ValueError(f"{RACK!r} is larger than {NODE!r}: name it first")
        return levels

    @model_validator(mode="after")
    def _fits(self) -> Self:
        above = self.levels[: self.levels.index(NODE)]
        deepest = len(self.levels) - len(above) - 1
        for number, node in enumerate(self.nodes):
            for level in node.within.keys() - above:
                raise ValueError(f"nodes.{number}.within.{level}: choose one of {', '.join(above) or 'none'}")
            if max((part.depth() for part in node.parts()), default=0) > deepest:
                raise ValueError(f"nodes.{number}.cells: they are deeper than the levels below {NODE!r}")
        hosts = [host for node in self.nodes for host in node.hosts]
        _all_different("hosts", hosts, "the file")
        self._check_above(above, {host for host in hosts if not is_pattern(host)})
        return self

    def _check_above(self, above: list[str], hosts: set[str]) -> None:
        """Every cell above nodes has one level, and lies in one cell of each larger level."""
        level_of: dict[str, str] = {}
        lies_in: dict[tuple[str, str], str] = {}
        for node in self.nodes:
            for level, name in node.within.items():
                if level_of.setdefault(name, level) != level:
                    raise ValueError(f"{name!r} is a {level_of[name]} and a {level}: every cell has a name of its own")
                if name in hosts:
                    raise ValueError(f"{name!r} is a {level} and a host: every cell has a name of its own")
                for larger in above[: above.index(level)]:
                    if (
                        larger in node.within
                        and lies_in.setdefault((name, larger), node.within[larger]) != (node.within[larger])
                    ):
                        raise ValueError(
                            f"{level} {name!r} lies in {larger} {lies_in[name, larger]!r} and in "
                            f"{node.within[larger]!r}: name one"
                        )

    def description(self) -> TopologyDescription:
        """The topology as a noun."""
        return TopologyDescription(tuple(self.levels), tuple(self._nodes()))

    def _nodes(self) -> Iterator[NodeDescription]:
        for node in self.nodes:
            within = tuple((level, node.within[level]) for level in self.levels if level in node.within)
            yield NodeDescription(tuple(node.hosts), within, tuple(part.description() for part in node.parts()))


def load_topology(path: Path) -> TopologyDescription:
    """Read a topology file.

    Raises:
        ConfigError: it cannot be read, or a value is wrong: names file, field, value and what is right.
    """
    where = f"topology.file {str(path)!r}"
    try:
        return TopologyFile.model_validate(tomllib.loads(path.read_text())).description()
    except OSError as problem:
        raise ConfigError(f"{where}: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{where}: not TOML: {problem}") from None
    except RecursionError:
        raise ConfigError(f"{where}: cells lie too deep in each other") from None
    except ValidationError as problem:
        raise ConfigError(f"{where}: {said(problem)}") from None


def _all_different(field: str, names: Iterable[object], where: str) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"{field}: {twice[0]!r} is there twice in {where}")
