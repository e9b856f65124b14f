"""Tables as files: their names, columns, statistics, and the statistics cached between queries."""

import datetime
import decimal
import json
import os

import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qoop.estimate.selectivity import filter_selectivity
from qoop.latest import Latest
from qoop.plans.predicate import Column, Compare, CompareColumns, Like, Predicate
from qoop.tables import statistics as table_statistics
from qoop.tables.folder import FolderCatalogue, TablesError
from qoop.tables.statistics import SAMPLE_ROWS, read_statistics

SALES = pa.table(
    {
        "Item": pa.array(range(1_000), pa.int64()),
        "store": pa.array([n % 10 for n in range(1_000)], pa.int32()),
        "price": pa.array([decimal.Decimal(n % 50) / 4 for n in range(1_000)], pa.decimal128(7, 2)),
        "day": pa.array([datetime.date(2000, 1, 1 + n % 20) for n in range(1_000)]),
        "note": pa.array([None if n % 4 == 0 else f"note {n % 3}" for n in range(1_000)]),
        "at": pa.array([datetime.datetime(2000, 1, 1, n % 24) for n in range(1_000)], pa.timestamp("us")),
        "yes": pa.array([n % 2 == 0 for n in range(1_000)]),
        "ratio": pa.array([n / 7 for n in range(1_000)], pa.float64()),
        "list": pa.array([[n] for n in range(1_000)], pa.list_(pa.int64())),
    }
)


def forget(monkeypatch):
    """Leave nothing in memory, as in another process."""
    monkeypatch.setattr(table_statistics, "_in_memory", Latest(table_statistics.MAX_IN_MEMORY))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table in one file and one in two files; statistics are cached next to it."""
    kept = tmp_path / "kept"
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(kept / name))
    forget(monkeypatch)
    tables = tmp_path / "tables"
    (tables / "Parts").mkdir(parents=True)
    pq.write_table(SALES, tables / "sales.parquet", row_group_size=100)
    for number in range(2):
        pq.write_table(pa.table({"id": [number, None]}), tables / "Parts" / f"part-{number}.parquet")
    (tables / "Parts" / "_SUCCESS").touch()
    (tables / ".hidden.parquet").touch()
    (tables / "notes.txt").touch()
    (tables / "empty").mkdir()
    return tables


def kept(folder):
    return sorted((folder.parent / "kept" / "qoop").glob("*/*"))


def test_a_table_is_a_file_or_a_folder(folder):
    known = FolderCatalogue(folder)
    assert sorted(known.tables) == ["parts", "sales"]
    assert known.stored("sales").path == folder / "sales.parquet"


def test_paths_have_the_case_of_their_files(folder):
    (folder / "sales.parquet").rename(folder / "Sales.parquet")
    known = FolderCatalogue(folder)
    assert known.stored("sales").path == known.stored("`SALES`").path == folder / "Sales.parquet"
    assert known.stored("parts").path == folder / "Parts"


def test_names_are_found_whatever_their_case(folder):
    known = FolderCatalogue(folder)
    assert known.columns("SALES") == known.columns("`sales`") == known.columns("sales")
    assert known.columns("nothing") is None


def test_columns_have_the_types_of_spark(folder):
    columns = FolderCatalogue(folder).columns("sales")
    assert columns.pop("list").startswith("list<")
    assert columns == {
        "item": "bigint",
        "store": "int",
        "price": "decimal(7,2)",
        "day": "date",
        "note": "string",
        "at": "timestamp",
        "yes": "boolean",
        "ratio": "double",
    }


def test_no_such_folder(tmp_path):
    with pytest.raises(TablesError, match=r"--tables '.*nowhere': "):
        FolderCatalogue(tmp_path / "nowhere")


def test_a_folder_without_tables(tmp_path):
    with pytest.raises(TablesError, match="has no tables"):
        FolderCatalogue(tmp_path)


def test_statistics_of_columns(folder):
    known = FolderCatalogue(folder).statistics("sales")
    assert known.rows == 1_000
    assert known.bytes == (folder / "sales.parquet").stat().st_size
    item, store, note = (known.columns[name] for name in ("item", "store", "note"))
    assert (item.distinct, item.low, item.high) == (1_000, 0.0, 999.0)
    assert (store.distinct, store.low, store.high, store.nulls) == (10, 0.0, 9.0, 0.0)
    assert note.distinct == 3
    assert note.nulls == pytest.approx(0.25, abs=0.05)
    assert note.width == pytest.approx(8 + len("note 1"))
    assert known.columns["day"].distinct == 20


def test_values_of_a_sorted_column_are_counted_in_all_row_groups(tmp_path):
    """Each row group of a table that is sorted by day has few days; only some groups are sampled."""
    days = pa.array([day * 7 for day in range(500) for _ in range(40)], pa.int32())
    pq.write_table(pa.table({"day": days, "id": range(20_000)}), tmp_path / "t.parquet", row_group_size=200)
    columns = read_statistics([tmp_path / "t.parquet"]).columns
    assert columns["day"].distinct == pytest.approx(500, rel=0.2)
    assert columns["id"].distinct == pytest.approx(20_000, rel=0.2)


def test_samples_hold_what_literals_are_compared_with(folder):
    sample = FolderCatalogue(folder).statistics("sales").sample
    assert set(map(type, sample["price"])) == {float}
    assert sample["day"][0].startswith("2000-01-")
    assert "list" not in sample
    assert len({len(values) for values in sample.values()}) == 1
    assert len(sample["item"]) <= SAMPLE_ROWS


def test_rows_of_a_sample_stay_together(folder):
    sample = FolderCatalogue(folder).statistics("sales").sample
    assert all(item % 10 == store for item, store in zip(sample["item"], sample["store"], strict=True))


def test_several_files_are_one_table(folder):
    known = FolderCatalogue(folder).statistics("parts")
    assert known.rows == 4
    assert sorted(known.sample["id"], key=str) == [0, 1, None, None]
    assert (known.columns["id"].low, known.columns["id"].high) == (0.0, 1.0)


def test_a_table_without_rows(tmp_path):
    pq.write_table(SALES.slice(0, 0), tmp_path / "none.parquet")
    known = read_statistics([tmp_path / "none.parquet"])
    assert known.rows == 0
    assert known.columns["item"].distinct == 1


def test_statistics_are_the_same_at_every_reading(folder):
    assert read_statistics([folder / "sales.parquet"]) == read_statistics([folder / "sales.parquet"])


# Kept between queries.


def test_statistics_are_read_once_for_the_same_files(folder, monkeypatch):
    files = [folder / "sales.parquet"]
    first = table_statistics.cached_statistics(files)
    monkeypatch.setattr(table_statistics, "read_statistics", lambda files: pytest.fail("read again"))
    assert table_statistics.cached_statistics(files) is first
    forget(monkeypatch)
    assert table_statistics.cached_statistics(files) == first, "from the file that another process would read"


def test_a_changed_file_is_read_again(folder):
    files = [folder / "sales.parquet"]
    assert table_statistics.cached_statistics(files).rows == 1_000
    pq.write_table(SALES.slice(0, 10), files[0])
    assert table_statistics.cached_statistics(files).rows == 10


def test_a_touched_file_is_read_again(folder, monkeypatch):
    files = [folder / "sales.parquet"]
    table_statistics.cached_statistics(files)
    os.utime(files[0], (1, 1))
    read = []
    monkeypatch.setattr(table_statistics, "read_statistics", lambda files: read.append(files) or read_statistics(files))
    table_statistics.cached_statistics(files)
    assert read == [files]


def test_an_interrupted_writer_leaves_no_half_file(folder, monkeypatch):
    """Interrupted after it wrote, before its file was renamed: the file is not read."""

    def interrupted(draft, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            table_statistics.cached_statistics([folder / "sales.parquet"])
    assert kept(folder) == []
    assert table_statistics.cached_statistics([folder / "sales.parquet"]).rows == 1_000
    assert [path.suffix for path in kept(folder)].count(".json") == 1


@pytest.mark.parametrize("broken", ["", "{", '{"rows": "many"}', "[]"])
def test_a_broken_file_is_made_anew(folder, monkeypatch, broken):
    first = table_statistics.cached_statistics([folder / "sales.parquet"])
    (place,) = kept(folder)
    place.write_text(broken)
    forget(monkeypatch)
    assert table_statistics.cached_statistics([folder / "sales.parquet"]) == first
    assert place.read_text() != broken


@pytest.mark.parametrize(
    "spoilt",
    [
        {"rows": float("nan")},
        {"rows": -1.0},
        {"bytes": float("inf")},
        {"columns": {"item": {"distinct": 0.0, "nulls": 0.0, "width": 8.0, "low": None, "high": None}}},
        {"columns": {"item": {"distinct": 9.0, "nulls": 2.0, "width": 8.0, "low": None, "high": None}}},
        {"columns": {"item": {"distinct": 9.0, "nulls": 0.0, "width": 8.0, "low": float("-inf"), "high": 1.0}}},
        {"sample": {"item": [1, 2], "store": [1]}},
    ],
    ids=json.dumps,
)
def test_numbers_that_cannot_be_are_made_anew(folder, monkeypatch, spoilt):
    first = table_statistics.cached_statistics([folder / "sales.parquet"])
    (place,) = kept(folder)
    place.write_text(json.dumps({**json.loads(place.read_text()), **spoilt}))
    forget(monkeypatch)
    assert table_statistics.cached_statistics([folder / "sales.parquet"]) == first


def test_only_the_owner_can_read_sampled_rows(folder):
    before = os.umask(0)
    try:
        table_statistics.cached_statistics([folder / "sales.parquet"])
    finally:
        os.umask(before)
    (place,) = kept(folder)
    assert [path.stat().st_mode & 0o777 for path in (place, place.parent)] == [0o600, 0o700]


def test_what_earlier_versions_have_cached_for_everybody_is_deleted(folder):
    earlier = folder.parent / "kept" / "qoop" / "statistics-3"
    earlier.mkdir(parents=True)
    (earlier / "x.json").write_text("a secret")
    table_statistics.cached_statistics([folder / "sales.parquet"])
    assert not earlier.exists()


def test_of_many_tables_the_latest_are_cached(folder, monkeypatch):
    monkeypatch.setattr(table_statistics, "MAX_FILES", 3)
    files = [folder / "sales.parquet"]
    for age in (50, 40, 30, 20, 10):
        os.utime(files[0], (age, age))
        table_statistics.cached_statistics(files)
        (latest,) = [path for path in kept(folder) if path.stat().st_mtime > 1e9]
        os.utime(latest, (1e9 - age, 1e9 - age))
    assert sorted(path.stat().st_mtime for path in kept(folder)) == [1e9 - 30, 1e9 - 20, 1e9 - 10]


def test_of_long_values_the_start_is_kept(tmp_path):
    """Yet a value that was cut is equal to no other value."""
    long = [f"{n % 2}{'x' * 20_000}{n % 4}" for n in range(100)]
    texts = pa.table({"a": long, "b": [f"{n % 2}{'x' * 20_000}{n % 2}" for n in range(100)]})
    pq.write_table(texts, tmp_path / "t.parquet")
    known = read_statistics([tmp_path / "t.parquet"])
    assert {len(value) for values in known.sample.values() for value in values} == {table_statistics.MAX_TEXT}
    assert known.columns["a"].distinct == 4
    assert known.columns["a"].width == 8 + 20_002
    a, b = Column("t", "a"), Column("t", "b")

    def part(form):
        return filter_selectivity([Predicate("?", frozenset(), form)], known).fraction

    assert part(Like(a, "1x%")) == part(Compare(a, ">", "1")) == part(CompareColumns(a, "=", b)) == 0.5
    assert part(Compare(a, "=", long[0][: table_statistics.MAX_TEXT])) < 0.02


def test_values_that_are_no_numbers_are_cached(tmp_path, folder, monkeypatch):
    pq.write_table(pa.table({"v": [float("nan"), float("inf"), None, 1.5]}), folder / "odd.parquet")
    table_statistics.cached_statistics([folder / "odd.parquet"])
    forget(monkeypatch)
    monkeypatch.setattr(table_statistics, "read_statistics", lambda files: pytest.fail("read again"))
    assert str(table_statistics.cached_statistics([folder / "odd.parquet"]).sample["v"]) == "(nan, inf, None, 1.5)"


def test_columns_that_some_files_have_not_are_null_there(tmp_path, folder, monkeypatch):
    files = [folder / "old.parquet", folder / "new.parquet"]
    pq.write_table(pa.table({"v": range(6), "gone": range(6)}), files[0])
    pq.write_table(pa.table({"v": range(4), "Added": range(4)}), files[1])
    sample = table_statistics.cached_statistics(files).sample
    assert {name: len(values) for name, values in sample.items()} == {"v": 10, "gone": 10, "added": 10}
    assert [*sample["gone"][6:], *sample["added"][:6]] == [None] * 10
    forget(monkeypatch)
    monkeypatch.setattr(table_statistics, "read_statistics", lambda files: pytest.fail("read again"))
    assert table_statistics.cached_statistics(files).sample == sample


def test_a_cache_that_cannot_be_written_only_costs_time(folder, monkeypatch):
    (folder.parent / "kept").write_text("no folder")
    assert table_statistics.cached_statistics([folder / "sales.parquet"]).rows == 1_000


def test_of_a_table_of_very_many_files_only_some_are_opened(tmp_path, monkeypatch):
    files = [tmp_path / f"{number:02}.parquet" for number in range(9)]
    for number, file in enumerate(files):
        pq.write_table(pa.table({"k": pa.array(range(number * 100, number * 100 + 100), pa.int64())}), file)
    assert read_statistics(files).columns["k"].high == 899.0
    monkeypatch.setattr(table_statistics, "MAX_FOOTERS", 4)
    for file in (one for place, one in enumerate(files) if place % 3):
        size = file.stat().st_size
        file.write_bytes(b"x" * size)
    known = read_statistics(files)
    assert known.rows == pytest.approx(900, rel=0.05)
    assert known.columns["k"].low is None and known.columns["k"].high is None
    assert set(known.sample["k"]) <= {*range(100), *range(300, 400), *range(600, 700)}


@pytest.mark.parametrize(
    ("values", "written", "seen"),
    [
        (pa.array([-800_000, 0, 3_000_000], pa.date32()), {}, ("0001-01-01", "1970-01-01", "9999-12-31")),
        (
            pa.array([-(2**62), 1_000_001, 2**62], pa.timestamp("us")),
            {},
            ("0001-01-01 00:00:00", "1970-01-01 00:00:01.000001", "9999-12-31 23:59:59.999999"),
        ),
        (
            pa.array([-14_831_769_600_000_000, None], pa.timestamp("us")),
            {"use_deprecated_int96_timestamps": True},
            ("1500-01-01 00:00:00", None),
        ),
        (pa.array([1_000_001], pa.timestamp("ns")), {"version": "2.6"}, ("1970-01-01 00:00:00.001000",)),
        (pa.array([1_001], pa.time64("ns")), {"version": "2.6"}, ("00:00:00.000001",)),
        (pa.array([1], pa.duration("ns")), {}, (1,)),
    ],
    ids=["dates", "times", "times as Spark writes them", "nanoseconds", "time of day", "duration"],
)
def test_dates_and_times_that_python_does_not_have_are_sampled(tmp_path, values, written, seen):
    pq.write_table(pa.table({"v": values}), tmp_path / "t.parquet", **written)
    known = read_statistics([tmp_path / "t.parquet"])
    assert known.sample["v"] == seen
    assert known.rows == len(seen)


def test_of_large_row_groups_only_the_start_is_read(tmp_path, monkeypatch):
    pq.write_table(pa.table({"id": range(10_000), "text": ["x" * 1000] * 10_000}), tmp_path / "t.parquet")
    whole = read_statistics([tmp_path / "t.parquet"]).sample
    assert len(whole["id"]) == SAMPLE_ROWS and max(whole["id"]) > 9_000
    monkeypatch.setattr(table_statistics, "MAX_READ", 2_000_000)
    assert max(read_statistics([tmp_path / "t.parquet"]).sample["id"]) < 2_000
    monkeypatch.setattr(table_statistics, "BATCH_BYTES", 100_000)
    few = read_statistics([tmp_path / "t.parquet"])
    assert 50 < len(few.sample["id"]) < 100 and set(map(len, few.sample["text"])) == {200}
    assert few.columns["text"].width == 1008.0


def test_rows_that_are_wider_than_the_first_ones_are_read_in_batches_too(tmp_path, monkeypatch):
    texts = [None] * 300 + ["x" * 1000] * 9700
    pq.write_table(pa.table({"text": texts}), tmp_path / "t.parquet")
    sizes, batches = [], pq.ParquetFile.iter_batches

    def counted(*args, **named):
        for batch in batches(*args, **named):
            sizes.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    monkeypatch.setattr(table_statistics, "MAX_BATCH", 1_000)
    assert len(read_statistics([tmp_path / "t.parquet"]).sample["text"]) == SAMPLE_ROWS
    assert max(sizes) == 1_000


def test_ranges_of_very_many_parts_of_columns_are_not_read(tmp_path, monkeypatch):
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "t.parquet", row_group_size=10)
    monkeypatch.setattr(table_statistics, "MAX_CHUNKS", 10)
    assert read_statistics([tmp_path / "t.parquet"]).columns["id"].high == 99.0
    monkeypatch.setattr(table_statistics, "MAX_CHUNKS", 9)
    assert read_statistics([tmp_path / "t.parquet"]).columns["id"].high is None


def test_texts_may_have_any_bytes(tmp_path):
    latin = pa.array([b"caf\xe9", b"tea", None]).view(pa.string())
    pq.write_table(
        pa.table({"name": latin, "other": latin.cast(pa.binary()).cast(pa.large_binary())}), tmp_path / "t.parquet"
    )
    assert read_statistics([tmp_path / "t.parquet"]).sample["name"] == ("caf\ufffd", "tea", None)


def test_statistics_in_memory_are_limited_by_their_values():
    kept: Latest[str, list[int]] = Latest(5, len)
    for name in ("a", "b", "a", "c"):
        kept.put(name, [1, 2])
    assert [kept.get(name) is not None for name in ("a", "b", "c")] == [True, False, True]
    kept.put("d", [1] * 9)
    assert [kept.get(name) is not None for name in ("a", "c", "d")] == [False, False, True]


def test_times_are_sampled_as_literals_are_written(tmp_path):
    times = [datetime.datetime(2024, 5, 1, 10, 0, 0, micros, tzinfo=datetime.UTC) for micros in (0, 500_000)]
    local = [one.replace(tzinfo=None) for one in times]
    pq.write_table(pa.table({"at": times, "local": local}), tmp_path / "t.parquet")
    sample = read_statistics([tmp_path / "t.parquet"]).sample
    assert sample["at"] == sample["local"] == ("2024-05-01 10:00:00", "2024-05-01 10:00:00.500000")
