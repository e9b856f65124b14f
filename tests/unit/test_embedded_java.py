"""Finding a usable Java."""

import pytest

from yarn_plugin.embedded import java
from yarn_plugin.embedded.errors import JavaError


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
    assert java.find() == java.Java(home, 21)


@pytest.mark.parametrize(("told", "version"), [("11", 11), ("1.8", 8)])
def test_a_java_that_is_too_old_is_refused_with_its_version(home, told, version):
    install(home, announce(home, told))
    with pytest.raises(JavaError, match=f"is Java {version}: install Java 17 or newer"):
        java.find()


def test_a_java_home_without_java_is_refused(home):
    with pytest.raises(JavaError, match="cannot be run"):
        java.find()


def test_a_java_that_says_something_else_is_refused_with_what_it_says(home):
    install(home, "echo 'no version for you' >&2; exit 3")
    with pytest.raises(JavaError, match="no version for you"):
        java.find()


def test_no_java_at_all_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match="not on PATH and JAVA_HOME is not set"):
        java.find()
