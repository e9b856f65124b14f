"""Request bodies: strict JSON, and messages of the types that a pool's controller declares."""

import json
import math
from dataclasses import fields
from functools import cache
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError

from yarn_plugin.api import wire
from yarn_plugin.api.jobs import Jobs
from yarn_plugin.api.records import Recover
from yarn_plugin.api.refusals import MAX_PROBLEMS, Refused, problems_of
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.errors import BadInputError
from yarn_plugin.journal.codec import Codec, UnknownRecordError
from yarn_plugin.model.share import Pool
from yarn_plugin.validation import one_of

MAX_DIGITS = 4000
"""Digits of an integer; Python itself parses no more than 4,300."""


MAX_VALUES = 2_000
"""Values in a body of a fixed shape; the largest demand has some 500."""

BYTES_PER_VALUE = 8
"""A message, or a list of jobs, has at most one value for each so many bytes that a body may have."""


def check_size(body: bytes, kind: type[BaseModel], max_body: int) -> None:
    """Refuse a body that may have more values than its kind needs, without parsing it.

    Raises:
        Refused: 422.
    """
    is_long = kind in (wire.Message, wire.NewCells, Jobs, Recover)
    limit = max(max_body // BYTES_PER_VALUE, MAX_VALUES) if is_long else MAX_VALUES
    # Every value but the first of a list or an object follows a comma; those within text count too.
    if body.count(b",") + body.count(b"[") + body.count(b"{") > limit:
        raise Refused(422, "body", None, f"must have at most {limit} values")


def parse_as(kind: type[BaseModel], body: bytes) -> Any:
    """The JSON value of a body, if it is one of this kind.

    Raises:
        Refused: 400 or 422, with the first problems.
    """
    value = parse(body)
    if isinstance(value, dict) and kind.model_config.get("extra") == "forbid":
        unknown = [name for name in value if name not in kind.model_fields]
        if len(unknown) > MAX_PROBLEMS:
            # Each would take pydantic longer than it took to parse.
            value = {name: value[name] for name in unknown[: MAX_PROBLEMS + 1]}
    try:
        kind.model_validate(value)
    except ValidationError as invalid:
        raise Refused.with_problems(422, problems_of(invalid.errors(include_url=False))) from None
    return value


def parse(body: bytes) -> Any:
    """The JSON value of a body.

    Raises:
        Refused: 400 or 422, with the problem.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as problem:
        raise Refused(400, "body", None, f"must be UTF-8; byte {problem.start} is not") from None
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer)
    except json.JSONDecodeError as problem:
        expected = f"must be JSON; line {problem.lineno}, column {problem.colno}: {problem.msg}"
        raise Refused(422, "body", text[problem.pos : problem.pos + 40], expected) from None
    except RecursionError:
        raise Refused(400, "body", None, f"must have at most {MAX_DEPTH} levels of lists and objects") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise Refused(422, "body", key, "key occurs twice in one object")
        result[key] = value
    return result


def _constant(name: str) -> NoReturn:
    raise Refused(422, "body", name, "must be a finite number; JSON has no other")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise Refused(422, "body", digits, f"must be a number of at most {MAX_DIGITS} digits")
    return int(digits)


MAX_DEPTH = 32
"""Levels of lists and objects in a message. A journal nests it deeper, and reads some 250 levels at most."""

MAX_INTEGER = 2**63
"""The integers of a message lie between this and its negative."""


class Messages:
    """Parses messages by their tags. Every parsed message can be journaled, and is read back unchanged."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._codec, self._types = cache(self._make_codec), cache(self._find_types)

    def parse(self, pool: Pool | None, message: wire.Message) -> object:
        """The message as the type that the controller of this pool declares.

        Raises:
            Refused: 422, naming the field that the controller does not accept.
        """
        messages = self._registry.messages(pool) if pool is not None else frozenset[str]()
        allowed = self._types(messages)
        if pool is None or message.type not in allowed:
            expected = one_of(allowed) if allowed else "the pool's controller accepts no messages"
            raise Refused(422, "type", message.type, expected)
        extra = message.model_extra or {}
        known = {field.name for field in fields(allowed[message.type])}
        unknown = next((name for name in extra if name not in known), None)
        if unknown is not None:
            shown = ", ".join(sorted(known)) or "no fields"
            raise Refused(422, unknown, None, f"unknown key; a message of type {message.type!r} has {shown}")
        for name, value in extra.items():
            _check_plain(name, value)
        codec = self._codec(messages)
        try:
            parsed = codec.read({**extra, "type": message.type})
            codec.check(parsed)
        except BadInputError as problem:
            raise Refused(422, problem.field, problem.value, problem.expected) from None
        except UnknownRecordError as problem:
            raise Refused(422, problem.field or "body", None, problem.problem) from None
        except (ValueError, TypeError, RecursionError):
            # What cannot be journaled is not decided on.
            field = next((name for name, value in extra.items() if not _is_unicode(value)), "body")
            expected = "must be a finite number, or text without unpaired surrogates"
            raise Refused(422, field, None, expected) from None
        return parsed

    def check(self, pool: Pool, state: object, app: str, message: object) -> None:
        """Check a parsed message with the controller of this pool, in its present state.

        Raises:
            Refused: 422, naming what is wrong. The controller is to be given the message all the same.
        """
        try:
            self._registry.check_message(pool, state, app, message)
        except BadInputError as problem:
            raise Refused(422, problem.field, problem.value, problem.expected) from None

    def _find_types(self, messages: frozenset[str]) -> dict[str, type]:
        tags = self._registry.tags()
        return {tag: tags[tag] for tag in messages}

    def _make_codec(self, messages: frozenset[str]) -> Codec:
        # With the message types alone: a nested value must not become a controller's state, or another pool's type.
        return Codec(self._types(messages), unknown_fields="forbid")


def _is_unicode(value: object) -> bool:
    """Whether all text in a JSON value is valid Unicode: it may have lone surrogates."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_plain(field: str, value: object, depth: int = 1) -> None:
    """Refuse excessive nesting, and numbers that are not finite or too large."""
    match value:
        case float() if not math.isfinite(value):
            raise Refused(422, field, value, "must be a finite number")
        case int() if not -MAX_INTEGER <= value < MAX_INTEGER:
            raise Refused(422, field, value, "must be an integer of at most 64 bits")
        case list() | dict():
            if depth >= MAX_DEPTH:
                raise Refused(422, field, None, f"must have at most {MAX_DEPTH} levels of lists and objects")
            for one in value.values() if isinstance(value, dict) else value:
                _check_plain(field, one, depth + 1)
