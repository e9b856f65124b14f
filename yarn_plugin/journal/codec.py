"""Dataclasses to JSON and back, by tags: type names that never change, even if a class is renamed."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import core_schema

from yarn_plugin.journal.records import JournalError
from yarn_plugin.model.journaled import Mutable, Tagged
from yarn_plugin.spelling import near
from yarn_plugin.validation import expectation


class UnknownRecordError(JournalError):
    """A record contains a type or a value that this program does not know.

    `field`: its path in the record; `problem`: what is wrong; `value`: the invalid one, unless its key is unknown.
    """

    def __init__(self, message: str, field: str = "type", problem: str = "", value: object = None) -> None:
        super().__init__(f"journal: {message}")
        self.field, self.problem, self.value = field, problem or message, value


class Codec:
    """Writes values of the tagged types as {"type": tag, **fields}; validates them when it reads them back.

    `Tagged` fields hold values of these types and are written the same way. A `Mutable` type is written as
    {"type": tag, "data": dump()}.

    `unknown_fields`: "ignore" for journals, which a later program may have extended; "forbid", at any depth, for
    messages from others.
    """

    def __init__(self, tags: Mapping[str, type], unknown_fields: Literal["ignore", "forbid"] = "ignore") -> None:
        self._types = dict(tags)
        self._tags = {kind: tag for tag, kind in tags.items()}
        if len(self._tags) < len(self._types):
            twice = next(kind for tag, kind in tags.items() if self._tags[kind] != tag)
            raise ValueError(f"type {twice.__name__} has more than one tag; must have one")
        for kind in self._types.values():
            if is_dataclass(kind) and any(field.name == "type" for field in fields(kind)):
                raise ValueError(f"type {kind.__name__}: its field `type` must have another name; the tag uses it")
        self._adapters: dict[type, TypeAdapter[Any]] = {
            kind: _adapter(kind) for kind in self._types.values() if not _is_mutable(kind)
        }
        self._context = {"codec": self}
        self._unknown_fields = unknown_fields

    def write(self, value: object) -> dict[str, Any]:
        """The value as plain JSON types."""
        tag, adapter = self._tag(value), self._adapters.get(type(value))
        if adapter is None:
            return {"type": tag, "data": cast(Mutable, value).dump()}
        return {"type": tag, **adapter.dump_python(value, mode="json", context=self._context)}

    def dump(self, value: object) -> bytes:
        """The value as JSON."""
        tag, adapter = self._tag(value).encode(), self._adapters.get(type(value))
        if adapter is None:
            return b'{"type":"%s","data":%s}' % (tag, _ANY.dump_json(cast(Mutable, value).dump()))
        held = adapter.dump_json(value, context=self._context)
        return b'{"type":"%s"%s%s' % (tag, b"" if held == b"{}" else b",", held[1:])

    def check(self, value: object) -> None:
        """Check that a value survives a round trip. Infinity, for example, does not: JSON has none.

        Raises:
            ValueError: it does not survive, or cannot be written.
        """
        written = self.dump(value)
        try:
            same = self.read(json.loads(written)) == value
        except UnknownRecordError as problem:
            raise ValueError(f"a stored {type(value).__name__} cannot be read back: {problem}") from None
        if not same:
            raise ValueError(f"a stored {type(value).__name__} differs when it is read back")

    def read(self, written: dict[str, Any]) -> Any:
        """The value of a written record.

        Raises:
            UnknownRecordError: its type is unknown, or its fields do not match the type.
        """
        if not isinstance(written, dict):
            raise UnknownRecordError(f"a value with a type must be an object, not a {type(written).__name__}")
        tag = written.get("type")
        kind = self._types.get(tag) if isinstance(tag, str) else None
        if kind is None:
            raise UnknownRecordError(
                f"record type {tag!r} is unknown; it needs a newer release or the controller package that wrote it",
                problem=f"unknown type {tag!r}",
            )
        try:
            adapter = self._adapters.get(kind)
            if adapter is None:
                return cast(type[Mutable], kind).load(written["data"])
            held = {name: one for name, one in written.items() if name != "type"}
            return adapter.validate_python(held, context=self._context, extra=self._unknown_fields)
        except ValidationError as problem:
            first = problem.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            problem_there = expectation(dict(first), "object")
            is_key = first["type"] == "unexpected_keyword_argument"
            if is_key and len(first["loc"]) == 1:
                problem_there += near(field, (known.name for known in fields(kind)))
            raise UnknownRecordError(
                f"a record of type {tag!r} cannot be read: {field}: {problem_there}",
                field,
                problem_there,
                None if is_key else first["input"],
            ) from None

    def is_tagged(self, value: object) -> bool:
        """Whether a value is of one of the tagged types."""
        return type(value) in self._tags

    def _tag(self, value: object) -> str:
        tag = self._tags.get(type(value))
        if tag is None:
            raise ValueError(f"type {type(value).__name__} has no journal tag, so its values cannot be stored")
        return tag


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    """The adapter of a type, cached: creating one takes milliseconds."""
    return TypeAdapter(kind)


_ANY: TypeAdapter[Any] = TypeAdapter(Any)


def _is_mutable(kind: type) -> bool:
    return all(hasattr(kind, method) for method in ("savepoint", "rollback", "commit", "dump", "load"))


def _read_tagged(written: Any, info: core_schema.ValidationInfo) -> Any:
    codec: Codec = (info.context or {})["codec"]
    if written is None or codec.is_tagged(written):
        return written
    if not isinstance(written, dict):
        raise ValueError(f"must be an object with `type`, not {type(written).__name__}")
    try:
        return codec.read(written)
    except UnknownRecordError as problem:
        raise ValueError(f"{problem.field}: {problem.problem}") from None


def _write_tagged(value: Any, info: core_schema.SerializationInfo) -> Any:
    if value is None:
        return None
    codec: Codec = (info.context or {})["codec"]
    written = codec.write(value)
    # pydantic would write null for infinity, which cannot be read back as a number: fail instead.
    json.dumps(written, allow_nan=False)
    return written


def _tagged_schema(source: Any, handler: Any) -> core_schema.CoreSchema:
    return core_schema.with_info_plain_validator_function(
        _read_tagged, serialization=core_schema.plain_serializer_function_ser_schema(_write_tagged, info_arg=True)
    )


Tagged.schema = staticmethod(_tagged_schema)
