"""Tokens: no user name yields another user's token, and an invalid secret is not used."""

import pytest

from yarn_plugin.api.tokens import KINDS, Principal, SecretError, Tokens

NAMES = ["ann", "a.b", "admin", "admin.admin", ".", "..", "user.ann", "app.app_1", "app_1", "scrape", "ü", "a@b", ""]


@pytest.fixture
def tokens(tmp_path):
    return Tokens(tmp_path / "state")


def test_a_token_is_its_own_principals_whatever_the_name(tokens):
    everybody = [Principal(kind, name) for kind in KINDS for name in NAMES]
    issued = {tokens.issue(one): one for one in everybody}
    assert len(issued) == len(everybody)
    for token, one in issued.items():
        assert tokens.check(token) == one


def test_a_signature_is_good_for_one_name_of_one_kind(tokens):
    signed = tokens.issue(Principal("user", "a.b"))
    signature = signed.rpartition(".")[2]
    for other in ("user.a", "user.a.b.c", "user.b", "app.a.b", "admin.a.b", "admin.admin", "user..a.b", "user.a.b."):
        assert tokens.check(f"{other}.{signature}") is None
    for broken in (
        signed[:-1],
        signed + "0",
        signed.upper(),
        signed + "\n",
        " " + signed,
        signed.replace("a.b", "a..b"),
    ):
        assert tokens.check(broken) is None


def test_ids_of_a_later_epoch_have_tokens_of_their_own(tokens):
    assert tokens.check(tokens.issue(Principal("app", "app_e2_17"))) == Principal("app", "app_e2_17")
    assert tokens.issue(Principal("app", "app_e2_17")) != tokens.issue(Principal("app", "app_17"))


@pytest.mark.parametrize("content", [b"", b"\n\n", b"short", b" " * 100])
def test_an_invalid_secret_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(SecretError, match=r"secret.*delete it") as refused:
        Tokens(tmp_path)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "admin.token").exists()


def test_a_secret_that_cannot_be_read_is_refused_in_one_line(tmp_path):
    (tmp_path / "secret").mkdir()
    with pytest.raises(SecretError, match="secret"):
        Tokens(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(SecretError, match="file"):
        Tokens(tmp_path / "file" / "state")


def test_a_secret_of_any_bytes_is_a_secret(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(range(128, 192)))
    token = Tokens(tmp_path).issue(Principal("user", "ann"))
    assert Tokens(tmp_path).check(token) == Principal("user", "ann")


def test_files_that_were_open_to_others_are_closed(tmp_path):
    Tokens(tmp_path)
    for name in ("secret", "admin.token", "scrape.token"):
        (tmp_path / name).chmod(0o644)
    Tokens(tmp_path)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_existing_settings_are_not_written_again(tmp_path, monkeypatch):
    """On a full disk the arbiter starts again all the same."""
    before = Tokens(tmp_path).issue(Principal("user", "ann"))

    def full(*arguments):
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr("yarn_plugin.api.tokens.write_private", full)
    assert Tokens(tmp_path).issue(Principal("user", "ann")) == before
    (tmp_path / "admin.token").write_text("another")
    with pytest.raises(SecretError, match="no space left on device"):
        Tokens(tmp_path)
