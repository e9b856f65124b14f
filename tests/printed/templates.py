"""The texts in the product's source: what each error, log line and message looks like, values as {placeholders}."""

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("yarn_plugin", "qoop", "themis_agent", "tpcds")
LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
CONSOLE_METHODS = {"print", "_print", "echo", "warn", "_warn"}
PROBLEMS = {"Problem", "Refused"}
WITH_FIELD = {"BadInputError": 0, "Problem": 0, "Refused": 1}
"""Calls whose arguments are a field, a value and what is expected, from this position on."""

MIN_SPACES = 2
"""A literal with so many spaces is taken to be a sentence."""


@dataclass(frozen=True)
class Template:
    """A text in a module: `kind` is one of error, problem, log, console, other; `source`: what it is given to."""

    kind: str
    module: str
    line: int
    source: str
    text: str


def all_templates(packages=PACKAGES):
    """The templates of every module."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield from templates_of(path.read_text(), str(path.relative_to(ROOT)))


def templates_of(source, module):
    """The templates of one module."""
    collector = _Collector(module)
    tree = ast.parse(source)
    collector.scopes.append(_assignments(tree.body))
    collector.visit(tree)
    return sorted(collector.found, key=lambda one: one.line)


class _Collector(ast.NodeVisitor):
    """Visits a module; `scopes`: the values assigned to names, of the module and of each function around."""

    def __init__(self, module):
        self.module, self.found, self.scopes, self.error_class = module, [], [], None

    def visit_FunctionDef(self, node):
        self.scopes.append(_assignments(node.body))
        for child in node.body[1:] if ast.get_docstring(node) else node.body:
            self.visit(child)
        self.scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node):
        self.error_class, before = node.name if node.name.endswith("Error") else None, self.error_class
        for child in node.body[1:] if ast.get_docstring(node) else node.body:
            self.visit(child)
        self.error_class = before

    def visit_Expr(self, node):
        if not isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def visit_Raise(self, node):
        if isinstance(node.exc, ast.Name) and node.exc.id.endswith("Error") and node.exc.id[0].isupper():
            self._add("error", node, node.exc.id, "")
        self.generic_visit(node)

    def visit_Call(self, node):
        kind, name = self._kind(node.func)
        if kind is None:
            self.generic_visit(node)
        elif text := self._arguments(node, name):
            self._add(kind, node, name, text)
        elif kind in ("error", "problem") and not node.args and not node.keywords:
            self._add(kind, node, name, "")

    def visit_Constant(self, node):
        if isinstance(node.value, str) and node.value.count(" ") >= MIN_SPACES:
            self._add("other", node, "text", node.value)

    def visit_JoinedStr(self, node):
        text = self._text(node)
        if text.count(" ") >= MIN_SPACES and any(isinstance(one, ast.Constant) for one in node.values):
            self._add("other", node, "text", text)

    def _add(self, kind, node, source, text):
        self.found.append(Template(kind, self.module, node.lineno, source, text))

    def _kind(self, function):
        """What a call makes, and its name."""
        name = ""
        if isinstance(function, ast.Attribute):
            name = function.attr
        elif isinstance(function, ast.Name):
            name = function.id
        if name in PROBLEMS:
            return "problem", name
        if name.endswith("Error") and name.lstrip("_")[:1].isupper():
            return "error", name
        if name == "__init__" and self.error_class and _receiver(function) == "super()":
            return "error", self.error_class
        if name in LOG_METHODS and _receiver(function).rpartition(".")[2].strip("_") in ("log", "logger"):
            return "log", name
        if name in CONSOLE_METHODS:
            return "console", name
        return None, name

    def _arguments(self, node, name):
        """The arguments of a call as one text; a field, a value and what is expected as the product joins them."""
        named = {keyword.arg: self._text(keyword.value) for keyword in node.keywords}
        given = [self._text(one) for one in node.args]
        if name in WITH_FIELD:
            given = given[WITH_FIELD[name] :] or [named.get(one, "") for one in ("field", "value", "expected")]
            return ": ".join(filter(None, [" ".join(given[:-1]).strip(), given[-1] or named.get("expected", "")]))
        wanted = [text for key, text in named.items() if key not in _STYLE]
        return ", ".join(text for text in [*given, *wanted] if text)

    def _text(self, node, depth=0):
        """An expression as a template."""
        match node:
            case ast.Constant(str() as text):
                return text
            case ast.Constant(value):
                return "" if value is None else repr(value)
            case ast.JoinedStr(values):
                return "".join(self._text(one) for one in values)
            case ast.BinOp(left, ast.Add(), right):
                return self._text(left) + self._text(right)
            case ast.IfExp(_, one, other):
                return " | ".join(filter(None, (self._text(one), self._text(other))))
            case ast.Name(name) if depth < 2 and (known := self._known(name)):
                return " | ".join(dict.fromkeys(self._text(one, depth + 1) for one in known))
            case ast.FormattedValue(value):
                return f"{{{ast.unparse(value)}}}"
            case _:
                return f"{{{ast.unparse(node)}}}"

    def _known(self, name):
        """The texts that a name may stand for."""
        for scope in reversed(self.scopes):
            if name in scope:
                return [
                    one for one in scope[name] if isinstance(one, (ast.Constant, ast.JoinedStr, ast.IfExp, ast.BinOp))
                ]
        return []


_STYLE = {"err", "soft_wrap", "markup", "exc_info", "status_code", "headers", "style", "end", "nl", "stack_info"}


def _receiver(function):
    """What a function is called on, as it is written; unparsed only where it matters, as that takes long."""
    return ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""


def _assignments(body):
    """Each name that is assigned in these statements, with its values."""
    found = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, []).append(node.value)
    return found
