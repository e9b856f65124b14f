"""What a process of a job is told about its communication, by environment variables (docs/communication.md)."""

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from yarn_plugin.errors import BadInputError
from yarn_plugin.spelling import must_be_one_of

MODE = "THEMIS_COMMUNICATION"
FOLDER = "THEMIS_COMMUNICATION_DIR"
PLAN = "THEMIS_COMMUNICATION_PLAN"
COSTS = "THEMIS_COMMUNICATION_COSTS"
CHANNELS = "THEMIS_COMMUNICATION_CHANNELS"
TIMEOUT = "THEMIS_COMMUNICATION_TIMEOUT_S"
MAX_CHANNELS = 8


class Mode(enum.StrEnum):
    """`PLAIN`: torch alone. `TRACED`: through us, in the order of the program. `PLANNED`: traced, planned, enforced."""

    PLAIN = "plain"
    TRACED = "traced"
    PLANNED = "planned"


@dataclass(frozen=True)
class Settings:
    """`folder`: for the trace of each process. `plan`: one to begin with, instead of making one. `costs`: a table,
    instead of measuring. `channels`: the network interface of each; "" for the default one.
    """

    mode: Mode = Mode.PLAIN
    folder: Path | None = None
    plan: Path | None = None
    costs: Path | None = None
    channels: tuple[str, ...] = ("", "")
    timeout: timedelta = timedelta(seconds=300)

    @property
    def channel_names(self) -> tuple[str, ...]:
        """A name for each channel."""
        return tuple(f"{number} {name}".strip() for number, name in enumerate(self.channels))

    @classmethod
    def from_environment(cls, given: Mapping[str, str] = os.environ) -> "Settings":
        """Read the variables.

        Raises:
            BadInputError: one is invalid.
        """
        mode = given.get(MODE, Mode.PLAIN)
        if mode not in list(Mode):
            raise BadInputError(MODE, mode, must_be_one_of(list(Mode), mode))
        names = tuple(name.strip() for name in given[CHANNELS].split(",")) if CHANNELS in given else ("", "")
        if len(names) > MAX_CHANNELS:
            raise BadInputError(CHANNELS, given[CHANNELS], f"must be at most {MAX_CHANNELS} network interfaces")
        timeout = given.get(TIMEOUT, "300")
        try:
            seconds = float(timeout)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < 1e6:
            raise BadInputError(TIMEOUT, timeout, "must be a number of seconds above 0")
        paths = {name: Path(given[name]) if given.get(name) else None for name in (FOLDER, PLAN, COSTS)}
        return cls(Mode(mode), paths[FOLDER], paths[PLAN], paths[COSTS], names, timedelta(seconds=seconds))
