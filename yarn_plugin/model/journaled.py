"""Contracts of values that reach a journal: state that is changed in place, and fields of any tagged type."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol, Self, cast, runtime_checkable


@runtime_checkable
class Mutable(Protocol):
    """State that is too large to copy at every change: it is changed in place and can be rolled back.

    Only the thread that decides may touch it; others read the report that a controller makes. `dump` and `load` are for
    the journal: JSON types only, equal for equal states.
    """

    def savepoint(self) -> int:
        """A savepoint to `rollback` to."""
        ...

    def rollback(self, savepoint: int) -> None:
        """Undo every change since the savepoint."""
        ...

    def commit(self) -> None:
        """Discard all savepoints: nothing will be rolled back any more."""
        ...

    def dump(self) -> Any:
        """The whole state in JSON types."""
        ...

    @classmethod
    def load(cls, dumped: Any) -> Self:
        """The state that was dumped."""
        ...


@runtime_checkable
class Composed(Protocol):
    """A frozen state with mutable parts, such as the states of hosted controllers."""

    def parts(self) -> Iterable[Mutable]:
        """The mutable parts."""
        ...


def parts_of(state: object) -> tuple[Mutable, ...]:
    """The mutable parts of a state: the state itself, or those of a composed one."""
    protocol = _protocol(type(state))
    if protocol is Composed:
        return tuple(cast(Composed, state).parts())
    return () if protocol is None else (cast(Mutable, state),)


def _protocol(kind: type) -> type | None:
    """The protocol that a type implements."""
    for one, names in _METHODS:
        # Most states implement none, which the first name tells.
        if hasattr(kind, names[0]) and all(hasattr(kind, name) for name in names):
            return one
    return None


_METHODS = ((Mutable, ("savepoint", "rollback", "commit", "dump", "load")), (Composed, ("parts",)))


def savepoints_of(state: object) -> list[tuple[Mutable, int]]:
    """A savepoint in each mutable part of a state."""
    return [(part, part.savepoint()) for part in parts_of(state)]


def roll_back(savepoints: Iterable[tuple[Mutable, int]]) -> None:
    """Undo every change since these savepoints."""
    for part, savepoint in savepoints:
        part.rollback(savepoint)


class Tagged:
    """In `Annotated[object, Tagged()]`: a field of any type that a pool's controller declares.

    The journal writes such a value with the tag of its type and reads it back by that tag. `yarn_plugin.journal.codec`
    sets `schema`, so that this package need not import pydantic.
    """

    schema: ClassVar[Callable[[Any, Any], Any] | None] = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """The schema that pydantic uses for such a field."""
        return handler(source) if self.schema is None else type(self).schema(source, handler)  # type: ignore[misc]
