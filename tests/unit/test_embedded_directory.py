"""The record of a cluster between two commands."""

from pathlib import Path

import pytest

from yarn_plugin.embedded.directory import ClusterRecord, read_record
from yarn_plugin.embedded.errors import ClusterError, NoClusterError
from yarn_plugin.embedded.spec import ClusterSpec


def test_a_record_comes_back_as_it_was_written(tmp_path):
    written = ClusterRecord(
        id="abc",
        spec=ClusterSpec(tmp_path, nodes=3, cpu_per_node=0.5, hdfs=True),
        java=Path("/opt/java"),
        jars=(Path("/jars/a.jar"), Path("/jars/b.jar")),
        cgroups={"127.0.1.1": Path("/sys/fs/cgroup/x")},
    )
    written.save()
    assert read_record(tmp_path) == written
    assert [entry.name for entry in tmp_path.iterdir()] == ["cluster.json"]


def test_a_directory_without_a_record_has_no_cluster(tmp_path):
    for directory in (tmp_path, tmp_path / "absent"):
        with pytest.raises(NoClusterError, match="cluster up"):
            read_record(directory)


@pytest.mark.parametrize("text", ["", "{", '{"version": 2}', '{"id": "x", "spec": {"dir": 3}}'])
def test_a_record_that_cannot_be_read_is_one_line(tmp_path, text):
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(ClusterError, match=r"cluster\.json") as refused:
        read_record(tmp_path)
    assert "\n" not in str(refused.value)
