"""What is installed beside the arbiter, and its settings: an error is one line, and nothing is taken silently."""

from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.pools.controller import Kind
from yarn_plugin.drive import registry
from yarn_plugin.drive.config import load
from yarn_plugin.drive.registry import ALLOCATORS, CONTROLLERS, LEASE_POLICIES, POLICIES, PluginError
from yarn_plugin.errors import BadInputError
from yarn_plugin.toml_files import FileError


@dataclass(frozen=True)
class Inner:
    """A part of the settings."""

    share: float = 1.0


@dataclass(frozen=True)
class Settings:
    """Settings of a controller."""

    round_s: float = 10.0
    limit: float | None = None
    parts: tuple[Inner, ...] = ()


class Plain:
    """Not a dataclass."""


@dataclass(frozen=True)
class Typed:
    """Its field takes the place of the tag."""

    type: str


KIND = Kind("lottery", lambda pool, registry: None, {"lottery.settings/1": Settings}, parameters=Settings)
LOTTERY = replace(BUILT_IN, kinds={**BUILT_IN.kinds, "lottery": KIND})


def configured(tmp_path, parameters, registry=LOTTERY, controller="lottery"):
    file = tmp_path / "arbiter.toml"
    file.write_text(f'[[pools]]\nname = "gpu"\nqueue = "root.gpu"\ncontroller = "{controller}"\n{parameters}')
    return load(file, registry).pools[0].parameters


def test_settings_are_of_the_type_that_the_controller_declares(tmp_path):
    given = "[pools.parameters]\nround_s = 5\nparts = [{ share = 0.5 }]"
    assert configured(tmp_path, given) == Settings(5.0, None, (Inner(0.5),))
    assert configured(tmp_path, "") == Settings()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("[pools.parameters]\nrounds = 5", "rounds"),
        ("[pools.parameters]\nparts = [{ shares = 1 }]", "parts.0.shares"),
        ('[pools.parameters]\nround_s = "soon"', "round_s"),
        ("[pools.parameters]\nround_s = inf", "finite"),
        ("[pools.parameters]\nlimit = nan", "finite"),
        ('[pools.parameters]\ntype = "lottery.settings/1"', "type"),
        ("parameters = 5", "table"),
    ],
)
def test_settings_that_are_wrong_or_unknown_are_refused_in_a_line(tmp_path, given, problem):
    with pytest.raises(FileError, match=problem) as refused:
        configured(tmp_path, given)
    assert "parameters" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a = " + b"[" * 100_000])
def test_a_file_that_is_not_toml_is_refused_in_a_line(tmp_path, content):
    file = tmp_path / "arbiter.toml"
    file.write_bytes(content)
    with pytest.raises(FileError):
        load(file)


def test_many_problems_are_cut_short(tmp_path):
    file = tmp_path / "arbiter.toml"
    file.write_text("".join(f"x{number} = 1\n" for number in range(1000)) + f'watchdog_s = "{"x" * 5000}"')
    with pytest.raises(FileError, match="and 991 more") as refused:
        load(file)
    assert len(str(refused.value)) < 2000


# Entry points.


def kind(name="lottery", tags=None, **more):
    return Kind(name, lambda pool, registry: None, {"lottery/1": Inner} if tags is None else tags, **more)


@pytest.fixture
def install(monkeypatch):
    def install(group, **found):
        points = [EntryPoint(name, f"tests.unit.test_installed:{name}", group) for name in found]
        monkeypatch.setattr(registry, "entry_points", lambda group: [one for one in points if one.group == group])

        def loaded(point):
            if isinstance(found[point.name], Exception):
                raise found[point.name]
            return found[point.name]

        monkeypatch.setattr(EntryPoint, "load", loaded)

    return install


def test_installed_plugins_are_found(install):
    install(CONTROLLERS, lottery=kind())
    assert registry.installed().kinds.keys() == {"share", "lease", "ledger", "lottery"}


def test_installed_lease_policies_are_found(install):
    policy = SimpleNamespace(allocate=lambda problem: ())
    install(LEASE_POLICIES, idle=policy)
    found = registry.installed()
    assert found.lease_policy("idle") is policy
    assert found.lease_policy("tiresias") is BUILT_IN.lease_policy("tiresias")


def allocator(name="lottery", tags=None, **more):
    given = {"lottery/1": Inner} if tags is None else tags
    return AllocatorKind(name, lambda settings, kinds: None, given, **more)


def test_installed_allocators_are_found_with_their_types(install):
    install(ALLOCATORS, lottery=allocator())
    found = registry.installed()
    assert found.allocator("lottery").name == "lottery"
    assert found.tags()["lottery/1"] is Inner
    with pytest.raises(BadInputError, match=r"allocator 'raffle': not installed; choose one of .*lottery"):
        found.allocator("raffle")


@pytest.mark.parametrize(
    ("group", "found", "problem"),
    [
        (ALLOCATORS, {"a": kind()}, r"must be a .*\.AllocatorKind"),
        (ALLOCATORS, {"a": allocator(), "b": allocator()}, "the name 'lottery' is already in use"),
        (ALLOCATORS, {"a": allocator(tags={"ledger/1": Inner})}, "allocator 'lottery'.*'ledger/1' is already used"),
        (ALLOCATORS, {"a": allocator(messages=frozenset({"bid"}))}, "allocator 'lottery'.*'bid'"),
        (ALLOCATORS, {"a": allocator(parameters=Settings)}, "Settings, has no journal tag"),
        (CONTROLLERS, {"a": Plain()}, r"must be a .*\.Kind"),
        (CONTROLLERS, {"a": ImportError("no module\nnamed x")}, "cannot be loaded: ImportError: no module named x"),
        (CONTROLLERS, {"a": kind("share")}, "share"),
        (CONTROLLERS, {"a": kind(), "b": kind()}, "lottery"),
        (CONTROLLERS, {"a": kind(tags={"State": Inner})}, "'State' is already used"),
        (CONTROLLERS, {"a": kind(), "b": kind("other", {"other/1": Inner})}, "Inner has two journal tags, 'lottery/1'"),
        (CONTROLLERS, {"a": kind(), "b": kind("other", {"lottery/1": Settings})}, "'lottery/1' is already used"),
        (CONTROLLERS, {"a": kind(messages=frozenset({"bid"}))}, "'bid'"),
        (CONTROLLERS, {"a": kind(solvers={"problem": print})}, "'problem'"),
        (CONTROLLERS, {"a": kind(tags={"bid": Plain}, messages=frozenset({"bid"}))}, "Plain, must be a dataclass"),
        (CONTROLLERS, {"a": kind(tags={"bid": Typed})}, "`type`"),
        (CONTROLLERS, {"a": kind(tags={"lottery/1": Plain})}, "cannot be journaled"),
        (POLICIES, {"a": Plain()}, "must have a function `decide`"),
        (LEASE_POLICIES, {"a": Plain()}, "must have a function `allocate`"),
        (LEASE_POLICIES, {"tiresias": SimpleNamespace(allocate=print)}, "the name 'tiresias' is already in use"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_line_that_names_it(install, group, found, problem):
    install(group, **found)
    with pytest.raises(PluginError, match=problem) as refused:
        registry.installed()
    assert "\n" not in str(refused.value)
