"""`why` in a pool of virtual clusters answers what users of HiveD's scheduler asked."""

from dataclasses import replace

import pytest

from tests.http_service import Service, running
from yarn_plugin.decide.events import AppsChanged, JobsDeclared, Looked, NodesChanged, NodeUseChanged, PoolReconfigured
from yarn_plugin.drive import config
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Gang, Job, Pods

ARBITER = """
[[pools]]
name = "gpu"
queue = "root.gpu"
resources = ["yarn.io/gpu"]
controller = "ledger"
parameters = {{ allocator = "cells", {more}settings = {{ cells = "cells.toml", notice_s = 0{settings} }} }}
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
cells = [{ type = "gpu", number = 4 }]
"""


@pytest.fixture
def at(tmp_path):
    made = []

    def at(cells=CELLS, more="", gpus=4, settings="", **amounts):
        (tmp_path / "cells.toml").write_text(cells)
        (tmp_path / "arbiter.toml").write_text(ARBITER.format(more=more, settings=settings))
        service = Service(tmp_path, *pools(tmp_path))
        made.append(service)
        capacity = Resources.of({GPU: gpus, "vcores": 8, "memory-mb": 4096, **amounts})
        service.arbiter.take(NodesChanged(tuple(Node(f"{host}:8041", "/r", capacity) for host in ("n1", "n2")), ()))
        service.train = service.register("train", pool="gpu")
        service.arbiter.take(AppsChanged((running("application_1_0001", service.train.queue),), ()))
        service.arbiter.take(Looked())
        return service

    yield at
    for service in made:
        service.arbiter.close()


def pools(folder):
    return [section.pool() for section in config.load(folder / "arbiter.toml").pools]


def declare(service, *jobs):
    service.arbiter.take(JobsDeclared(service.train.app, jobs))


def job(name, *pods, tenant="research", **more):
    return Job(name, tenant, gang=Gang(tuple(Pods(1, size) for size in pods)), **more)


def why(service):
    return service.ask(service.user("ann"), "GET", f"/v1/apps/{service.train.app}/why").json()


def test_two_gpus_refused_though_two_are_free_names_the_cell_and_the_quota(at, tmp_path):
    service = at()
    declare(service, job("pair", 2))
    assert why(service)["cells"] == [
        "job pair: never, with these quotas:",
        "job pair: chain node: a pod has 2 leaves, and the largest cell of research that is a node or smaller has 1 "
        "leaf; needs a cell of type node or larger in its quota",
        "job pair: its quota in this chain would have to be: "
        'virtual_clusters.research.cells = [{ chain = "node", type = "node", number = 1 }]',
    ]
    quota = why(service)["cells"][-1].partition("cells = ")[2]
    service.arbiter.close()
    (tmp_path / "journal").unlink()
    service = at(CELLS.replace('[{ type = "gpu", number = 4 }]', quota))
    declare(service, job("pair", 2))
    assert why(service)["cells"] == [], "with this quota it starts"


def test_where_others_leave_no_cell_it_says_so(at):
    cells = CELLS.replace('"gpu", number = 4', '"gpu", number = 1')
    service = at(cells.replace('"node", number = 1', '"node", number = 1 }, { type = "gpu", number = 3'))
    declare(service, job("pair", 2))
    assert why(service)["cells"][-1] == (
        "job pair: no such cell is left beside the quotas of others; theirs would have to be smaller, or the chain "
        "larger"
    )


def test_a_gang_larger_than_its_chain_never_fits(at):
    service = at()
    declare(service, job("huge", 16, tenant="prod"), job("many", *[4] * 20, tenant="prod"))
    said = why(service)["cells"]
    assert "job huge: chain node: a pod has 16 leaves, the largest node 4 leaves" in said
    assert "job many: chain node: each pod fits on a cell, but not all 20 at once" in said


def test_a_wrong_number_of_gpus_in_the_file_is_named_for_each_node(at):
    service = at(gpus=2)
    declare(service, job("one", 1))
    said = why(service)["cells"]
    assert "node n1: 4 GPUs in the file, but 2 in YARN; bad until they agree" in said
    assert "node n2: 4 GPUs in the file, but 2 in YARN; bad until they agree" in said
    assert "virtual cluster research: only bad nodes are left for 4 cells of its quota" in said


def test_nodes_that_yarn_does_not_know_are_named(at):
    service = at(CELLS.replace('"n2"', '"n2.example.com"'))
    declare(service, job("node", 4, tenant="prod"), job("more", 4, tenant="prod"))
    line = "node n2.example.com: YARN reports no such host; must be a host name as in `yarn node -list`"
    assert line in why(service)["cells"]


def test_all_nodes_healthy_yet_bad_says_which_gpus_and_why(at):
    service = at(more="task_memory_mb = 1400, ")
    declare(service, job("node", 4, tenant="prod"))
    said = why(service)["cells"]
    assert said[0] == "job node: waits: only bad nodes have room"
    assert (
        "node n1: the node is healthy, but n1/2, n1/3 cannot be leased: broken in the topology file, or "
        "beyond the tasks for which the node has memory and vcores"
    ) in said


def test_cpu_only_jobs_beside_gpu_jobs_on_a_node(at):
    service = at(more="task_memory_mb = 1000, ")
    declare(service, Job("etl", "research", gang=None, demand=None))
    (line,) = [line for line in why(service)["cells"] if line.startswith("job etl")]
    assert line.startswith("job etl: uses no GPUs, so it needs no cells and waits for none; YARN places its containers")
    used = tuple((f"{host}:8041", Resources.of({"memory-mb": 3000, "vcores": 2})) for host in ("n1", "n2"))
    service.arbiter.take(NodeUseChanged(used))
    declare(service, job("node", 4, tenant="prod"))
    said = why(service)["cells"]
    assert said[0].startswith("job node: its virtual cluster has room, but only on GPUs that are not free yet")
    assert said[1].startswith("node n1: 3 free GPUs cannot be leased now: other containers, such as those of jobs")


def test_a_job_downgraded_by_a_reconfiguration_is_told_why(at, tmp_path):
    service = at()
    declare(service, job("node", 4, tenant="prod"))
    (tmp_path / "cells.toml").write_text(CELLS.replace('"node", number = 1', '"node", number = 0'))
    (changed,) = pools(tmp_path)
    service.arbiter.take(PoolReconfigured(changed))
    answer = why(service)
    assert answer["decisions"][-1]["reason"].endswith(
        "job node becomes opportunistic: in the new configuration, virtual cluster prod has no cells for it; any "
        "guaranteed work may evict it"
    )
    assert answer["decisions"][-1]["because"] == {"kind": "quota-reduced", "job": "node", "virtual_cluster": "prod"}
    (line,) = answer["cells"]
    assert line.startswith("job node: runs as opportunistic work although its priority is 0: ")


def test_a_job_that_a_reconfiguration_will_downgrade_knows_it(at, tmp_path):
    service = at()
    declare(service, job("node", 4, tenant="prod"))
    (tmp_path / "cells.toml").write_text(CELLS.replace('"node", number = 1', '"node", number = 0'))
    (changed,) = pools(tmp_path)
    settings = replace(changed.parameters.settings, notice_s=60.0)
    service.arbiter.take(PoolReconfigured(replace(changed, parameters=replace(changed.parameters, settings=settings))))
    assert why(service)["cells"] == ["job node: becomes opportunistic soon: the new configuration has no cells for it"]


def test_a_tenant_without_a_virtual_cluster_is_told_so(at):
    service = at()
    declare(service, job("one", 1, tenant="strangers"))
    assert why(service)["cells"] == [
        "job one: waits: 'strangers' has no virtual cluster, and the pool no default_cluster"
    ]


def test_a_job_inside_a_virtual_cluster_with_a_scheduler_of_its_own_waits_for_that_one(at):
    service = at(settings=', inside = { prod = "fifo" }')
    declare(service, job("runs", 4, tenant="prod"), job("waits", 1, tenant="prod"))
    assert why(service)["cells"] == [
        "job waits: waits: the scheduler fifo decides in virtual cluster prod, and has not placed it"
    ]
