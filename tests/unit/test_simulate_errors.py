"""`yarn-plugin simulate` names the file that is wrong, and the row, line or key in it."""

import pytest

from yarn_plugin import console
from yarn_plugin.cli import cli

GPUS = """
[[machines]]
count = 2
gpus_per_slot = 4
rack = "r1"
"""
PHILLY = "timestamp,duration,num_gpus,cluster\n"
APPS = """
[[apps]]
name = "one"
[[apps.jobs]]
iterations = 10
iteration_s = 1
max_gpus = 1
"""


@pytest.fixture
def simulate(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(name, text, cluster=GPUS, *more):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        (tmp_path / "gpus.toml").write_bytes(cluster if isinstance(cluster, bytes) else cluster.encode())
        arguments = ["simulate", "--cluster", "gpus.toml", "--workload", name, "--processes", "1", *more]
        code = console.run(cli, "yarn-plugin", arguments)
        return code, capsys.readouterr().err

    return run


WITHOUT, WITH = "2017-10-03 10:00:00,3600,1,vc1\n", "2017-10-03T10:05:00Z,1800,1,vc1\n"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "p_tz.csv",
            PHILLY + WITHOUT + WITH,
            "--workload 'p_tz.csv': rows #2.timestamp '2017-10-03T10:05:00+00:00': must have no time zone, as row #1",
        ),
        (
            "p_tz.csv",
            PHILLY + WITH + WITH + WITHOUT,
            "--workload 'p_tz.csv': rows #3.timestamp '2017-10-03T10:00:00': must have a time zone, as row #1 has",
        ),
        ("syn.toml", '[[apps]]\nname = "x\n', "--workload 'syn.toml': not TOML: line 2, column 10"),
        ("typo.toml", '[[aps]]\nname = "x"\n', "--workload 'typo.toml': aps: unknown key"),
        ("typo.toml", "[generate]\nworklod = 1\n", "--workload 'typo.toml': generate"),
        ("typo.toml", "generate = 3\n", "--workload 'typo.toml': generate 3: must be a table"),
        ("gone.toml/x.toml", None, "--workload 'gone.toml/x.toml': no such file or directory"),
        ("text.csv", b"\xff\xfe", "--workload 'text.csv': not UTF-8 text"),
    ],
    ids=range(8),
)
def test_a_wrong_workload_beside_a_right_cluster_is_named(simulate, tmp_path, name, text, said):
    if text is None:
        (tmp_path / "gpus.toml").write_text(GPUS)
        code, error = simulate("other.toml", "", GPUS, "--workload", name)
    else:
        code, error = simulate(name, text)
    (line,) = error.splitlines()
    assert code == 2
    assert said in line
    assert "--cluster" not in line


BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(("name", "text"), [("philly.csv", PHILLY + WITHOUT), ("own.toml", APPS)])
def test_files_may_begin_with_a_byte_order_mark(simulate, name, text):
    code, error = simulate(name, BOM + text.encode(), BOM + GPUS.encode())
    assert (code, "not found" in error) == (0, False), error
