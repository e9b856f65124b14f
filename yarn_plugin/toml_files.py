"""TOML files validated by pydantic models; errors name the file, the field, the value and what is expected."""

import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from yarn_plugin.errors import ReportedError, os_reason
from yarn_plugin.field_problems import field_problems

Model = TypeVar("Model", bound=BaseModel)

MAX_PROBLEMS = 10
"""How many invalid fields of a file one line reports."""

NESTED_TOO_DEEP = "too many levels of lists and tables; must have at most a few hundred"


class FileError(ReportedError):
    """A file cannot be used. `where`: its name. `invalid`: all that is wrong in it, a text each; none if it cannot be
    read at all."""

    exit_code = 2

    def __init__(self, message: str, where: str = "", invalid: Collection[str] = ()) -> None:
        super().__init__(message)
        self.where, self.invalid = where, list(invalid)


class Section(BaseModel):
    """A table of a file; unknown keys are errors.

    `RENAMED`: the new names of renamed keys. The error for an old name states the new one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    RENAMED: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="wrap")
    @classmethod
    def _reject_renamed_keys(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Report renamed keys together with all other problems: their values are checked under the new names."""
        renamed = [name for name in cls.RENAMED if isinstance(values, dict) and name in values]
        if not renamed:
            return handler(values)
        errors = [_error("renamed", (name,), f"renamed to {cls.RENAMED[name]}") for name in renamed]
        try:
            handler({cls.RENAMED[name]: values[name] for name in renamed} | _without(values, renamed))
        except ValidationError as problem:
            errors += [
                _error(one["type"], one["loc"], one["msg"], one["input"], one.get("ctx")) for one in problem.errors()
            ]
        raise ValidationError.from_exception_data(cls.__name__, errors)


def _without(values: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _error(
    kind: str,
    location: tuple[int | str, ...],
    message: str,
    value: object = None,
    context: dict[str, Any] | None = None,
) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError(kind, message, context), loc=location, input=value)


def matching(pattern: str, expected: str) -> AfterValidator:
    """The annotation of a text that must match a pattern. `expected`: the error, such as "must be a host name"."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(expected)
        return value

    return AfterValidator(check)


def read_text(where: str, path: Path) -> str:
    """Read a UTF-8 file, with or without a byte order mark. `where`: its name in errors, such as `--config 'a.toml'`.

    Raises:
        FileError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise FileError(f"{where}: {os_reason(problem)}") from None
    except UnicodeDecodeError:
        raise FileError(f"{where}: not UTF-8 text") from None


def read_toml(where: str, path: Path) -> dict[str, Any]:
    """Read a TOML file. `where`: names it in errors.

    Raises:
        FileError: it cannot be read, or is not TOML.
    """
    return parse_toml(where, read_text(where, path))


def parse_toml(where: str, text: str) -> dict[str, Any]:
    """The values of a TOML text. `where`: names it in errors.

    Raises:
        FileError: it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise FileError(f"{where}: {toml_syntax_error(text, problem)}") from None
    except RecursionError:
        raise FileError(f"{where}: {NESTED_TOO_DEEP}") from None


def toml_syntax_error(text: str, problem: tomllib.TOMLDecodeError) -> str:
    """A syntax error in a text, with its line and column, both counted from 1."""
    message, _, place = str(problem).rstrip(")").rpartition(" (at ")
    if place == "end of document":
        lines = text.split("\n")
        place = f"line {len(lines)}, column {len(lines[-1]) + 1}"
    return f"not TOML: {place}: {message[:1].lower()}{message[1:]}" if message else f"not TOML: {problem}"


def validate(
    model: type[Model], values: object, where: str, context: dict[str, Any] | None = None, keys_in: str = ""
) -> Model:
    """The values as a model. `where`: names the file in errors. `context`: passed to the model's validators.
    `keys_in`: the page that lists the keys, for the error about an unknown one.

    Raises:
        FileError: a value is invalid.
    """
    try:
        return model.model_validate(values, context=context)
    except ValidationError as problem:
        problems = field_problems(problem, model, values)
        is_puzzling = any(one.endswith("unknown key") for one in problems)
        hint = [f"{keys_in} lists all keys"] if keys_in and is_puzzling else []
        raise FileError(f"{where}: {'; '.join([*_first(problems), *hint])}", where, [*problems, *hint]) from None
    except RecursionError:
        raise FileError(f"{where}: {NESTED_TOO_DEEP}") from None


def invalid_fields(problem: ValidationError, values: object = None, model: type[BaseModel] | None = None) -> str:
    """The invalid fields as one line: field, value, and what is expected; at most `MAX_PROBLEMS` of them.

    `values`, `model`: see `field_problems`.
    """
    return "; ".join(_first(field_problems(problem, model, values)))


def _first(problems: list[str]) -> list[str]:
    more = len(problems) - MAX_PROBLEMS
    return [*problems[:MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
