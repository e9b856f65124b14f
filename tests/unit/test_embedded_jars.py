"""Fetching jars: whole or not at all, once however many ask."""

import hashlib
import threading
import time
from pathlib import Path

import pytest

from yarn_plugin.embedded import jars
from yarn_plugin.embedded.errors import FetchError
from yarn_plugin.embedded.jars import Artifact
from yarn_plugin.embedded.java import Java
from yarn_plugin.errors import BadInputError

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
    return jars.obtain((ARTIFACT,), cache, repository.fetch, lambda line: None)


def test_a_jar_is_fetched_once_and_kept(tmp_path):
    repository = Repository()
    assert obtain(tmp_path / "cache", repository) == (tmp_path / "cache" / "thing-1.0.jar",)
    obtain(tmp_path / "cache", repository)
    assert repository.asked == 1
    assert (tmp_path / "cache" / "thing-1.0.jar").read_bytes() == CONTENT


def test_a_damaged_jar_is_fetched_again(tmp_path):
    (tmp_path / "thing-1.0.jar").write_bytes(CONTENT[:5])
    obtain(tmp_path, Repository())
    assert (tmp_path / "thing-1.0.jar").read_bytes() == CONTENT


def test_other_bytes_than_the_pinned_ones_are_not_kept(tmp_path):
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
    names = [artifact.file_name for artifact in jars.PINNED]
    assert names[0] == "hadoop-client-minicluster-3.5.0.jar"
    assert len(set(names)) == 4
    assert all(len(artifact.sha256) == 64 for artifact in jars.PINNED)


def test_a_missing_settings_file_is_refused(tmp_path):
    with pytest.raises(BadInputError, match="ivy-settings"):
        jars.ivy(Java(tmp_path, 17), tmp_path / "absent.xml")


def test_ivy_failing_is_one_line_with_its_own_words(tmp_path):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\necho ':: loading settings ::'\necho '\tHost example.invalid not found. url=..'\nexit 1\n"
    )
    program.chmod(0o755)
    fetch = jars.ivy(Java(tmp_path, 17), None)
    with pytest.raises(FetchError, match=r"org\.example:thing:1\.0 \(Host example\.invalid not found.*--ivy-settings"):
        fetch(ARTIFACT, tmp_path)


def test_ivy_is_asked_for_the_artifact_through_the_users_mirror(tmp_path):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/asked\n')
    program.chmod(0o755)
    settings = tmp_path / "settings.xml"
    settings.write_text("<ivysettings/>")
    jars.ivy(Java(tmp_path, 17), settings)(ARTIFACT, tmp_path)
    asked = Path(tmp_path / "asked").read_text().splitlines()
    assert asked[asked.index("-settings") + 1] == str(settings)
    assert asked[asked.index("-dependency") + 1 :][:3] == ["org.example", "thing", "1.0"]
