"""Tables of one's own, as they come: CSV, JSON, ORC, partitions, Delta; and what is not read."""

import gzip
import json

import platformdirs
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from qoop.errors import UnknownTableError
from qoop.tables.folder import FolderCatalogue, TablesError, unknown_table
from qoop.tables.formats import Format
from qoop.tables.text_files import options_of

ROWS = [{"id": n, "city": f"city {n % 3}", "price": n / 4, "day": f"2024-01-{1 + n % 28:02}"} for n in range(300)]
TYPES = {"id": "bigint", "city": "string", "price": "double", "day": "date"}
WITH_TEXTS = TYPES | {"day": "string"}


def csv_of(rows, separator=","):
    lines = [separator.join(rows[0]), *(separator.join(map(str, row.values())) for row in rows)]
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    tables = tmp_path / "tables"
    tables.mkdir()
    return tables


def test_a_csv_file_is_a_table(folder):
    (folder / "Visits.csv").write_text(csv_of(ROWS))
    known = FolderCatalogue(folder)
    assert known.columns("visits") == TYPES
    statistics = known.statistics("visits")
    assert statistics.rows == len(ROWS)
    assert statistics.column("city").distinct == 3


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_the_separator_is_that_of_the_header(folder, separator):
    (folder / "visits.csv").write_text(csv_of(ROWS, separator))
    known = FolderCatalogue(folder)
    assert known.columns("visits") == TYPES
    assert options_of(known.stored("visits"))["sep"] == separator


def test_a_folder_of_compressed_csv_files_is_a_table(folder):
    (folder / "visits").mkdir()
    for number in range(2):
        (folder / "visits" / f"part-{number}.csv.gz").write_bytes(gzip.compress(csv_of(ROWS).encode()))
    (folder / "visits" / "_SUCCESS").touch()
    known = FolderCatalogue(folder)
    assert (known.columns("visits"), known.stored("visits").format) == (TYPES, Format.CSV)
    assert known.statistics("visits").rows >= len(ROWS)


def test_json_lines_and_a_json_array_are_tables(folder):
    (folder / "lines.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    (folder / "array.json").write_text(json.dumps(ROWS, indent=1))
    known = FolderCatalogue(folder)
    assert known.columns("lines").keys() == known.columns("array").keys() == WITH_TEXTS.keys()
    assert known.statistics("lines").rows == known.statistics("array").rows == len(ROWS)
    assert "multiLine" not in options_of(known.stored("lines"))
    assert options_of(known.stored("array")) == {"multiLine": "true"}


def test_many_rows_are_estimated_by_the_first(folder):
    (folder / "visits.csv").write_text(csv_of(ROWS * 400))
    assert FolderCatalogue(folder).statistics("visits").rows == pytest.approx(len(ROWS) * 400, rel=0.1)


def test_orc_files_are_a_table(folder):
    (folder / "visits").mkdir()
    for number in range(2):
        orc.write_table(pa.Table.from_pylist(ROWS), folder / "visits" / f"part-{number}.orc")
    known = FolderCatalogue(folder)
    assert known.columns("visits") == WITH_TEXTS
    assert known.statistics("visits").rows == 2 * len(ROWS)


def test_folders_of_partitions_are_columns(folder):
    for day, shop in (("2024-01-01", 1), ("2024-01-02", 2)):
        place = folder / "sales" / f"day={day}" / f"shop={shop}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2]}), place / "part-0.parquet")
    known = FolderCatalogue(folder)
    assert known.columns("sales") == {"id": "bigint", "day": "date", "shop": "int"}
    assert known.statistics("sales").rows == 4


def test_a_delta_table_is_not_taken_for_its_parquet_files(folder):
    (folder / "orders" / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), folder / "orders" / "part-0.parquet")
    assert FolderCatalogue(folder).stored("orders").format is Format.DELTA


def test_what_is_not_read_is_named_with_what_is(folder):
    pq.write_table(pa.table({"id": [1]}), folder / "items.parquet")
    (folder / "sales.xlsx").touch()
    said = str(unknown_table(UnknownTableError("sales"), FolderCatalogue(folder), "here"))
    assert said == (
        "query: table 'sales' not found in --tables 'here'; 'sales.xlsx' cannot be read, but Parquet, ORC, CSV and "
        "JSON files or folders of them, and Delta tables can"
    )


def test_a_folder_with_nothing_to_read_says_what_is_in_it(folder):
    (folder / "sales.xlsx").touch()
    with pytest.raises(TablesError, match=r"has no tables; .* and Delta tables; not 'sales\.xlsx'$"):
        FolderCatalogue(folder)


def test_two_files_for_a_table_are_refused_where_it_is_read(folder):
    (folder / "visits.csv").write_text(csv_of(ROWS))
    pq.write_table(pa.table({"id": [1]}), folder / "visits.parquet")
    known = FolderCatalogue(folder)
    with pytest.raises(TablesError, match=r"'visits': could be any of 'visits\.csv', 'visits\.parquet'; rename or"):
        known.columns("visits")


def test_a_broken_file_is_one_line(folder):
    (folder / "visits.csv").write_text("id,name\n1,2,3\n")
    with pytest.raises(TablesError, match=r"^table 'visits': its CSV files cannot be read: "):
        FolderCatalogue(folder).columns("visits")
