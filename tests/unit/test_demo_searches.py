"""The demo's searches while they run."""

from types import SimpleNamespace

import pytest

from tpcds.demo.cluster import DemoError
from tpcds.demo.searches import run


def test_a_full_disk_ends_the_demo_at_once(tmp_path, monkeypatch):
    """The agents' journals cannot be written, so no search would ever end."""
    search = SimpleNamespace(folder=tmp_path, plan=SimpleNamespace(name="rates"), yarn_app="application_1_0001")
    monkeypatch.setattr(run, "POLL_S", 0.0)
    monkeypatch.setattr(run, "TIMEOUT_S", 1.0)
    monkeypatch.setattr(run.applications, "searches", lambda manager: [])
    monkeypatch.setattr(run.shutil, "disk_usage", lambda folder: SimpleNamespace(free=4096))
    with pytest.raises(DemoError, match="is full"):
        run._wait(SimpleNamespace(look=lambda: None), None, [search], lambda: False)
