"""What is believed of a disappearance, and how an observation is halved."""

import pytest

from yarn_plugin.decide.events import AppsChanged, NodesChanged, QueuesChanged
from yarn_plugin.model.cluster import Node, Queue
from yarn_plugin.model.resources import Resources
from yarn_plugin.observe.changes import Broken, Doubt, confirm_gone, halves, is_mass, the_one
from yarn_plugin.observe.delivery import AGAIN_AFTER, Refusals


@pytest.mark.parametrize(
    ("known", "missing", "mass"),
    [(1, 1, False), (2, 1, False), (2, 2, True), (3, 2, False), (3, 3, True), (4, 3, True), (5, 3, True), (6, 3, False),
     (100, 2, False), (100, 50, False), (100, 51, True), (0, 0, False)],
)  # fmt: skip
def test_all_or_more_than_half_is_a_mass(known, missing, mass):
    assert is_mass(known, missing) is mass


def look(missing, doubt, now, known="abcdef", wary=False):
    gone, doubt = confirm_gone(known, missing, doubt, now, 1.0, wary)
    return "".join(sorted(gone)), doubt


def test_a_mass_is_gone_as_far_as_it_is_missing_again():
    gone, doubt = look("abcd", Doubt(), 10.0)
    assert (gone, doubt) == ("", Doubt(frozenset("abcd"), 10.0))
    gone, doubt = look("abce", doubt, 10.5)
    assert gone == "e", "a single one is gone at once"
    gone, doubt = look("abc", doubt, 11.0, known="abcdf")
    assert (gone, doubt) == ("abc", Doubt())


def test_what_came_back_is_no_longer_in_doubt():
    _, doubt = look("abcd", Doubt(), 10.0)
    _, doubt = look("", doubt, 10.5)
    assert doubt.missing == frozenset()
    gone, doubt = look("abcd", doubt, 12.0)
    assert (gone, doubt.since) == ("", 12.0)


def test_another_mass_in_the_second_look_needs_a_second_look_of_its_own():
    known = "abcdefghijkl"
    _, doubt = look("abcdefg", Doubt(), 10.0, known)
    gone, doubt = look("abcdefghijk", doubt, 11.0, known)
    assert gone == "abcdefg"
    gone, doubt = look("hijk", doubt, 12.0, "hijkl")
    assert gone == "hijk"


def test_who_is_wary_wants_to_see_everything_twice():
    gone, doubt = look("a", Doubt(), 10.0, wary=True)
    assert gone == ""
    assert look("a", doubt, 11.0, wary=True) == ("a", Doubt())


def node(name):
    return Node(name, "/r", Resources())


def test_an_observation_is_halved_until_it_is_of_one_thing():
    waiting = [NodesChanged((node("a"), node("b"), node("c")), ("d", "e"), (node("f"), node("g"), node("h")))]
    found = []
    while waiting:
        event = waiting.pop(0)
        parts = halves(event)
        waiting += parts
        found += [] if parts else [the_one(event)]
    assert sorted(found, key=lambda one: one[0]) == [
        ("a", node("a")), ("b", node("b")), ("c", node("c")), ("d", None), ("e", None),
        ("f", Broken(node("f"))), ("g", Broken(node("g"))), ("h", Broken(node("h"))),
    ]  # fmt: skip


def test_each_kind_of_thing_has_an_id():
    assert the_one(QueuesChanged((Queue("root.sql", 0.1, 1.0),), ())) == ("root.sql", Queue("root.sql", 0.1, 1.0))
    assert the_one(AppsChanged((), ("application_1_1",))) == ("application_1_1", None)


def test_what_was_refused_is_allowed_again_when_it_changed_and_a_minute_has_passed():
    refusals = Refusals()
    assert refusals.allows("apps", "a", 1, 0.0)
    assert refusals.add("apps", "a", 1, 0.0)
    assert not refusals.allows("apps", "a", 1, 10 * AGAIN_AFTER)
    assert not refusals.allows("apps", "a", 2, AGAIN_AFTER - 1)
    assert refusals.allows("apps", "a", 2, AGAIN_AFTER)
    assert refusals.allows("nodes", "a", 1, 0.0)
    assert not refusals.add("apps", "a", 2, AGAIN_AFTER), "it is said once"
    refusals.keep("apps", set())
    assert refusals.allows("apps", "a", 2, AGAIN_AFTER)
