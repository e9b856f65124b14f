"""The parameters of a text: `:name` and `?`, with literals in their places."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot.tokenizer_core import TokenType

from qoop.parsing.spark_sql import DIALECT


def with_arguments(text: str, arguments: Mapping[str, Any] | Sequence[Any]) -> str | None:
    """A text with literals in place of its parameters; None if one has no literal that means the same in a text.

    `arguments`: values by the names of parameters, or in their order.
    """
    named = dict(arguments) if isinstance(arguments, Mapping) else {}
    in_order = iter(()) if isinstance(arguments, Mapping) else iter(arguments)
    tokens, written, end = DIALECT().tokenize(text), "", 0
    for place, token in enumerate(tokens):
        if token.token_type == TokenType.PLACEHOLDER:
            literal, last = _literal(next(in_order, None)), token
        elif token.token_type == TokenType.COLON and _is_name(tokens, place, named):
            last = tokens[place + 1]
            literal = _literal(named[last.text])
        else:
            continue
        if literal is None:
            return None
        written += text[end : token.start] + literal
        end = last.end + 1
    return written + text[end:]


def _is_name(tokens: Sequence[Any], place: int, named: Mapping[str, Any]) -> bool:
    """Whether a parameter's name follows a colon at once, which is not that of `column:path`."""
    if place + 1 == len(tokens) or tokens[place + 1].text not in named:
        return False
    return bool(tokens[place + 1].start == tokens[place].end + 1)


def _literal(value: Any) -> str | None:
    match value:
        case bool():
            return str(value).upper()
        case int() if value >= 0:
            return str(value)
        case int():
            return f"({value})"
        case float() if value == value and abs(value) != float("inf"):
            return f"{value!r}D" if value >= 0 else f"({value!r}D)"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case Decimal() if value.is_finite() and "E" not in str(value):
            return f"{value}BD"
        case date() if not isinstance(value, datetime):
            return f"DATE '{value.isoformat()}'"
    return None
