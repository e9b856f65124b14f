"""Queue files and `doctor` on a real ResourceManager."""

import json

import pytest
import requests

from yarn_plugin import console
from yarn_plugin.cli import cli

pytestmark = pytest.mark.integration

TEAM = """
[[queue]]
path = "root.team"
weight = 3
acl_administer_queue = "ann,bob admins"
maximum_am_resource_percent = 0.5

[[queue]]
path = "root.team.a"
capacity = 40
disable_preemption = true

[[queue]]
path = "root.team.b"
capacity = 60
maximum_capacity = 80
user_limit_factor = 2.5

[[queue]]
path = "root.team.own"
capacity = 0
dynamic_leaves = true
[queue.leaf_template]
weight = 0.5
"""
PATHS = ("root.team", "root.team.a", "root.team.b", "root.team.own")
STOPPED = "".join(f'[[queue]]\npath = "{path}"\nstate = "STOPPED"\n' for path in PATHS)
REMOVED = "".join(f'[[queue]]\npath = "{path}"\nremove = true\n' for path in PATHS)


@pytest.fixture
def run(cluster, tmp_path, capsys):
    """Run a command on the cluster's ResourceManager; returns its exit code, JSON results and stderr."""

    def run_one(*command, text=None):
        results = tmp_path / "results.json"
        results.unlink(missing_ok=True)
        arguments = [*command, "--rm", cluster.rm_url, "--json", str(results)]
        if text is not None:
            (tmp_path / "queues.toml").write_text(text)
            arguments.append(str(tmp_path / "queues.toml"))
        code = console.run(cli, "yarn-plugin", arguments)
        error = capsys.readouterr().err
        return code, json.loads(results.read_text()) if results.exists() else None, error

    return run_one


def test_queues_are_added_changed_stopped_and_removed(run):
    code, planned, _ = run("queues", "plan", text=TEAM)
    assert (code, [change["change"] for change in planned["changes"]]) == (0, ["add"] * 4)
    assert {"root.default", "root.sql"} <= set(planned["unnamed"])
    assert run("queues", "apply", text=TEAM)[:2] == (0, planned)
    assert run("queues", "apply", text=TEAM)[1]["changes"] == [], "the second time there is nothing to change"

    _, shown, _ = run("queues", "show")
    queues = {queue["path"]: queue for queue in shown["queues"]}
    assert (queues["root.team"]["weight"], queues["root.team.b"]["capacity"]) == (3.0, pytest.approx(60))
    assert queues["root.team.own"]["makes_leaves"]
    assert queues["root.team.b"]["maximum"] == pytest.approx(0.8)

    more = TEAM.replace("weight = 3", "weight = 4.5").replace("true\n\n", "false\n\n")
    code, made, _ = run("queues", "apply", text=more)
    assert [(one["queue"], one["properties"]) for one in made["changes"]] == [
        ("root.team", [{"name": "capacity", "now": "3w", "then": "4.5w"}]),
        ("root.team.a", [{"name": "disable_preemption", "now": "true", "then": "false"}]),
    ]

    code, _, error = run("queues", "apply", text=REMOVED)
    assert (code, error.count("\n")) == (2, 1)
    assert "queue root.team.a: remove: " in error
    assert run("queues", "apply", text=STOPPED)[0] == 0
    assert run("queues", "apply", text=STOPPED)[1]["changes"] == []
    code, made, _ = run("queues", "apply", text=REMOVED)
    assert (code, [change["change"] for change in made["changes"]]) == (0, ["remove"] * 4)
    assert run("queues", "apply", text=REMOVED)[1]["changes"] == []
    assert not [queue for queue in run("queues", "show")[1]["queues"] if "team" in queue["path"]]


def test_a_change_that_the_manager_rejects_is_an_error_of_one_line(run):
    text = '[[queue]]\npath = "root.default.x"\nweight = 1\n'
    code, _, error = run("queues", "apply", text=text)
    assert (code, error.count("\n")) == (1, 1)
    assert "Can not convert the leaf queue: root.default to parent queue" in error
    assert run("queues", "show")[1]["queues"][1]["path"] == "root.default"


def test_the_manager_ignores_a_wrapped_body_but_not_an_unwrapped_one(cluster):
    """The answer is "successfully applied" both times, which is why every write is read back."""
    change = {"update-queue": [{"queue-name": "root.sql", "params": {"entry": [{"key": "capacity", "value": "7w"}]}}]}

    def weight_after(body):
        url = f"{cluster.rm_url}/ws/v1/cluster/scheduler-conf"
        assert requests.put(url, json=body, timeout=20).status_code == 200
        answer = requests.get(url, headers={"Accept": "application/json"}, timeout=20).json()["property"]
        return next(one["value"] for one in answer if one["name"] == "yarn.scheduler.capacity.root.sql.capacity")

    before = weight_after({})
    assert weight_after({"sched-conf": change}) == before != "7w"
    assert weight_after(change) == "7w"
    change["update-queue"][0]["params"]["entry"][0]["value"] = before
    assert weight_after(change) == before


def test_doctor_finds_no_problem_on_the_embedded_cluster(run):
    code, results, _ = run("doctor")
    assert (code, results["can_run"]) == (0, True)
    assert [one["topic"] for one in results["findings"] if one["verdict"] != "good"] == []
    assert results["manager"]["store"] == "fs"


THIRDS = """
[[queue]]
path = "root.thirds"
weight = 1
[[queue]]
path = "root.thirds.sql"
{sql}
dynamic_leaves = true
[queue.leaf_template]
weight = 1
[[queue]]
path = "root.thirds.b"
{b}
[[queue]]
path = "root.thirds.c"
{c}
"""
IN_THIRDS = ("root.thirds", "root.thirds.sql", "root.thirds.b", "root.thirds.c")


def test_a_capacity_that_yarn_stores_and_does_not_use_is_no_success(run):
    """A parent of dynamic leaf queues keeps the part that its weight gave it."""
    weights = THIRDS.format(sql="weight = 8", b="weight = 1", c="weight = 1")
    try:
        assert run("queues", "apply", text=weights)[0] == 0
        thirds = THIRDS.format(sql="capacity = 33.3", b="capacity = 33.3", c="capacity = 33.4")
        code, made, error = run("queues", "apply", text=thirds)
        assert (code, [one["path"] for one in made["not_in_effect"]]) == (1, ["root.thirds.sql"])
        assert "warning: root.thirds.sql has" in error
        code, made, error = run("queues", "apply", text=weights)
        assert (code, error) == (0, "")
    finally:
        run("queues", "apply", text="".join(f'[[queue]]\npath = "{one}"\nstate = "STOPPED"\n' for one in IN_THIRDS))
        run("queues", "apply", text="".join(f'[[queue]]\npath = "{one}"\nremove = true\n' for one in IN_THIRDS))
