"""`yarn-plugin cells init` and `check --rm`: a cells file from what a ResourceManager reports, and compared with it."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from yarn_plugin import console
from yarn_plugin.cli import cells as command
from yarn_plugin.cli import cli
from yarn_plugin.observe.resource_manager import ResourceManager

MACHINES = tuple((f"n{number}", f"/rack{number // 10}", 4, "") for number in range(8, 12))


def node(host, rack, gpus, label="", state="RUNNING", port=8041):
    amounts = [{"name": "yarn.io/gpu", "value": gpus}, {"name": "memory-mb", "value": 4096}]
    resources = {"memory": 4096, "vCores": 8, "resourceInformations": {"resourceInformation": amounts}}
    labels = {"nodeLabels": [label]} if label else {}
    return {"id": f"{host}:{port}", "rack": rack, "state": state, "totalResource": resources, **labels}


@pytest.fixture
def manager(monkeypatch):
    """What /nodes answers; `isolates`: NodeManagers show a container its own GPUs alone."""
    made = SimpleNamespace(nodes=[node(*machine) for machine in MACHINES], isolates=False)
    monkeypatch.setattr(ResourceManager, "get", lambda self, path, **more: {"nodes": {"node": made.nodes}})
    monkeypatch.setattr(command, "probe", lambda manager: SimpleNamespace(isolates_gpus=made.isolates))
    return made


@pytest.fixture
def run(capsys, manager, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = console.run(cli, "yarn-plugin", ["cells", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


RM = ("--rm", "http://rm:8088")


def quotas(run):
    code, _, err = run("check", "cells.toml", "--json", "levels.json")
    assert (code, err) == (0, "")
    levels = json.loads(Path("levels.json").read_text())["levels"]
    return {(one["chain"], one["type"]): one["assured"] for one in levels if one["assured"]}


def test_racks_become_cells_and_the_file_is_never_replaced(run, tmp_path):
    code, out, err = run("init", *RM)
    assert (code, err) == (0, "") and out.startswith("cells.toml written")
    text = (tmp_path / "cells.toml").read_text()
    assert text.startswith("# 16 GPUs in 4 nodes, as the ResourceManager reported them; see docs/cells.md.\n")
    assert 'address = "/rack0"\nnodes = ["n8", "n9"]' in text, "hosts in their natural order"
    assert quotas(run) == {("rack", "rack"): 2}
    assert run("fit", "cells.toml", "--vc", "default", "--gang", "4x4")[1].startswith("now, on ")
    code, _, err = run("init", *RM)
    assert code == 2
    assert err == "yarn-plugin: FILE 'cells.toml': exists already; remove it, or choose another name\n"
    assert (tmp_path / "cells.toml").read_text() == text


def test_virtual_clusters_get_equal_parts(run):
    assert run("init", *RM, "--vc", "prod", "--vc", "research")[0] == 0
    assert quotas(run) == {("rack", "rack"): 2}
    assert run("init", "three.toml", *RM, "--vc", "a", "--vc", "b", "--vc", "c")[0] == 0
    assert run("check", "three.toml")[0] == 0
    assert run("fit", "three.toml", "--vc", "c", "--gang", "1x4")[1].startswith("now, on ")
    assert run("init", "flat.toml", *RM, "--no-racks", "--vc", "a", "--vc", "b")[0] == 0
    assert run("fit", "flat.toml", "--vc", "b", "--gang", "2x4")[1].startswith("now, on ")
    assert run("init", "x.toml", *RM, "--vc", "a", "--vc", "a")[0] == 2


def test_labels_are_types_of_gpu_and_shapes_are_chains(run, manager, tmp_path):
    manager.nodes += [
        node("v1", "/rack3", 8, "v100"),
        node("v2", "/rack3", 2, "v100"),
        node("v3", "/rack4", 8, "v100", "UNHEALTHY"),
        node("lone", '/it\'s "rack5"', 4),
        node("plain", "/rack5", 0),
        node("gone", "/rack5", 0, state="LOST"),
    ]
    assert run("init", *RM, "--vc", "ours")[0] == 0
    text = (tmp_path / "cells.toml").read_text()
    assert "# Without GPUs, so not in here: gone, plain.\n" in text
    assert "# 4 chains, as nodes, racks or labels differ. A gang stays in one chain.\n" in text
    assert quotas(run) == {
        ("rack-1-nodes", "rack-1-nodes"): 1,
        ("rack-2-nodes", "rack-2-nodes"): 2,
        ("v100-rack-2-gpus", "v100-rack-2-gpus"): 1,
        ("v100-rack-8-gpus", "v100-rack-8-gpus"): 2,
    }
    asked = run("fit", "cells.toml", "--vc", "ours", "--gang", "2x8", "--leaf-type", "v100")[1]
    assert asked.startswith("now, on v"), "two racks of one node are one chain"


@pytest.mark.parametrize(
    ("nodes", "arguments", "error"),
    [
        ([node("n1", "/r", 0)], (), "--rm '1 node': no node reports yarn.io/gpu; "),
        ([], (), "--rm '0 nodes': no node reports yarn.io/gpu; "),
        ([node("n1", "/r", 4), node("n1", "/r", 4, port=8042)], (), "--rm: host 'n1': must have one NodeManager "),
        (None, ("cells.yaml",), "FILE 'cells.yaml': must end in .toml"),
        (None, ("none/cells.toml",), "FILE 'none/cells.toml': cannot be written ("),
        (None, ("--vc", ""), "--vc '': must be a path of names"),
        (None, ("--vc", "prod//night"), "--vc 'prod//night': must be a path of names"),
        (None, ("--vc", "prød"), "--vc 'prød': must be a path of names"),
        (None, ("--vc", "prod", "--vc", "prod"), "--vc 'prod prod': must be different names"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(run, manager, tmp_path, nodes, arguments, error):
    manager.nodes = manager.nodes if nodes is None else nodes
    code, out, err = run("init", *RM, *arguments)
    assert (code, out) == (2, "")
    assert error in err and err.count("\n") == 1
    assert not list(tmp_path.glob("*.toml"))


def test_check_compares_the_gpus_of_a_file_with_those_in_yarn(run, manager):
    run("init", *RM)
    code, out, _ = run("check", "cells.toml", *RM)
    assert (code, out.splitlines()[-1]) == (0, "agrees with http://rm:8088")
    manager.nodes = [node("n8", "/rack0", 2), node("n9", "/rack0", 8), node("n10", "/rack1", 4, state="UNHEALTHY")]
    code, out, _ = run("check", "cells.toml", *RM)
    assert code == 1
    assert out.splitlines()[-4:] == [
        "node n8: 4 GPUs in the file, but 2 in YARN; bad until they agree",
        "node n9: 4 GPUs in the file, but 8 in YARN; 4 of them are never used",
        "node n10: takes no containers now (lost, unhealthy or decommissioned)",
        "node n11: YARN reports no such host; must be a host name as in `yarn node -list`",
    ]
    manager.nodes = [node("n9", "/rack0", 8), *(node(*machine) for machine in MACHINES if machine[0] != "n9")]
    assert run("check", "cells.toml", *RM)[0] == 0, "GPUs that the file does not have are only not used"


def test_check_refuses_cells_below_nodes_where_yarn_chooses_the_gpus(run, manager, tmp_path):
    run("init", *RM)
    manager.isolates = True
    assert run("check", "cells.toml", *RM)[0] == 0
    path = tmp_path / "cells.toml"
    path.write_text(path.read_text() + '[virtual_clusters.b]\ncells = [{ type = "gpu", number = 0 }]\n')
    assert run("check", "cells.toml", *RM)[0] == 0
    path.write_text(path.read_text().replace('type = "rack", number = 2', 'type = "rack", number = 1'))
    path.write_text(path.read_text().replace("number = 0", "number = 3"))
    code, out, _ = run("check", "cells.toml", *RM)
    assert code == 1
    assert out.splitlines()[-1] == (
        "virtual_clusters.b.cells: type 'gpu': NodeManagers choose the GPUs of containers here; quotas must be of "
        "nodes or larger cells"
    )
