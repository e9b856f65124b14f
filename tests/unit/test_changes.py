"""What is believed of a disappearance, and how an observation is halved."""

import pytest

from yarn_plugin.decide.events import AppsChanged, NodesChanged, QueuesChanged
from yarn_plugin.model.cluster import Node, Queue
from yarn_plugin.model.resources import Resources
from yarn_plugin.observe.changes import (
    Broken,
    Unconfirmed,
    confirm_gone,
    is_mass_disappearance,
    single_item,
    split_in_two,
)
from yarn_plugin.observe.delivery import RETRY_AFTER, Refusals


@pytest.mark.parametrize(
    ("known", "missing", "mass"),
    [(1, 1, False), (2, 1, False), (2, 2, True), (3, 2, False), (3, 3, True), (4, 3, True), (5, 3, True), (6, 3, False),
     (100, 2, False), (100, 50, False), (100, 51, True), (0, 0, False)],
)  # fmt: skip
def test_all_or_more_than_half_is_a_mass(known, missing, mass):
    assert is_mass_disappearance(known, missing) is mass


def poll(missing, unconfirmed, now, known="abcdef", confirm_all=False):
    gone, unconfirmed = confirm_gone(known, missing, unconfirmed, now, 1.0, confirm_all)
    return "".join(sorted(gone)), unconfirmed


def test_a_mass_disappearance_counts_once_it_is_missing_again():
    gone, unconfirmed = poll("abcd", Unconfirmed(), 10.0)
    assert (gone, unconfirmed) == ("", Unconfirmed(frozenset("abcd"), 10.0))
    gone, unconfirmed = poll("abce", unconfirmed, 10.5)
    assert gone == "e", "a single one is gone at once"
    gone, unconfirmed = poll("abc", unconfirmed, 11.0, known="abcdf")
    assert (gone, unconfirmed) == ("abc", Unconfirmed())


def test_items_that_came_back_are_no_longer_unconfirmed():
    _, unconfirmed = poll("abcd", Unconfirmed(), 10.0)
    _, unconfirmed = poll("", unconfirmed, 10.5)
    assert unconfirmed.missing == frozenset()
    gone, unconfirmed = poll("abcd", unconfirmed, 12.0)
    assert (gone, unconfirmed.since) == ("", 12.0)


def test_another_mass_in_the_second_poll_needs_its_own_confirmation():
    known = "abcdefghijkl"
    _, unconfirmed = poll("abcdefg", Unconfirmed(), 10.0, known)
    gone, unconfirmed = poll("abcdefghijk", unconfirmed, 11.0, known)
    assert gone == "abcdefg"
    gone, unconfirmed = poll("hijk", unconfirmed, 12.0, "hijkl")
    assert gone == "hijk"


def test_with_confirm_all_every_disappearance_needs_confirmation():
    gone, unconfirmed = poll("a", Unconfirmed(), 10.0, confirm_all=True)
    assert gone == ""
    assert poll("a", unconfirmed, 11.0, confirm_all=True) == ("a", Unconfirmed())


def node(name):
    return Node(name, "/r", Resources())


def test_an_observation_is_halved_until_it_is_of_one_thing():
    waiting = [NodesChanged((node("a"), node("b"), node("c")), ("d", "e"), (node("f"), node("g"), node("h")))]
    found = []
    while waiting:
        event = waiting.pop(0)
        parts = split_in_two(event)
        waiting += parts
        found += [] if parts else [single_item(event)]
    assert sorted(found, key=lambda one: one[0]) == [
        ("a", node("a")), ("b", node("b")), ("c", node("c")), ("d", None), ("e", None),
        ("f", Broken(node("f"))), ("g", Broken(node("g"))), ("h", Broken(node("h"))),
    ]  # fmt: skip


def test_each_kind_of_thing_has_an_id():
    assert single_item(QueuesChanged((Queue("root.sql", 0.1, 1.0),), ())) == ("root.sql", Queue("root.sql", 0.1, 1.0))
    assert single_item(AppsChanged((), ("application_1_1",))) == ("application_1_1", None)


def test_what_was_refused_is_allowed_again_when_it_changed_and_a_minute_has_passed():
    refusals = Refusals()
    assert refusals.allows("apps", "a", 1, 0.0)
    assert refusals.add("apps", "a", 1, 0.0)
    assert not refusals.allows("apps", "a", 1, 10 * RETRY_AFTER)
    assert not refusals.allows("apps", "a", 2, RETRY_AFTER - 1)
    assert refusals.allows("apps", "a", 2, RETRY_AFTER)
    assert refusals.allows("nodes", "a", 1, 0.0)
    assert not refusals.add("apps", "a", 2, RETRY_AFTER), "it is said once"
    refusals.retain("apps", set())
    assert refusals.allows("apps", "a", 2, RETRY_AFTER)
