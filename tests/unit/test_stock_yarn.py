"""Stock YARN in virtual time: a user's own queues, read from their files, and how the CapacityScheduler divides."""

import json
from itertools import pairwise

import pytest

from tests.unit.test_simulator import cluster, submissions
from yarn_plugin import console
from yarn_plugin.cli import cli
from yarn_plugin.drive.simulator import Simulation
from yarn_plugin.errors import BadInputError, ReportedError
from yarn_plugin.simulation.scheduler_queues import load

PROD_AND_DEV = {
    "root.queues": "prod,dev",
    "root.prod.capacity": "75",
    "root.dev.capacity": "25",
    "root.dev.queues": "alice,bob",
    "root.dev.alice.capacity": "50",
    "root.dev.bob.capacity": "50",
}
NO_LIMITS = {
    f"root.{name}.{key}": value
    for name in ("prod", "dev.alice", "dev.bob")
    for key, value in (("user-limit-factor", "100"), ("maximum-am-resource-percent", "1"))
}


def queues(tmp_path, properties):
    file = tmp_path / "capacity-scheduler.xml"
    rows = (
        f"<property><name>yarn.scheduler.capacity.{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    file.write_text(f"<configuration>{''.join(rows)}</configuration>")
    return load(file)


def run(tmp_path, properties, *applications):
    made = Simulation(cluster(), submissions(tmp_path, *applications), queues=queues(tmp_path, properties))
    return {app.name: app for app in made.run().jobs}


def test_a_queue_alone_may_use_the_whole_cluster(tmp_path):
    (app,) = run(tmp_path, PROD_AND_DEV | NO_LIMITS, {"name": "one", "user": "alice", "max_cores": 17}).values()
    # 2 nodes of 9 cores, one for the master.
    assert app.completion_s == pytest.approx(3 + 400 / 17)


def test_one_user_has_at_most_the_capacity_of_the_queue_by_default(tmp_path):
    (app,) = run(tmp_path, PROD_AND_DEV, {"name": "one", "user": "prod", "max_cores": 17}).values()
    # 75% of 18 cores, and the container that exceeds it; less the master.
    assert app.completion_s == pytest.approx(3 + 400 / 13, abs=0.1)


def test_siblings_divide_what_their_parent_has_before_others_do(tmp_path):
    apps = [{"name": name, "user": name, "max_cores": 17} for name in ("prod", "alice", "bob")]
    ended = run(tmp_path, PROD_AND_DEV | NO_LIMITS, *apps)
    # 18 cores by 3 to 1, and the 1 by halves: prod has 13 or 14 and ends long before the others.
    assert ended["prod"].completion_s < 40 < ended["alice"].completion_s
    assert ended["alice"].completion_s == pytest.approx(ended["bob"].completion_s, rel=0.2)


def test_a_maximum_capacity_is_never_exceeded(tmp_path):
    limited = PROD_AND_DEV | NO_LIMITS | {"root.dev.maximum-capacity": "50"}
    (app,) = run(tmp_path, limited, {"name": "one", "user": "alice", "max_cores": 17}).values()
    assert app.completion_s == pytest.approx(3 + 400 / 8)


def test_masters_have_a_tenth_of_a_queue_so_that_applications_wait(tmp_path):
    few = {"root.queues": "default", "root.default.capacity": "100"}
    apps = [{"name": f"app{n}", "max_cores": 1, "core_seconds": 100} for n in range(4)]
    ended = run(tmp_path, few | {"root.default.user-limit-factor": "100"}, *apps)
    # A tenth of 18 cores is one master at a time.
    starts = sorted(app.started_at for app in ended.values())
    assert all(later - sooner > 100 for sooner, later in pairwise(starts))


def test_an_application_is_in_the_queue_it_names_or_is_mapped_to_or_that_of_its_user(tmp_path):
    tree = queues(tmp_path, PROD_AND_DEV | {"queue-mappings": "u:carol:prod,g:staff:dev,u:%user:%user"})
    assert tree.queue("one", "carol", None).path == "root.prod"
    assert tree.queue("one", "bob", None).path == "root.dev.bob"
    assert tree.queue("one", "bob", "root.prod").path == "root.prod"
    assert tree.queue("one", "bob", "alice").path == "root.dev.alice"
    assert [round(part, 3) for _, part in tree.queue("one", "bob", None).branch] == [0.25, 0.5]
    with pytest.raises(BadInputError, match=r"application one: queue 'dan'.*alice, root\.dev\.bob, root\.prod, the"):
        tree.queue("one", "dan", None)


def test_a_queue_file_with_weights_and_dynamic_leaves_is_read_too(tmp_path):
    file = tmp_path / "queues.toml"
    file.write_text(
        '[[queue]]\npath = "root.sql"\nweight = 3\ndynamic_leaves = true\n'
        "[queue.leaf_template]\nweight = 2\nuser_limit_factor = 10\n"
        '[[queue]]\npath = "root.default"\nweight = 1\n'
    )
    tree = load(file)
    leaf = tree.queue("one", "alice", "root.sql")
    assert (leaf.path, leaf.capacity, leaf.user_limit) == ("root.sql.one", 0.75, 10.0)
    assert leaf.branch == (("root.sql", 0.75), ("root.sql.one", 2.0))
    assert tree.queue("one", "alice", None).path == "root.default"


@pytest.mark.parametrize(
    ("properties", "message"),
    [({"root.queues": "a", "root.a.capacity": "[memory=1024]"}, "queue root.a: capacity '.memory=1024.': must be"),
     ({"root.queues": "a,b", "root.a.capacity": "1w", "root.b.capacity": "50"}, "queue root.a: capacity '1w'"),
     ({"root.queues": "a", "root.a.capacity": "100", "root.a.user-limit-factor": "much"}, "user-limit-factor 'much'"),
     ({}, "has no queue below root")],
)  # fmt: skip
def test_what_cannot_be_simulated_is_named(tmp_path, properties, message):
    with pytest.raises(ReportedError, match=message):
        queues(tmp_path, properties)


def test_a_stopped_queue_takes_no_application(tmp_path):
    with pytest.raises(BadInputError, match=r"application one: queue 'root\.prod': must not be STOPPED"):
        run(tmp_path, PROD_AND_DEV | {"root.prod.state": "STOPPED"}, {"name": "one", "user": "prod"})


@pytest.mark.parametrize("content", ["<configuration>", "<queues/>"])
def test_a_file_that_is_none_of_a_scheduler_is_named(tmp_path, content):
    file = tmp_path / "wrong.xml"
    file.write_text(content)
    with pytest.raises(ReportedError, match=r"--queues '.*wrong\.xml': "):
        load(file)


def simulate(tmp_path, *options):
    (tmp_path / "cluster.toml").write_text("[[nodes]]\ncount = 2\nmemory_mb = 16384\nvcores = 9\n")
    (tmp_path / "work.csv").write_text(
        "kind,user,queue,core_seconds,max_cores\nbatch,ann,prod,400,16\nbatch,alice,,400,16\n"
    )
    queues(tmp_path, PROD_AND_DEV)
    paths = ("--cluster", str(tmp_path / "cluster.toml"), "--workload", str(tmp_path / "work.csv"))
    return console.run(
        cli, "yarn-plugin", ["simulate", *paths, "--queues", str(tmp_path / "capacity-scheduler.xml"), *options]
    )


def test_the_command_simulates_stock_yarn(tmp_path, capsys):
    result = tmp_path / "result.json"
    assert simulate(tmp_path, "--json", str(result)) == 0
    assert [one["finished_at"] is not None for one in json.loads(result.read_text())["applications"]] == [True, True]
    assert json.loads(result.read_text())["shares_told"] == 0


@pytest.mark.parametrize("option", ["policy", "journal"])
def test_the_command_refuses_what_only_an_arbiter_has(tmp_path, capsys, option):
    assert simulate(tmp_path, f"--{option}", str(tmp_path / "max_min")) == 2
    assert f"--{option}" in capsys.readouterr().err
