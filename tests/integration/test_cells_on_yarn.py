"""Two virtual clusters on a real cluster: a guaranteed gang evicts opportunistic work, whatever is killed meanwhile."""

import getpass
import os
import signal

import psutil
import pytest

from tests.eventually import eventually
from tests.integration.arbiter_process import run
from tests.leased.intervals import overlaps
from tests.leased.lab import Lab, ledger_pool
from yarn_plugin.decide.commands import SignalContainers
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate

pytestmark = pytest.mark.integration


@pytest.fixture
def settings():
    return {}


@pytest.fixture
def lab(cluster, tmp_path, settings):
    folder = tmp_path / "arbiter"
    folder.mkdir()
    clusters = ("--vc", "prod", "--vc", "research")
    done = run("cells", "init", folder / "cells.toml", "--rm", cluster.rm_url, "--no-racks", *clusters)
    assert done.returncode == 0, done.stderr
    assert run("cells", "check", folder / "cells.toml", "--rm", cluster.rm_url).returncode == 0
    tenants = "[tenants]\n" + "".join(f'{name} = ["{getpass.getuser()}"]\n' for name in ("prod", "research"))
    made = Lab(cluster, tmp_path, config=tenants + ledger_pool("cells", {"cells": "cells.toml", **settings}))
    yield made
    made.close()


def job(name, tenant, *sizes, **more):
    pods = [{"pods": 1, "cells_each": size} for size in sizes]
    return {"name": name, "tenant": tenant, "gang": pods, **more}


def pool(lab):
    return lab.replayed().state.pool_states["gpu"].state


def decided(lab, kind):
    return any(isinstance(command, kind) for one in lab.replayed().history for command in one.commands)


def low_leases(lab):
    low = min(lab.replayed().state.registered, key=lambda app: int(app.removeprefix("app_")))
    return [entry for entry in pool(lab).ledger.leases.values() if entry.app == low]


PHASES = {
    "journaled": lambda lab: any(entry.leased.leaving for entry in pool(lab).ledger.leases.values()),
    "signalled": lambda lab: decided(lab, SignalContainers),
    "gone": lambda lab: sum(len(entry.gpus) for entry in low_leases(lab)) < 16,
}


def kill(lab, process):
    """kill -9, and start it again; YARN starts an application master again."""
    if process == "arbiter":
        lab.arbiter.kill()
        lab.arbiter.start()
    elif process == "manager":
        os.kill(lab.cluster.daemons["rm"], signal.SIGKILL)
        lab.cluster.start("rm")
        lab.cluster.wait()
    else:
        config = str(lab.folder / f"{process}.json")
        masters = [one for one in psutil.process_iter(["cmdline"]) if config in (one.info["cmdline"] or ())]
        assert len(masters) == 1
        masters[0].kill()


MORE = [
    pytest.param(process, phase, marks=pytest.mark.matrix)
    for process in ("arbiter", "manager", "high")
    for phase in PHASES
    if (process, phase) != ("arbiter", "journaled")
]


@pytest.mark.parametrize(("process", "phase"), [("arbiter", "journaled"), *MORE])
def test_a_gang_evicts_and_starts_whatever_is_killed_and_when(lab, process, phase):
    lab.submit("low", jobs=[job(f"low-{number}", "research", 4, priority=-1) for number in range(4)], work_s=10_000)
    eventually(lambda: len(lab.gpus_of("low")) == 16, "opportunistic work has all GPUs", 90)
    lab.hold("vacate", "low")
    lab.submit("high", jobs=[job("urgent", "prod", 4, 4)], work_s=10_000, attempts=2)
    eventually(lambda: PHASES[phase](lab), f"the eviction is {phase}")
    kill(lab, process)
    eventually(lambda: len(lab.gpus_of("high")) == 8, "the gang runs within its grace and 60 s", 65)
    eventually(lambda: len(pool(lab).ledger.leases) == 4, "both gangs of research that are left run on")
    kept = pool(lab)
    validate(kept.allocated.cells.cluster)
    kinds = {one.leased.claim[1]: one.leased.kind for one in kept.ledger.leases.values()}
    assert kinds.pop("urgent") == "guaranteed"
    assert list(kinds.values()) == ["guaranteed"] * 2, "what is left of research was promoted into its own quota"
    assert sum(len(one.gpus) for one in kept.ledger.leases.values()) == 16
    assert not overlaps(lab.intervals()), "no GPU twice"
    lab.let("vacate", "low")
    lab.finish("low", "high")


@pytest.mark.matrix
@pytest.mark.parametrize(
    "settings", [{"inside.prod": "fifo", "inside.research": "themis", "inside_lease_s": 15}], ids=["inside"]
)
def test_an_auction_in_one_virtual_cluster_and_a_queue_in_another(lab):
    lab.submit("low", jobs=[job(f"low-{number}", "research", 4, priority=-1) for number in range(4)], work_s=10_000)
    eventually(lambda: len(lab.gpus_of("low")) == 16, "opportunistic work has all GPUs", 90)
    searches = ("first", "second")
    for name in searches:
        lab.submit(name, jobs=[{"name": "search", "tenant": "research"}], work_s=10_000)
    eventually(lambda: len(lab.gpus_of(*searches)) >= 8, "the auction divides the cells of research", 120)
    lab.submit("urgent", jobs=[job("urgent", "prod", 4, 4)], work_s=10_000)
    eventually(lambda: any(entry.leased.leaving for entry in low_leases(lab)), "the gang of prod evicts")
    kill(lab, "arbiter")
    eventually(lambda: len(lab.gpus_of("urgent")) == 8, "the gang runs within its grace and 60 s", 65)
    lab.submit("later", jobs=[job("later", "prod", 4)], work_s=10_000)
    eventually(lambda: len(lab.gpus_of(*searches)) >= 8 and all(map(lab.gpus_of, searches)), "both searches win", 120)
    assert not lab.gpus_of("later"), "the queue of prod is in order of arrival"
    lab.finish("urgent")
    eventually(lambda: len(lab.gpus_of("later")) == 4, "the next gang of prod runs", 65)
    validate(pool(lab).allocated.cells.cluster)
    assert not overlaps(lab.intervals()), "no GPU twice"
    lab.finish("low", "later", *searches)
