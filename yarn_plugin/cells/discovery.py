"""A first cells file, from the nodes that a ResourceManager reports: racks and node labels become cells.

A chain has one shape, so racks with another number of nodes, or nodes with another number of GPUs, are a chain of their
own. A node label is a type of GPU, named like the label.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from yarn_plugin.errors import BadInputError
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU
from yarn_plugin.quantities import count


@dataclass(frozen=True, slots=True)
class Shape:
    """What the racks of a chain have in common. `nodes`: of each rack; 0: nodes are in no rack."""

    label: str
    gpus: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Found:
    """The nodes with GPUs of a cluster: by shape, the racks and their hosts. `without`: hosts without GPUs."""

    racks: Mapping[Shape, Sequence[tuple[str, tuple[str, ...]]]]
    without: tuple[str, ...] = field(default=())


def find_cells(nodes: Sequence[Node], labels: Mapping[str, str], has_racks: bool = True) -> Found:
    """Group nodes. `labels`: of the nodes that have one, by id. `has_racks`: racks are cells.

    Raises:
        BadInputError: no node has a GPU, or a host has two NodeManagers with GPUs.
    """
    groups: dict[tuple[str, str, int], list[str]] = {}
    known: dict[str, str] = {}
    without: list[str] = []
    for node in sorted(nodes, key=lambda node: _natural(node.host)):
        gpus = node.capacity[GPU]
        if not gpus:
            without.append(node.host)
            continue
        if node.host in known:
            expected = f"must have one NodeManager with GPUs, not two ({known[node.host]}, {node.id})"
            raise BadInputError("--rm: host", node.host, expected)
        known[node.host] = node.id
        groups.setdefault((labels.get(node.id, ""), node.rack, gpus), []).append(node.host)
    if not groups:
        expected = f"no node reports {GPU}; see yarn.nodemanager.resource-plugins and resource-types.xml"
        raise BadInputError("--rm", count(len(nodes), "node"), expected)
    racks: dict[Shape, list[tuple[str, tuple[str, ...]]]] = {}
    for (label, rack, gpus), hosts in sorted(groups.items(), key=lambda group: group[0]):
        if has_racks:
            racks.setdefault(Shape(label, gpus, len(hosts)), []).append((rack, tuple(hosts)))
        else:
            racks.setdefault(Shape(label, gpus, 0), []).extend((host, (host,)) for host in hosts)
    return Found(racks, tuple(without))


def render(found: Found, virtual_clusters: Sequence[str]) -> str:
    """The file (TOML). Each virtual cluster gets an equal part of the top cells of each chain, as far as they go."""
    return "\n".join([*_comments(found), *_types(found), *_cells(found), *_quotas(found, virtual_clusters)])


def _comments(found: Found) -> Iterator[str]:
    gpus = sum(shape.gpus * len(hosts) for shape, racks in found.racks.items() for _, hosts in racks)
    nodes = sum(len(hosts) for racks in found.racks.values() for _, hosts in racks)
    yield f"# {count(gpus, 'GPU')} in {count(nodes, 'node')}, as the ResourceManager reported them; see docs/cells.md."
    if len(found.racks) > 1:
        yield f"# {len(found.racks)} chains, as nodes, racks or labels differ. A gang stays in one chain."
    if found.without:
        yield f"# Without GPUs, so not in here: {', '.join(found.without)}."
    yield ""


def _types(found: Found) -> Iterator[str]:
    written: set[str] = set()
    for shape in found.racks:
        rack, node, gpu = _names(shape, found)
        if shape.nodes:
            yield from _type(rack, node, shape.nodes, False)
        if node not in written:
            written.add(node)
            yield from _type(node, gpu, shape.gpus, True)


def _type(name: str, child: str, number: int, is_node: bool) -> Iterator[str]:
    yield f"[cell_types.{json.dumps(name)}]"
    yield f"child = {json.dumps(child)}"
    yield f"number = {number}"
    if is_node:
        yield "is_node = true"
    yield ""


def _cells(found: Found) -> Iterator[str]:
    for shape, racks in found.racks.items():
        rack, node, _ = _names(shape, found)
        for name, hosts in racks:
            yield "[[cells]]"
            yield f"type = {json.dumps(rack if shape.nodes else node)}"
            if shape.nodes:
                yield f"address = {json.dumps(name)}"
            yield f"nodes = {json.dumps(list(hosts))}"
            yield ""


def _quotas(cluster: Found, virtual_clusters: Sequence[str]) -> Iterator[str]:
    """Racks where each virtual cluster gets the same number of them, else nodes."""
    quotas: list[tuple[str, str, int]] = []
    for shape, racks in cluster.racks.items():
        rack, node, _ = _names(shape, cluster)
        each = len(virtual_clusters)
        if shape.nodes and len(racks) % each == 0:
            quotas.append((rack, rack, len(racks) // each))
        elif number := sum(len(hosts) for _, hosts in racks) // each:
            quotas.append((rack if shape.nodes else node, node, number))
    for name in virtual_clusters:
        yield f"[virtual_clusters.{json.dumps(name)}]"
        yield "cells = ["
        for chain, kind, number in quotas:
            of_chain = f"chain = {json.dumps(chain)}, " if len(cluster.racks) > 1 else ""
            yield f"  {{ {of_chain}type = {json.dumps(kind)}, number = {number} }},"
        yield "]"
        yield ""


def _names(shape: Shape, found: Found) -> tuple[str, str, str]:
    """The types of rack, node and GPU; they tell shapes apart where a label has several."""
    alike = [other for other in found.racks if other.label == shape.label]
    prefix = f"{shape.label}-" if shape.label else ""
    node = f"{prefix}node" + (f"-{shape.gpus}-gpus" if len({other.gpus for other in alike}) > 1 else "")
    is_same_node = [other for other in alike if other.gpus == shape.gpus]
    rack = f"{prefix}rack{node.removeprefix(f'{prefix}node')}" + (f"-{shape.nodes}-nodes" if is_same_node[1:] else "")
    return rack, node, shape.label or "gpu"


def _natural(host: str) -> list[int | str]:
    """A key that sorts n2 before n10: every second part is a number."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"([0-9]+)", host))]
