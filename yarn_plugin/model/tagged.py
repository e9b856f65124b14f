"""Marks fields whose values only their owner knows the type of."""

from collections.abc import Callable
from typing import Any, ClassVar


class Tagged:
    """In `Annotated[object, Tagged()]`: a value of one of the types that a pool's controller declares.

    A journal writes it with the tag of its type, and so reads it back as what it was. How, the journal says: it sets
    `schema`, which pydantic asks for through the method that it asks every such mark for.
    """

    schema: ClassVar[Callable[[Any, Any], Any] | None] = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """What pydantic is to do with such a field."""
        return handler(source) if self.schema is None else type(self).schema(source, handler)  # type: ignore[misc]
