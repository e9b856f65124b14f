"""Answers that look like a ResourceManager's and cannot be read: one line says what is wrong."""

import pytest

from tests.http_servers import RawServer, answer
from yarn_plugin.drive import serve
from yarn_plugin.drive.config import ArbiterConfig
from yarn_plugin.observe import translate
from yarn_plugin.observe.queue_tree import queue_tree
from yarn_plugin.observe.resource_manager import NotAManagerError, ResourceManager


def scheduler(**fields):
    sql = {"queueName": "sql", "queuePath": "root.sql", "absoluteCapacity": 80.0, "absoluteMaxCapacity": 100.0}
    root = {"type": "capacityScheduler", "queueName": "root", "queues": {"queue": [sql | fields]}}
    return {"scheduler": {"schedulerInfo": root}}


def line_of(refused):
    (line,) = str(refused.value).splitlines()
    return line


@pytest.mark.parametrize(
    ("value", "shown"),
    [(float("nan"), "nan"), (float("inf"), "inf"), ("80", "'80'"), (None, "None"), (True, "True"), ([1], "list")],
)
@pytest.mark.parametrize("field", ["absoluteCapacity", "absoluteMaxCapacity"])
def test_a_capacity_that_is_no_number_is_named(field, value, shown):
    with pytest.raises(NotAManagerError) as refused:
        queue_tree(scheduler(**{field: value}))
    assert f"/scheduler cannot be read: queue root.sql: {field} is {shown}" in line_of(refused)


def test_a_pool_whose_queue_cannot_be_read_is_not_said_to_have_none(monkeypatch):
    class Manager:
        url = "http://rm:8088"

        def get(self, path):
            return scheduler(absoluteCapacity=float("nan"))

    monkeypatch.setattr(serve, "probe", lambda manager: None)
    with pytest.raises(NotAManagerError) as refused:
        serve._check_queues(Manager(), ArbiterConfig(), patient=False)
    assert "queue root.sql: absoluteCapacity is nan" in line_of(refused)


@pytest.mark.parametrize(
    ("answered", "said"),
    [
        ({"apps": {"total": 0}}, "`apps` has no list `app`, but total"),
        ({"apps": {"app": 3}}, "`app` is 3, not a list"),
        ({"app": "x"}, "`app` is 'x', not a list"),
    ],
)
def test_a_list_that_is_missing_is_named(answered, said):
    with pytest.raises(NotAManagerError) as refused:
        translate.apps(answered)
    assert f"the answer to /apps cannot be read: {said}" in line_of(refused)


@pytest.mark.parametrize("answered", [{"apps": None}, {"apps": {}}, {"apps": {"app": None}}, {"apps": {"app": []}}])
def test_an_empty_list_is_empty(answered):
    assert translate.apps(answered) == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a": %s}' % (b"9" * 5000), "thousands of digits"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b'{"a": }', "not JSON: line 1, column 7"),
        (b"[1, 2]", "is not a ResourceManager"),
        (b"<html>", "is not a ResourceManager"),
    ],
    ids=range(6),
)
def test_an_answer_that_is_no_json_says_why(body, said):
    server = RawServer(answer(body))
    try:
        with pytest.raises(NotAManagerError) as refused:
            ResourceManager([server.url], "ann").get("/metrics")
    finally:
        server.close()
    assert said in line_of(refused)
