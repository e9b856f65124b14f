"""`yarn-plugin cells`, as a user runs it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from yarn_plugin import console
from yarn_plugin.cli import cli

HIVED = Path(__file__).parents[1] / "data/hived"
TWO_LEVELS = """
[cell_types.rack]
child = "node"
number = 2
[cell_types.node]
child = "gpu"
number = 4
is_node = true

[[cells]]
type = "rack"
nodes = ["n1", "n2"]
[[cells]]
type = "rack"
children = [{ address = "n3" }, { address = "n4", pinned = "prod-n4" }]

[virtual_clusters.prod]
cells = [{ type = "node", number = 1 }]
pinned = ["prod-n4"]
[virtual_clusters.research]
cells = [{ type = "gpu", number = 4 }, { type = "node", number = 1 }]
"""
GO_YAML = """
physicalCluster:
  skuTypes:
    V100: { gpu: 1, cpu: 4, memory: 8192Mi }
  cellTypes:
    V100-NODE:
      childCellType: V100
      childCellNumber: 4
      isNodeLevel: true
  physicalCells:
  - cellType: V100-NODE
    cellAddress: 10.151.41.15
    cellChildren: null  # null, empty or absent
  - cellType: V100-NODE
    cellAddress: 10.151.41.16
    pinnedCellId: PIN
virtualClusters:
  default:
    virtualCells:
    - cellType: V100-NODE.V100
      cellNumber: 3
  empty:
  other:
    virtualCells: null
    pinnedCells:
    - pinnedCellId: PIN
kubeApiServerAddress: http://10.151.41.15:8080
"""


@pytest.fixture
def run(capsys, tmp_path):
    def run(*arguments):
        code = console.run(cli, "yarn-plugin", ["cells", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def two_levels(tmp_path):
    path = tmp_path / "cells.toml"
    path.write_text(TWO_LEVELS)
    return path


def test_check_says_how_many_cells_are_assured_and_how_many_more_could_be(run, two_levels, tmp_path):
    code, out, err = run("check", two_levels, "--json", tmp_path / "out.json")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "feasible: 16 leaves, 4 nodes, 2 virtual clusters"
    levels = json.loads((tmp_path / "out.json").read_text())["levels"]
    assert [(each["type"], each["assured"], each["pinned"], each["spare"]) for each in levels] == [
        ("rack", 0, 0, 0),
        ("node", 2, 1, 0),
        ("gpu", 4, 0, 0),
    ]


def test_a_yaml_file_of_the_go_scheduler_is_read_as_it_is(run, tmp_path):
    path = tmp_path / "hived.yaml"
    path.write_text(GO_YAML)
    code, out, _ = run("check", path)
    assert code == 0 and "V100-NODE" in out
    assert run("fit", path, "--vc", "default", "--gang", "3x1")[1].startswith("now, on 10.151.41.15")


def test_json_on_stdout_is_alone_there(run, two_levels):
    code, out, err = run("check", two_levels, "--json", "-")
    assert (code, len(json.loads(out)["levels"])) == (0, 3)
    assert "feasible" in err


def test_fit_names_the_places_the_victims_or_the_cell_that_is_missing(run, two_levels, tmp_path):
    assert run("fit", two_levels, "--vc", "prod", "--gang", "1x4")[1].startswith("now, on n")
    code, out, _ = run("fit", two_levels, "--vc", "prod", "--gang", "2x4")
    assert (code, out.splitlines()) == (
        0,
        ["never, with these quotas:", "  chain rack: each pod fits on a cell, but not all 2 at once"],
    )
    running = tmp_path / "running.json"
    low = {"gang": "low", "virtual_cluster": "prod", "priority": -1, "chain": "rack"}
    low["pods"] = [{"node": node, "leaves": ["0", "1", "2", "3"]} for node in ("n1", "n2", "n3")]
    running.write_text(json.dumps({"gangs": [low]}))
    out = run("fit", two_levels, "--vc", "research", "--gang", "1x4", "--running", running)[1]
    assert out.startswith("after evicting low: on n")
    own = {"gang": "own", "virtual_cluster": "prod", "priority": 3, "chain": "rack"}
    own["pods"] = [{"node": "n1", "leaves": ["0"], "quota_types": ["node"]}]
    running.write_text(json.dumps({"gangs": [own]}))
    out = run("fit", two_levels, "--vc", "prod", "--gang", "1x4", "--running", running)[1]
    assert out.splitlines() == ["waits: no room in prod at priority 0", "until any of these ends: own"]


def test_two_free_gpus_of_a_quota_of_single_gpus_serve_no_pod_of_two(run, tmp_path):
    path = tmp_path / "cells.toml"
    path.write_text(TWO_LEVELS.replace('number = 4 }, { type = "node", number = 1 }]', "number = 4 }]"))
    out = run("fit", path, "--vc", "research", "--gang", "1x2")[1]
    assert out.splitlines()[1] == (
        "  chain rack: a pod has 2 leaves, and the largest cell of research that is a node or smaller has 1 leaf; "
        "needs a cell of type node or larger in its quota"
    )


def test_a_gang_larger_than_its_chain_never_fits_and_check_and_fit_say_so(run, two_levels):
    never = [
        "never, with these quotas:",
        "  chain rack: a pod has 5 leaves, the largest node 4 leaves",
    ]
    code, out, _ = run("fit", two_levels, "--vc", "prod", "--gang", "1x5")
    assert (code, out.splitlines()) == (0, never)
    code, out, _ = run("check", two_levels, "--vc", "prod", "--gang", "1x5")
    assert (code, out.splitlines()[-2:]) == (1, never)
    code, out, _ = run("check", two_levels, "--vc", "prod", "--gang", "5x4")
    assert (code, out.splitlines()[-1]) == (1, "  chain rack: each pod fits on a cell, but not all 5 at once")
    code, out, _ = run("check", two_levels, "--vc", "prod", "--gang", "1x4")
    assert (code, out.splitlines()[-1]) == (0, "1x4 fits in prod")
    assert run("check", two_levels, "--gang", "1x4")[0] == 2, "the virtual cluster is required"


def test_fit_says_when_a_gang_starts_at_the_latest_where_that_is_known(run, two_levels, tmp_path):
    running = tmp_path / "running.json"
    own = {"gang": "own", "virtual_cluster": "prod", "priority": 3, "chain": "rack", "ends_in_s": 600}
    own["pods"] = [{"node": "n1", "leaves": ["0"], "quota_types": ["node"]}]
    running.write_text(json.dumps({"gangs": [own]}))
    out = run("fit", two_levels, "--vc", "prod", "--gang", "1x4", "--running", running)[1]
    assert out.splitlines()[-1] == "at the latest in 600 s, if nobody else comes"
    low = {"gang": "low", "virtual_cluster": "prod", "priority": -1, "chain": "rack"}
    low["pods"] = [{"node": node, "leaves": ["0", "1", "2", "3"]} for node in ("n1", "n2", "n3")]
    running.write_text(json.dumps({"gangs": [low]}))
    arguments = ("--vc", "research", "--gang", "1x4", "--running", running, "--grace", "45", "--json", "-")
    code, out, err = run("fit", two_levels, *arguments)
    assert (code, json.loads(out)["latest_s"]) == (0, 45.0)
    assert err.splitlines()[-1] == "at the latest in 45 s, if nobody else comes"
    running.write_text(json.dumps({"gangs": [{**own, "ends_in_s": -1}]}))
    code, _, err = run("fit", two_levels, "--vc", "prod", "--gang", "1x4", "--running", running)
    assert code == 2 and "ends_in_s -1: must be at least 0" in err


def test_show_prints_a_tree_with_holders_and_bad_nodes(run, two_levels, tmp_path):
    running = tmp_path / "running.json"
    own = {"gang": "own", "virtual_cluster": "prod", "priority": 3, "chain": "rack"}
    own["pods"] = [{"node": "n1", "leaves": ["0"], "quota_types": ["node"]}]
    running.write_text(json.dumps({"gangs": [own], "bad_nodes": ["n2"]}))
    code, out, _ = run("show", two_levels, "--running", running, "--json", tmp_path / "out.json")
    assert code == 0
    assert "    node n1: bound: prod, 1 of 4 leaves held\n      gpu 0: own (priority 3)\n" in out
    assert "    node n2: BAD, free\n" in out and "node n4: pinned prod-n4, bound: prod\n" in out
    again = json.loads((tmp_path / "out.json").read_text())
    assert again["bad_nodes"] == ["n2"] and again["gangs"][0]["pods"] == own["pods"]


def test_the_map_has_a_letter_for_each_gpu_and_says_how_fragmented_the_cluster_is(run, two_levels, tmp_path):
    running = tmp_path / "running.json"
    own = {"gang": "own", "virtual_cluster": "prod", "priority": 3, "chain": "rack"}
    own["pods"] = [{"node": "n1", "leaves": ["0"], "quota_types": ["node"]}]
    low = {"gang": "low", "virtual_cluster": "research", "priority": -1, "chain": "rack"}
    low["pods"] = [{"node": "n3", "leaves": ["2", "3"]}]
    running.write_text(json.dumps({"gangs": [own, low], "bad_nodes": ["n2"]}))
    code, out, _ = run("show", two_levels, "--running", running, "--map")
    assert code == 0
    assert out.splitlines()[:6] == [
        "chain rack: 1 of 4 nodes cannot take a guaranteed pod of all their GPUs, as guaranteed work holds some",
        "  n1  A...",
        "  n2  !!!!",
        "  n3  ..bb",
        "  n4  ....",
        "A prod, B research; lower case: opportunistic work; . free; ! free, on a bad node",
    ]


def test_plan_names_the_gangs_that_a_new_configuration_would_downgrade(run, tmp_path, two_levels):
    running = tmp_path / "running.json"
    own = {"gang": "own", "virtual_cluster": "prod", "priority": 3, "chain": "rack"}
    own["pods"] = [{"node": "n1", "leaves": ["0"], "quota_types": ["node"]}]
    gone = own | {"gang": "gone", "pods": [{"node": "n9", "leaves": ["0"], "quota_types": ["node"]}]}
    running.write_text(json.dumps({"gangs": [own, gone]}))
    new = tmp_path / "new.toml"
    new.write_text(
        TWO_LEVELS.replace(
            '[virtual_clusters.prod]\ncells = [{ type = "node", number = 1 }]', "[virtual_clusters.prod]"
        )
    )
    assert run("plan", two_levels, "--running", running)[1].splitlines()[0] == "feasible; 1 gang unchanged"
    assert run("plan", new, "--running", running)[1].splitlines() == [
        "feasible; 0 gangs unchanged",
        "opportunistic from then on: own",
        "on GPUs that are no longer part of the cluster: gone",
    ]


def test_replay_prints_a_row_a_mode_and_exits_with_1_if_a_rule_is_broken(run, tmp_path):
    case = HIVED / "scenarios/p05-gang-never-spans-chains.json"
    code, out, _ = run("replay", case, "--json", tmp_path / "out.json")
    assert code == 0 and out.count("p05") == 2
    assert json.loads((tmp_path / "out.json").read_text())[0]["outcomes"] == {"agreed": 3, "compared": 3}
    wrong = json.loads(case.read_text())
    wrong["steps"][0]["expect"]["outcome"] = "bind"
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    (tmp_path / "design.json").write_text((HIVED / "configs/design.json").read_text())
    code, out, _ = run("replay", tmp_path / "wrong.json")
    assert code == 1 and "step 0 (follow): broken" in out


# ruff: noqa: E501
INVALID = [
    ('[{ type = "node", number = 1 }]\npinned', '[{ type = "node", number = 4 }]\npinned', "level 2: cells of type node in all quotas: 5: only 3 available"),
    ('[{ type = "node", number = 1 }]\npinned', '[{ type = "cpu", number = 1 }]\npinned', "virtual_clusters.prod.cells: type 'cpu': must be one of rack, node, gpu"),
    ('type = "node", number = 1 }]\npinned', 'type = "node", chain = "x", number = 1 }]\npinned', "virtual_clusters.prod.cells: chain 'x': must be one of rack"),
    ('pinned = ["prod-n4"]', "", "pinned 'prod-n4': is in no virtual cluster; must be in exactly one"),
    ("[virtual_clusters.research]", '[virtual_clusters.research]\npinned = ["prod-n4"]', "pinned 'prod-n4': is in prod and research; must be in exactly one"),
    ('["prod-n4"]', '["prod-n5"]', "pinned 'prod-n5': no cell has this id; pinned cells: prod-n4"),
    ('child = "gpu"', 'child = "rack"', "cell_types 'rack -> node -> rack': a cell must not contain itself"),
    ("is_node = true", "", "must have one node level (is_node), not 0"),
    ('["n1", "n2"]', '["n1", "n1"]', "address 'n1': chain rack has this node already"),
    ('["n1", "n2"]', '["n1", "n3"]', "address 'n3': chain rack has this node already"),
    ('["n1", "n2"]', '["n1"]', "too few host names for its nodes"),
    ('["n1", "n2"]', '["n1", "n2", "n5"]', "1 more than a rack has"),
    ("number = 4\n", "number = 0\n", "cell_types.node.number 0: must be at least 1"),
    ('{ address = "n3" }, ', "", "number of children 1: must be 2, as of each rack"),
    ('type = "rack"\nnodes', 'type = "row"\nnodes', "'row'"),
    ('{ type = "gpu", number = 4 }', '{ type = "gpu", number = -4 }', "number -4: must be at least 0"),
    ("[[cells]]", "[[cells]", "not TOML"),
    ("[virtual_clusters.research]", "[virtual_clusters.research]\nquota = 3", "virtual_clusters.research.quota"),
    ('{ type = "gpu", number = 4 }', '{ type = "gpu", number = 1_000_000_000 }', "cells of type gpu in all quotas: 1000000000: only 4 available"),
    ("number = 4\n", "number = true\n", "cell_types.node.number True: must be an integer"),
    ("number = 4\n", 'number = "4"\n', "cell_types.node.number '4': must be an integer"),
    ("[virtual_clusters.prod]", '[virtual_clusters."prod//night"]', "virtual_clusters 'prod//night': must be a path of names"),
    ("[virtual_clusters.prod]", '[virtual_clusters."prod/"]', "virtual_clusters 'prod/': must be a path of names"),
    ('["n1", "n2"]', '["n1", "n 2"]', "cells #1.2: address 'n 2': must be a host name, without spaces"),
    ('["n1", "n2"]', '["n1", "n\\n2"]', "cells #1.2: address 'n\\n2': must be a host name, without spaces"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "error"), INVALID, ids=[error[:60] for _, _, error in INVALID])
def test_an_invalid_file_is_an_error_of_one_line(run, tmp_path, old, new, error):
    assert old in TWO_LEVELS
    path = tmp_path / "cells.toml"
    path.write_text(TWO_LEVELS.replace(old, new, 1))
    code, out, err = run("check", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert error in err and "cells.toml" in err


@pytest.mark.parametrize(
    ("levels", "children", "error"),
    [
        (2000, 1, "cell_types 'l0': must have at most 32 levels below it"),
        (5, 1000, "cells: number of leaves 1000000000000000: must be at most 1,000,000"),
    ],
)
def test_cells_without_end_are_an_error_of_one_line(run, tmp_path, levels, children, error):
    types = "".join(
        f'[cell_types.l{level}]\nchild = "l{level + 1}"\nnumber = {children}\nis_node = {str(level == 1).lower()}\n'
        for level in range(levels)
    )
    path = tmp_path / "cells.toml"
    path.write_text(types + '[[cells]]\ntype = "l0"\n[virtual_clusters.prod]\n')
    code, out, err = run("check", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert error in err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--vc", "dev", "--gang", "1x1"), "virtual cluster 'dev': must be one of prod, research"),
        (("--vc", "prod", "--gang", "4"), "--gang '4': must be pods and GPUs of each, such as 4x8 or 2x8,1x4"),
        (("--vc", "prod", "--gang", "0x4"), "must be at least one pod of at least one leaf"),
        (("--vc", "prod", "--gang", "1x1", "--priority", "1001"), "--priority"),
        (("--vc", "prod", "--gang", "1x1", "--leaf-type", "A100"), "leaf type 'A100': must be one of gpu"),
        (
            ("--vc", "research", "--gang", "1x1", "--pinned", "prod-n4"),
            "pinned 'prod-n4': pinned cells of research: none",
        ),
        (
            ("--vc", "prod", "--gang", "1x1", "--pinned", "prod-n4", "--priority", "-1"),
            "must be at least 0 on a pinned cell",
        ),
    ],
)
def test_an_invalid_request_is_an_error_of_one_line(run, two_levels, arguments, error):
    code, out, err = run("fit", two_levels, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert error in err


def test_invalid_yaml_and_aliases_are_errors_with_their_place(run, tmp_path):
    path = tmp_path / "hived.yaml"
    path.write_text("physicalCluster: [1\n")
    assert "not YAML: line 2, column 1" in run("check", path)[2]
    path.write_text("a: &x [1]\nb: *x\n")
    assert "aliases" in run("check", path)[2]


def test_the_help_of_each_command_is_short(two_levels):
    for name in ("check", "show", "fit", "plan", "replay"):
        assert CliRunner().invoke(cli, ["cells", name, "-h"]).exit_code == 0


@pytest.mark.parametrize(
    ("running", "error"),
    [
        ("[]", "must be"),
        ("{", "not JSON: line 1"),
        ('{"gangs": [{"gang": "a"}]}', "gangs #1.virtual_cluster"),
        ('{"gangs": [GANG, GANG]}', "gang 'own' is listed twice; names must differ"),
        ('{"gangs": [GANG], "nodes": 3}', "nodes"),
        ('{"gangs": [GANG, OTHER]}', "leaf '0' of node 'n1' is held twice, by own and other"),
        ('{"gangs": [TWICE]}', "leaf '0' of node 'n1' is held twice, by own and own"),
        ('{"gangs": [MORE]}', "quota_types must have one type for each leaf, or none at all"),
    ],
)
def test_invalid_work_is_an_error_of_one_line(run, two_levels, tmp_path, running, error):
    own = {"gang": "own", "virtual_cluster": "prod", "priority": 3, "chain": "rack"}
    own["pods"] = [{"node": "n1", "leaves": ["0"], "quota_types": ["node"]}]
    more = own | {"pods": [{"node": "n1", "leaves": ["0", "1"], "quota_types": ["node"]}]}
    path = tmp_path / "running.json"
    twice = own | {"pods": [{"node": "n1", "leaves": ["0", "0"]}]}
    gangs = {"GANG": own, "MORE": more, "OTHER": own | {"gang": "other"}, "TWICE": twice}
    for key, gang in gangs.items():
        running = running.replace(key, json.dumps(gang))
    path.write_text(running)
    code, out, err = run("show", two_levels, "--running", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert error in err and "running.json" in err


def test_an_invalid_case_is_an_error_of_one_line(run, tmp_path):
    path = tmp_path / "case.json"
    step = {"op": "schedule", "spec": "x", "expect": {"outcome": "bind"}}
    for text, error in (
        ('{"name": "n", "config": "c", "steps": []}', "steps"),
        (json.dumps({"name": "n", "config": "c", "steps": [step]}), "steps #0.spec 'x': must be a key of specs: none"),
        (json.dumps({"name": "n", "config": "c", "steps": [step | {"op": "jump"}]}), "steps #1.op 'jump'"),
        (
            json.dumps({"name": "n", "config": "c", "steps": [{"op": "restart", "expect": {"outcome": "ok"}}]}),
            "config 'c': no file",
        ),
    ):
        path.write_text(text)
        code, out, err = run("replay", path)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert error in err, err
