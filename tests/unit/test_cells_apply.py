"""`yarn-plugin cells apply` and `running`: another cells file for an arbiter that runs."""

import json

import pytest

from tests.http_service import Service, problems, running
from yarn_plugin import console
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, ArbiterRefusedError
from yarn_plugin.cli import cli
from yarn_plugin.decide.events import AppsChanged, JobsDeclared, Looked, NodesChanged, PoolReconfigured
from yarn_plugin.drive import config
from yarn_plugin.journal.records import JournalUnavailableError
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Gang, Job, Pods

ARBITER = """
[[pools]]
name = "gpu"
queue = "root.gpu"
resources = ["yarn.io/gpu"]
controller = "ledger"
parameters = { allocator = "cells", settings = { cells = "cells.toml", default_cluster = "prod" } }
"""
CELLS = """
[cell_types.node]
child = "gpu"
number = 4
is_node = true
[[cells]]
type = "node"
nodes = ["n1"]
[[cells]]
type = "node"
nodes = ["n2"]
[virtual_clusters.prod]
cells = [{ type = "node", number = 1 }]
[virtual_clusters.research]
cells = [{ type = "node", number = 1 }]
"""
SMALLER = CELLS.replace('research]\ncells = [{ type = "node", number = 1 }]', "research]\ncells = []")


@pytest.fixture
def service(tmp_path, request):
    (tmp_path / "cells.toml").write_text(CELLS)
    file = tmp_path / "arbiter.toml"
    file.write_text(ARBITER.replace('"prod" }', f'"prod"{getattr(request, "param", "")} }}'))
    pools = [section.pool() for section in config.load(file).pools]
    made = Service(tmp_path, *pools, cells_files=config.cells_files(file))
    nodes = tuple(Node(f"{host}:8041", "/r", Resources.of({GPU: 4, "vcores": 8})) for host in ("n1", "n2"))
    made.arbiter.take(NodesChanged(nodes, ()))
    train = made.register("train", pool="gpu")
    made.arbiter.take(AppsChanged((running("application_1_0001", train.queue),), ()))
    made.arbiter.take(Looked())
    made.arbiter.take(JobsDeclared(train.app, (Job("big", "research", gang=Gang((Pods(1, 4),))),)))
    yield made
    made.arbiter.close()


@pytest.fixture
def run(capsys, tmp_path, service, monkeypatch):
    """The command, with the service instead of an arbiter at an address."""

    def call(self, method, path, body=None):
        answer = service.ask(self.token, method, path, None if body is None else body.model_dump())
        if answer.status_code >= 400:
            raise ArbiterRefusedError(answer.status_code, wire.Problems.model_validate(answer.json()).problems)
        return answer.content

    monkeypatch.setattr(ArbiterClient, "_call", call)

    def run(*arguments, token=service.tokens.admin_file):
        code = console.run(cli, "yarn-plugin", ["cells", *map(str, arguments), "--token-file", str(token)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def new_file(tmp_path, text):
    path = tmp_path / "new.toml"
    path.write_text(text)
    return path


def test_apply_says_what_plan_said_replaces_the_file_and_is_decided_on(run, service, tmp_path):
    code, out, _ = run("running", "--json", tmp_path / "running.json")
    assert code == 0 and "research" in out
    gangs = json.loads((tmp_path / "running.json").read_text())["gangs"]
    assert [(one["gang"], one["pods"][0]["quota_types"]) for one in gangs] == [("app_6/big", ["node"] * 4)]
    new = new_file(tmp_path, SMALLER)
    console.run(cli, "yarn-plugin", ["cells", "plan", str(new), "--running", str(tmp_path / "running.json")])
    code, out, err = run("apply", new, "--json", tmp_path / "applied.json")
    assert (code, err) == (0, "")
    planned = ["feasible; 0 gangs unchanged", "opportunistic from then on: app_6/big"]
    assert out.splitlines()[:2] == planned, "printed by plan"
    assert out.splitlines()[2:4] == planned, "printed by apply"
    assert out.splitlines()[4] == "pool gpu: in effect in 30 s; their applications have been told"
    assert json.loads((tmp_path / "applied.json").read_text())["in_s"] == 30.0
    assert (tmp_path / "cells.toml").read_text() == SMALLER
    assert isinstance(service.arbiter.history()[-1].event, PoolReconfigured)
    (pool,) = [section.pool() for section in config.load(tmp_path / "arbiter.toml").pools]
    assert service.arbiter.state.pools == (pool,), "a restart has the same configuration"
    code, out, _ = run("apply", new_file(tmp_path, CELLS))
    assert out.splitlines() == ["feasible; 1 gang unchanged", "pool gpu: in effect now"]
    assert not list(tmp_path.glob(".cells*")), "no draft is left"


def test_show_fit_and_plan_ask_the_arbiter_where_no_file_is_given(run, tmp_path):
    code, out, _ = run("show")
    assert code == 0 and "gpu 0: app_6/big (priority 0)" in out
    assert run("fit", "--vc", "prod", "--gang", "1x4")[1].splitlines() == ["now, on n2[0,1,2,3]"]
    waits = ["waits: no room in research at priority 0", "until any of these ends: app_6/big"]
    assert run("fit", "--vc", "research", "--gang", "1x1")[1].splitlines() == waits
    assert run("plan", new_file(tmp_path, SMALLER))[1].splitlines() == [
        "feasible; 0 gangs unchanged",
        "opportunistic from then on: app_6/big",
    ]


def test_without_a_file_of_its_own_the_arbiter_cannot_say_its_cells(run, service):
    service.app.state.backend.cells_files.clear()
    code, _, err = run("show")
    assert code == 2
    assert "FILE '': required: the cells of pool gpu are in no file of their own" in err


INSIDE = pytest.mark.parametrize("service", [', inside = { research = "fifo" }'], indirect=True)


@INSIDE
def test_gpus_leased_by_a_scheduler_inside_go_by_their_jobs(run, tmp_path):
    out = run("running", "--json", tmp_path / "running.json")[1]
    assert "app_6/big  research         0         n1[0] n1[1] n1[2] n1[3]" in out
    gangs = json.loads((tmp_path / "running.json").read_text())["gangs"]
    assert [(one["gang"], one["job"]) for one in gangs] == [
        (f"app_6/big on n1[{number}]", "app_6/big") for number in range(4)
    ]
    for source in ((), (tmp_path / "cells.toml", "--running", tmp_path / "running.json")):
        assert "gpu 3: app_6/big (priority 0)" in run("show", *source)[1]
        waits = run("fit", *source, "--vc", "research", "--gang", "1x2")[1].splitlines()
        assert waits[-1] == "until any of these ends: app_6/big", "all of its GPUs end together"
    new = new_file(tmp_path, SMALLER)
    planned = [
        "feasible; 0 gangs unchanged",
        "revoked, and started again on other cells of their virtual cluster: app_6/big",
    ]
    assert run("plan", new)[1].splitlines() == planned
    assert run("apply", new)[1].splitlines()[:2] == planned


@INSIDE
def test_why_names_the_job_whose_end_would_make_room_not_its_gpus(service):
    low = Job("low", "research", priority=-1, gang=Gang((Pods(1, 2), Pods(1, 4))))
    big = Job("big", "research", gang=Gang((Pods(1, 4),)))
    app = next(iter(service.arbiter.state.registered))
    service.arbiter.take(JobsDeclared(app, (big, low)))
    said = service.as_admin("GET", f"/v1/apps/{app}/why").json()["cells"]
    assert any("until any of these ends: app_6/big" in line for line in said), said
    assert not any("@" in line for line in said)


INVALID = [
    (CELLS.replace("number = 1", "number = 2"), "all quotas: 4: only 2 available"),
    (
        CELLS.replace("[virtual_clusters.prod]", "[virtual_clusters.other]"),
        "default_cluster 'prod': choose one of other, research",
    ),
]


@pytest.mark.parametrize(("text", "error"), INVALID)
def test_what_is_invalid_changes_nothing(run, service, tmp_path, text, error):
    seq = service.arbiter.history()[-1].seq
    code, _, err = run("apply", new_file(tmp_path, text))
    assert code != 0 and error in err and err.count("\n") == 1
    assert (tmp_path / "cells.toml").read_text() == CELLS
    assert service.arbiter.history()[-1].seq == seq
    assert not list(tmp_path.glob(".cells*"))


def test_the_file_is_put_back_if_the_arbiter_cannot_decide(service, tmp_path):
    service.arbiter.fails = JournalUnavailableError("disk full")
    answer = service.as_admin("PUT", "/v1/pools/gpu/cells", {"text": SMALLER})
    assert answer.status_code == 503
    assert (tmp_path / "cells.toml").read_text() == CELLS


def test_only_the_administrator_may_read_and_replace_the_cells(run, service, tmp_path):
    (tmp_path / "ann.token").write_text(service.user("ann"))
    code, _, err = run("apply", new_file(tmp_path, SMALLER), "--pool", "gpu", token=tmp_path / "ann.token")
    assert code != 0 and "must be the administrator's token" in err
    assert service.ask(service.user("ann"), "GET", "/v1/pools/gpu/cells").status_code == 403


def test_unknown_pools_and_configurations_without_a_file_are_named(service):
    answer = service.as_admin("GET", "/v1/pools/sql/cells")
    assert (answer.status_code, problems(answer)) == (404, [("pool", "sql", "must be gpu")])
    service.app.state.backend.cells_files.clear()
    answer = service.as_admin("PUT", "/v1/pools/gpu/cells", {"text": SMALLER})
    assert answer.status_code == 409
    assert problems(answer)[0][2].startswith("its cells are in no file of their own; change arbiter.toml")
