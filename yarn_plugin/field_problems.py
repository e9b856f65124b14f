"""What is wrong with the fields of a file, from pydantic's errors: field, value, and what would be right."""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from yarn_plugin.spelling import near
from yarn_plugin.validation import expectation

MAX_VALUE_LENGTH = 200
"""How many characters of a value are shown."""

Location = tuple[int | str, ...]

_SHORT_NAME = re.compile(r"[\w./-]{1,100}")
_QUOTED = re.compile(r"'([^']*)'")
_KEY = "[key]"
"""Pydantic's last step to the key of a table that is wrong itself."""


def field_problems(problem: ValidationError, model: type[BaseModel] | None, values: object) -> list[str]:
    """The invalid fields, one text each. `model`, `values`: what was validated, to name keys that were meant, and
    items of lists by their `name`; None if they are not known."""
    errors = problem.errors()
    found: dict[tuple[Location, str], list[str]] = {}
    for error in errors:
        location = _location(error, model)
        if not _is_beside_deeper(error["type"], location, error["loc"], errors, model):
            value, kind = error.get("input"), error["type"]
            if kind == "union_tag_invalid":
                value, kind = error["ctx"]["tag"], "literal_error"
                error["ctx"]["expected"] = _either(error["ctx"]["expected_tags"].split(", "))
            has_value = isinstance(value, str | int | float | bool) and kind != "extra_forbidden"
            shown = f" {_shortened(value)}" if has_value else ""
            wanted = "required" if kind == "union_tag_not_found" else expectation({**error, "type": kind})
            if kind == "extra_forbidden" and model is not None:
                wanted += near(str(location[-1]), keys_at(model, error["loc"]))
            if kind == "literal_error" and isinstance(value, str):
                wanted += near(value, _QUOTED.findall(error["ctx"]["expected"]))
            found.setdefault((location, shown), []).append(wanted)
    return [_line(f"{_path(location, values)}{shown}", wanted) for (location, shown), wanted in found.items()]


def _line(field: str, wanted: list[str]) -> str:
    # The members of a union are wrong for the same value, each for a reason of its own.
    kinds = [one.removeprefix("must be ") for one in dict.fromkeys(wanted)]
    text = f"must be {_either(kinds)}" if len(kinds) > 1 else wanted[0]
    return f"{field}: {text}" if field else text


def _either(kinds: list[str]) -> str:
    return f"{', '.join(kinds[:-1])} or {kinds[-1]}" if len(kinds) > 1 else kinds[0]


def _location(error: Mapping[str, Any], model: type[BaseModel] | None) -> Location:
    """The path of an error in the file: without the steps that name the member of a union, which the file lacks."""
    steps: list[int | str] = []
    kinds: list[Any] = [model]
    for step in error["loc"]:
        inside = [part for kind in kinds for part in _inside(kind, step)]
        members = {id(one) for kind in kinds for one in _members(kind)}
        is_named = step == _KEY or (not inside and isinstance(step, str) and len(members) > 1)
        if not is_named or (step == error["loc"][-1] and error["type"] in ("missing", "extra_forbidden")):
            steps.append(step)
        kinds = inside or kinds
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        steps.append(error["ctx"]["discriminator"].strip("'"))
    return tuple(steps)


def _is_beside_deeper(
    kind: str, location: Location, full: Location, errors: Iterable[Any], model: type[BaseModel] | None
) -> bool:
    """Whether another error says more of the same value: another member of a union has come further with it, or the
    items that a list lacks are invalid."""
    if len(location) == len(full) and kind != "too_short":
        return False
    others = (_location(one, model) for one in errors)
    return any(len(one) > len(location) and one[: len(location)] == location for one in others)


def _path(location: Location, values: object) -> str:
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


def keys_at(model: type[BaseModel], location: Location) -> set[str]:
    """The keys that the table with an unknown one may have. `location`: of the unknown key."""
    kinds: list[Any] = [model]
    for step in location[:-1]:
        inside = [part for kind in kinds for part in _inside(kind, step)]
        # A step that names the member of a union leads nowhere.
        kinds = inside or kinds
    models = (one for kind in kinds for one in _members(kind) if _is_model(one))
    return {key for one in models for key in _names(one)}


def _inside(kind: Any, step: int | str) -> Iterator[Any]:
    for one in _members(kind):
        arguments = get_args(one)
        if _is_model(one):
            yield from (field.annotation for name, field in one.model_fields.items() if step in (name, field.alias))
        elif isinstance(step, int) and get_origin(one) in (list, tuple) and arguments:
            yield arguments[0]
        elif isinstance(step, str) and isinstance(get_origin(one), type) and len(arguments) == 2:
            yield from arguments[1:] if issubclass(get_origin(one), Mapping) else ()


def _members(kind: Any) -> Iterator[Any]:
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _members(get_args(kind)[0])
    elif origin in (Union, UnionType):
        for one in get_args(kind):
            yield from () if one is NoneType else _members(one)
    else:
        yield kind


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _names(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name
