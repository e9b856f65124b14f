"""Analysed columns: what Spark prints of them is read, and is used while the table is still similar."""

import pytest

from qoop.engine.column_statistics import rows_and_bytes, with_analysed
from qoop.estimate.statistics import ColumnStatistics, TableStatistics

TEXT = (
    "Some(CatalogStatistics(17745060,Some(1000),HashMap("
    "price -> CatalogColumnStat(Some(865),Some(-0.50),Some(176.96),Some(50),Some(8),Some(8),None,2), "
    "Two Words -> CatalogColumnStat(Some(7),Some(1),Some(9),Some(0),Some(4),Some(4),None,2), "
    "share -> CatalogColumnStat(Some(3),Some(0.5),Some(NaN),Some(0),Some(8),Some(8),None,2), "
    "day -> CatalogColumnStat(Some(66),Some(1900-01-02),Some(2100-01-01),Some(0),Some(4),Some(4),None,2), "
    "name -> CatalogColumnStat(Some(2000),None,None,Some(0),Some(5),Some(9),"
    "Some(Histogram(0.5,[Lorg.apache.spark.HistogramBin;@1a2b)),2))))"
)
KNOWN = TableStatistics(
    900.0,
    5000.0,
    {"name": ColumnStatistics(30.0, 0.1, 13.5), "other": ColumnStatistics(3.0)},
    {"name": ("a", "b"), "other": (1, 2)},
)


def test_analysed_columns_replace_and_join_those_of_a_sample():
    found = with_analysed(KNOWN, TEXT)
    assert (found.rows, found.bytes, found.sample) == (KNOWN.rows, KNOWN.bytes, KNOWN.sample)
    assert found.columns == {
        "price": ColumnStatistics(865.0, 0.05, 8.0, -0.5, 176.96),
        "two words": ColumnStatistics(7.0, 0.0, 8.0, 1.0, 9.0),
        "share": ColumnStatistics(3.0, 0.0, 8.0, 0.5),
        "day": ColumnStatistics(66.0, 0.0, 8.0),
        # No more distinct values than rows; the width in memory is that of the sample.
        "name": ColumnStatistics(900.0, 0.0, 13.5),
        "other": ColumnStatistics(3.0),
    }


@pytest.mark.parametrize(
    "text",
    [
        None,
        "None",
        "Some(CatalogStatistics(17745060,None,Map()))",
        TEXT.replace("Some(1000)", "Some(0)"),
        TEXT.replace("Some(1000)", "Some(449)"),
        TEXT.replace("Some(1000)", "Some(1801)"),
    ],
)
def test_what_was_not_analysed_or_has_changed_since_is_left_as_it_is(text):
    assert with_analysed(KNOWN, text) == KNOWN


def test_rows_and_bytes():
    assert rows_and_bytes(TEXT) == (1000.0, 17745060.0)
    for text in (None, "Some(CatalogStatistics(17,None,Map()))", "Some(CatalogStatistics(0,Some(0),Map()))"):
        assert rows_and_bytes(text) is None
