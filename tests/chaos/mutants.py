"""Mutants of the ledger of leases: `python -m tests.chaos.mutants` draws some by a seed and counts which are found.
With `--of lease` those of the controller of auctions.

A mutant is one change of one function in `decide/leases` or `decide/pools/lease`: another operator, a number off by
one, a dropped statement. The function's code is replaced while worlds are played, the cheapest first, until one fails.
"""

import argparse
import ast
import logging
import random
import sys
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.__main__ import play
from tests.chaos.cells import CellsWorld
from tests.chaos.edits import functions, recoded
from tests.chaos.restless import RestlessWorld
from tests.chaos.world import World

PACKAGES = {
    "leases": ("yarn_plugin.decide.leases", (RestlessWorld, CellsWorld)),
    "lease": ("yarn_plugin.decide.pools.lease", (World,)),
}
"""By name: the package, and the worlds that look for its mutants, the cheapest first."""

SWAPS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def changes(tree):
    """The changes of a module, in order: the function's name, the line, what, and what makes it."""
    for name, function in functions(tree):
        for node in ast.walk(function):
            for change in _changes_of(node):
                yield name, *change


def _changes_of(node):
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        new = SWAPS[type(node.ops[0])]
        yield node.lineno, f"{type(node.ops[0]).__name__} -> {new.__name__}", lambda: node.ops.__setitem__(0, new())
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        new = SWAPS[type(node.op)]
        yield node.lineno, f"{type(node.op).__name__} -> {new.__name__}", lambda: setattr(node, "op", new())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.lineno, "without not", lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield node.lineno, f"{node.value} + 1", lambda: setattr(node, "value", node.value + 1)
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        for place, one in enumerate(block) if isinstance(block, list) else ():
            is_call = isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)
            if is_call or isinstance(one, ast.AugAssign):
                yield one.lineno, "dropped", lambda block=block, place=place: block.__setitem__(place, ast.Pass())


def folder_of(package):
    return Path(__file__).parents[2] / Path(*package.split("."))


def drawn(package, count, seed):
    """Mutants: (module, number of the change, function, line, what)."""
    every = [
        (file.stem, number, name, line, what)
        for file in sorted(folder_of(package).glob("*.py"))
        for number, (name, line, what, _) in enumerate(changes(ast.parse(file.read_text())))
    ]
    return random.Random(seed).sample(every, count)


@contextmanager
def mutated(package, stem, number):
    """One function has the code of a mutant."""
    path = folder_of(package) / f"{stem}.py"
    tree = ast.parse(path.read_text())
    name, _, _, change = list(changes(tree))[number]
    change()
    with recoded(f"{package}.{stem}", name, tree, path):
        yield


def finder(package, kinds, stem, number, seeds):
    """The first world and seed that find a mutant, and what they say; None if none does."""
    with mutated(package, stem, number):
        for kind in kinds:
            for seed in seeds:
                _, problem = play(seed, replays=kind is RestlessWorld, kind=kind)
                if problem:
                    return kind, seed, problem
    return None


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--last", type=int, default=49, help="the last seed that is played")
    parser.add_argument("--of", choices=PACKAGES, default="leases", help="whose mutants")
    options = parser.parse_args()
    package, kinds = PACKAGES[options.of]
    logging.disable(logging.CRITICAL)
    found = 0
    for stem, number, name, line, what in drawn(package, options.count, options.seed):
        by = finder(package, kinds, stem, number, range(options.last + 1))
        found += by is not None
        said = "NOT found" if by is None else f"{by[0].__name__} {by[1]}: {by[2][:100]}"
        print(f"{stem}.py:{line} {'.'.join(name)} {what}: {said}", flush=True)
    print(f"{found} of {options.count} mutants are found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
