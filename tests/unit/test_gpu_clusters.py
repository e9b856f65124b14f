"""Clusters of GPUs: presets, our own format, the keys of the Themis simulator."""

import json
from collections import Counter

import pytest

from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Slot
from yarn_plugin.simulation.training.cluster import load
from yarn_plugin.toml_files import FileError


def written(tmp_path, content, name="cluster.toml"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def shape(cluster):
    return Counter((machine.gpus, len(machine.slots)) for machine in cluster.machines)


def test_the_preset_of_32_gpus():
    cluster = load("themis-32")
    assert cluster.gpus == 32
    assert shape(cluster) == {(8, 2): 4}
    assert Counter(machine.rack for machine in cluster.machines) == {"r1": 2, "r2": 2}


def test_the_preset_of_256_gpus():
    """16 x 8 (4 slots of 2) + 28 x 4 (4 slots of 1) + 16 x 1, evenly over the racks."""
    cluster = load("themis-256")
    assert cluster.gpus == 256
    assert shape(cluster) == {(8, 4): 16, (4, 4): 28, (1, 1): 16}
    racks = Counter()
    for machine in cluster.machines:
        racks[machine.rack] += machine.gpus
    assert racks == {"r1": 64, "r2": 64, "r3": 64, "r4": 64}


def test_own_format(tmp_path):
    cluster = load(
        written(
            tmp_path,
            """
            [[machines]]
            count = 2
            slots = 2
            gpus_per_slot = 3
            racks = 2
            model = "P100"
            [[machines]]
            count = 1
            gpus_per_slot = 1
            rack = "attic"
            """,
        )
    )
    first, second, third = cluster.machines
    assert first.slots == (Slot("m0001/s1", 3), Slot("m0001/s2", 3))
    assert (first.rack, second.rack, third.rack) == ("r1", "r2", "attic")
    assert (first.model, third.model, third.slots) == ("P100", "", (Slot("m0003/s1", 1),))
    as_json = {"machines": [{"count": 5, "gpus_per_slot": 2}]}
    assert load(written(tmp_path, as_json, "c.json")).gpus == 10


def test_the_keys_of_the_themis_simulator(tmp_path):
    keys = {"racks_in_cluster": "2", "machines_per_rack": 3, "slots_per_machine": "4", "gpus_per_slot": "1"}
    cluster = load(written(tmp_path, {**keys, "lease_time": "20.0", "cluster_policy": "Themis"}, "c.json"))
    assert shape(cluster) == {(4, 4): 6}
    assert Counter(machine.rack for machine in cluster.machines) == {"r1": 3, "r2": 3}
    assert cluster.notes == ("ignored keys: cluster_policy, lease_time",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("machines = []", "machines: must have at least 1 item"),
        ("[[machines]]\ncount = 0\ngpus_per_slot = 1", "machines #1.count 0: must be at least 1"),
        ("[[machines]]\ncount = 1\ngpus_per_slot = 1\nracks = 2\nrack = 'a'", "racks, the number of racks, or rack"),
        ("[[machines]]\ncount = 100000\ngpus_per_slot = 2", "200,000 GPUs; must have at most 100,000"),
        ("[[machines]]\ncount = 1\ngpus = 1", "(?s)gpus_per_slot: required.*gpus: unknown key"),
        ("racks_in_cluster = 2", "machines_per_rack: required"),
    ],
)
def test_invalid_files_name_the_field(tmp_path, content, message):
    with pytest.raises(FileError, match=message):
        load(written(tmp_path, content))


def test_an_unknown_name_lists_the_presets():
    with pytest.raises(BadInputError, match=r"'themis-65': must be a .toml or .json file; or .*themis-256, themis-32"):
        load("themis-65")
