"""`yarn-plugin arbiter`, as far as it goes before it serves."""

import pytest

from yarn_plugin import console
from yarn_plugin.cli import arbiter as command
from yarn_plugin.cli import cli
from yarn_plugin.cli.arbiter import default_state
from yarn_plugin.errors import BadInputError

PAIR = ["http://b:8088", "http://a:8088"]


def test_a_pair_named_in_the_other_order_has_the_same_state_folder(tmp_path):
    assert default_state(PAIR, tmp_path) == default_state(PAIR[::-1], tmp_path) == tmp_path / "a-8088"
    (tmp_path / "b-8088").mkdir()
    assert default_state(PAIR, tmp_path) == default_state(PAIR[::-1], tmp_path) == tmp_path / "b-8088"


def test_two_folders_of_a_pair_are_refused_with_both_named(tmp_path):
    for name in ("a-8088", "b-8088"):
        (tmp_path / name).mkdir()
    with pytest.raises(BadInputError) as refused:
        default_state(PAIR, tmp_path)
    assert all(part in str(refused.value) for part in (str(tmp_path / "a-8088"), str(tmp_path / "b-8088"), "--state"))


def test_one_address_has_the_folder_it_always_had(tmp_path):
    assert default_state(["https://rm.example.org"], tmp_path) == tmp_path / "rm.example.org-80"


@pytest.fixture
def served(monkeypatch, tmp_path):
    """What the command would serve with."""
    calls = []
    monkeypatch.setattr(command, "serve", lambda *given, **named: calls.append((given, named)))
    monkeypatch.setattr(command.platformdirs, "user_state_dir", lambda name: str(tmp_path))

    def run(*words):
        code = console.run(cli, "yarn-plugin", ["arbiter", "--rm", ",".join(PAIR), *map(str, words)])
        return code, calls[-1] if calls else None

    return run


def test_the_command_hands_on_what_it_is_given(served, tmp_path, monkeypatch):
    (tmp_path / "ca.pem").write_text("")
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    code, (given, named) = served()
    assert "share" in named.pop("registry").kinds
    assert named.pop("cells_files") == {}
    assert (code, given[3], named) == (0, tmp_path / "arbiter" / "a-8088", {"verify": True, "accept_loss": False})
    _, (given, named) = served("--accept-loss", "--ca-file", tmp_path / "ca.pem", "--state", tmp_path / "mine")
    del named["registry"], named["cells_files"]
    assert (given[3], named) == (tmp_path / "mine", {"verify": str(tmp_path / "ca.pem"), "accept_loss": True})
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/ca.pem")
    _, (_, named) = served()
    assert named["verify"] == "/etc/ca.pem"
