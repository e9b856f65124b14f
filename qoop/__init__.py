"""The query side: candidate plans, checkpoints, switching.

import qoop

frame = qoop.sql(spark, "SELECT ...")
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qoop.api import Answer, Options, collect, execute, sql, write

__all__ = ["Answer", "Options", "collect", "execute", "sql", "write"]


def __getattr__(name: str) -> Any:
    """Load Spark only when something that needs it is used: the pure rooms and `qoop explain` do without."""
    if name in __all__:
        from qoop import api

        return getattr(api, name)
    raise AttributeError(f"module 'qoop' has no attribute {name!r}")
