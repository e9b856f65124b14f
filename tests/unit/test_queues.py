"""Queue files: read, checked, compared, written, read back."""

import json
import re

import pytest

from tests.fake_scheduler import PREFIX, FakeScheduler
from yarn_plugin import console
from yarn_plugin.cli import cli
from yarn_plugin.cli import queues as command
from yarn_plugin.observe.resource_manager import ManagerError
from yarn_plugin.queues import apply as writing
from yarn_plugin.queues.apply import apply, compare
from yarn_plugin.queues.file import load
from yarn_plugin.queues.plan import Change, Difference
from yarn_plugin.queues.specification import QueueFileError, QueuesIgnoredError, ReadOnlyStoreError, number
from yarn_plugin.toml_files import FileError


@pytest.fixture
def store():
    return FakeScheduler()


@pytest.fixture
def specs(tmp_path):
    def read(text):
        path = tmp_path / "queues.toml"
        path.write_text(text)
        return load(path)

    return read


def problems(raised):
    """What is expected, by queue and field."""
    return {re.sub("^FILE '.*?': ", "", problem.field): problem.expected for problem in raised.value.problems}


TEAM = """
[[queue]]
path = "root.team"
weight = 2
acl_submit_applications = "ann,bob analysts"

[[queue]]
path = "root.team.a"
capacity = 40
disable_preemption = true
maximum_am_resource_percent = 0.5

[[queue]]
path = "root.team.b"
capacity = 60
user_limit_factor = -1
maximum_applications = 50
state = "STOPPED"

[[queue]]
path = "root.sql"
weight = 6.0
dynamic_leaves = true
[queue.leaf_template]
weight = 0.02
"""


def test_the_plan_shows_each_property_that_differs(store, specs):
    plan = compare(store, specs(TEAM))
    assert plan.changes == (
        Change(
            "add",
            "root.team",
            (Difference("capacity", None, "2w"), Difference("acl_submit_applications", None, "ann,bob analysts")),
        ),
        Change(
            "add",
            "root.team.a",
            (
                Difference("capacity", None, "40"),
                Difference("maximum-am-resource-percent", None, "0.5"),
                Difference("disable_preemption", None, "true"),
            ),
        ),
        Change(
            "add",
            "root.team.b",
            (
                Difference("capacity", None, "60"),
                Difference("user-limit-factor", None, "-1"),
                Difference("maximum-applications", None, "50"),
                Difference("state", None, "STOPPED"),
            ),
        ),
        Change(
            "update",
            "root.sql",
            (
                Difference("capacity", "8w", "6w"),
                Difference("auto-queue-creation-v2.leaf-template.capacity", "1w", "0.02w"),
            ),
        ),
    )
    assert plan.unnamed == ("root.default",)
    assert not store.written


def test_applied_twice_nothing_changes_the_second_time(store, specs):
    asked = specs(TEAM)
    assert len(apply(store, asked).changes) == 4
    assert apply(store, asked).changes == ()
    assert len(store.written) == 1, "one request, and none where nothing is to do"
    assert store.conf[f"{PREFIX}.root.team.b.capacity"] == "60"


def test_the_body_is_bare_and_adds_parents_before_and_removes_them_after(store, specs):
    apply(store, specs(TEAM))
    (body,) = store.written
    assert list(body) == ["add-queue", "update-queue"]
    assert [queue["queue-name"] for queue in body["add-queue"]] == ["root.team", "root.team.a", "root.team.b"]
    store.states |= dict.fromkeys(("root.team", "root.team.a", "root.team.b"), "STOPPED")
    gone = specs(
        "".join(f'[[queue]]\npath = "root.{name}"\nremove = true\n' for name in ("team", "team.a", "team.b", "never"))
    )
    apply(store, gone)
    assert store.written[-1] == {"remove-queue": ["root.team.a", "root.team.b", "root.team"]}
    assert apply(store, gone).changes == ()
    assert "root.team" not in str(store.get("/scheduler"))


def test_values_that_mean_the_same_are_no_difference(store, specs):
    store.conf[f"{PREFIX}.root.sql.capacity"] = "8.0w"
    store.conf[f"{PREFIX}.root.sql.auto-queue-creation-v2.enabled"] = "TRUE"
    asked = '[[queue]]\npath = "root.sql"\nweight = 8\ndynamic_leaves = true\nmaximum_capacity = 100.0\n'
    assert compare(store, specs(asked)).changes == ()


def test_a_queue_that_was_stopped_through_its_parent_is_started_although_its_configuration_is_silent(store, specs):
    store.states["root.sql"] = "STOPPED"
    asked = specs('[[queue]]\npath = "root.sql"\nstate = "RUNNING"\n')
    assert compare(store, asked).changes == (
        Change("update", "root.sql", (Difference("state", "STOPPED", "RUNNING"),)),
    )
    apply(store, asked)
    assert compare(store, asked).changes == ()


def test_a_queue_that_still_drains_counts_as_stopped(store, specs):
    store.apps["root.default"] = 2
    asked = specs('[[queue]]\npath = "root.default"\nstate = "STOPPED"\n')
    assert len(apply(store, asked).changes) == 1
    assert apply(store, asked).changes == ()
    with pytest.raises(QueueFileError, match="DRAINING with 2 applications"):
        apply(store, specs('[[queue]]\npath = "root.default"\nremove = true\n'))


def test_dynamic_queues_are_neither_named_as_left_alone_nor_to_be_set(store, specs):
    store.dynamic = {"root.sql.app_1"}
    assert "root.sql.app_1" not in compare(store, specs(TEAM)).unnamed
    with pytest.raises(QueueFileError, match="leaf_template"):
        compare(store, specs('[[queue]]\npath = "root.sql.app_1"\nweight = 1\n'))
    with pytest.raises(QueueFileError, match="empty"):
        compare(store, specs('[[queue]]\npath = "root.sql.app_1"\nremove = true\n'))


def test_a_manager_that_accepts_but_ignores_changes_is_an_error(store, specs):
    store.deaf = True
    with pytest.raises(QueuesIgnoredError, match=r"root\.team does not exist; .*'6w'.*'8w'"):
        apply(store, specs(TEAM))


def test_a_removal_that_is_ignored_is_an_error(store, specs):
    store.states["root.default"] = "STOPPED"
    store.deaf = True
    with pytest.raises(QueuesIgnoredError, match=r"root\.default"):
        apply(store, specs('[[queue]]\npath = "root.default"\nremove = true\n'))


def test_a_read_only_store_names_the_setting_to_change(store, specs):
    store.writable = False
    with pytest.raises(ReadOnlyStoreError, match=r"set yarn\.scheduler\.configuration\.store\.class=fs"):
        compare(store, specs(TEAM))


def test_another_scheduler_is_reported(store, specs):
    store.capacity_scheduler = False
    with pytest.raises(ManagerError, match="not the CapacityScheduler"):
        compare(store, specs(TEAM))


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ('path = "root.sql"\nweight = 20000', "queue root.sql: weight", "at most 10000"),
        ('path = "root.sql"\nweight = -1', "queue root.sql: weight", "at least 0"),
        ('path = "root.sql"\nweight = inf', "queue root.sql: weight", "finite number"),
        ('path = "root.sql"\nweight = "8w"', "queue root.sql: weight", "a number"),
        ('path = "root.sql"\nweight = 2\ncapacity = 3', "queue root.sql: capacity", "beside weight"),
        ('path = "root.sql"\ncapacity = 101', "queue root.sql: capacity", "at most 100"),
        ('path = "root.sql"\nmaximum_capacity = 150', "queue root.sql: maximum_capacity", "at most 100"),
        ('path = "root.sql"\nuser_limit_factor = -3', "queue root.sql: user_limit_factor", "above 0, or -1"),
        ('path = "root.sql"\nstate = "STOPED"', "queue root.sql: state", "'RUNNING' or 'STOPPED'"),
        ('path = "root.sql"\ncapasity = 3', "queue root.sql: capasity", "unknown setting"),
        (
            'path = "root.sql"\nleaf_template = { capacity = 3 }',
            "queue root.sql: leaf_template capacity",
            "must be a weight",
        ),
        (
            'path = "root.x"\nremove = true\nweight = 2',
            "queue root.x: remove",
            "delete weight",
        ),
        ('path = "sql"\nweight = 2', "path", "a path from the root"),
        ('path = "root.a b"\nweight = 2', "path", "letters, digits"),
        ('path = "root"\nweight = 2', "queue root: weight", "cannot be set on the root"),
        ("weight = 2", "queue #1: path", "required"),
        ('path = "root.sql"\n[[queue]]\npath = "root.sql"', "path", "listed twice"),
    ],
)
def test_a_wrong_value_is_named_with_its_queue_and_what_is_right(specs, text, field, expected):
    with pytest.raises(QueueFileError) as raised:
        specs("[[queue]]\n" + text)
    assert expected in problems(raised)[field]
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ('path = "root.no.x"\nweight = 1', "path", "root.no"),
        ('path = "root.x"', "queue root.x: weight", "required for a new queue"),
        ('path = "root.default"\nremove = true', "queue root.default: remove", 'state = "STOPPED"'),
        (
            'path = "root.default"\n[queue.leaf_template]\nweight = 1',
            "queue root.default: leaf_template",
            "dynamic_leaves",
        ),
        ('path = "root.sql"\ncapacity = 80', "queues in root", "root.default has 2w, root.sql has 80"),
        (
            'path = "root.sql"\ncapacity = 80\n[[queue]]\npath = "root.default"\ncapacity = 40',
            "capacities in root",
            "(root.default 40, root.sql 80)",
        ),
        (
            'path = "root.sql"\ncapacity = 80\nmaximum_capacity = 70\n[[queue]]\npath = "root.default"\ncapacity = 20',
            "queue root.sql: maximum_capacity",
            "must be at least its capacity, 80",
        ),
        ('path = "root.x"\nweight = 1\n[[queue]]\npath = "root.x.y"\ncapacity = 30', "capacities in root.x", "100"),
        (
            'path = "root.default"\nremove = true\n[[queue]]\npath = "root.default.x"\nweight = 1',
            "path",
            "root.default is being removed",
        ),
    ],
)
def test_queues_that_do_not_fit_together_are_refused_before_anything_is_sent(store, specs, text, field, expected):
    with pytest.raises(QueueFileError) as raised:
        apply(store, specs("[[queue]]\n" + text))
    assert expected in problems(raised)[field]
    assert not store.written


def test_a_queue_with_others_in_it_is_not_removed_alone(store, specs):
    apply(store, specs(TEAM))
    store.states |= dict.fromkeys(("root.team", "root.team.a", "root.team.b"), "STOPPED")
    with pytest.raises(QueueFileError, match=r"root\.team\.b"):
        compare(
            store,
            specs('[[queue]]\npath = "root.team"\nremove = true\n[[queue]]\npath = "root.team.a"\nremove = true'),
        )


def test_without_legacy_mode_units_may_be_mixed_and_sums_stay_below_100_percent(store, specs):
    store.conf[f"{PREFIX}.legacy-queue-mode.enabled"] = "false"
    compare(store, specs('[[queue]]\npath = "root.sql"\ncapacity = 80'))
    with pytest.raises(QueueFileError, match="100 percent"):
        compare(store, specs('[[queue]]\npath = "root.x"\ncapacity = 40\n[[queue]]\npath = "root.sql"\ncapacity = 80'))


def test_three_thirds_add_up_to_100_percent(store, specs):
    text = '[[queue]]\npath = "root.t"\nweight = 1\n'
    text += "".join(f'[[queue]]\npath = "root.t.{name}"\ncapacity = 33.33\n' for name in "abc")
    assert len(compare(store, specs(text)).changes) == 4


@pytest.mark.parametrize(
    ("text", "shown"),
    [("queue = 3", "must be a list"), ("a = ", "not TOML"), ("", "required"), ("queue = [3]", "must be a table")],
)
def test_an_invalid_file_is_reported(specs, text, shown):
    with pytest.raises(FileError, match=shown):
        specs(text)


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(FileError, match=r"FILE '.*no\.toml': "):
        load(tmp_path / "no.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="not UTF-8"):
        load(tmp_path / "bytes.toml")


GPU = """
[[queue]]
path = "root"
[queue.partition.gpu]
capacity = 100

[[queue]]
path = "root.gpu"
weight = 2
default_partition = "gpu"
[queue.partition.gpu]
weight = 1
maximum_capacity = 50
maximum_am_resource_percent = 0.5
"""


def test_a_queue_gets_its_part_of_a_partition(store, specs):
    store.partitions = {"gpu": True}
    assert [change.path for change in apply(store, specs(GPU)).changes] == ["root.gpu", "root"]
    assert compare(store, specs(GPU)).changes == ()
    written = {key.removeprefix(f"{PREFIX}.root.gpu."): value for key, value in store.conf.items() if "root.gpu" in key}
    assert written == {
        "capacity": "2w",
        "accessible-node-labels": "gpu",
        "default-node-label-expression": "gpu",
        "accessible-node-labels.gpu.capacity": "1w",
        "accessible-node-labels.gpu.maximum-capacity": "50",
        "accessible-node-labels.gpu.maximum-am-resource-percent": "0.5",
    }
    assert store.conf[f"{PREFIX}.root.accessible-node-labels.gpu.capacity"] == "100"
    # Others need their parents' part, now that these have one.
    more = GPU.partition("\n\n")[2].replace("root.gpu", "root.more")
    assert [change.path for change in compare(store, specs(more)).changes] == ["root.more"]


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        (GPU.replace("partition.gpu", "partition.big").replace('= "gpu"', '= "big"'),
         "queue root.gpu: partition big", "yarn.node-labels.enabled=true"),
        (GPU.partition("\n\n")[2], "queue root.gpu: partition gpu", r"add a \[queue.partition.gpu\] to root$"),
        (GPU.replace("weight = 2", "weight = 2\ndynamic_leaves = true"), "queue root.gpu: partition gpu", "dynamic"),
        (GPU.replace("weight = 1\n", ""), "queue root.gpu: partition gpu weight", "required"),
        (GPU.replace("weight = 1\n", "weight = 1\ncapacity = 9\n"), "queue root.gpu: partition gpu capacity", "not"),
        (GPU.replace('= "gpu"', '= "big"'), "queue root.gpu: default_partition", "one of its partitions, gpu"),
        (GPU.replace("[queue.partition.gpu]", '[queue.partition."a b"]', 1), "queue root: partition", "node label"),
    ],
)  # fmt: skip
def test_a_part_that_yarn_would_accept_and_ignore_is_refused(store, specs, text, field, expected):
    store.partitions = {"gpu": True}
    with pytest.raises(QueueFileError) as raised:
        apply(store, specs(text))
    assert re.search(expected, problems(raised)[field]), problems(raised)
    assert store.written == []


def test_numbers_are_written_short():
    assert [number(value) for value in (8.0, 0.01, 100, 33.333333, 0)] == ["8", "0.01", "100", "33.333333", "0"]


@pytest.fixture
def run(store, monkeypatch, tmp_path, capsys):
    """A queue command against the store; returns its exit code, what it printed and what it complained."""
    monkeypatch.setattr(command, "ResourceManager", lambda urls, user, verify: store)
    file = tmp_path / "queues.toml"

    def run_one(name, text=TEAM, *more):
        file.write_text(text)
        arguments = ["queues", name, "--rm", "http://rm:8088", *more, *([str(file)] if name != "show" else [])]
        code = console.run(cli, "yarn-plugin", arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_one


def test_plan_and_apply_say_what_there_is_to_do_and_when_there_is_nothing(run, tmp_path):
    code, out, _ = run("plan")
    assert (code, "11 changes in 4 queues; apply with: yarn-plugin queues apply" in out) == (0, True)
    assert ": root.default" in out
    code, out, _ = run("apply", TEAM, "--json", str(tmp_path / "made.json"))
    assert (code, "11 changes in 4 queues made" in out) == (0, True)
    assert json.loads((tmp_path / "made.json").read_text())["changes"][0]["queue"] == "root.team"
    for name in ("plan", "apply"):
        code, out, _ = run(name)
        assert (code, "nothing to do" in out) == (0, True)


def test_the_command_that_plan_prints_repeats_the_options(run, tmp_path):
    trusted = tmp_path / "ca certificates.pem"
    trusted.touch()
    _, out, _ = run("plan", TEAM, "--user", "ann", "--ca-file", str(trusted))
    assert f"queues apply --rm http://rm:8088 --user ann --ca-file '{trusted}' {tmp_path / 'queues.toml'}\n" in out


def test_show_prints_the_tree(run, store, tmp_path):
    store.dynamic = {"root.sql.app_1"}
    code, out, _ = run("show", "", "--json", str(tmp_path / "tree.json"))
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()[1:5]] == [
        ["root", "RUNNING", "100%"],
        ["default", "RUNNING", "2w"],
        ["sql", "RUNNING", "8w"],
        ["app_1", "RUNNING", "1w"],
    ]
    assert len(json.loads((tmp_path / "tree.json").read_text())["queues"]) == 4


def test_errors_are_one_line_and_not_zero(run, store):
    code, out, err = run("apply", '[[queue]]\npath = "root.sql"\nweight = 20000\n')
    assert (code, out, err.count("\n")) == (2, "", 1)
    store.writable = False
    code, out, err = run("apply")
    assert (code, out, err.count("\n")) == (1, "", 1)


@pytest.mark.parametrize("name", ["plan", "apply", "show"])
def test_certificates_to_trust_reach_the_manager(run, store, monkeypatch, tmp_path, name):
    trusted = []
    monkeypatch.setattr(command, "ResourceManager", lambda urls, user, verify: trusted.append(verify) or store)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/company.pem")
    (tmp_path / "ca.pem").touch()
    assert run(name)[0] == run(name, TEAM, "--ca-file", str(tmp_path / "ca.pem"))[0] == 0
    assert trusted == ["/etc/company.pem", str(tmp_path / "ca.pem")]


# What is in effect.

THIRDS = "".join(
    f'[[queue]]\npath = "root.{name}"\ncapacity = {part}\n'
    for name, part in (("default", 33.3), ("sql", 33.3), ("x", 33.4))
)


def test_a_capacity_that_is_stored_and_not_used_is_a_warning_and_no_success(run, store, tmp_path, monkeypatch):
    """Hadoop 3.5.0: a parent of dynamic leaf queues keeps what its weight gave it."""
    monkeypatch.setattr(writing, "SETTLE_S", 0.0)
    store.stuck["root.sql"] = 0.8
    results = tmp_path / "results.json"
    for changes in ("3 changes in 3 queues made", "nothing to do: the configuration matches"):
        code, out, error = run("apply", THIRDS, "--json", str(results))
        assert code == 1
        assert changes in out
        assert "verified" not in out
        assert error.startswith("warning: root.sql has 80.0% of the cluster, not 33.3% as configured; restart")
        assert len(error.splitlines()) == 1
        found = json.loads(results.read_text())["not_in_effect"]
        assert [(one["path"], one["effective"]) for one in found] == [("root.sql", 0.8)]
    code, out, error = run("plan", THIRDS)
    assert (code, error.count("warning: root.sql has 80.0%")) == (0, 1)
    del store.stuck["root.sql"]
    code, out, error = run("apply", THIRDS)
    assert (code, error) == (0, "")


@pytest.mark.parametrize("text", [TEAM, THIRDS])
def test_capacities_that_are_in_effect_are_no_warning(run, store, text):
    store.dynamic |= {"root.sql.app_1", "root.sql.app_2"}
    code, out, error = run("apply", text)
    assert (code, error) == (0, "")
    assert "made and verified" in out
