"""DuckDB over the Parquet files of a data set: the second opinion on every answer."""

import time
from pathlib import Path

from tpcds.data import DataSet
from tpcds.engines import Answer
from tpcds.errors import EngineError
from tpcds.extension import duckdb_module
from tpcds.tables import TABLES


class DuckDbEngine:
    """One connection in memory, a view for each table."""

    def __init__(self, data: DataSet) -> None:
        self._duckdb = duckdb_module()
        self._connection = self._duckdb.connect()
        for table in TABLES:
            files = _quoted(data.table(table) / "*.parquet")
            self._connection.execute(f"CREATE VIEW {table} AS FROM read_parquet({files})")

    @property
    def version(self) -> str:
        return str(self._duckdb.__version__)

    def run(self, sql: str) -> Answer:
        began = time.perf_counter()
        try:
            result = self._connection.execute(sql)
            columns = tuple(column[0] for column in result.description)
            rows = result.fetchall()
        except self._duckdb.Error as wrong:
            raise EngineError(f"duckdb: {str(wrong).splitlines()[0]}") from wrong
        return Answer(columns, rows, time.perf_counter() - began)

    def close(self) -> None:
        self._connection.close()


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
