"""What an application master relies on: YARN itself ends containers that were allocated and that nobody knows."""

import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.eventually import eventually
from tests.integration.sleepers import Sleepers

pytestmark = [pytest.mark.integration, pytest.mark.matrix]
ROOT = Path(__file__).parents[2]


class Brief:
    """An application of `tests.searches.brief_master`."""

    def __init__(self, cluster, folder, how):
        self._sleepers, self._folder = Sleepers(cluster.rm_url), folder
        self.host = cluster.spec.hosts[-1]
        words = ("exec", sys.executable, "-m", "tests.searches.brief_master", folder, self.host, how)
        self._app = self._sleepers.submit(
            "root.default",
            memory_mb=512,
            command=f"{' '.join(map(str, words))} 2>>{folder}/log",
            environment={"PYTHONPATH": str(ROOT), "HADOOP_CONF_DIR": str(cluster.conf_dir)},
            **{"max-app-attempts": 2, "keep-containers-across-application-attempts": True},
        )

    def said(self, field):
        """What it has said of a field."""
        path = self._folder / "said.jsonl"
        lines = path.read_text().splitlines() if path.exists() else ()
        return [found[field] for found in map(json.loads, lines) if field in found]

    def until_said(self, field, count=1):
        return eventually(lambda: len(self.said(field)) >= count and self.said(field), f"it says {field}", 120)

    @property
    def has_ended(self):
        return self._sleepers.get(f"/apps/{self._app}")["app"]["state"] == "FINISHED"


def test_a_container_that_was_not_started_ends_with_its_attempt(cluster, tmp_path):
    brief = Brief(cluster, tmp_path, "dies")
    assert brief.until_said("attempt", 2) == [1, 2]
    assert brief.said("previous") == [[], []]
    assert brief.until_said("completed") == brief.said("allocated")
    eventually(lambda: brief.has_ended, "it ends")


def test_a_node_that_hangs_starts_no_container_later(cluster, tmp_path):
    brief = Brief(cluster, tmp_path, "waits")
    brief.until_said("allocated")
    node = cluster.daemons[f"nm-{brief.host}"]
    os.kill(node, signal.SIGSTOP)
    try:
        (tmp_path / "go").touch()
        (problem,) = brief.until_said("problem")
    finally:
        os.kill(node, signal.SIGCONT)
    assert "SocketTimeoutException" in problem
    assert brief.until_said("completed") == brief.said("allocated")
    while not brief.has_ended:
        assert not [one.pid for one in psutil.process_iter(["cmdline"]) if "600.25" in (one.info["cmdline"] or ())]
