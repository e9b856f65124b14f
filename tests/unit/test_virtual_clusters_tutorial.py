"""The tutorial of virtual clusters runs as printed, and prints what it says.

The ResourceManager is a small server that reports the nodes of the tutorial's cluster, at another port.
"""

import subprocess
from pathlib import Path

import pytest

from tests.http_servers import WebServer, reply
from tests.unit.test_cells_init import node
from tests.unit.test_machine_learner_tutorial import blocks, environment, has_line

TUTORIAL = Path(__file__).parents[2] / "docs/tutorial-virtual-clusters.md"
NODES = [node(f"127.0.{rack}.{number}", f"/rack{rack}", 4) for rack in (1, 2) for number in (1, 2)]


@pytest.mark.timeout(300)
def test_the_tutorial_runs_as_printed(tmp_path):
    manager = WebServer(lambda asked: reply({"nodes": {"node": NODES}}))
    steps = blocks(TUTORIAL)
    assert [language for language, _ in steps] == ["bash", "text"] * 5
    try:
        for (_, commands), (_, printed) in zip(steps[::2], steps[1::2], strict=True):
            done = subprocess.run(
                ["bash", "-e"],
                input=commands.replace("http://127.0.0.1:18000", manager.url),
                cwd=tmp_path,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=120,
            )
            said = done.stdout + done.stderr
            assert done.returncode == 0, said
            missing = [line for line in printed.splitlines() if not has_line(said, line)]
            assert not missing, said
    finally:
        manager.close()
