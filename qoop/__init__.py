"""The query side: candidate plans, checkpoints, switching.

import qoop

frame = qoop.sql(spark, "SELECT ...")
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qoop.session import Answer, Options, collect, execute, sql, write

__all__ = ["Answer", "Options", "collect", "execute", "sql", "write"]


def __getattr__(name: str) -> Any:
    """Load Spark only when something that needs it is used: the pure rooms and `qoop explain` do without."""
    if name in __all__:
        from qoop import session

        return getattr(session, name)
    raise AttributeError(f"module 'qoop' has no attribute {name!r}")


class _Package(ModuleType):
    """`qoop.sql` is the call for users, though a room has this name too: importing the room does not hide the call."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
