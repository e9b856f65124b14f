"""The reference engine: DuckDB over the files of a data set, and its answers cached on disk.

A cached answer is found by the engine, the data (its fingerprint) and the text of the query: change any and it is not
found.
"""

import hashlib
import json
import time
from contextlib import suppress
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tpcds.answers import Answer, Engine
from tpcds.data import DataSet
from tpcds.errors import EngineError
from tpcds.extension import duckdb_module
from tpcds.generator import TABLES
from yarn_plugin import files


class DuckDbEngine:
    """An in-memory connection with a view for each table."""

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
        started = time.perf_counter()
        try:
            result = self._connection.execute(sql)
            columns = tuple(column[0] for column in result.description)
            rows = result.fetchall()
        except self._duckdb.Error as wrong:
            raise EngineError(f"duckdb: {str(wrong).splitlines()[0]}") from wrong
        return Answer(columns, rows, time.perf_counter() - started)

    def close(self) -> None:
        self._connection.close()


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


class CachedAnswer(BaseModel):
    """A cached answer on disk; cells as JSON values, a decimal as {"decimal": text}, a date as {"date": text}."""

    model_config = ConfigDict(frozen=True)
    version: Literal[1] = 1
    columns: tuple[str, ...]
    rows: list[list[Any]]
    seconds: float


class CachingEngine:
    """An engine that runs each query once and then answers from its cache; `seconds` are those of that one run."""

    def __init__(self, engine: Engine, folder: Path, version: str) -> None:
        """`version`: what the answers depend on besides the text: engine version and data fingerprint."""
        self._engine, self._folder, self._version = engine, folder, version

    def run(self, sql: str) -> Answer:
        key = hashlib.sha256(f"{self._version}\n{sql}".encode()).hexdigest()[:24]
        file = self._folder / f"{key}.json"
        answer = _read(file)
        if answer is None:
            answer = self._engine.run(sql)
            _write(file, answer)
        return answer


def _read(file: Path) -> Answer | None:
    try:
        cached = CachedAnswer.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
    return Answer(cached.columns, [tuple(map(_decoded, row)) for row in cached.rows], cached.seconds)


def _write(file: Path, answer: Answer) -> None:
    rows = [[_encoded(cell) for cell in row] for row in answer.rows]
    cached = {"version": 1, "columns": answer.columns, "rows": rows, "seconds": answer.seconds}
    # The data set may be read-only: the answer is then not cached.
    with suppress(OSError):
        file.parent.mkdir(exist_ok=True)
        files.write(file, json.dumps(cached))


def _encoded(cell: Any) -> Any:
    match cell:
        case Decimal():
            return {"decimal": str(cell)}
        case date():
            return {"date": cell.isoformat()}
        case _:
            return cell


def _decoded(cell: Any) -> Any:
    match cell:
        case {"decimal": text}:
            return Decimal(text)
        case {"date": text}:
            return date.fromisoformat(text)
        case _:
            return cell
