"""The scheduler's configuration: read, changed in one request, compared with what was written."""

import pytest

from tests.fake_scheduler import PREFIX, FakeScheduler
from yarn_plugin.observe import scheduler_configuration
from yarn_plugin.observe.resource_manager import NotAManagerError
from yarn_plugin.observe.scheduler_configuration import SchedulerConfiguration, is_equivalent, parse, weight_of


def configured(**properties):
    return SchedulerConfiguration({f"{PREFIX}.{name}": value for name, value in properties.items()})


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_answer_comes_bare_or_wrapped(wrapped):
    answer = {"property": [{"name": f"{PREFIX}.root.capacity", "value": "100"}, {"name": "x", "value": None}]}
    found = parse({"sched-conf": answer} if wrapped else answer)
    assert (found.get("root", "capacity"), found.get("root", "state"), found.properties["x"]) == ("100", None, "")


def test_a_single_property_comes_without_brackets():
    assert parse({"property": {"name": "x", "value": "1"}}).properties == {"x": "1"}


@pytest.mark.parametrize(
    "answer",
    [{}, {"sched-conf": 3}, {"property": [3]}, {"property": [{"value": "1"}]}, {"property": {"name": "x", "value": 1}}],
)
def test_any_other_answer_is_rejected(answer):
    with pytest.raises(NotAManagerError, match="the answer to /scheduler-conf"):
        parse(answer)


def test_static_children_are_those_that_the_configuration_names():
    found = configured(**{"root.queues": "default, sql,", "root.sql.made_1.capacity": "3w"})
    assert found.children("root") == ("root.default", "root.sql")
    assert found.children("root.sql") == ()


def test_capacities_directly_below_a_queue_and_no_deeper():
    found = configured(
        **{
            "root.sql.capacity": "8w",
            "root.sql.a.capacity": "3w",
            "root.sql.a.b.capacity": "1w",
            "root.sqlx.c.capacity": "1w",
            "root.sql.d.maximum-capacity": "100",
            "root.sql.auto-queue-creation-v2.leaf-template.capacity": "1w",
        }
    )
    assert list(found.capacities_below("root.sql")) == [("root.sql.a", "3w")]


def test_a_property_of_the_scheduler_belongs_to_no_queue():
    found = configured(**{"resource-calculator": "X"})
    assert (found.global_property("resource-calculator"), found.global_property("other")) == ("X", None)


@pytest.mark.parametrize(
    ("has", "written", "kept"),
    [
        ("3w", "3w", True),
        ("3.0w", "3w", True),
        (" 3w ", "3w", True),
        ("3", "3w", False),
        ("nanw", "3w", False),
        ("", "3w", False),
        (None, "3w", False),
        (None, "", True),
        ("", "", True),
        ("3w", "", False),
    ],
)
def test_what_was_written_is_compared_by_its_meaning(has, written, kept):
    found = configured(**({} if has is None else {"root.sql.a.capacity": has}))
    assert found.has_value("root.sql.a", "capacity", written) is kept


def test_values_mean_the_same():
    assert is_equivalent("8w", "8.00w")
    assert not is_equivalent("8w", "8")
    assert is_equivalent("True", "true")
    assert not is_equivalent("acl", "ACL")
    assert not is_equivalent(None, "")
    assert is_equivalent(None, None)


def test_a_weight_is_distinguished_from_other_capacities():
    assert [weight_of(one) for one in ("33.3w", " 1w ", "0w", "50", "[memory=1024]", "", "w", "-1w", "infw")] == [
        33.3, 1.0, 0.0, None, None, None, None, None, None,
    ]  # fmt: skip


def test_a_change_is_one_bare_request():
    store = FakeScheduler()
    scheduler_configuration.write(
        store, {"root.sql": {"capacity": "7w", "state": "RUNNING"}}, {"root.b": {"capacity": "1w"}}, ["root.default"]
    )
    entries = [{"key": "capacity", "value": "7w"}, {"key": "state", "value": "RUNNING"}]
    assert store.written == [
        {
            "add-queue": [{"queue-name": "root.b", "params": {"entry": [{"key": "capacity", "value": "1w"}]}}],
            "update-queue": [{"queue-name": "root.sql", "params": {"entry": entries}}],
            "remove-queue": ["root.default"],
        }
    ]
    found = scheduler_configuration.read(store)
    assert found.has_value("root.sql", "capacity", "7w")
    assert found.children("root") == ("root.sql", "root.b")


def test_a_request_omits_unchanged_fields():
    store = FakeScheduler()
    scheduler_configuration.write(store, {"root.sql": {"capacity": ""}})
    assert list(store.written[0]) == ["update-queue"]
