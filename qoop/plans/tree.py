"""Join trees over the relations of one graph."""

from collections.abc import Iterator
from dataclasses import dataclass

from qoop.plans.graph import RelationSet


@dataclass(frozen=True, slots=True)
class Join:
    """A join of two parts. `relations` is the union of theirs."""

    left: "Tree"
    right: "Tree"
    relations: RelationSet


@dataclass(frozen=True, slots=True)
class Leaf:
    """One relation with its filters."""

    relations: RelationSet


Tree = Leaf | Join


def joined(left: Tree, right: Tree) -> Join:
    """The join of two parts."""
    return Join(left, right, left.relations | right.relations)


def left_deep(relations: int) -> Tree:
    """Relations 0, 1, 2, ... joined one after the other."""
    tree: Tree = Leaf(1)
    for i in range(1, relations):
        tree = joined(tree, Leaf(1 << i))
    return tree


def nodes(tree: Tree) -> Iterator[Tree]:
    """The parts of a tree, each after the parts below it; the tree itself last."""
    if isinstance(tree, Join):
        yield from nodes(tree.left)
        yield from nodes(tree.right)
    yield tree


def joins(tree: Tree) -> Iterator[Join]:
    """The joins of a tree, lower ones first."""
    for node in nodes(tree):
        if isinstance(node, Join):
            yield node


def shape(tree: Tree) -> frozenset[RelationSet]:
    """What makes two trees the same plan: the sets of relations that are joined on the way, whatever the sides."""
    return frozenset(join.relations for join in joins(tree))
