"""Up to which sizes Spark's runtime filters are used for a query, and in which sessions."""

from types import SimpleNamespace

import pytest

from qoop.engine.runtime_filters import FILTERED, MADE_OF, SETTINGS, RuntimeFilters, runtime_filters
from qoop.estimate.runtime_filters import FilterSizes, filter_sizes

MB = 1e6


@pytest.mark.parametrize(
    ("sizes", "broadcast", "memory", "found"),
    [
        ((), 10, 4000, None),
        ((500,), 10, 4000, None),
        ((500, 9, 8), 10, 4000, None),
        ((500, 60), 10, 4000, (10, 100)),
        ((70, 60), 10, 4000, (10, 70)),
        ((500, 60), 10, 1000, (10, 25)),
        ((500, None), 10, 4000, (10, 100)),
        ((None, None), 10, 4000, (10, 100)),
        ((500, 60), 0, 4000, (1, 100)),
        ((500, 60), 100, 4000, None),
    ],
)
def test_filters_are_for_queries_with_two_tables_too_large_to_be_broadcast(sizes, broadcast, memory, found):
    in_bytes = tuple(None if size is None else size * MB for size in sizes)
    expected = FilterSizes(found[0] * MB, found[1] * MB) if found else None
    assert filter_sizes(in_bytes, broadcast * MB, memory * MB) == expected


class Copy:
    """A copy of a session."""

    def __init__(self):
        self.settings = {}
        self.conf = SimpleNamespace(set=self.settings.__setitem__, unset=self.settings.pop)


def test_they_are_set_in_copies_until_they_are_dropped():
    filters = RuntimeFilters(FilterSizes(10 * MB, 70 * MB))
    first, second, later = Copy(), Copy(), Copy()
    assert filters and filters.set_in(first) is first and filters.set_in(second)
    assert first.settings == second.settings == {FILTERED: "10000000b", MADE_OF: "70000000b"}
    filters.drop()
    filters.drop()
    filters.set_in(later)
    assert not filters and first.settings == second.settings == later.settings == {}


def user_session(*given):
    conf = SimpleNamespace(contains=lambda name: name in given)
    state = SimpleNamespace(conf=lambda: conf)
    return SimpleNamespace(_jsparkSession=SimpleNamespace(sessionState=lambda: state), _jvm=None)


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    runtime = SimpleNamespace(maxMemory=lambda: 4000 * MB)
    java = SimpleNamespace(getRuntime=lambda: runtime)
    monkeypatch.setattr("qoop.engine.runtime_filters.java_class", lambda jvm, name: java)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_of_the_user_leaves_all_of_them_to_spark(name):
    assert runtime_filters(user_session(), (500 * MB, 60 * MB), 10 * MB)
    assert not runtime_filters(user_session(name), (500 * MB, 60 * MB), 10 * MB)
