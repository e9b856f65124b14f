"""The steps of README.md and docs/training.md, run as a new user would: in one bash, with an empty state directory."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from yarn_plugin.embedded import ports
from yarn_plugin.embedded.errors import PortTakenError
from yarn_plugin.embedded.spec import DEFAULT_PORT_BASE, ClusterSpec

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
TRAINING = ROOT / "docs" / "training.md"
ARBITER_PORT = 8780
MARKER = "@@@ "
"""Printed before each line, so that its output can be found."""

LIMIT_S = 500


def steps_of(page, heading):
    """The lines of the first fenced block below a heading, without empty ones."""
    block = re.search(rf"## {heading}\n.*?```bash\n(.*?)```", page.read_text(), re.DOTALL)
    assert block, f"{page.name} has no steps"
    return [line for line in block[1].splitlines() if line.strip()]


def on_free_ports(lines):
    """The steps, with other ports where those of the page are in use."""
    text = "\n".join(lines)
    hosts = ClusterSpec(Path("/"), nodes=3).hosts
    try:
        ports.require_free(DEFAULT_PORT_BASE, hosts, hdfs=False)
    except PortTakenError:
        base = str(ports.free_base(hosts))
        text = text.replace("cluster up", f"cluster up --port-base {base}").replace(f":{DEFAULT_PORT_BASE}", f":{base}")
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", ARBITER_PORT)) == 0:
            port = free_port()
            text = text.replace("plugin arbiter", f"plugin arbiter --listen 127.0.0.1:{port}")
            text = text.replace(f":{ARBITER_PORT}", f":{port}")
    return text.splitlines()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def script(lines):
    return "set -e\n" + "\n".join(f"echo '{MARKER}{number}'\n{line}" for number, line in enumerate(lines)) + "\n"


def outputs(text):
    """The output of each line, by its number."""
    parts = re.split(rf"^{MARKER}(\d+)\n", text, flags=re.MULTILINE)
    return dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))


def processes_of(state):
    """All processes that the steps have started, even detached ones."""
    started = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("XDG_STATE_HOME") == str(state):
                started.append(process)
        except (psutil.Error, OSError):
            continue
    return started


@pytest.fixture
def clone_and_environment(tmp_path):
    """A directory that stands for the clone, and an environment with an empty state directory."""
    clone, state, temporary = tmp_path / "clone", tmp_path / "state", tmp_path / "tmp"
    clone.mkdir()
    temporary.mkdir()
    (clone / ".venv").symlink_to(sys.prefix)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("YARN_ARBITER", "HADOOP"))}
    yield clone, environment | {"XDG_STATE_HOME": str(state), "TMPDIR": str(temporary)}
    for process in processes_of(state):
        process.kill()


def printed_by(text, clone, environment, file):
    """What a script prints, which must succeed."""
    with file.open("w") as out:
        code = subprocess.run(
            ["bash", "-c", text],
            cwd=clone,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        ).returncode
    assert code == 0, file.read_text()[-4000:]
    return file.read_text()


def test_the_steps_of_the_readme_work_as_printed(clone_and_environment, tmp_path):
    clone, environment = clone_and_environment
    lines = steps_of(README, "Step by step")
    by_line = outputs(printed_by(script(on_free_ports(lines)), clone, environment, tmp_path / "printed"))

    def output_of(start):
        number = next(number for number, line in enumerate(lines) if line.startswith(start))
        return by_line[number]

    assert "ResourceManager  http://127.0.0.1:" in output_of("yarn-plugin cluster up")
    assert '"manager":"reached"' in output_of("curl")
    assert re.search(r"first .*running .*100\.0%", output_of("until yarn-plugin apps | grep 'first"))
    assert re.search(r"second .*50\.0%", output_of("until yarn-plugin apps | grep second"))
    apps = output_of("yarn-plugin apps")
    assert re.search(r"^app_\d+ +first ", apps, re.MULTILINE)
    assert re.search(r"^app_\d+ +second ", apps, re.MULTILINE)
    assert re.search(r"app_\d+ arrived.*50\.0%", output_of("yarn-plugin why"))
    assert "i_item_desc" in output_of("cat q72.txt")
    happened = output_of('grep "what happened"')
    assert re.search(r"it began with plan \d+, .*; the share fell from 2 to 1 slot: ", happened), happened
    assert re.search(r"^first +.* done +100%", happened, re.MULTILINE), happened
    [folder] = (Path(environment["TMPDIR"])).glob("tmp.*")
    assert "i_item_id" in (folder / "q12.txt").read_text()
    assert "</html>" in (folder / "q72.html").read_text()
    assert "processes" in output_of("yarn-plugin cluster down")
    assert_nothing_runs(Path(environment["XDG_STATE_HOME"]))


@pytest.mark.matrix
def test_the_search_of_training_md_works_as_printed(clone_and_environment, tmp_path):
    clone, environment = clone_and_environment
    (clone / "docs").symlink_to(ROOT / "docs")
    steps = "\n".join(on_free_ports(steps_of(TRAINING, "Try it on this machine")))
    text = printed_by(f"set -e\n{steps}\n", clone, environment, tmp_path / "printed")
    assert re.search(r"^best: trial-\d+, loss 0\.\d+ at step \d+$", text, re.MULTILINE), text
    assert re.search(r" blobs was granted \d GPU", text), text
    assert_nothing_runs(Path(environment["XDG_STATE_HOME"]))


def assert_nothing_runs(state):
    deadline = time.monotonic() + 10
    while (left := processes_of(state)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left, [process.cmdline() for process in left]
