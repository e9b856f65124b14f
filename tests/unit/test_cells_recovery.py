"""Running gangs in a new configuration."""

from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Request
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import validate
from yarn_plugin.decide.mechanisms.buddy_cells.reconfiguration import reconfigure
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import RunningGang, RunningPod, record_of
from yarn_plugin.decide.mechanisms.buddy_cells.specification import (
    CellType,
    ClusterSpec,
    PhysicalSpec,
    Quota,
    VirtualClusterSpec,
)


def spec(nodes, **quotas):
    types = {"node": CellType("gpu", 2, is_node=True)}
    clusters = {name: VirtualClusterSpec((Quota("node", "node", number),)) for name, number in quotas.items()}
    cells = tuple(PhysicalSpec("node", name) for name in nodes)
    return ClusterSpec(types, cells, clusters, {"gpu": ("node",)})


def gang(name, cluster, *nodes, priority=0, types=("node", "node")):
    pods = tuple(RunningPod(node, ("0", "1"), types) for node in nodes)
    return RunningGang(Request(name, cluster, priority, ((len(nodes), 2),)), "node", pods)


def kept(made):
    validate(made.allocator.cluster)
    gangs = made.allocator.cluster.gangs
    return {name: "low" if each.placement.virtual is None else "kept" for name, each in gangs.items()}


def test_gangs_beyond_the_new_quota_become_opportunistic_as_a_whole():
    made = reconfigure(spec(("n1", "n2", "n3"), a=1, b=1), [gang("one", "a", "n1"), gang("two", "a", "n2", "n3")])
    assert (kept(made), made.downgraded) == ({"one": "kept", "two": "low"}, ("two",))


def test_the_quota_of_another_virtual_cluster_is_kept_for_it():
    """Of two nodes b is assured of both now."""
    made = reconfigure(spec(("n1", "n2"), a=0, b=2), [gang("one", "a", "n1")])
    assert (kept(made), made.downgraded) == ({"one": "low"}, ("one",))


def test_a_higher_priority_takes_the_cell_of_a_lower_one():
    made = reconfigure(spec(("n1", "n2"), a=1), [gang("low", "a", "n1"), gang("high", "a", "n2", priority=5)])
    assert (kept(made), made.downgraded) == ({"low": "low", "high": "kept"}, ("low",))


def test_a_pod_whose_node_is_gone_runs_on_without_leaves_and_can_be_recorded_again():
    made = reconfigure(spec(("n1",), a=1), [gang("one", "a", "n1", "gone"), gang("two", "a", "gone")])
    assert (kept(made), made.unleased) == ({"one": "kept"}, ("two",))
    record = record_of(made.allocator.cluster.gangs["one"])
    assert [pod.node for pod in record.pods] == ["n1", ""]
    again = reconfigure(spec(("n1",), a=1), [record])
    assert kept(again) == {"one": "kept"}


def test_a_gang_without_types_of_cells_comes_back_as_opportunistic_work():
    made = reconfigure(spec(("n1",), a=1), [gang("one", "a", "n1", types=())])
    assert (kept(made), made.downgraded) == ({"one": "low"}, ())
