"""The topology file (TOML): cells above nodes, such as switches, and cells within them, such as sockets and GPUs.

A cell is a part of the cluster: a group of nodes, a node, or a part of a node.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from yarn_plugin.decide.topology import is_pattern
from yarn_plugin.model.resources import GPU, Resources, total_of
from yarn_plugin.model.topology import NODE, RACK, CellDescription, NodeDescription, TopologyDescription
from yarn_plugin.quantities import count
from yarn_plugin.toml_files import Section, matching, read_toml, validate
from yarn_plugin.validation import one_of

Name = Annotated[
    str, StringConstraints(max_length=100), matching(r"[A-Za-z0-9_.-]+", "must consist of letters, digits, _ . and -")
]
Above = Annotated[
    str,
    StringConstraints(max_length=200),
    matching(r"[A-Za-z0-9_./-]+", "must consist of letters, digits, _ . / and -"),
]
Host = Annotated[
    str, StringConstraints(max_length=255), matching(r"[^\s/:]+", "must be a host name or pattern, without a port")
]
Amount = Annotated[int, Field(ge=0, le=10**15)]


_ORDER = 'list the levels from the largest to the smallest, such as ["rack", "node"]'


class CellSection(Section):
    """A cell within a node. `gpus`: shorthand for one cell `gpu-INDEX` per index, with one GPU each."""

    name: Name
    capacity: dict[str, Amount] = Field(default_factory=dict)
    gpus: list[Annotated[int, Field(ge=0, le=1023)]] = Field(default_factory=list)
    cells: list["CellSection"] = Field(default_factory=list)

    @model_validator(mode="after")
    def _holds_its_parts(self) -> Self:
        _all_different("cells", [part.name for part in self.parts()], f"cell {self.name!r}")
        inner = total_of(part.description().capacity or Resources() for part in self.parts())
        for resource, amount in self.capacity.items():
            if inner[resource] > amount:
                raise ValueError(
                    f"cell {self.name!r}: its parts have {inner[resource]} {resource} in total, but {self.name!r} "
                    f"itself has only {amount}"
                )
        return self

    def parts(self) -> "list[CellSection]":
        """The cells directly in it, including GPUs."""
        return [*self.cells, *(CellSection(name=f"gpu-{index}", capacity={GPU: 1}) for index in self.gpus)]

    def description(self) -> CellDescription:
        """The cell as a value of the model; resources missing from its capacity are the sum of its parts."""
        parts = tuple(part.description() for part in self.parts())
        inner = total_of(part.capacity or Resources() for part in parts)
        return CellDescription(self.name, Resources.of({**inner.as_dict(), **self.capacity}), parts)

    def depth(self) -> int:
        """The number of its levels."""
        return 1 + max((part.depth() for part in self.parts()), default=0)

    def all_gpus(self) -> list[int]:
        """The indices of all GPUs in it, at any depth."""
        return [*self.gpus, *(index for cell in self.cells for index in cell.all_gpus())]


class NodesSection(Section):
    """Nodes of the same structure."""

    hosts: list[Host] = Field(min_length=1)
    within: dict[str, Above] = Field(default_factory=dict)
    cells: list[CellSection] = Field(default_factory=list)
    gpus: list[Annotated[int, Field(ge=0, le=1023)]] = Field(default_factory=list)
    gpu_model: Annotated[str, StringConstraints(max_length=100)] = ""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        parts = self.parts()
        _all_different("cells", [part.name for part in parts], "a node")
        gpus = [index for part in self.cells for index in part.all_gpus()]
        _all_different("gpus", [*self.gpus, *gpus], "a node")
        return self

    def parts(self) -> list[CellSection]:
        """The cells directly in each of the nodes, including GPUs."""
        return [*self.cells, *(CellSection(name=f"gpu-{index}", capacity={GPU: 1}) for index in self.gpus)]


class TopologyFile(Section):
    """The whole file."""

    levels: list[Name] = Field(default=[RACK, NODE])
    nodes: list[NodesSection] = Field(default_factory=list)

    @field_validator("levels")
    @classmethod
    def _known(cls, levels: list[str]) -> list[str]:
        _all_different("levels", levels, "the file")
        if NODE not in levels:
            raise ValueError(f"{NODE!r} is missing; {_ORDER}")
        if RACK in levels and levels.index(RACK) > levels.index(NODE):
            raise ValueError(f"{RACK!r} must precede {NODE!r}; {_ORDER}")
        return levels

    @model_validator(mode="after")
    def _fits(self) -> Self:
        above = self.levels[: self.levels.index(NODE)]
        deepest = len(self.levels) - len(above) - 1
        for number, node in enumerate(self.nodes):
            for level in node.within.keys() - above:
                expected = one_of(above, level) if above else f"`levels` has no level above {NODE!r}"
                raise ValueError(f"nodes #{number + 1}.within.{level}: {expected}")
            if max((part.depth() for part in node.parts()), default=0) > deepest:
                raise ValueError(
                    f"nodes #{number + 1}.cells: nested deeper than `levels` allows, which has "
                    f"{count(deepest, 'level')} below {NODE!r}"
                )
        hosts = [host for node in self.nodes for host in node.hosts]
        _all_different("hosts", hosts, "the file")
        self._check_above(above, {host for host in hosts if not is_pattern(host)})
        return self

    def _check_above(self, above: list[str], hosts: set[str]) -> None:
        """Every cell above nodes has one level, and one parent in each larger level."""
        level_of: dict[str, str] = {}
        parent_of: dict[tuple[str, str], str] = {}
        for node in self.nodes:
            for level, name in node.within.items():
                if level_of.setdefault(name, level) != level:
                    raise ValueError(f"{name!r} is a {level_of[name]} and a {level}; names must be unique")
                if name in hosts:
                    raise ValueError(f"{name!r} is a {level} and a host; names must be unique")
                for larger in above[: above.index(level)]:
                    if (
                        larger in node.within
                        and parent_of.setdefault((name, larger), node.within[larger]) != (node.within[larger])
                    ):
                        raise ValueError(
                            f"{level} {name!r} is in both {larger} {parent_of[name, larger]!r} and {larger} "
                            f"{node.within[larger]!r}; it must be in one"
                        )

    def description(self) -> TopologyDescription:
        """The topology as a value of the model."""
        return TopologyDescription(tuple(self.levels), tuple(self._nodes()))

    def _nodes(self) -> Iterator[NodeDescription]:
        for node in self.nodes:
            within = tuple((level, node.within[level]) for level in self.levels if level in node.within)
            parts = tuple(part.description() for part in node.parts())
            yield NodeDescription(tuple(node.hosts), within, parts, node.gpu_model)


def load_topology(path: Path) -> TopologyDescription:
    """Read a topology file.

    Raises:
        FileError: it cannot be read, or a value is invalid.
    """
    where = f"topology.file {str(path)!r}"
    return validate(TopologyFile, read_toml(where, path), where, keys_in="docs/operations.md").description()


def _all_different(field: str, names: Iterable[object], where: str) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"{field}: {twice[0]!r} occurs twice in {where}")
