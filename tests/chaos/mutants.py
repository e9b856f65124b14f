"""Mutants of the lease controller: `python -m tests.chaos.mutants` draws some by a seed and counts which are found.

A mutant is one change of one file in `decide/pools/lease`: another operator, a number off by one, a dropped statement.
Each is played in a process of its own, which is given the changed module when it imports it.
"""

import argparse
import ast
import importlib.util
import random
import subprocess
import sys
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOM = ROOT / "yarn_plugin" / "decide" / "pools" / "lease"

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
    """The changes of a module, in order: (line, what, make it)."""
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        for node in ast.walk(function):
            yield from _changes_of(node)


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


def drawn(count, seed):
    """Mutants: (file, number of the change, line, what)."""
    every = [
        (file.name, number, line, what)
        for file in sorted(ROOM.glob("*.py"))
        for number, (line, what, _) in enumerate(changes(ast.parse(file.read_text())))
    ]
    return random.Random(seed).sample(every, count)


class Changed(MetaPathFinder, Loader):
    """Finds one module, changed."""

    def __init__(self, file, number):
        self.name, self.path, self.number = f"yarn_plugin.decide.pools.lease.{Path(file).stem}", ROOM / file, number

    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def exec_module(self, module):
        tree = ast.parse(self.path.read_text())
        list(changes(tree))[self.number][2]()
        exec(compile(ast.fix_missing_locations(tree), str(self.path), "exec"), module.__dict__)


def play_one(file, number, last):
    """Print the first seed that finds a mutant."""
    sys.meta_path.insert(0, Changed(file, number))
    from tests.chaos.__main__ import play

    for seed in range(last + 1):
        _, problem = play(seed, replays=False)
        if problem:
            print(f"seed {seed}: {problem}")
            return 1
    return 0


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--last", type=int, default=49, help="the last seed that is played")
    parser.add_argument("--play", nargs=2, metavar=("FILE", "NUMBER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        return play_one(options.play[0], int(options.play[1]), options.last)
    found = 0
    for file, number, line, what in drawn(options.count, options.seed):
        command = [
            sys.executable,
            "-m",
            "tests.chaos.mutants",
            "--play",
            file,
            str(number),
            "--last",
            str(options.last),
        ]
        played = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        found += played.returncode != 0
        said = (played.stdout.strip() or played.stderr.strip()).splitlines()
        print(f"{file}:{line} {what}: " + (said[-1][:150] if played.returncode else "NOT found"), flush=True)
    print(f"{found} of {options.count} mutants are found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
