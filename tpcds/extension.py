"""DuckDB with its tpcds extension, which contains the 99 published queries; both are installed packages.

They are imported lazily: `tpcds generate` and `tpcds -h` work without them.
"""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tpcds.errors import NotInstalledError

PACKAGE = "duckdb_extension_tpcds"


def duckdb_module() -> ModuleType:
    """DuckDB itself.

    Raises:
        NotInstalledError: it is not installed.
    """
    try:
        return importlib.import_module("duckdb")
    except ImportError:
        raise NotInstalledError("duckdb is not installed: pip install '.[tpcds]' in the clone") from None


@cache
def published_queries() -> dict[int, str]:
    """The published text of each of the 99 queries, in DuckDB's dialect."""
    return {number: text.strip().rstrip(";") for number, text in _empty().execute("FROM tpcds_queries()").fetchall()}


def output_width(sql: str) -> int:
    """The number of columns of a query over the TPC-DS tables."""
    return len(_empty().execute(f"DESCRIBE {sql}").fetchall())


@cache
def _empty() -> Any:
    duckdb = duckdb_module()
    # No downloads: the extension is a file of an installed package.
    settings = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    connection = duckdb.connect(config=settings)
    connection.load_extension(str(_extension_file(duckdb.__version__)))
    connection.execute("CALL dsdgen(sf = 0)")
    return connection


def _extension_file(duckdb_version: str) -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise NotInstalledError(f"{PACKAGE} is not installed: pip install '.[tpcds]' in the clone")
    extensions = Path(found.submodule_search_locations[0]) / "extensions"
    file = extensions / f"v{duckdb_version}" / "tpcds.duckdb_extension"
    if not file.exists():
        supported = ", ".join(sorted(path.name for path in extensions.glob("v*"))) or "none"
        raise NotInstalledError(
            f"{PACKAGE} is for DuckDB {supported}, but {duckdb_version} is installed:"
            f" pip install {PACKAGE.replace('_', '-')}=={duckdb_version}"
        )
    return file
