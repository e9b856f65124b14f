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


class Kept(BaseModel):
    """The file: a cell is written as itself, a decimal as {"decimal": text}, a date as {"date": text}."""

    model_config = ConfigDict(frozen=True)
    version: Literal[1] = 1
    columns: tuple[str, ...]
    rows: list[list[Any]]
    seconds: float


class Remembering:
    """An engine that asks another one only for what it has not kept yet; `seconds` are then those of the first time."""

    def __init__(self, engine: Engine, folder: Path, about: str) -> None:
        """`about` says what the answers depend on besides the text: the engine's version, the data's fingerprint."""
        self._engine, self._folder, self._about = engine, folder, about

    def run(self, sql: str) -> Answer:
        key = hashlib.sha256(f"{self._about}\n{sql}".encode()).hexdigest()[:24]
        file = self._folder / f"{key}.json"
        kept = _read(file)
        if kept is None:
            kept = self._engine.run(sql)
            _write(file, kept)
        return kept


def _read(file: Path) -> Answer | None:
    try:
        kept = Kept.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
    return Answer(kept.columns, [tuple(map(_cell, row)) for row in kept.rows], kept.seconds)


def _write(file: Path, answer: Answer) -> None:
    rows = [[_written(cell) for cell in row] for row in answer.rows]
    kept = {"version": 1, "columns": answer.columns, "rows": rows, "seconds": answer.seconds}
    # A data set may be read-only: the answer is then computed again next time.
    with suppress(OSError):
        file.parent.mkdir(exist_ok=True)
        files.write(file, json.dumps(kept))


def _written(cell: Any) -> Any:
    match cell:
        case Decimal():
            return {"decimal": str(cell)}
        case date():
            return {"date": cell.isoformat()}
        case _:
            return cell


def _cell(written: Any) -> Any:
    match written:
        case {"decimal": text}:
            return Decimal(text)
        case {"date": text}:
            return date.fromisoformat(text)
        case _:
            return written
