"""The arbiter as a process: its state folder is its own, and its limits fit what the machine allows."""

import os
import resource
import socket

import pytest

from yarn_plugin.drive import http_server
from yarn_plugin.drive.config import LimitsSection
from yarn_plugin.drive.state_folder import StateError, make_private, write_address
from yarn_plugin.serving import limits as serving
from yarn_plugin.serving.address import Address
from yarn_plugin.serving.limits import RESERVED


@pytest.fixture(autouse=True)
def _umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder):
    return {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}


def test_a_new_state_folder_and_its_files_are_private(tmp_path):
    folder = tmp_path / "a" / "state"
    make_private(folder)
    (folder / "journal.part").write_text("")
    (folder / "whatever").write_text("")
    write_address(folder, "http://127.0.0.1:8780")
    assert modes(folder) == {"state": 0o700, "journal.part": 0o600, "whatever": 0o600, "arbiter.json": 0o600}


def test_a_state_folder_of_an_earlier_version_is_closed_to_others_and_nothing_else_is_touched(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    for name in ("journal", "journal.dropped-17", "secret", "arbiter.json", "script.sh"):
        (folder / name).write_text("")
        (folder / name).chmod(0o755)
    outside = tmp_path / "outside"
    outside.write_text("")
    outside.chmod(0o644)
    (folder / "journal.link").symlink_to(outside)
    make_private(folder)
    found = modes(folder)
    assert (found.pop("script.sh"), found.pop("state"), found.pop("journal.link")) == (0o755, 0o700, 0o644)
    assert set(found.values()) == {0o600}


def test_a_folder_with_other_files_keeps_its_mode_unless_others_can_write_there(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "notes.txt").write_text("")
    make_private(folder)
    assert modes(folder)["home"] == 0o755
    folder.chmod(0o775)
    with pytest.raises(StateError, match="other users"):
        make_private(folder)
    assert modes(folder)["home"] == 0o775


def test_an_arbiter_on_every_address_is_recorded_under_the_name_of_its_machine():
    assert Address("0.0.0.0", 8780).url == f"http://{socket.getfqdn()}:8780"
    assert Address("::", 8780).url == f"http://{socket.getfqdn()}:8780"
    assert Address("::1", 8780).url == "http://[::1]:8780"


def test_a_world_writable_folder_is_refused_as_state_folder(tmp_path):
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    with pytest.raises(StateError, match="folder"):
        make_private(folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="file"):
        make_private(tmp_path / "file" / "state")
    assert folder.stat().st_mode & 0o7777 == 0o1777


@pytest.fixture
def descriptors():
    """Sets how many descriptors this process may have: so many now, so many at most."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda soft: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_descriptors_are_raised_to_what_is_allowed(descriptors):
    descriptors(512)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    allowed = serving._raise_descriptors()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == allowed
    most = serving.MAX_DESCRIPTORS
    assert allowed == (most if hard == resource.RLIM_INFINITY else min(hard, most))


def test_connections_leave_descriptors_for_the_journal(monkeypatch, caplog):
    monkeypatch.setattr(serving, "_raise_descriptors", lambda: 1024)
    caplog.set_level("INFO")
    limits = http_server.limits_in_force(LimitsSection())
    assert limits.max_connections == 1024 - RESERVED
    assert limits.max_streams < limits.max_connections
    assert not caplog.messages, "logged once the arbiter has started"
    http_server.log_limits(LimitsSection(), limits)
    in_force, warning = caplog.messages
    assert in_force.startswith(f"HTTP limits: {1024 - RESERVED} connections, {limits.max_streams} event streams")
    assert f"reduced to {1024 - RESERVED}" in warning


def test_with_descriptors_enough_the_limits_are_those_configured(monkeypatch):
    monkeypatch.setattr(serving, "_raise_descriptors", lambda: 20_000)
    limits = http_server.limits_in_force(
        LimitsSection(max_connections=100, max_streams=10, max_body_kb=2, header_timeout_s=3)
    )
    assert (limits.max_connections, limits.max_streams, limits.max_body, limits.header_timeout) == (100, 10, 2048, 3)
