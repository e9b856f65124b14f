"""Dataclasses to JSON and back, by the name of their type."""

from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import TypeAdapter

Value = TypeVar("Value")


class Codec:
    """Writes values of the given dataclasses as {"type": name, **fields} and reads them back, validated."""

    def __init__(self, types: Iterable[type]) -> None:
        self._adapters: dict[str, TypeAdapter[Any]] = {kind.__name__: TypeAdapter(kind) for kind in types}

    def write(self, value: object) -> dict[str, Any]:
        """The value as plain JSON types."""
        name = type(value).__name__
        return {"type": name, **self._adapters[name].dump_python(value, mode="json")}

    def read(self, written: dict[str, Any]) -> Any:
        """The value that was written."""
        fields = {name: field for name, field in written.items() if name != "type"}
        return self._adapters[written["type"]].validate_python(fields)
