"""The file of what a launcher runs (`LaunchSpec`)."""

import re
import sys
import time
from pathlib import Path

from pydantic import ValidationError

from themis_agent.errors import StoreError
from themis_agent.trial.store import read_at
from themis_agent.trial.wire import LaunchSpec
from yarn_plugin.errors import BadInputError, os_reason
from yarn_plugin.validation import expectation

_STORE_AWAY_S = 60.0
"""How long a store is waited for that has the launch file."""

_STORE_AGAIN_S = 1.0


def read_spec(place: str | Path) -> LaunchSpec:
    """Read a launch file. `place`: its path, or URL in a store.

    Raises:
        BadInputError: it cannot be read, or a field is wrong.
        StoreError: the store refuses, or is away.
    """
    try:
        spec = LaunchSpec.model_validate_json(read_at(str(place)))
        re.compile(spec.loss_pattern or "")
    except OSError as problem:
        raise BadInputError("launch file", str(place), os_reason(problem)) from problem
    except ValidationError as problem:
        first = problem.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise BadInputError(
            "launch file", str(place), f"{field}: {expectation(first, 'object')}".lstrip(": ")
        ) from problem
    except re.error as problem:
        raise BadInputError("loss_pattern", spec.loss_pattern, f"not a regular expression: {problem}") from problem
    directory, logs = (str(Path(one).absolute()) for one in (spec.checkpoint.directory, spec.log_directory))
    checkpoint = spec.checkpoint.model_copy(update={"directory": directory})
    return spec.model_copy(update={"checkpoint": checkpoint, "log_directory": logs})


def read_when_there(place: str) -> LaunchSpec:
    """As `read_spec`; a store that is away is waited for."""
    until = time.monotonic() + _STORE_AWAY_S
    while True:
        try:
            return read_spec(place)
        except StoreError as away:
            if time.monotonic() > until:
                raise
            sys.stderr.write(f"{away}\n")
            sys.stderr.flush()
            time.sleep(_STORE_AGAIN_S)
