"""The steps of README.md, run as a new user would: all lines in one bash, with an empty state directory."""

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

README = Path(__file__).parents[2] / "README.md"
ARBITER_PORT = 8780
MARKER = "@@@ "
"""Printed before each line, so that its output can be found."""

LIMIT_S = 500


def readme_steps():
    """The lines of the fenced block below "Step by step", without empty ones."""
    block = re.search(r"## Step by step\n.*?```bash\n(.*?)```", README.read_text(), re.DOTALL)
    assert block, "README.md has no steps"
    return [line for line in block[1].splitlines() if line.strip()]


def on_free_ports(lines):
    """The steps, with other ports where those of README.md are in use."""
    text = "\n".join(lines)
    hosts = ClusterSpec(Path("/"), nodes=2).hosts
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


def test_the_steps_of_the_readme_work_as_printed(clone_and_environment, tmp_path):
    clone, environment = clone_and_environment
    lines = readme_steps()
    printed = tmp_path / "printed"
    with printed.open("w") as out:
        command = ["bash", "-c", script(on_free_ports(lines))]
        code = subprocess.run(
            command, cwd=clone, env=environment, stdout=out, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False
        ).returncode
    assert code == 0, printed.read_text()[-4000:]
    by_line = outputs(printed.read_text())

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
    [folder] = (Path(environment["TMPDIR"])).glob("tmp.*")
    assert "i_item_id" in (folder / "q12.txt").read_text()
    assert "</html>" in (folder / "q72.html").read_text()
    assert "processes" in output_of("yarn-plugin cluster down")
    assert_nothing_runs(Path(environment["XDG_STATE_HOME"]))


def assert_nothing_runs(state):
    deadline = time.monotonic() + 10
    while (left := processes_of(state)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left, [process.cmdline() for process in left]
