"""The cells of a cluster: racks and nodes as YARN reports them, and what a topology file adds."""

import json
from itertools import permutations

import pytest

from yarn_plugin.decide.arbiter import step
from yarn_plugin.decide.events import TAGS, Configured
from yarn_plugin.decide.state import State
from yarn_plugin.decide.topology import cell_of_node, topology
from yarn_plugin.drive.config import load
from yarn_plugin.drive.topology import load_topology
from yarn_plugin.journal.codec import Codec
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import GPU, VCORES, Resources
from yarn_plugin.model.topology import CellDescription, NodeDescription, TopologyDescription
from yarn_plugin.toml_files import FileError

PLAIN = TopologyDescription()


def node(host, rack="/r1", cores=8, gpus=0, port=8041):
    return Node(f"{host}:{port}", rack, Resources.of({VCORES: cores, GPU: gpus}))


def built(*nodes, broken=(), described=PLAIN):
    return topology({one.id: one for one in nodes}, {one.id: one for one in broken}, described)


def lines(known):
    """Each cell in a line: where it lies, and what it holds."""
    return [
        f"{cell.parent or '-'} > {cell.id} ({cell.level}) {cell.capacity}{' broken' if cell.broken else ''}"
        for cell in known.cells.values()
    ]


FILE = """
levels = ["switch", "rack", "node", "socket", "gpu"]

[[nodes]]
hosts = ["gpu-[1-2]", "gpu-9"]
within = { switch = "s1", rack = "/r1" }
cells = [
  { name = "socket-0", capacity = { vcores = 4 }, gpus = [0, 1] },
  { name = "socket-1", capacity = { vcores = 4 }, gpus = [2] },
]
"""


def described(tmp_path, text=FILE):
    (tmp_path / "topology.toml").write_text(text)
    return load_topology(tmp_path / "topology.toml")


def test_without_a_file_it_is_racks_and_nodes():
    known = built(node("b"), node("a"), node("c", "/r2"), broken=[node("d", "/r2")])
    assert known.levels == ("rack", "node")
    assert lines(known) == [
        "- > /r1 (rack) 16 vcores",
        "- > /r2 (rack) 16 vcores",
        "/r1 > a (node) 8 vcores",
        "/r1 > b (node) 8 vcores",
        "/r2 > c (node) 8 vcores",
        "/r2 > d (node) 8 vcores broken",
    ]
    assert known.capacity() == Resources.of({VCORES: 24}), "what is broken in a rack holds nothing"


def test_the_order_of_the_nodes_makes_no_difference():
    nodes = [node("a"), node("b", "/r2"), node("c", "/r3")]
    assert len({str(built(*some)) for some in permutations(nodes)}) == 1


def test_a_topology_follows_from_the_nodes_alone():
    nodes = {"a:1": node("a", port=1)}
    known = topology(nodes, {}, PLAIN)
    assert topology(dict(nodes), {}, PLAIN) == known
    assert topology(nodes, dict(nodes), PLAIN).is_broken("a")
    assert topology(nodes, {}, TopologyDescription(("node",))).levels == ("node",)


def test_every_cell_comes_after_the_one_that_it_lies_in(tmp_path):
    known = built(node("gpu-1", "/r9"), node("a", "/r0"), described=described(tmp_path))
    seen = set()
    for cell in known.cells.values():
        assert cell.parent is None or cell.parent in seen
        seen.add(cell.id)


def test_a_file_adds_what_nodes_lie_in_and_what_lies_in_them(tmp_path):
    known = built(node("gpu-1", "/default-rack", gpus=3), node("cpu-1", "/r7"), described=described(tmp_path))
    assert lines(known) == [
        "- > s1 (switch) 16 vcores, 6 GPUs",
        "s1 > /r1 (rack) 16 vcores, 6 GPUs",
        "- > /r7 (rack) 8 vcores",
        "/r7 > cpu-1 (node) 8 vcores",
        "/r1 > gpu-1 (node) 8 vcores, 3 GPUs",
        "gpu-1 > gpu-1/socket-0 (socket) 4 vcores, 2 GPUs",
        "gpu-1/socket-0 > gpu-1/socket-0/gpu-0 (gpu) 1 GPUs",
        "gpu-1/socket-0 > gpu-1/socket-0/gpu-1 (gpu) 1 GPUs",
        "gpu-1 > gpu-1/socket-1 (socket) 4 vcores, 1 GPUs",
        "gpu-1/socket-1 > gpu-1/socket-1/gpu-2 (gpu) 1 GPUs",
        "/r1 > gpu-9 (node) 8 vcores, 3 GPUs broken",
        "gpu-9 > gpu-9/socket-0 (socket) 4 vcores, 2 GPUs",
        "gpu-9/socket-0 > gpu-9/socket-0/gpu-0 (gpu) 1 GPUs",
        "gpu-9/socket-0 > gpu-9/socket-0/gpu-1 (gpu) 1 GPUs",
        "gpu-9 > gpu-9/socket-1 (socket) 4 vcores, 1 GPUs",
        "gpu-9/socket-1 > gpu-9/socket-1/gpu-2 (gpu) 1 GPUs",
    ]
    assert known.is_broken("gpu-9/socket-0/gpu-1")
    assert known.capacity() == Resources.of({VCORES: 16, GPU: 3})


def test_a_file_names_the_model_of_the_gpus_of_nodes(tmp_path):
    text = '[[nodes]]\nhosts = ["a*"]\ngpu_model = "A100"\n'
    known = built(node("a1", gpus=2), node("v1", gpus=2), described=described(tmp_path, text))
    assert [(cell.id, cell.gpu_model) for cell in known.at("node")] == [("a1", "A100"), ("v1", "")]


def test_a_node_that_is_back_under_another_port_is_the_same_cell():
    before, after = built(node("a", port=1)), built(node("a", port=2))
    assert before == after
    assert cell_of_node(after, "a:2") == "a"


def test_several_nodes_of_a_host_are_cells_of_their_own():
    known = built(node("a", port=1), node("a", port=2), node("b"))
    assert [cell.id for cell in known.at("node")] == ["a:1", "a:2", "b"]
    assert cell_of_node(known, "a:2") == "a:2"
    assert cell_of_node(known, "b:8041") == "b"
    assert cell_of_node(known, "c:1") is None


def test_a_node_that_is_reported_as_broken_too_is_broken():
    assert built(node("a"), broken=[node("a")]).is_broken("a")


def test_names_that_yarn_gives_twice_do_not_confuse_cells(tmp_path):
    known = built(node("x", "x"), node("y", "gpu-1"), node("gpu-1", ""), described=PLAIN)
    assert lines(known) == [
        "- > rack:gpu-1 (rack) 8 vcores",
        "- > rack:x (rack) 8 vcores",
        "- > gpu-1 (node) 8 vcores",
        "rack:x > x (node) 8 vcores",
        "rack:gpu-1 > y (node) 8 vcores",
    ]
    text = 'levels = ["switch", "rack", "node"]\n[[nodes]]\nhosts = ["a"]\nwithin = { switch = "/r1" }'
    clash = described(tmp_path, text)
    assert [cell.id for cell in built(node("a"), described=clash).cells.values()] == ["/r1", "rack:/r1", "a"]


def test_a_rack_that_yarn_reports_under_two_switches_lies_in_the_first(tmp_path):
    text = """
    levels = ["switch", "rack", "node"]
    [[nodes]]
    hosts = ["a"]
    within = { switch = "s1" }
    [[nodes]]
    hosts = ["b"]
    within = { switch = "s2" }
    """
    known = built(node("a"), node("b"), described=described(tmp_path, text))
    assert known.cells["/r1"].parent == "s1"
    assert known.capacity() == Resources.of({VCORES: 16})


def test_a_node_has_the_capacity_that_yarn_reports_even_if_below_the_sum_of_its_cells(tmp_path):
    known = built(node("gpu-1", gpus=2), described=described(tmp_path))
    assert known.cells["gpu-1"].capacity[GPU] == 2


def test_the_first_description_that_fits_counts(tmp_path):
    text = """
    levels = ["node", "gpu"]
    [[nodes]]
    hosts = ["gpu-*"]
    gpus = [0]
    [[nodes]]
    hosts = ["gpu-2"]
    gpus = [0, 1]
    """
    known = built(node("gpu-2", gpus=2), described=described(tmp_path, text))
    assert [cell.id for cell in known.at("gpu")] == ["gpu-2/gpu-0"]


def test_what_a_capacity_does_not_say_is_what_the_parts_hold(tmp_path):
    (nodes,) = described(tmp_path).nodes
    socket = nodes.cells[1]
    assert socket == CellDescription(
        "socket-1",
        Resources.of({VCORES: 4, GPU: 1}),
        (CellDescription("gpu-2", Resources.of({GPU: 1})),),
    )
    assert nodes == NodeDescription(("gpu-[1-2]", "gpu-9"), (("switch", "s1"), ("rack", "/r1")), nodes.cells)


def test_a_journal_keeps_it(tmp_path):
    codec, configured = Codec(TAGS), Configured((), topology=described(tmp_path))
    assert codec.read(json.loads(codec.dump(configured))) == configured
    assert codec.read({"type": "Configured", "pools": [], "reconcile": 60.0}) == Configured(())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("levels = 3", "levels 3: must be a list"),
        ("level = []", "level: unknown key"),
        ('levels = ["rack"]', "levels: 'node' is missing"),
        ('levels = ["node", "rack"]', "'rack'"),
        ('levels = ["node", "gpu", "gpu"]', "levels: 'gpu'"),
        ("[[nodes]]\nhosts = []", "nodes #1.hosts: must have at least 1 item"),
        ('[[nodes]]\nhosts = ["a:8041"]', "nodes #1.hosts #1 'a:8041': must be a host name"),
        ('[[nodes]]\nhosts = ["a", "a"]', "hosts: 'a'"),
        (
            '[[nodes]]\nhosts = ["a"]\nwithin = { rack = "/r1" }\n[[nodes]]\nhosts = ["a"]\nwithin = { rack = "/r2" }',
            "hosts: 'a'",
        ),
        ('[[nodes]]\nhosts = ["a"]\nwithin = { switch = "s1" }', "nodes #1.within.switch: must be rack"),
        ('[[nodes]]\nhosts = ["a"]\nwithin = { node = "s1" }', "nodes #1.within.node: must be rack"),
        ('[[nodes]]\nhosts = ["a"]\nwithin = { rack = "a" }', "'a'"),
        (
            'levels = ["switch", "rack", "node"]\n'
            '[[nodes]]\nhosts = ["a"]\nwithin = { switch = "s1", rack = "/r1" }\n'
            '[[nodes]]\nhosts = ["b"]\nwithin = { switch = "s2", rack = "/r1" }',
            "'s2'",
        ),
        (
            'levels = ["switch", "rack", "node"]\n[[nodes]]\nhosts = ["a"]\nwithin = { switch = "s", rack = "s" }',
            "'s'",
        ),
        ('[[nodes]]\nhosts = ["a"]\ngpus = [0]', "nodes #1.cells: "),
        (
            'levels = ["node", "gpu"]\n[[nodes]]\nhosts = ["a"]\ncells = [{ name = "s", gpus = [0] }]',
            "nodes #1.cells: ",
        ),
        ('levels = ["node", "gpu"]\n[[nodes]]\nhosts = ["a"]\ngpus = [0, 0]', "'gpu-0'"),
        (
            'levels = ["node", "socket", "gpu"]\n[[nodes]]\nhosts = ["a"]\n'
            'cells = [{ name = "s0", gpus = [0] }, { name = "s1", gpus = [0] }]',
            "gpus: 0",
        ),
        (
            'levels = ["node", "socket"]\n[[nodes]]\nhosts = ["a"]\ncells = [{ name = "s0" }, { name = "s0" }]',
            "cells: 's0'",
        ),
        (
            'levels = ["node", "socket", "gpu"]\n[[nodes]]\nhosts = ["a"]\n'
            'cells = [{ name = "s0", capacity = { "yarn.io/gpu" = 1 }, gpus = [0, 1] }]',
            "2 yarn.io/gpu",
        ),
        (
            'levels = ["node", "socket"]\n[[nodes]]\nhosts = ["a"]\ncells = [{ name = "s/0" }]',
            "nodes #1.cells #1.name 's/0': must consist of",
        ),
        ("levels = [", "not TOML: line 1, column 11: invalid value"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(tmp_path, text, error):
    with pytest.raises(FileError) as refused:
        described(tmp_path, text)
    said = str(refused.value)
    assert said.startswith(f"topology.file {str(tmp_path / 'topology.toml')!r}: ")
    assert error in said
    assert "\n" not in said


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        load_topology(tmp_path / "none.toml")


def test_the_arbiters_configuration_names_the_file_beside_it(tmp_path):
    (tmp_path / "arbiter.toml").write_text('[topology]\nfile = "topology.toml"')
    assert load(tmp_path / "arbiter.toml").topology.file == tmp_path / "topology.toml"
    assert load(None).topology.file is None


def test_an_arbiter_knows_the_topology_that_it_is_configured_with(tmp_path):
    said = described(tmp_path)
    state, _ = step(State(), 1, 1.0, Configured((), topology=said))
    assert state.topology == said
