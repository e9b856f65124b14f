"""The tags by which a journal knows types: each has one, and it stays whatever the class is called."""

import importlib
import inspect
import json
import pkgutil
from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

import yarn_plugin.decide.pools
from yarn_plugin.decide import commands, events
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.pools import commands as pool_commands
from yarn_plugin.decide.pools import inputs
from yarn_plugin.decide.pools.controller import Kind, Registry
from yarn_plugin.drive.registry import OWN_TAGS, PluginError, journal_tags
from yarn_plugin.journal.codec import Codec

GOLDEN = Path(__file__).parents[1] / "golden" / "journal_tags.json"

TAGS = journal_tags(BUILT_IN)


def test_the_tags_are_those_that_journals_hold(request):
    """One may be added; none may go, or mean another type, as long as journals with it are to be read."""
    written = json.dumps(sorted(TAGS), indent=1) + "\n"
    if request.config.getoption("--rewrite-golden"):
        GOLDEN.write_text(written)
    assert GOLDEN.read_text() == written


@pytest.mark.parametrize(
    ("union", "tags"),
    [
        (events.Event, events.TAGS),
        (commands.Command, commands.TAGS),
        (inputs.Input, inputs.TAGS),
        (pool_commands.ToApp, pool_commands.TO_APP),
        (pool_commands.Command, {**pool_commands.TAGS, **commands.TAGS}),
    ],
)
def test_each_of_them_has_a_tag(union, tags):
    assert not [one.__name__ for one in get_args(union) if one not in tags.values()]
    assert set(tags.items()) <= set(OWN_TAGS.items())


def test_a_tag_means_one_type_and_a_type_has_one_tag():
    kinds = (*BUILT_IN.kinds.values(), *BUILT_IN.allocators.values())
    groups = (events.TAGS, commands.TAGS, inputs.TAGS, pool_commands.TAGS, *(kind.tags for kind in kinds))
    # The two that hold auctions share the types of rounds.
    named = {(tag, one) for group in groups for tag, one in group.items()}
    assert len(named) + 1 == len(TAGS) == len(set(TAGS.values()))


def test_every_state_and_message_of_a_controller_has_a_tag_with_a_version():
    for kind in (*BUILT_IN.kinds.values(), *BUILT_IN.allocators.values()):
        states = [tag for tag, one in kind.tags.items() if one.__name__.endswith("State")]
        assert states
        assert all(tag.rpartition("/")[2].isdigit() for tag in states)


def test_every_dataclass_in_the_modules_of_events_and_commands_has_a_tag():
    for module in (events, commands, inputs, pool_commands):
        own = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
        assert not [one.__name__ for one in own if one not in TAGS.values()]


def test_every_kind_of_controller_that_comes_with_the_arbiter_is_in_the_registry():
    modules = [importlib.import_module(f"{yarn_plugin.decide.pools.__name__}.{one.name}")
               for one in pkgutil.iter_modules(yarn_plugin.decide.pools.__path__)]  # fmt: skip
    kinds = {one.name for module in modules for one in vars(module).values() if isinstance(one, Kind)}
    assert kinds == set(BUILT_IN.kinds)


def test_a_class_that_is_renamed_is_written_and_read_as_before():
    renamed = make_dataclass("Elsewhere", [("app", str), ("seq", int)], frozen=True)
    before, after = Codec({"Vacated": events.Vacated}), Codec({"Vacated": renamed})
    written = before.dump(events.Vacated("app_1", 7))
    assert after.dump(renamed("app_1", 7)) == written
    assert after.read({"type": "Vacated", "app": "app_1", "seq": 7}) == renamed("app_1", 7)


@dataclass(frozen=True)
class Bid:
    """A message of a toy's application."""

    amount: float = 0.0


@dataclass(frozen=True)
class Typed:
    """A field where the tag is."""

    type: str = ""


def with_kind(**fields):
    kind = Kind("toy", lambda pool, registry: None, **{"tags": {"toy.bid": Bid}, **fields})
    return replace(BUILT_IN, kinds={**BUILT_IN.kinds, "toy": kind})


@pytest.mark.parametrize(
    ("registry", "said"),
    [
        (with_kind(tags={"State": Bid}), "controller 'toy': .*'State'"),
        (with_kind(tags={"toy.bid": Bid, "toy.other": Bid}), "Bid.*'toy.bid'"),
        (with_kind(tags={}, parameters=Bid), "Bid"),
        (with_kind(messages=frozenset({"toy.ask"})), "'toy.ask'"),
        (with_kind(solvers={"toy.problem": len}), "'toy.problem'"),
        (Registry({}, {"odd": SimpleNamespace(TAGS={"ask": Bid})}), "policy 'odd': .*'ask'"),
    ],
)
def test_ambiguous_tags_are_refused_at_startup(registry, said):
    with pytest.raises(PluginError, match=said):
        journal_tags(registry)


def test_a_policy_declares_the_types_of_its_state():
    assert journal_tags(Registry({}, {"odd": SimpleNamespace(TAGS={"odd/1": Bid})}))["odd/1"] is Bid


def test_a_field_named_type_is_refused():
    with pytest.raises(ValueError, match=r"Typed.*`type`"):
        Codec({"typed": Typed})


@pytest.mark.parametrize("amount", [float("inf"), float("nan")])
def test_a_value_that_changes_in_a_round_trip_is_detected(amount):
    codec = Codec({"toy.bid": Bid})
    codec.check(Bid(1.5))
    with pytest.raises(ValueError, match="Bid"):
        codec.check(Bid(amount))
    with pytest.raises(ValueError, match="surrogates"):
        codec.check(Bid("half \ud800"))
