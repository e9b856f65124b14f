"""Cells as a tree, and the quotas of virtual clusters: what `yarn-plugin cells show` prints."""

from collections import Counter
from collections.abc import Iterator, Mapping

from yarn_plugin.decide.mechanisms.buddy_cells.cells import PhysicalCell
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.health import bad_cells


def tree_lines(cluster: Cluster, jobs: Mapping[str, str]) -> Iterator[str]:
    """A line for each cell, but for those in cells that are free as a whole. `jobs`: the names of gangs."""
    for state in cluster.chains.values():
        yield f"chain {state.chain.name}"
        for top in cluster.forest.tops(state.chain.name):
            yield from _tree(top, 1, jobs)


def _tree(cell: PhysicalCell, depth: int, jobs: Mapping[str, str]) -> Iterator[str]:
    marks = []
    if cell.pinned:
        marks.append(f"pinned {cell.pinned}")
    if cell.bound is not None and cell.bound.parent is None:
        marks.append(f"bound: {cell.bound.cluster}")
    if cell.node is cell and cell.bad:
        marks.append("BAD")
    if cell.slot >= 0:
        marks.append("free")
    if cell.used and cell.used < cell.size:
        marks.append(f"{cell.used} of {cell.size} leaves held")
    holders = cell.level == 1 and [gang for gang in (cell.holder, cell.reserver) if gang is not None]
    marks += [f"{jobs.get(gang.name, gang.name)} (priority {gang.priority})" for gang in holders or ()]
    yield f"{'  ' * depth}{cell.type} {cell.address}{': ' + ', '.join(marks) if marks else ''}"
    if cell.used or cell.split or (cell.bad and cell.node is None) or any(child.pinned for child in cell.children):
        for child in cell.children:
            yield from _tree(child, depth + 1, jobs)


def quota_rows(cluster: Cluster, name: str) -> Iterator[tuple[object, ...]]:
    """Of a virtual cluster, a row for each level of a chain: how many cells its quota has, and how many are in use."""
    virtual = cluster.virtual[name]
    bad: object = bad_cells(cluster, virtual) or ""
    for partition in virtual.partitions():
        levels = Counter(root.level for root in partition.cells.roots)
        for level in sorted(levels, reverse=True):
            roots = partition.cells.roots_at(level)
            pinned = f" (pinned {roots[0].pinned})" if roots[0].pinned else ""
            used = sum(1 for root in roots if root.used)
            yield name, roots[0].chain.name, f"{roots[0].type}{pinned}", levels[level], used, bad
            bad = ""
