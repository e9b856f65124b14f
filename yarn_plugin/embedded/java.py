"""Finding a Java that can run Hadoop and Spark."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from yarn_plugin.embedded.errors import JavaError

OLDEST = 17
_ADVICE = f"install Java {OLDEST} or newer, or point JAVA_HOME at one"


@dataclass(frozen=True, slots=True)
class Java:
    """An installed Java: its home directory and its major version."""

    home: Path
    version: int

    @property
    def command(self) -> Path:
        """The program that runs classes."""
        return self.home / "bin" / "java"


def find() -> Java:
    """The Java of JAVA_HOME, else of PATH. Raises `JavaError` if there is none, or it is too old."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None:
        raise JavaError(f"java is not on PATH and JAVA_HOME is not set: {_ADVICE}")
    java = _describe(command)
    if java.version < OLDEST:
        raise JavaError(f"{command} is Java {java.version}: {_ADVICE}")
    return java


def _describe(command: str) -> Java:
    try:
        answer = subprocess.run(
            [command, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise JavaError(f"{command} cannot be run ({failed}): {_ADVICE}") from failed
    settings = dict(re.findall(r"^\s+(java\.home|java\.specification\.version) = (\S.*)$", answer.stderr, re.MULTILINE))
    try:
        # Up to Java 8 the specification was numbered 1.8.
        version = int(settings["java.specification.version"].removeprefix("1."))
        return Java(Path(settings["java.home"].strip()), version)
    except (KeyError, ValueError) as unknown:
        said = (answer.stderr or answer.stdout).strip().splitlines() or [f"exit code {answer.returncode}"]
        raise JavaError(f"{command} does not tell its version ({said[0]}): {_ADVICE}") from unknown
