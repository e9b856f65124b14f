"""TOML files validated by pydantic models; errors name the file, the field, the value and what is expected."""

import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from yarn_plugin.errors import ReportedError, os_reason
from yarn_plugin.validation import expectation

Model = TypeVar("Model", bound=BaseModel)

MAX_PROBLEMS, MAX_VALUE_LENGTH = 10, 200
"""How many invalid fields of a file are reported, and how many characters of each value."""

NESTED_TOO_DEEP = "too many levels of lists and tables; must have at most a few hundred"

_SHORT_NAME = re.compile(r"[\w./-]{1,100}")


class FileError(ReportedError):
    """A file cannot be used."""

    exit_code = 2


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
    text = read_text(where, path)
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
        has_unknown = any(error["type"] == "extra_forbidden" for error in problem.errors())
        hint = f"; {keys_in} lists all keys" if keys_in and has_unknown else ""
        raise FileError(f"{where}: {invalid_fields(problem, values)}{hint}") from None
    except RecursionError:
        raise FileError(f"{where}: {NESTED_TOO_DEEP}") from None


def invalid_fields(problem: ValidationError, values: object = None) -> str:
    """The invalid fields as one line: field, value, and what is expected; at most `MAX_PROBLEMS` of them.

    `values`: what was validated; items of its lists are then called by their `name`.
    """
    errors = problem.errors()
    parts = [_invalid_field(dict(error), values) for error in errors[:MAX_PROBLEMS]]
    if len(errors) > MAX_PROBLEMS:
        parts.append(f"and {len(errors) - MAX_PROBLEMS} more")
    return "; ".join(parts)


def _invalid_field(error: dict[str, Any], values: object) -> str:
    value, kind = error.get("input"), error["type"]
    has_value = isinstance(value, str | int | float | bool) and kind != "extra_forbidden"
    shown = f" {_shortened(value)}" if has_value else ""
    field = f"{_field(error['loc'], values)}{shown}"
    return f"{field}: {expectation(error)}" if field else expectation(error)


def _field(location: tuple[int | str, ...], values: object) -> str:
    """The path of a field, such as `pools.sql.grace_s` or, in a list of items without names, `nodes #1.hosts #2`."""
    path = ""
    for place, step in enumerate(location):
        try:
            values = values[step]  # type: ignore[index]
        except (LookupError, TypeError):
            values = None
        if isinstance(step, str):
            path += f".{step}" if path else step
            continue
        name = values.get("name") if isinstance(values, dict) and location[place + 1 :] != ("name",) else None
        path += f".{name}" if isinstance(name, str) and _SHORT_NAME.fullmatch(name) else f" #{step + 1}"
    return path


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}..."
