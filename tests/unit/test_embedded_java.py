"""Finding a usable Java; fetching jars atomically and only once."""

import hashlib
import threading
import time
from pathlib import Path

import pytest

from yarn_plugin.embedded import java
from yarn_plugin.embedded.errors import FetchError, JavaError
from yarn_plugin.embedded.java import Artifact, Java
from yarn_plugin.errors import BadInputError


def install(home, script):
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def announce(home, version):
    return f"printf '    java.home = {home}\\n    java.specification.version = {version}\\n' >&2"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


def test_java_home_is_used_and_described(home):
    install(home, announce(home, 21))
    assert java.find_java() == java.Java(home, 21)


@pytest.mark.parametrize(("told", "version"), [("11", 11), ("1.8", 8)])
def test_a_java_that_is_too_old_is_refused_with_its_version(home, told, version):
    install(home, announce(home, told))
    with pytest.raises(JavaError, match=f"is Java {version}; install Java 17 or newer"):
        java.find_java()


def test_a_java_home_without_java_is_refused(home):
    with pytest.raises(JavaError, match="cannot be run"):
        java.find_java()


def test_an_unknown_java_version_is_refused_and_quoted(home):
    install(home, "echo 'no version for you' >&2; exit 3")
    with pytest.raises(JavaError, match="no version for you"):
        java.find_java()


def test_no_java_at_all_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match="JAVA_HOME"):
        java.find_java()


CONTENT = b"the bytes of a jar"
ARTIFACT = Artifact("org.example", "thing", "1.0", hashlib.sha256(CONTENT).hexdigest())


class Repository:
    """Serves an artifact and counts how often it was asked."""

    def __init__(self, content=CONTENT, seconds=0.0):
        self.content, self.seconds, self.asked = content, seconds, 0

    def fetch(self, artifact, directory):
        self.asked += 1
        (directory / artifact.file_name).write_bytes(self.content[:3])
        time.sleep(self.seconds)
        (directory / artifact.file_name).write_bytes(self.content)


def obtain(cache, repository):
    return java.obtain((ARTIFACT,), cache, repository.fetch, lambda line: None)


def test_a_jar_is_fetched_once_and_cached(tmp_path):
    repository = Repository()
    assert obtain(tmp_path / "cache", repository) == (tmp_path / "cache" / "thing-1.0.jar",)
    obtain(tmp_path / "cache", repository)
    assert repository.asked == 1
    assert (tmp_path / "cache" / "thing-1.0.jar").read_bytes() == CONTENT


def test_a_damaged_jar_is_fetched_again(tmp_path):
    (tmp_path / "thing-1.0.jar").write_bytes(CONTENT[:5])
    obtain(tmp_path, Repository())
    assert (tmp_path / "thing-1.0.jar").read_bytes() == CONTENT


def test_a_download_with_a_wrong_checksum_is_not_stored(tmp_path):
    with pytest.raises(FetchError, match=f"SHA-256 .*, not {ARTIFACT.sha256}"):
        obtain(tmp_path, Repository(b"something else"))
    assert not list(tmp_path.glob("*.jar"))
    assert not (tmp_path / "fetching").exists()


def test_what_a_killed_fetch_left_is_cleared(tmp_path):
    (tmp_path / "fetching").mkdir()
    (tmp_path / "fetching" / "half").write_bytes(b"x")
    obtain(tmp_path, Repository())
    assert not (tmp_path / "fetching").exists()


def test_two_at_once_fetch_once(tmp_path):
    repository = Repository(seconds=0.3)
    both = [threading.Thread(target=obtain, args=(tmp_path, repository)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert repository.asked == 1
    assert (tmp_path / "thing-1.0.jar").read_bytes() == CONTENT


def test_the_pinned_jars_are_named_as_ivy_retrieves_them():
    names = [artifact.file_name for artifact in java.PINNED]
    assert names[0] == "hadoop-client-minicluster-3.5.0.jar"
    assert len(set(names)) == 4
    assert all(len(artifact.sha256) == 64 for artifact in java.PINNED)


def test_a_missing_settings_file_is_refused(tmp_path):
    with pytest.raises(BadInputError, match="ivy-settings"):
        java.ivy_fetcher(Java(tmp_path, 17), tmp_path / "absent.xml")


def test_ivy_failing_is_one_line_with_its_own_words(tmp_path):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\necho ':: loading settings ::'\necho '\tHost example.invalid not found. url=..'\nexit 1\n"
    )
    program.chmod(0o755)
    fetch = java.ivy_fetcher(Java(tmp_path, 17), None)
    with pytest.raises(FetchError, match=r"org\.example:thing:1\.0 \(Host example\.invalid not found.*--ivy-settings"):
        fetch(ARTIFACT, tmp_path)


def test_ivy_is_asked_for_the_artifact_through_the_users_mirror(tmp_path):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/asked\n')
    program.chmod(0o755)
    settings = tmp_path / "settings.xml"
    settings.write_text("<ivysettings/>")
    java.ivy_fetcher(Java(tmp_path, 17), settings)(ARTIFACT, tmp_path)
    asked = Path(tmp_path / "asked").read_text().splitlines()
    assert asked[asked.index("-settings") + 1] == str(settings)
    assert asked[asked.index("-dependency") + 1 :][:3] == ["org.example", "thing", "1.0"]
