"""The file of a cluster of cells (TOML), and configuration files of Microsoft's HiveD scheduler (YAML or JSON).

[cell_types.rack]                   # a rack consists of 2 nodes, a node of 8 GPUs; gpu has no entry: a leaf
child = "node"
number = 2
[cell_types.node]
child = "gpu"
number = 8
is_node = true                      # pods lie within one; its cells' addresses are host names

[[cells]]
type = "rack"
children = [{ address = "n1" }, { address = "n2", pinned = "prod-n2" }]
[[cells]]
type = "rack"
nodes = ["n3", "n4"]                # short for its nodes' addresses, in order

[virtual_clusters.prod]
pinned = ["prod-n2"]
cells = [{ type = "node", number = 1 }, { type = "gpu", number = 4 }]   # chain = "...": if a type is in several
[virtual_clusters.research]
cells = [{ type = "rack", number = 1 }]

[chain_order]                       # optional: in which order the chains of a leaf type are tried
gpu = ["rack"]
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from yarn_plugin.decide.mechanisms.buddy_cells.errors import CellFileError
from yarn_plugin.decide.mechanisms.buddy_cells.specification import (
    CellType,
    Chain,
    ClusterSpec,
    PhysicalSpec,
    Quota,
    VirtualClusterSpec,
    chains_of,
)
from yarn_plugin.spelling import must_be_one_of
from yarn_plugin.toml_files import NESTED_TOO_DEEP, FileError, Section, parse_toml, read_text, validate

_Name = Annotated[str, Field(min_length=1)]
_MAX_CHILDREN = 65_536


class _CellTypeTable(Section):
    child: _Name
    number: Annotated[int, Field(strict=True, ge=1, le=_MAX_CHILDREN)]
    is_node: bool = False


class _CellTable(Section):
    type: str = ""
    address: str = ""
    pinned: str = ""
    children: tuple["_CellTable", ...] = ()
    nodes: tuple[_Name, ...] = ()


class _QuotaTable(Section):
    type: _Name
    number: Annotated[int, Field(strict=True, ge=0)]
    chain: str = ""


class _VirtualClusterTable(Section):
    cells: tuple[_QuotaTable, ...] = ()
    pinned: tuple[_Name, ...] = ()


class _CellsFile(Section):
    cell_types: dict[_Name, _CellTypeTable]
    cells: Annotated[tuple[_CellTable, ...], Field(min_length=1)]
    virtual_clusters: dict[_Name, _VirtualClusterTable]
    chain_order: dict[str, tuple[_Name, ...]] = Field(default_factory=dict)


class _HivedTable(BaseModel):
    """A table of a HiveD configuration, with HiveD's own field names; fields of its other parts are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, extra="ignore", coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, values: Any) -> Any:
        """In HiveD's files null means absent, also for a whole table."""
        if values is None:
            return {}
        return (
            {name: value for name, value in values.items() if value is not None} if isinstance(values, dict) else values
        )


class _HivedCellType(_HivedTable):
    child_cell_type: _Name
    child_cell_number: Annotated[int, Field(ge=1, le=_MAX_CHILDREN)]
    is_node_level: bool = False


class _HivedCell(_HivedTable):
    cell_type: str = ""
    cell_address: str = ""
    pinned_cell_id: str = ""
    cell_children: tuple["_HivedCell", ...] = ()


class _HivedPhysical(_HivedTable):
    cell_types: dict[_Name, _HivedCellType]
    physical_cells: Annotated[tuple[_HivedCell, ...], Field(min_length=1)]


class _HivedQuota(_HivedTable):
    cell_type: _Name
    cell_number: Annotated[int, Field(ge=0)]


class _HivedPin(_HivedTable):
    pinned_cell_id: _Name


class _HivedVirtualCluster(_HivedTable):
    virtual_cells: tuple[_HivedQuota, ...] = ()
    pinned_cells: tuple[_HivedPin, ...] = ()


class _HivedFile(_HivedTable):
    physical_cluster: _HivedPhysical
    virtual_clusters: dict[_Name, _HivedVirtualCluster]
    chain_order: dict[str, tuple[_Name, ...]] = Field(default_factory=dict)


def read_cells(where: str, path: Path) -> ClusterSpec:
    """Read a cluster of cells. `where`: names the file in errors.

    A file that ends in .yaml, .yml or .json is read as a configuration of the HiveD scheduler.

    Raises:
        FileError: the file cannot be read, or a value in it is invalid.
    """
    return parse_cells(where, path, read_text(where, path))


def parse_cells(where: str, path: Path, text: str) -> ClusterSpec:
    """The cluster of cells that the text of a file of this name describes; see `read_cells`.

    Raises:
        FileError: a value in it is invalid.
    """
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        values = _parse_yaml(where, path, text)
        return _located(where, lambda: _of_hived(validate(_HivedFile, values, where)))
    values = parse_toml(where, text)
    return _located(where, lambda: _of_toml(validate(_CellsFile, values, where)))


def read_yaml(where: str, path: Path) -> Any:
    """Read a YAML or JSON file.

    Raises:
        FileError: it cannot be read, or is neither.
    """
    return _parse_yaml(where, path, read_text(where, path))


def _parse_yaml(where: str, path: Path, text: str) -> Any:
    try:
        return json.loads(text) if path.suffix.lower() == ".json" else yaml.load(text, Loader=_Loader)
    except json.JSONDecodeError as problem:
        raise FileError(f"{where}: not JSON: line {problem.lineno}, column {problem.colno}: {problem.msg}") from None
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        reason = getattr(problem, "problem", None) or " ".join(str(problem).split())
        raise FileError(f"{where}: not YAML: {place}{reason}") from None
    except RecursionError:
        raise FileError(f"{where}: {NESTED_TOO_DEEP}") from None


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Safe YAML without aliases, which can make a small file huge."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not supported", event.start_mark)
        return super().compose_node(parent, index)


def _located(where: str, build: Any) -> ClusterSpec:
    try:
        spec: ClusterSpec = build()
        _check_paths(spec.clusters)
        for position, cell in enumerate(spec.cells, 1):
            _check_hosts(cell, cell.type, spec.types, f"cells #{position}")
    except CellFileError as problem:
        raise FileError(f"{where}: {problem}") from None
    return spec


def _check_paths(clusters: Iterable[str]) -> None:
    """Check that jobs can name these virtual clusters: slashes separate the parts of a path."""
    for name in clusters:
        if not all(part and part.isprintable() and part == part.strip() for part in name.split("/")):
            expected = "must be a path of names, such as vision or vision/nightly, none of them empty"
            raise CellFileError("virtual_clusters", name, expected)


def _check_hosts(cell: PhysicalSpec, kind: str, types: Mapping[str, CellType], where: str) -> None:
    if kind not in types:
        return
    if types[kind].is_node:
        if not cell.address.isprintable() or " " in cell.address:
            raise CellFileError(f"{where}: address", cell.address, "must be a host name, without spaces")
        return
    for position, child in enumerate(cell.children, 1):
        _check_hosts(child, types[kind].child, types, f"{where}.{position}")


def _of_toml(file: _CellsFile) -> ClusterSpec:
    types = {name: CellType(each.child, each.number, each.is_node) for name, each in file.cell_types.items()}
    chains = _chains(types, [table.type for table in file.cells])
    cells = tuple(
        _physical(table, types, f"cells #{position}", table.type) for position, table in enumerate(file.cells, 1)
    )
    clusters = {
        name: VirtualClusterSpec(
            tuple(
                Quota(each.chain or _chain_of(each.type, chains, name), each.type, each.number) for each in table.cells
            ),
            table.pinned,
        )
        for name, table in file.virtual_clusters.items()
    }
    return ClusterSpec(types, cells, clusters, _order(file.chain_order, chains))


def _physical(table: _CellTable, types: Mapping[str, CellType], where: str, kind: str) -> PhysicalSpec:
    if table.nodes and table.children:
        raise CellFileError(f"{where}: nodes", " ".join(table.nodes), "must not be given beside children")
    if table.nodes:
        nodes = iter(table.nodes)
        spec = _with_nodes(kind, types, nodes, where, table)
        if rest := list(nodes):
            raise CellFileError(f"{where}: nodes", " ".join(table.nodes), f"{len(rest)} more than a {kind} has")
        return spec
    child = types[kind].child if kind in types else ""
    children = tuple(
        _physical(each, types, f"{where}.children #{position}", each.type or child)
        for position, each in enumerate(table.children, 1)
    )
    return PhysicalSpec(table.type, table.address, table.pinned, children)


def _with_nodes(
    kind: str, types: Mapping[str, CellType], nodes: Iterator[str], where: str, table: _CellTable | None
) -> PhysicalSpec:
    """A cell whose nodes have these host names, in order."""
    if kind not in types:
        raise CellFileError(f"{where}: nodes", kind, "cells of this type have no nodes")
    pinned = table.pinned if table is not None else ""
    cell_type = types[kind]
    if cell_type.is_node:
        node = next(nodes, None)
        if node is None:
            raise CellFileError(f"{where}: nodes", kind, "too few host names for its nodes")
        return PhysicalSpec(kind, node, pinned)
    children = tuple(_with_nodes(cell_type.child, types, nodes, where, None) for _ in range(cell_type.number))
    return PhysicalSpec(kind, table.address if table is not None else "", pinned, children)


def _of_hived(file: _HivedFile) -> ClusterSpec:
    physical = file.physical_cluster
    types = {
        name: CellType(each.child_cell_type, each.child_cell_number, each.is_node_level)
        for name, each in physical.cell_types.items()
    }
    cells = tuple(_hived_cell(cell) for cell in physical.physical_cells)
    chains = _chains(types, [cell.type for cell in cells])
    clusters = {
        name: VirtualClusterSpec(
            tuple(
                Quota(each.cell_type.split(".")[0], each.cell_type.split(".")[-1], each.cell_number)
                for each in table.virtual_cells
            ),
            tuple(each.pinned_cell_id for each in table.pinned_cells),
        )
        for name, table in file.virtual_clusters.items()
    }
    return ClusterSpec(types, cells, clusters, _order(file.chain_order, chains))


def _hived_cell(cell: _HivedCell) -> PhysicalSpec:
    return PhysicalSpec(
        cell.cell_type,
        cell.cell_address,
        cell.pinned_cell_id,
        tuple(_hived_cell(child) for child in cell.cell_children),
    )


def _chains(types: Mapping[str, CellType], tops: Sequence[str]) -> dict[str, Chain]:
    """The chains of top-level cells of these types."""
    for position, name in enumerate(tops, 1):
        if name not in types:
            raise CellFileError(f"cells #{position}: type", name, must_be_one_of(types, name))
    return chains_of(types, tops)


def _chain_of(type_name: str, chains: Mapping[str, Chain], cluster: str) -> str:
    """The only chain that has a type."""
    having = [name for name, chain in chains.items() if chain.level_of(type_name) is not None]
    field = f"virtual_clusters.{cluster}.cells: type"
    if not having:
        known = dict.fromkeys(each for chain in chains.values() for each in reversed(chain.types))
        raise CellFileError(field, type_name, must_be_one_of(known, type_name))
    if len(having) > 1:
        raise CellFileError(field, type_name, f"is in the chains {', '.join(having)}; must have a chain")
    return having[0]


def _order(given: Mapping[str, Sequence[str]], chains: Mapping[str, Chain]) -> dict[str, tuple[str, ...]]:
    """For each leaf type, its chains: those given first, then the others as configured."""
    order: dict[str, tuple[str, ...]] = {}
    for leaf_type in dict.fromkeys((*given, *(chain.leaf_type for chain in chains.values()))):
        having = [name for name, chain in chains.items() if chain.leaf_type == leaf_type]
        listed = given.get(leaf_type, ())
        if wrong := [name for name in listed if name not in having]:
            expected = f"chains of {leaf_type} are {', '.join(having)}" if having else "no cell has this leaf type"
            raise CellFileError(f"chain_order.{leaf_type}", wrong[0], expected)
        order[leaf_type] = tuple(dict.fromkeys((*listed, *having)))
    return {leaf_type: names for leaf_type, names in order.items() if names}
