"""TOML files validated by pydantic models; errors name the file, the field, the value and what is expected."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from yarn_plugin.errors import ReportedError

Model = TypeVar("Model", bound=BaseModel)

MAX_PROBLEMS, MAX_VALUE_LENGTH = 10, 200
"""How many invalid fields of a file are reported, and how many characters of each value."""

NESTED_TOO_DEEP = "nest fewer lists and tables"


class FileError(ReportedError):
    """A file cannot be used."""

    exit_code = 2


class Section(BaseModel):
    """A table of a file; unknown keys are errors.

    `RENAMED`: the new names of renamed keys. The error for an old name states the new one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    RENAMED: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _reject_renamed_keys(cls, values: Any) -> Any:
        errors = [_renamed(*names) for names in cls.RENAMED.items() if isinstance(values, dict) and names[0] in values]
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return values


def _renamed(old_name: str, new_name: str) -> InitErrorDetails:
    error = PydanticCustomError("renamed", "renamed to {new_name}", {"new_name": new_name})
    return InitErrorDetails(type=error, loc=(old_name,), input=None)


def read_text(where: str, path: Path) -> str:
    """Read a text file. `where`: names it in errors, such as `--config 'arbiter.toml'`.

    Raises:
        FileError: it cannot be read.
    """
    try:
        return path.read_text()
    except OSError as problem:
        raise FileError(f"{where}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise FileError(f"{where}: not UTF-8 text") from None


def read_toml(where: str, path: Path) -> dict[str, Any]:
    """Read a TOML file. `where`: names it in errors.

    Raises:
        FileError: it cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(read_text(where, path))
    except tomllib.TOMLDecodeError as problem:
        raise FileError(f"{where}: not TOML: {problem}") from None
    except RecursionError:
        raise FileError(f"{where}: {NESTED_TOO_DEEP}") from None


def validate(model: type[Model], values: object, where: str, context: dict[str, Any] | None = None) -> Model:
    """The values as a model. `where`: names the file in errors. `context`: passed to the model's validators.

    Raises:
        FileError: a value is invalid.
    """
    try:
        return model.model_validate(values, context=context)
    except ValidationError as problem:
        raise FileError(f"{where}: {invalid_fields(problem)}") from None
    except RecursionError:
        raise FileError(f"{where}: {NESTED_TOO_DEEP}") from None


def invalid_fields(problem: ValidationError) -> str:
    """The invalid fields as one line: field, value, and what is expected; at most `MAX_PROBLEMS` of them."""
    parts: list[str] = []
    errors = problem.errors()
    for error in errors[:MAX_PROBLEMS]:
        field = ".".join(str(step) for step in error["loc"])
        value: Any = error.get("input")
        shown = f" {_shortened(value)}" if isinstance(value, str | int | float | bool) else ""
        parts.append(f"{field}{shown}: {error['msg'].removeprefix('Value error, ')}")
    if len(errors) > MAX_PROBLEMS:
        parts.append(f"and {len(errors) - MAX_PROBLEMS} more")
    return "; ".join(parts)


def _shortened(value: str | int | float | bool) -> str:
    text = repr(value)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}..."
