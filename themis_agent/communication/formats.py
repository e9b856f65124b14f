"""The files of planned communication: traces, cost tables and plans, as JSON."""

from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from themis_agent.communication.capture import Seen
from themis_agent.communication.costs import CostTable
from themis_agent.communication.errors import PlanError
from themis_agent.communication.plan import Plan
from yarn_plugin import files
from yarn_plugin.toml_files import FileError, invalid_fields, read_text

Content = TypeVar("Content")


class Trace(BaseModel):
    """What one process saw. `costs`: of the job's channels, if they were measured at its start. `plan`: the latest."""

    model_config = ConfigDict(extra="forbid")
    rank: int
    ranks: int
    iterations: list[Seen]
    costs: CostTable | None = None
    plan: Plan | None = None


class Stored(BaseModel, Generic[Content]):
    """A file: what it is, the version of its format, and its content."""

    model_config = ConfigDict(extra="forbid")
    what: str
    version: Literal[1] = 1
    content: Content


_NAMES: dict[type[Any], str] = {Trace: "trace", CostTable: "costs", Plan: "plan"}


def dump(content: Trace | CostTable | Plan) -> str:
    """The text of a file with this content."""
    kind = type(content)
    return Stored[kind](what=_NAMES[kind], content=content).model_dump_json() + "\n"  # type: ignore[valid-type]


def parse(kind: type[Content], text: str, where: str) -> Content:
    """The content of a file. `where`: names it in errors.

    Raises:
        FileError: it is not one of this kind.
    """
    model = Stored[kind]  # type: ignore[valid-type]
    try:
        stored = model.model_validate_json(text)
    except ValidationError as problem:
        invalid = invalid_fields(problem, model=model)
        raise FileError(f"{where}: not a file of a {_NAMES[kind]}: {invalid}") from None
    except PlanError as problem:
        raise FileError(f"{where}: {problem}") from None
    if stored.what != _NAMES[kind]:
        raise FileError(f"{where}: what {stored.what!r}: must be {_NAMES[kind]!r}")
    return stored.content


def load(kind: type[Content], path: Path) -> Content:
    """Read a file.

    Raises:
        FileError: it cannot be read, or is not one of this kind.
    """
    return parse(kind, read_text(repr(str(path)), path), repr(str(path)))


def save(content: Trace | CostTable | Plan, path: Path) -> None:
    """Write a file atomically.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, dump(content))
