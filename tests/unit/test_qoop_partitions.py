"""What the folders of a table say of the columns that it is partitioned by."""

from qoop.estimate.statistics import ColumnStatistics
from qoop.tables.partitions import NO_VALUE, partition_statistics


def test_numbers_have_a_range():
    paths = [f"file:/t/Sold={day}/part-{part}.parquet" for day in (-3, 7, 20) for part in range(2)]
    known = partition_statistics(paths, {"sold": "int"})
    assert known == {"sold": ColumnStatistics(distinct=3.0, low=-3.0, high=20.0)}


def test_rows_without_a_value_are_in_a_folder_of_their_own():
    paths = ["/t/a=1/x", "/t/a=2/x", "/t/a=2/y", f"/t/a={NO_VALUE}/x"]
    assert partition_statistics(paths, {"a": "bigint"})["a"] == ColumnStatistics(2.0, nulls=0.25, low=1.0, high=2.0)
    assert partition_statistics(paths[-1:], {"a": "bigint"})["a"] == ColumnStatistics(1.0, nulls=1.0)


def test_texts_have_widths_and_are_unescaped():
    known = partition_statistics(["/t/a=x%2Fy/b=2001-02-03/f", "/t/a=1/b=2001-02-04/f"], {"a": "string", "b": "date"})
    assert known["a"] == ColumnStatistics(2.0, width=8.0 + 2.0)
    assert (known["b"].distinct, known["b"].low) == (2.0, None)


def test_values_are_counted_once_however_they_are_written():
    assert partition_statistics(["/t/m=01/f", "/t/m=1/f", "/t/m=2/f"], {"m": "int"})["m"].distinct == 2.0
    assert partition_statistics(["/t/m=01/f", "/t/m=1/f"], {"m": "string"})["m"].distinct == 2.0


def test_names_may_be_escaped_and_folders_above_the_table_have_names_too():
    assert partition_statistics(["/run=5/t/a%3Ab=1/f"], {"a:b": "int"})["a:b"].distinct == 1.0
    assert partition_statistics(["/a=5/t/a=1/f", "/a=5/t/a=2/f"], {"a": "int"})["a"].high == 2.0


def test_a_column_without_a_folder_in_each_path_is_not_known():
    assert partition_statistics(["/t/a=1/f", "/t/f"], {"a": "int"}) == {}
    assert partition_statistics(["/t/a=1/f"], {"b": "int"}) == {}
    assert partition_statistics(["/t/a=one/f"], {"a": "int"})["a"].low is None
