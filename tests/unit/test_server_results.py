"""Results of the server: pages, spilling, order; and their encoding."""

from decimal import Decimal

import pyarrow as pa
import pytest

from qoop.server.encoding import encode, schema_of
from qoop.server.errors import InvalidHandleError, LimitError
from qoop.server.limits import Budget
from qoop.server.results import Result, ResultRoom, of_rows
from qoop.server.types import Column, TypeId, column

ROOM = 1 << 20


def room_of(memory, disk, folder=None):
    return ResultRoom(Budget(memory), Budget(disk), None if folder is None else str(folder))


def batch(*values):
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], ["0"])


def pages(result, rows, max_bytes=ROOM):
    start, found = 0, []
    while (page := result.page(start, rows, max_bytes)).num_rows:
        found.append(page.column(0).to_pylist())
        start += page.num_rows
    return found


@pytest.mark.parametrize("memory", [ROOM, 20, 0], ids=["in memory", "partly in a file", "in a file"])
def test_pages_hold_the_rows_in_order(memory):
    result = Result(room_of(memory, ROOM), batch().schema)
    for values in ((1, 2), (), (3,), (4, 5, 6)):
        result.append(batch(*values))
    assert pages(result, 4) == [[1, 2, 3, 4], [5, 6]]
    assert result.rows == 6
    result.reorder([3, 1, 0, 2])
    assert pages(result, 100) == [[4, 5, 6, 1, 2, 3]]
    result.close()


def test_an_order_that_misses_a_batch_is_refused():
    result = Result(room_of(ROOM, ROOM), batch().schema)
    result.append(batch(1))
    with pytest.raises(ValueError, match="order"):
        result.reorder([1])


def test_a_page_is_bounded_by_bytes_and_has_a_row_at_least():
    result = Result(room_of(ROOM, ROOM), batch().schema)
    result.append(batch(*range(100)))
    assert pages(result, 1000, max_bytes=80)[0] == list(range(10))
    assert pages(result, 1000, max_bytes=1)[0] == [0]


def test_room_is_given_back_and_is_bounded():
    room = room_of(100, 1000)
    result = Result(room, batch().schema)
    result.append(batch(*range(12)))
    result.append(batch(*range(12)))
    assert room.used[0] == 96
    assert 0 < room.used[1] <= 1000
    with pytest.raises(LimitError, match="disk"):
        result.append(batch(*range(1000)))
    result.close()
    result.close()
    assert room.used == (0, 0)
    with pytest.raises(LimitError, match="closed"):
        result.append(batch(1))


def test_a_result_that_is_closed_does_not_seem_to_end():
    result = Result(room_of(ROOM, ROOM), batch().schema)
    result.append(batch(1, 2, 3))
    assert result.page(0, 2, ROOM).num_rows == 2
    result.close()
    with pytest.raises(InvalidHandleError, match="closed"):
        result.page(2, 2, ROOM)


def test_nothing_is_left_in_the_folder_while_a_result_is_spilled(tmp_path):
    result = Result(room_of(0, ROOM, tmp_path), batch().schema)
    result.append(batch(1, 2))
    assert list(tmp_path.iterdir()) == []
    assert pages(result, 10) == [[1, 2]]
    result.close()


def test_rows_of_python_values():
    columns = (Column("a", TypeId.STRING), Column("b", TypeId.INT))
    result = of_rows(room_of(ROOM, ROOM), schema_of(columns), [("x", 1), (None, None)])
    assert result.page(0, 10, ROOM).to_pylist() == [{"0": "x", "1": 1}, {"0": None, "1": None}]
    assert of_rows(room_of(ROOM, ROOM), schema_of(columns), []).page(0, 10, ROOM).num_rows == 0


@pytest.mark.parametrize(
    ("text", "type_id", "field"),
    [
        ("boolean", TypeId.BOOLEAN, "boolVal"),
        ("tinyint", TypeId.TINYINT, "byteVal"),
        ("smallint", TypeId.SMALLINT, "i16Val"),
        ("int", TypeId.INT, "i32Val"),
        ("bigint", TypeId.BIGINT, "i64Val"),
        ("float", TypeId.FLOAT, "doubleVal"),
        ("double", TypeId.DOUBLE, "doubleVal"),
        ("string", TypeId.STRING, "stringVal"),
        ("string collate UTF8_LCASE", TypeId.STRING, "stringVal"),
        ("binary", TypeId.BINARY, "binaryVal"),
        ("date", TypeId.DATE, "stringVal"),
        ("timestamp", TypeId.TIMESTAMP, "stringVal"),
        ("timestamp_ntz", TypeId.TIMESTAMP, "stringVal"),
        ("decimal(10,2)", TypeId.DECIMAL, "stringVal"),
        ("array<int>", TypeId.ARRAY, "stringVal"),
        ("map<string,double>", TypeId.MAP, "stringVal"),
        ("struct<a:int>", TypeId.STRUCT, "stringVal"),
        ("interval year to month", TypeId.INTERVAL_YEAR_MONTH, "stringVal"),
        ("interval month", TypeId.INTERVAL_YEAR_MONTH, "stringVal"),
        ("interval day to second", TypeId.INTERVAL_DAY_TIME, "stringVal"),
        ("interval", TypeId.STRING, "stringVal"),
        ("variant", TypeId.STRING, "stringVal"),
        ("void", TypeId.NULL, "stringVal"),
        ("varchar(7)", TypeId.VARCHAR, "stringVal"),
        ("char(3)", TypeId.CHAR, "stringVal"),
    ],
)
def test_types_are_those_of_sparks_thrift_server(text, type_id, field):
    made = column("c", text)
    assert made.type == type_id
    empty = schema_of((made,)).empty_table().column(0)
    assert encode(made, empty) == (field, [], b"")


def test_decimals_and_texts_have_what_describes_them():
    assert column("c", "decimal(10,2)") == Column("c", TypeId.DECIMAL, precision=10, scale=2)
    assert column("c", "varchar(7)").length == 7


def test_nulls_are_bits_and_their_values_defaults():
    values = [None, *range(1, 9), None]
    encoded = encode(Column("n", TypeId.INT), pa.chunked_array([pa.array(values, pa.int32())]))
    assert encoded.values == [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]
    assert encoded.nulls == bytes([0b00000001, 0b00000010])


@pytest.mark.parametrize(
    ("kind", "array", "values"),
    [
        (
            TypeId.DECIMAL,
            pa.array([Decimal("1.50"), None, Decimal("0E-7")], pa.decimal128(20, 7)),
            ["1.5000000", "", "0.0000000"],
        ),
        (TypeId.FLOAT, pa.array([1.1, None], pa.float32()), [1.1, 0.0]),
        (TypeId.BINARY, pa.array([b"\xff", None]), [b"\xff", b""]),
        (TypeId.BOOLEAN, pa.array([True, None]), [True, False]),
        (TypeId.NULL, pa.array([None, None], pa.string()), ["", ""]),
    ],
)
def test_values_are_written_as_sparks_thrift_server_does(kind, array, values):
    assert encode(Column("c", kind), pa.chunked_array([array])).values == values
