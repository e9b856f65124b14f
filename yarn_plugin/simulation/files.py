"""Validated TOML files; errors name the file, the field, the value and what is expected."""

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from yarn_plugin.drive.config import said
from yarn_plugin.errors import ReportedError

Model = TypeVar("Model", bound=BaseModel)


class Section(BaseModel):
    """A table of a file; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FileError(ReportedError):
    """A file cannot be used."""

    exit_code = 2


def text_of(option: str, path: Path) -> str:
    """A file's text.

    Raises:
        FileError: it cannot be read.
    """
    try:
        return path.read_text()
    except OSError as problem:
        raise FileError(f"{option} {str(path)!r}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise FileError(f"{option} {str(path)!r}: not UTF-8 text") from None


def toml_of(option: str, path: Path) -> dict[str, Any]:
    """A TOML file's tables.

    Raises:
        FileError: it cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(text_of(option, path))
    except tomllib.TOMLDecodeError as problem:
        raise FileError(f"{option} {str(path)!r}: not TOML: {problem}") from None
    except RecursionError:
        raise FileError(f"{option} {str(path)!r}: nest fewer lists and tables") from None


def validated(model: type[Model], given: object, where: str, context: dict[str, Any] | None = None) -> Model:
    """The given values as a model. `context`: passed to its validators.

    Raises:
        FileError: a value is invalid; `where` names the file.
    """
    try:
        return model.model_validate(given, context=context)
    except ValidationError as problem:
        raise FileError(f"{where}: {said(problem)}") from None
