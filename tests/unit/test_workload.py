"""Workload and cluster files: what they give, and that a seed gives the same again."""

from statistics import median

import pytest

from yarn_plugin.simulation import cluster, workload
from yarn_plugin.simulation.application import Container, installed_kinds
from yarn_plugin.simulation.batch import KIND
from yarn_plugin.toml_files import FileError

KINDS = {"batch": KIND}
GENERATED = """
[generate]
count = 400
duration_s = 86400
arrivals = "ARRIVALS"
users = 3
[[generate.mix]]
weight = 3
application = { kind = "batch", group = "small", max_cores = 4, \
core_seconds = { distribution = "lognormal", median = 100, sigma = 1 } }
[[generate.mix]]
application = { kind = "batch", group = "large", core_seconds = { distribution = "pareto", scale = 1000, shape = 2 }, \
max_cores = { distribution = "uniform", low = 10, high = 20, integer = true }, weight = { distribution = "choice", \
values = [1, 4] } }
"""
JOBS = """
[[applications]]
kind = "batch"
max_cores = 1
core_seconds = 1
jobs = [{ name = "a", priority = 2000 }]
"""


def load(tmp_path, text, seed=0, name="work.toml"):
    file = tmp_path / name
    file.write_text(text)
    return workload.load(file, KINDS, seed)


def shown(submissions):
    return [(one.common, one.parameters) for one in submissions]


@pytest.mark.parametrize("arrivals", ["poisson", "uniform", "diurnal"])
def test_a_seed_gives_the_same_workload_again(tmp_path, arrivals):
    text = GENERATED.replace("ARRIVALS", arrivals)
    assert shown(load(tmp_path, text, 7)) == shown(load(tmp_path, text, 7))
    assert shown(load(tmp_path, text, 7)) != shown(load(tmp_path, text, 8))


def test_sizes_follow_their_distributions(tmp_path):
    made = load(tmp_path, GENERATED.replace("ARRIVALS", "poisson"))
    small = [one.parameters.core_seconds for one in made if one.group == "small"]
    large = [one for one in made if one.group == "large"]
    assert 250 < len(small) < 350
    assert 80 < median(small) < 125
    assert min(one.parameters.core_seconds for one in large) >= 1000
    assert {one.parameters.max_cores for one in large} <= set(range(10, 21))
    assert {one.common.weight for one in large} == {1.0, 4.0}
    assert {one.common.user for one in made} == {"user1", "user2", "user3"}


def test_by_day_more_arrive_around_the_peak(tmp_path):
    times = [one.common.arrival_s / 3600 for one in load(tmp_path, GENERATED.replace("ARRIVALS", "diurnal"))]
    assert times == sorted(times)
    assert sum(11 <= hour < 17 for hour in times) > 2 * sum(hour < 5 or hour >= 23 for hour in times)


def test_variants_draw_the_same(tmp_path):
    text = (
        GENERATED.replace("ARRIVALS", "uniform") + "variants = [{ respects_share = true }, { respects_share = false }]"
    )
    large = [one for one in load(tmp_path, text) if one.group == "large"]
    for one, other in zip(large[::2], large[1::2], strict=True):
        assert (one.common.arrival_s, one.common.seed) == (other.common.arrival_s, other.common.seed)
        assert one.parameters.respects_share and not other.parameters.respects_share
        assert one.parameters.core_seconds == other.parameters.core_seconds


def test_a_trace_is_read_in_order_of_arrival(tmp_path):
    text = "kind,arrival_s,core_seconds,max_cores,user\nbatch,9,10,2,ann\nbatch,4,20,3,\n"
    first, second = load(tmp_path, text, name="trace.csv")
    assert (first.common.arrival_s, first.parameters.core_seconds, first.common.user) == (4, 20, "user")
    assert (second.name, second.common.user) == ("batch-1", "ann")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("trace.csv", "kind,arrival_s", "a line of column names and a line per application"),
        ("trace.csv", "kind\nbatch,7", "more cells than columns"),
        ("trace.csv", "kind,arrival_s\nbatch,soon", "arrival_s 'soon'"),
        ("work.toml", GENERATED.replace("ARRIVALS", "never"), "generate.arrivals 'never'"),
        ("work.toml", GENERATED.replace("ARRIVALS", "poisson").replace("sigma = 1", "sigma = -1"), "sigma -1"),
        ("work.toml", '[[applications]]\nkind = "batch"\nmax_cores = 1\ncore_seconds = 1\nweight = 0', "weight 0"),
        ("trace.csv", "kind,jobs\nbatch,a", "application 1: jobs 'a': must be a list"),
        ("work.toml", JOBS, "application 1: jobs.a.priority 2000: must be at most 1000"),
        (
            "work.toml",
            JOBS.replace("priority = 2000 }", 'tenant = "x" }, { name = "b" }'),
            "jobs.b.tenant: must be of x",
        ),
        (
            "work.toml",
            JOBS.replace("2000", "0") + "registers = false",
            "jobs: must be left out where registers is false",
        ),
    ],
)
def test_a_wrong_workload_names_field_and_value(tmp_path, name, text, said):
    with pytest.raises(FileError) as raised:
        load(tmp_path, text, name=name)
    assert said in str(raised.value)


def test_a_cluster_has_its_nodes_in_racks(tmp_path):
    made = cluster.ClusterFile.model_validate(
        {
            "nodes": [
                {"count": 3, "memory_mb": 1, "vcores": 1, "rack_size": 2},
                {"count": 1, "memory_mb": 1, "vcores": 2},
            ],
            "failures": [{"at_s": 5, "node": 3, "nodes": 2, "duration_s": 10}],
        }
    )
    assert [node.rack for node in made.machines()] == ["/rack1", "/rack1", "/rack2", "/rack3"]
    (outage,) = made.outages()
    assert outage.nodes == tuple(node.id for node in made.machines()[2:])
    assert (outage.at, outage.until) == (5, 15)


def test_a_failure_of_a_node_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "cluster.toml").write_text(
        "failures = [{ at_s = 1, node = 9, duration_s = 1 }]\n[[nodes]]\ncount = 2\nmemory_mb = 1\nvcores = 1\n"
    )
    with pytest.raises(FileError, match="node 9: must be at most 2"):
        cluster.load(tmp_path / "cluster.toml", None)


def test_the_examples_of_the_documentation_can_be_used():
    from pathlib import Path

    from qoop.simulation.query import KIND as QUERY
    from yarn_plugin.decide.arbiter import BUILT_IN

    folder = Path(__file__).parents[2] / "docs" / "examples"
    known = {**KINDS, "qoop": QUERY}
    for name in ("day.toml", "volatile.toml"):
        made = workload.load(folder / name, known, 0)
        assert len(made) == {"day.toml": 1000, "volatile.toml": 180}[name]
    for name in ("cluster.toml", "small.toml"):
        assert cluster.load(folder / name, BUILT_IN).machines()


def test_packages_offer_their_kinds_of_applications():
    import tomllib
    from importlib import import_module
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    offered = project["entry-points"]["yarn_plugin.simulated_applications"]
    assert set(offered) >= {"batch", "qoop"}
    for place in offered.values():
        module, name = place.split(":")
        kind = getattr(import_module(module), name)
        assert kind.parameters.model_fields and callable(kind.application)
    assert set(installed_kinds()) <= set(offered)
    assert Container(1, 1).gpus == 0
