"""SQL on Spark that replans while it runs, when its share of the cluster changes.

import qoop

frame = qoop.sql(spark, "SELECT ...")
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qoop.api import Answer, Options, collect, execute, how_to_run, sql, write
    from qoop.installed import install, uninstall

__all__ = ["Answer", "Options", "collect", "execute", "how_to_run", "install", "sql", "uninstall", "write"]


def __getattr__(name: str) -> Any:
    """Import PySpark only when the library call is used: the pure packages and `qoop explain` do without it."""
    if name in __all__:
        from qoop import api, installed

        return getattr(installed if name in ("install", "uninstall") else api, name)
    raise AttributeError(f"module 'qoop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
