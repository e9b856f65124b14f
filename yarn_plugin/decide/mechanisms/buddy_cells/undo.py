"""What changes in place can be undone: a log of inverse operations."""

from collections.abc import Callable
from typing import Any


class UndoLog:
    """The inverse of every change since the last `commit`, oldest first."""

    __slots__ = ("_inverses",)

    def __init__(self) -> None:
        self._inverses: list[tuple[Any, ...]] = []

    def record(self, inverse: Callable[..., Any], *arguments: Any) -> None:
        """Record how to undo a change that was just made. The inverse must not record anything itself."""
        self._inverses.append((inverse, *arguments))

    def set(self, owner: object, attribute: str, value: object) -> None:
        """Change an attribute."""
        self._inverses.append((setattr, owner, attribute, getattr(owner, attribute)))
        setattr(owner, attribute, value)

    def savepoint(self) -> int:
        """A savepoint to roll back to."""
        return len(self._inverses)

    def rollback(self, savepoint: int) -> None:
        """Undo every change since the savepoint, the latest first."""
        while len(self._inverses) > savepoint:
            inverse, *arguments = self._inverses.pop()
            inverse(*arguments)

    def forget(self, savepoint: int) -> None:
        """Drop what was recorded since the savepoint, without undoing it."""
        del self._inverses[savepoint:]

    def commit(self) -> None:
        """Forget how to undo anything."""
        self._inverses.clear()
