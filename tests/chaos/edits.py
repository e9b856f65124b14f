"""Functions with other code for a while."""

import ast
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path


class EditError(ValueError):
    """An edit does not apply to the present code."""


@dataclass(frozen=True)
class Edit:
    """`function`: its name in the module, with the class. `old`: what is exactly once in it, and becomes `new`."""

    module: str
    function: str
    old: str
    new: str


def functions(tree):
    """The functions of a module and the methods of its classes, with their names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield (node.name,), node
        elif isinstance(node, ast.ClassDef):
            yield from (((node.name, one.name), one) for one in node.body if isinstance(one, ast.FunctionDef))


@contextmanager
def edited(module, function, edits):
    """A function has the code that edits of its text make.

    Raises:
        EditError: the function is not there, or what is to be replaced is not in it exactly once.
    """
    path, name = Path(import_module(module).__file__), tuple(function.split("."))
    text = path.read_text()
    node = dict(functions(ast.parse(text))).get(name)
    if node is None:
        raise EditError(f"{module}: there is no {function}")
    source = ast.get_source_segment(text, node)
    changed = source
    for edit in edits:
        if changed.count(edit.old) != 1:
            raise EditError(f"{module}.{function}: {edit.old!r} is {changed.count(edit.old)} times in it, not once")
        changed = changed.replace(edit.old, edit.new)
    with recoded(module, name, ast.parse(text.replace(source, changed)), path):
        yield


@contextmanager
def recoded(module, name, tree, path):
    """A function of a module has the code that it has in this tree."""
    code = compile(ast.fix_missing_locations(tree), str(path), "exec")
    for part in name:
        code = next(one for one in code.co_consts if hasattr(one, "co_name") and one.co_name == part)
    function = import_module(module)
    for part in name:
        function = vars(function)[part]
    function = getattr(function, "fget", function)
    before, function.__code__ = function.__code__, code
    try:
        yield
    finally:
        function.__code__ = before
