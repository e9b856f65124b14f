"""SQL on Spark that replans while it runs, when its share of the cluster changes.

import qoop

frame = qoop.sql(spark, "SELECT ...")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qoop.api import Answer, Options, collect, execute, how_to_run, sql, write
    from qoop.installed import install, uninstall
    from qoop.joined import Joined, join

__all__ = [
    "Answer",
    "Joined",
    "Options",
    "collect",
    "execute",
    "how_to_run",
    "install",
    "join",
    "sql",
    "uninstall",
    "write",
]

_ROOMS = {"install": "installed", "uninstall": "installed", "join": "joined", "Joined": "joined"}
"""The modules of those that are not in `qoop.api`."""


def __getattr__(name: str) -> Any:
    """Import PySpark only when the library call is used: the pure packages and `qoop explain` do without it."""
    if name in __all__:
        return getattr(import_module(f"qoop.{_ROOMS.get(name, 'api')}"), name)
    raise AttributeError(f"module 'qoop' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Make the cell magic `%%qoop` known to a notebook: `%load_ext qoop`."""
    from qoop.notebook import load

    load(shell)


def __dir__() -> list[str]:
    return __all__
