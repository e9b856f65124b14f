"""Calls a packed function in a trial: what `python` runs in the archive that `themis_agent.functions` writes.

The function is called with the trial's parameters. It may report and save checkpoints, as any script; a number that it
returns is the metric of the trial's last step. Nothing but the standard library.
"""

import importlib
import json
import os
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from themis_agent.trial.script import report, should_stop

PICKLE, ABOUT = "function.pkl", "about.json"
"""In the archive: the function, and its name with the version of Python that packed it."""

_PACKED = re.compile(r"(?:.*/)?(?P<name>\w+)-[0-9a-f]{16}\.pyz")
"""The file of the archive."""


def main(archive: str) -> None:
    """Call the function in an archive."""
    with zipfile.ZipFile(archive) as packed:
        about, pickled = json.loads(packed.read(ABOUT)), packed.read(PICKLE)
    name, version = about["name"], tuple(about["python"])
    if version != sys.version_info[:2]:
        given, here = (".".join(map(str, one)) for one in (version, sys.version_info[:2]))
        sys.exit(f"RuntimeError: {name} was packed by Python {given}, and trials run {here}: set environment.python")
    # Behind the archive, whose modules are those that the function was packed with.
    sys.path.insert(1, str(Path.cwd()))
    function: Callable[[dict[str, Any]], object] = importlib.import_module("cloudpickle").loads(pickled)
    returned = function(json.loads(os.environ["THEMIS_PARAMETERS"]))
    if _is_number(returned) and not should_stop():
        report(int(os.environ["THEMIS_MAX_STEPS"]), float(returned))  # type: ignore[arg-type]


def packed_name(command: object) -> str | None:
    """The name of the function that a command calls; None: it calls none."""
    found = _PACKED.fullmatch(str(command[1])) if isinstance(command, list) and len(command) == 2 else None
    return found["name"] if found else None


def _is_number(value: object) -> bool:
    """Also one of numpy or torch."""
    return hasattr(value, "__float__") and not isinstance(value, bool)
