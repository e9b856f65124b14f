"""The rules of the architecture, read off the imports: which package may import which, and what pure ones may not."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
PACKAGES = ("yarn_plugin", "qoop", "themis_agent", "tpcds")
APPLICATIONS = ("qoop", "themis_agent", "tpcds")

PURE = (
    "yarn_plugin.model",
    "yarn_plugin.decide",
    "qoop.as_written",
    "qoop.doctor.findings",
    "qoop.plans",
    "qoop.equivalence",
    "qoop.estimate",
    "qoop.replan",
    "themis_agent.search",
    "themis_agent.bids",
    "themis_agent.agent",
    "themis_agent.division",
    "themis_agent.trial.reading",
    "themis_agent.communication.baselines",
    "themis_agent.communication.capture",
    "themis_agent.communication.costs",
    "themis_agent.communication.iteration",
    "themis_agent.communication.modelled",
    "themis_agent.communication.motifs",
    "themis_agent.communication.options",
    "themis_agent.communication.order",
    "themis_agent.communication.plan",
    "themis_agent.communication.planning",
    "themis_agent.communication.schedule",
    "themis_agent.communication.search",
    "themis_agent.yarn.containers",
    "themis_agent.yarn.hosting",
    "themis_agent.yarn.outbox",
)
"""Rooms without input, output, time or threads: they decide, and the same inputs give the same decisions."""

PURE_TOO = (
    "yarn_plugin.checks",
    "yarn_plugin.errors",
    "yarn_plugin.quantities",
    "yarn_plugin.spelling",
    "yarn_plugin.validation",
    "qoop.errors",
    "themis_agent.errors",
    "themis_agent.communication.errors",
)
"""What pure rooms may use beside each other; itself without input and output."""

ALLOWED = {
    *(
        "abc",
        "bisect",
        "collections",
        "dataclasses",
        "decimal",
        "enum",
        "fnmatch",
        "fractions",
        "functools",
        "graphlib",
    ),
    *("hashlib", "heapq", "itertools", "math", "operator", "re", "statistics", "string", "types", "typing", "numpy"),
}
"""Of the standard library and beyond, what neither reads nor writes, keeps no time and starts no thread."""

ALSO_ALLOWED = {
    "yarn_plugin.decide.policies": {"importlib"},
    "yarn_plugin.decide.mechanisms.matching.flow": {"ortools"},
    "yarn_plugin.decide.mechanisms.packing.patterns": {"scipy"},
    "yarn_plugin.decide.mechanisms.interference.predictor": {"sklearn"},
    "qoop.equivalence.expression": {"datetime"},
    "themis_agent.agent.messages": {"pydantic"},
    "themis_agent.trial.reading.pairs": {"ast", "json"},
}
"""A policy is a module found by its name. Literals are read as dates. Messages are validated. Lines of a log may be
JSON."""

CHANGING = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}

KEEPS_A_CACHE = ("themis_agent.bids.free_gpus",)
"""Its agents of a simulation share the last offer, and have no owner in common."""

FORBIDDEN_CALLS = {"open", "print", "input", "exec", "eval", "__import__"}

PUBLISHED = (
    "yarn_plugin.errors",
    "yarn_plugin.checks",
    "yarn_plugin.console",
    "yarn_plugin.control_characters",
    "yarn_plugin.field_problems",
    "yarn_plugin.files",
    "yarn_plugin.hadoop_files",
    "yarn_plugin.lazy_group",
    "yarn_plugin.spelling",
    "yarn_plugin.quantities",
    "yarn_plugin.toml_files",
    "yarn_plugin.validation",
    "yarn_plugin.api.client",
    "yarn_plugin.api.environment",
    "yarn_plugin.api.jobs",
    "yarn_plugin.api.records",
    "yarn_plugin.api.wire",
    "yarn_plugin.journal",
    "yarn_plugin.observe.bounded",
    "yarn_plugin.observe.fields",
    "yarn_plugin.observe.resource_manager",
    "yarn_plugin.observe.nodes",
    "yarn_plugin.observe.queue_tree",
    "yarn_plugin.report",
    "yarn_plugin.serving",
    "yarn_plugin.sharing",
    "yarn_plugin.simulation.application",
    "yarn_plugin.simulation.leasing",
    "yarn_plugin.simulation.training.apps",
    "yarn_plugin.model.gpus",
    "yarn_plugin.model.auction",
    "yarn_plugin.model.journaled",
    "yarn_plugin.model.resources",
)
"""What applications may use of the cluster side."""

KNOWS_SQLGLOT = ("qoop.parsing",)
KNOWS_SPARK = (
    "qoop.engine",
    "qoop.api",
    "qoop.installed",
    "qoop.joined",
    "qoop.notebook",
    "qoop.session_query",
    "qoop.submit.application",
    "qoop.submit.driver",
    "qoop.scripts.command",
    "qoop.scripts.printed",
    "qoop.scripts.runner",
    "qoop.scripts.shell",
    "qoop.server.pools",
    "qoop.server.spark",
    "qoop.server.start",
)

DUMPING_GROUNDS = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "managers"}


@dataclass(frozen=True)
class Module:
    """A module of the house: its dotted name, and its source as a tree."""

    name: str
    path: Path
    tree: ast.Module

    def imports(self) -> Iterator[str]:
        """Every module or name that it imports, wherever in it; relative ones made absolute."""
        package = self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package.rsplit(".", node.level - 1)[0] if node.level else ""
                source = ".".join(filter(None, (base, node.module)))
                yield from (f"{source}.{alias.name}" for alias in node.names)


def read(root: Path, package: str) -> Iterator[Module]:
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield Module(name, path, ast.parse(path.read_text(), str(path)))


def within(name: str, rooms: tuple[str, ...]) -> bool:
    """Whether a name is one of these rooms, or lies in one."""
    return any(name == room or name.startswith(room + ".") for room in rooms)


def is_ours(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


def breaches(modules: list[Module]) -> list[str]:
    """Everything that breaks a rule, a line each."""
    rules = (impurities, caches, insides, upwards, engines, services, names)
    return [breach for module in modules for rule in rules for breach in rule(module)]


def impurities(module: Module) -> Iterator[str]:
    """Pure rooms import nothing that does input or output, keeps time or starts threads."""
    if not within(module.name, PURE):
        return
    allowed = ALLOWED | ALSO_ALLOWED.get(module.name, set())
    for name in module.imports():
        if is_ours(name):
            if not within(name, PURE + PURE_TOO):
                yield f"{module.name} is pure and imports {name}"
        elif name.partition(".")[0] not in allowed or ".random" in name:
            yield f"{module.name} is pure and imports {name}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            yield f"{module.name} is pure and calls {node.func.id}"
        if isinstance(node, ast.Attribute) and node.attr == "random":
            yield f"{module.name} is pure and draws at random"


def caches(module: Module) -> Iterator[str]:
    """Pure rooms remember nothing at module level: whoever calls them owns what they derive."""
    if not within(module.name, PURE) or within(module.name, KEEPS_A_CACHE):
        return
    ours = {name.id for node in module.tree.body for name in assigned(node)}
    for function in ast.walk(module.tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        arguments = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
        local = {name.id for node in ast.walk(function) for name in assigned(node)} | arguments
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                yield f"{module.name} keeps {', '.join(node.names)} at module level"
            if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                changed = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
                changed = node.func.value
            else:
                continue
            if isinstance(changed, ast.Name) and changed.id in ours - local:
                yield f"{module.name} changes {changed.id} at module level"


def assigned(node: ast.AST) -> Iterator[ast.Name]:
    """The names that a statement or an expression binds."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    for target in targets:
        if isinstance(target, ast.AST):
            yield from (
                name for name in ast.walk(target) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            )


def insides(module: Module) -> Iterator[str]:
    """Applications use the cluster side's published rooms, never its insides."""
    if not within(module.name, APPLICATIONS):
        return
    for name in module.imports():
        if within(name, ("yarn_plugin",)) and not within(name, PUBLISHED):
            yield f"{module.name} imports {name}, which is not published"


def upwards(module: Module) -> Iterator[str]:
    """The cluster side knows no application."""
    if within(module.name, ("yarn_plugin",)):
        yield from (f"{module.name} imports {name}" for name in module.imports() if within(name, APPLICATIONS))


def engines(module: Module) -> Iterator[str]:
    """Within qoop one package uses the SQL parser, and one uses Spark."""
    if not within(module.name, ("qoop",)):
        return
    for name in module.imports():
        if within(name, ("sqlglot",)) and not within(module.name, KNOWS_SQLGLOT):
            yield f"{module.name} imports {name}"
        if within(name, ("pyspark", "py4j")) and not within(module.name, KNOWS_SPARK):
            yield f"{module.name} imports {name}"


def services(module: Module) -> Iterator[str]:
    """The daemon starts the HTTP service; no other package imports its internals."""
    if not within(module.name, ("yarn_plugin.drive",)):
        yield from (
            f"{module.name} imports {name}" for name in module.imports() if within(name, ("yarn_plugin.api.service",))
        )


def names(module: Module) -> Iterator[str]:
    """Modules are named by what they are about."""
    for part in module.name.split("."):
        if part in DUMPING_GROUNDS:
            yield f"{module.name}: {part!r} says nothing of what is in it"


@pytest.fixture(scope="module")
def house() -> list[Module]:
    return [module for package in PACKAGES for module in read(HOUSE, package)]


def test_the_rules_of_the_house_hold(house):
    assert breaches(house) == []


def test_there_is_a_house(house):
    rooms = {module.name for module in house}
    assert {"yarn_plugin.decide.arbiter", "yarn_plugin.model.share", "qoop.replan.machine"} <= rooms
    assert not [room for room in PUBLISHED if room not in rooms]


def test_the_client_drags_in_nothing_of_the_service(house):
    by_name = {module.name: module for module in house}
    seen, waiting = set(), ["yarn_plugin.api.client"]
    while waiting:
        module = by_name.get(waiting.pop())
        if module is None or module.name in seen:
            continue
        seen.add(module.name)
        # `from package import name` may name a module, or something in one.
        waiting += [part for name in module.imports() if is_ours(name) for part in (name, name.rpartition(".")[0])]
    parts = (
        "api",
        "api.client",
        "api.environment",
        "api.jobs",
        "api.records",
        "api.server_sent",
        "api.wire",
        "control_characters",
        "errors",
        "model.resources",
        "quantities",
        "spelling",
        "validation",
    )
    assert seen == {f"yarn_plugin.{part}" for part in parts}


@pytest.mark.parametrize(
    ("path", "source", "breach"),
    [
        ("yarn_plugin/decide/x.py", "import time", "is pure and imports time"),
        ("yarn_plugin/decide/x.py", "from os import path", "is pure and imports os.path"),
        ("yarn_plugin/model/x.py", "def f():\n    import threading", "is pure and imports threading"),
        (
            "yarn_plugin/decide/x.py",
            "from yarn_plugin.observe import translate",
            "pure and imports yarn_plugin.observe",
        ),
        ("yarn_plugin/decide/x.py", "from ..journal import codec", "is pure and imports yarn_plugin.journal.codec"),
        ("yarn_plugin/decide/x.py", "from yarn_plugin import console", "is pure and imports yarn_plugin.console"),
        ("yarn_plugin/decide/x.py", "import importlib", "is pure and imports importlib"),
        ("qoop/estimate/x.py", "import pandas", "is pure and imports pandas"),
        ("qoop/estimate/x.py", "from numpy.random import rand", "is pure and imports numpy.random.rand"),
        ("qoop/estimate/x.py", "import numpy as np\nx = np.random.rand()", "draws at random"),
        ("qoop/plans/x.py", "open('a')", "is pure and calls open"),
        ("yarn_plugin/decide/x.py", "_last = None\ndef f():\n    global _last", "keeps _last at module level"),
        ("yarn_plugin/decide/x.py", "_known: dict = {}\ndef f(a):\n    _known[a] = 1", "changes _known at module"),
        ("qoop/estimate/x.py", "known = set()\ndef f(a):\n    known.add(a)", "changes known at module level"),
        ("qoop/x.py", "from yarn_plugin.decide import arbiter", "not published"),
        ("tpcds/x.py", "import yarn_plugin.embedded.cluster", "not published"),
        ("themis_agent/x.py", "from yarn_plugin.api import service", "not published"),
        ("yarn_plugin/report/x.py", "import qoop.plans", "imports qoop.plans"),
        ("qoop/plans/x.py", "import sqlglot", "qoop.plans.x imports sqlglot"),
        (
            "qoop/run/query_run.py",
            "from pyspark.sql import SparkSession",
            "qoop.run.query_run imports pyspark.sql.SparkSession",
        ),
        (
            "yarn_plugin/cli/x.py",
            "from yarn_plugin.api.service import create",
            "imports yarn_plugin.api.service.create",
        ),
        ("yarn_plugin/utils.py", "", "'utils' says nothing"),
        ("qoop/helpers/x.py", "", "'helpers' says nothing"),
    ],
)
def test_each_rule_finds_what_breaks_it(tmp_path, path, source, breach):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(source)
    found = breaches([module for package in PACKAGES for module in read(tmp_path, package)])
    assert any(breach in line for line in found), found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("yarn_plugin/decide/x.py", "from yarn_plugin.errors import BadInputError\nfrom ..model import share"),
        ("yarn_plugin/decide/policies/__init__.py", "from importlib import import_module"),
        (
            "qoop/estimate/x.py",
            "import numpy as np\nfrom qoop.plans.plan import Plan\nfrom qoop.errors import QoopError",
        ),
        (
            "qoop/x.py",
            "from yarn_plugin import console\nfrom yarn_plugin.api import wire\nimport yarn_plugin.report.html",
        ),
        ("qoop/engine/x.py", "import pyspark\nimport py4j.protocol"),
        ("qoop/api.py", "import pyspark"),
        ("tpcds/x.py", "import sqlglot\nimport pyspark"),
        ("yarn_plugin/drive/x.py", "from yarn_plugin.api.service import create"),
        ("yarn_plugin/observe/resource_manager.py", "import time"),
        (
            "yarn_plugin/decide/x.py",
            "known = {1: 2}\ndef f(known):\n    known[1] = 3\n    return [known for known in ()]",
        ),
    ],
)
def test_what_is_allowed_is_let_through(tmp_path, path, source):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(source)
    assert breaches([module for package in PACKAGES for module in read(tmp_path, package)]) == []
