"""State that is too large to be copied at every change."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, ClassVar, Protocol, Self, cast, runtime_checkable


@runtime_checkable
class Mutable(Protocol):
    """State that is changed in place, and can be taken back.

    Whoever decides changes it; nobody else reads it (see the report that a controller makes). `mark` gives a place to
    `rollback` to; `settle` forgets all such places. `dump` and `load` are for a journal: JSON's types alone, equal for
    states that are equal.
    """

    def mark(self) -> int:
        """A place to come back to."""
        ...

    def rollback(self, mark: int) -> None:
        """Undo what was changed since then."""
        ...

    def settle(self) -> None:
        """Nothing will be undone any more."""
        ...

    def dump(self) -> Any:
        """Everything, in JSON's types."""
        ...

    @classmethod
    def load(cls, dumped: Any) -> Self:
        """The state that was dumped."""
        ...


@runtime_checkable
class Composed(Protocol):
    """A frozen state that holds others which are changed in place, such as those of hosted controllers."""

    def parts(self) -> Iterable[Mutable]:
        """What in it is changed in place."""
        ...


def parts_of(state: object) -> tuple[Mutable, ...]:
    """What of a state is changed in place: itself; or, of a value that holds others, what its `parts` gives."""
    protocol = _protocol(type(state))  # type: ignore[arg-type]
    if protocol is Composed:
        return tuple(cast(Composed, state).parts())
    return () if protocol is None else (cast(Mutable, state),)


@lru_cache(maxsize=1024)
def _protocol(kind: type) -> type | None:
    """Which of the protocols a type has; asked once for each, since that takes longer than most steps."""
    methods = {Mutable: ("mark", "rollback", "settle", "dump", "load"), Composed: ("parts",)}
    return next((one for one, names in methods.items() if all(hasattr(kind, name) for name in names)), None)


def marks_of(state: object) -> list[tuple[Mutable, int]]:
    """Places in all parts of a state that are changed in place, to `roll_back` to."""
    return [(part, part.mark()) for part in parts_of(state)]


def roll_back(marks: Iterable[tuple[Mutable, int]]) -> None:
    """Undo what was changed since these marks."""
    for part, mark in marks:
        part.rollback(mark)


class Tagged:
    """In `Annotated[object, Tagged()]`: a value of one of the types that a pool's controller declares.

    A journal writes it with the tag of its type, and so reads it back as what it was. How, the journal says: it sets
    `schema`, which pydantic asks for through the method that it asks every such mark for.
    """

    schema: ClassVar[Callable[[Any, Any], Any] | None] = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """What pydantic is to do with such a field."""
        return handler(source) if self.schema is None else type(self).schema(source, handler)  # type: ignore[misc]
