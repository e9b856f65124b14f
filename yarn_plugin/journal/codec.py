"""Dataclasses to JSON and back, by the name of their type."""

from collections.abc import Iterable
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from yarn_plugin.journal.records import JournalError

Value = TypeVar("Value")


class UnknownRecordError(JournalError):
    """A record holds a type or a value that this program does not know."""


class Codec:
    """Writes values of the given dataclasses as {"type": name, **fields} and reads them back, validated."""

    def __init__(self, types: Iterable[type]) -> None:
        self._adapters: dict[str, TypeAdapter[Any]] = {kind.__name__: TypeAdapter(kind) for kind in types}

    def write(self, value: object) -> dict[str, Any]:
        """The value as plain JSON types."""
        name = type(value).__name__
        return {"type": name, **self._adapters[name].dump_python(value, mode="json")}

    def dump(self, value: object) -> bytes:
        """The value as JSON."""
        name = type(value).__name__
        fields = self._adapters[name].dump_json(value)
        return b'{"type":"%s"%s%s' % (name.encode(), b"" if fields == b"{}" else b",", fields[1:])

    def read(self, written: dict[str, Any]) -> Any:
        """The value that was written.

        Raises:
            UnknownRecordError: its type is not known, or its fields are not that type's.
        """
        fields = {name: field for name, field in written.items() if name != "type"}
        adapter = self._adapters.get(cast(str, written.get("type")))
        if adapter is None:
            raise UnknownRecordError(f"journal: a record of type {written.get('type')!r} is not known to this program")
        try:
            return adapter.validate_python(fields)
        except ValidationError as problem:
            first = problem.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise UnknownRecordError(
                f"journal: a record of type {written['type']!r} cannot be read: {field}: {first['msg']}"
            ) from None
