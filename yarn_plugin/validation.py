"""Pydantic's validation errors in plain words: what a value must be."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from yarn_plugin.quantities import count
from yarn_plugin.spelling import near

_EXPECTED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": lambda context: "required",
    "extra_forbidden": lambda context: "unknown key",
    "unexpected_keyword_argument": lambda context: "unknown key",
    "greater_than_equal": lambda context: f"must be at least {_plain(context['ge'])}",
    "greater_than": lambda context: f"must be above {_plain(context['gt'])}",
    "less_than_equal": lambda context: f"must be at most {_plain(context['le'])}",
    "less_than": lambda context: f"must be below {_plain(context['lt'])}",
    "literal_error": lambda context: f"must be {context['expected']}",
    "string_pattern_mismatch": lambda context: f"must match {context['pattern'].removeprefix('^').removesuffix('$')}",
    "string_too_short": lambda context: f"must have at least {count(context['min_length'], 'character')}",
    "string_too_long": lambda context: f"must have at most {count(context['max_length'], 'character')}",
    "too_short": lambda context: f"must have at least {count(context['min_length'], 'item')}",
    "too_long": lambda context: f"must have at most {count(context['max_length'], 'item')}",
    "union_tag_invalid": lambda context: (
        f"its {context['discriminator'].strip(chr(39))} must be one of {context['expected_tags']}"
    ),
    "union_tag_not_found": lambda context: f"its {context['discriminator'].strip(chr(39))} is required",
    "value_error": lambda context: str(context["error"]),
}
"""By the type of the error; the values take its context."""

_KINDS = {
    "int": "must be an integer",
    "float": "must be a number",
    "finite": "must be a finite number",
    "string": "must be a string",
    "bool": "must be true or false",
    "list": "must be a list",
    "tuple": "must be a list",
    "path": "must be a path",
    "datetime": "must be a date and time, such as 2017-10-03 10:00:00",
}
"""By the first word of the error's type, such as `int` of int_parsing and int_from_float."""


def expectation(error: Mapping[str, Any], mapping: str = "table") -> str:
    """What is wrong or what would be right, from one of `ValidationError.errors()`, such as "must be at least 0".

    `mapping`: what the format calls a mapping: a table in TOML, an object in JSON.
    """
    kind = str(error["type"])
    if kind in _EXPECTED:
        return _EXPECTED[kind](error.get("ctx", {}))
    if kind.startswith(("dict_", "model_", "dataclass_")):
        return f"must be a{'n' if mapping == 'object' else ''} {mapping}"
    return _KINDS.get(kind.partition("_")[0]) or str(error["msg"])


def one_of(names: Iterable[str], given: object = None) -> str:
    """The error for a name that is not among these. `given`: that name, to suggest the one that was probably meant."""
    known = sorted(names)
    if not known:
        return "there is none to choose"
    if len(known) == 1:
        return f"must be {known[0]}"
    return f"choose one of {', '.join(known)}{near(given, known) if isinstance(given, str) else ''}"


def _plain(bound: Any) -> Any:
    """A bound without needless decimals: 0 for 0.0."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound
