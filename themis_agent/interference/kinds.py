"""The file of the kinds of training to measure (TOML):

[kinds.resnet]
command = "python train.py --model resnet"      # reports steps, or prints them, as a trial does; for minutes
family = "cnn"                                  # alike kinds, from which others of the family are predicted
numbers = { log_batch = 4.16 }                  # what is known of it, magnitudes as logarithms
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from themis_agent import command_words
from yarn_plugin.toml_files import Section, matching, read_toml, validate

_NAME = matching(r"[\w.-]{1,100}", "must have 1 to 100 letters, digits, '.', '-' or '_'")


class _Kind(Section):
    command: str | list[str]
    family: str = ""
    numbers: dict[str, float] = Field(default={})
    metric: str = "loss"


class _File(Section):
    kinds: Annotated[dict[Annotated[str, _NAME], _Kind], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of training. `metric`: the name under which its log has the metric, if it does not report steps itself."""

    name: str
    words: tuple[str, ...]
    family: str
    numbers: Mapping[str, float]
    metric: str


def read_kinds(path: Path) -> list[Kind]:
    """Read the file.

    Raises:
        FileError: it cannot be read, or something in it is invalid.
    """
    found = validate(_File, read_toml(f"{str(path)!r}", path), f"{str(path)!r}", keys_in="docs/sharing.md")
    return [
        Kind(name, command_words.words_of(one.command), one.family, one.numbers, one.metric)
        for name, one in found.kinds.items()
    ]
