"""The installed controllers, policies and allocators, and the tags of their types in a journal."""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from yarn_plugin.decide import commands, events
from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.pools import commands as pool_commands
from yarn_plugin.decide.pools import inputs
from yarn_plugin.decide.pools.controller import Kind, Registry
from yarn_plugin.decide.state import State
from yarn_plugin.errors import ReportedError, describe
from yarn_plugin.journal.codec import Codec

CONTROLLERS, POLICIES = "yarn_plugin.controllers", "yarn_plugin.share_policies"
LEASE_POLICIES, ALLOCATORS = "yarn_plugin.lease_policies", "yarn_plugin.allocators"
"""Groups of entry points: each names a `Kind` of controller, a module with a share policy's `decide`, one with a lease
policy's `allocate`, or an `AllocatorKind`."""

INSTALLED = "yarn_plugin.drive.registry:installed"
"""Where a worker process finds the installed controllers."""

OWN_TAGS = {
    **events.TAGS,
    **commands.TAGS,
    **inputs.TAGS,
    **pool_commands.TAGS,
    "State": State,
}


class PluginError(ReportedError):
    """An installed controller or policy cannot be used. `owner`: names it, such as "controller 'auction'"."""

    exit_code = 2

    def __init__(self, owner: str, problem: str, remedy: str = "report this to its author, or uninstall it") -> None:
        super().__init__(f"{owner}: {problem}; {remedy}")


def installed() -> Registry:
    """The built-in controllers and policies, and those of installed packages. Called once, at the start of a program.

    Raises:
        PluginError: one cannot be loaded, or has a name in use.
    """
    found = Registry(
        _with_installed(CONTROLLERS, BUILT_IN.kinds, Kind),
        _with_installed(POLICIES, BUILT_IN.policies, "decide"),
        lease_policies=_with_installed(LEASE_POLICIES, BUILT_IN.lease_policies, "allocate"),
        allocators=_with_installed(ALLOCATORS, BUILT_IN.allocators, AllocatorKind),
    )
    _check_types(found, journal_tags(found))
    return found


def journal_tags(registry: Registry) -> dict[str, type]:
    """The types that a journal of these controllers and policies may contain, by tag.

    Raises:
        PluginError: a tag is used twice; a type has two tags; a controller's parameters, messages or problems have no
            tag.
    """
    tags, names = dict(OWN_TAGS), {one: tag for tag, one in OWN_TAGS.items()}
    for owner, declared in _declared(registry):
        for tag, one in declared.items():
            if tags.setdefault(tag, one) is not one:
                raise PluginError(owner, f"its journal tag {tag!r} is already used for another type")
            if names.setdefault(one, tag) != tag:
                raise PluginError(owner, f"its type {one.__name__} has two journal tags, {names[one]!r} and {tag!r}")
    for kind in _kinds(registry):
        if kind.parameters is not None and kind.parameters not in names:
            raise PluginError(
                _owner(kind), f"the type of its parameters, {kind.parameters.__name__}, has no journal tag"
            )
        by_policy = kind.policy_solvers if isinstance(kind, Kind) else {}
        for tag in sorted({*kind.messages, *kind.solvers, *by_policy} - tags.keys()):
            raise PluginError(_owner(kind), f"it uses the journal tag {tag!r}, but declares no type for it")
    return tags


def _kinds(registry: Registry) -> Iterator[Kind | AllocatorKind]:
    yield from registry.kinds.values()
    yield from registry.allocators.values()


def _declared(registry: Registry) -> Iterator[tuple[str, Mapping[str, type]]]:
    for kind in _kinds(registry):
        yield _owner(kind), kind.tags
    for name, policy in registry.policies.items():
        yield f"policy {name!r}", getattr(policy, "TAGS", {})


def _check_types(registry: Registry, tags: Mapping[str, type]) -> None:
    """Reject types that cannot be journaled or sent."""
    for kind in _kinds(registry):
        for tag in sorted(kind.messages):
            if not is_dataclass(tags[tag]):
                raise PluginError(
                    _owner(kind), f"the type of its message {tag!r}, {tags[tag].__name__}, must be a dataclass"
                )
        try:
            Codec(kind.tags)
        except Exception as problem:  # noqa: BLE001 - pydantic raises many exceptions for unknown types
            raise PluginError(_owner(kind), f"its types cannot be journaled: {describe(problem)}") from None


def _owner(kind: Kind | AllocatorKind) -> str:
    return f"{'controller' if isinstance(kind, Kind) else 'allocator'} {kind.name!r}"


def _entry(point: EntryPoint) -> str:
    """An entry point, with the package that declares it."""
    package = f" of package {point.dist.name}" if point.dist is not None else ""
    return f"{point.group} {point.name!r}{package}"


def _with_installed(
    group: str, built_in: Mapping[str, Any], must_be: type[Kind | AllocatorKind] | str
) -> dict[str, Any]:
    """Those of a group of entry points, beside the built-in ones. `must_be`: their type, or the name of a function that
    they have."""
    known = dict(built_in)
    for point in entry_points(group=group):
        loaded, name = _load(point), point.name
        if isinstance(must_be, str):
            if not callable(getattr(loaded, must_be, None)):
                raise PluginError(_entry(point), f"{point.value} must have a function `{must_be}`")
        elif isinstance(loaded, must_be):
            name = loaded.name
        else:
            raise PluginError(_entry(point), f"{point.value} must be a {must_be.__module__}.{must_be.__name__}")
        if name in known:
            raise PluginError(_entry(point), f"the name {name!r} is already in use", "uninstall one of the packages")
        known[name] = loaded
    return known


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as problem:  # noqa: BLE001 - the import runs code of another package
        raise PluginError(
            _entry(point), f"{point.value} cannot be loaded: {describe(problem)}", "repair or uninstall its package"
        ) from None
