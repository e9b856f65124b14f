"""Answers as the generated classes of the protocol."""

from typing import Any

import pyarrow as pa
from TCLIService import ttypes

from qoop.server.encoding import encode
from qoop.server.errors import InvalidHandleError, ServerError
from qoop.server.operations import Handle, Operation, OperationState
from qoop.server.types import Column, TypeId

SUCCESS = ttypes.TStatus(statusCode=ttypes.TStatusCode.SUCCESS_STATUS)

COLUMN_CLASSES = {
    "boolVal": ttypes.TBoolColumn,
    "byteVal": ttypes.TByteColumn,
    "i16Val": ttypes.TI16Column,
    "i32Val": ttypes.TI32Column,
    "i64Val": ttypes.TI64Column,
    "doubleVal": ttypes.TDoubleColumn,
    "binaryVal": ttypes.TBinaryColumn,
    "stringVal": ttypes.TStringColumn,
}


def refusal(method: str, problem: ServerError) -> Any:
    """The answer that a call is refused."""
    is_unknown = isinstance(problem, InvalidHandleError)
    code = ttypes.TStatusCode.INVALID_HANDLE_STATUS if is_unknown else ttypes.TStatusCode.ERROR_STATUS
    status = ttypes.TStatus(
        statusCode=code,
        sqlState=problem.sql_state,
        errorCode=problem.error_code,
        errorMessage=str(problem),
        infoMessages=[str(problem)],
    )
    answer = getattr(ttypes, f"T{method}Resp")(status=status)
    if method == "GetInfo":
        # A field that clients require.
        answer.infoValue = ttypes.TGetInfoValue(stringValue="")
    return answer


def session_handle(handle: Handle) -> Any:
    """The handle of a session."""
    return ttypes.TSessionHandle(sessionId=ttypes.THandleIdentifier(guid=handle.guid, secret=handle.secret))


def operation_handle(operation: Operation) -> Any:
    """The handle of an operation. All have a result, if only one without rows."""
    handle = operation.handle
    return ttypes.TOperationHandle(
        operationId=ttypes.THandleIdentifier(guid=handle.guid, secret=handle.secret),
        operationType=int(operation.kind),
        hasResultSet=True,
    )


def operation_status(operation: Operation) -> Any:
    """The state of an operation."""
    failure = operation.failure if operation.has_ended else None
    return ttypes.TGetOperationStatusResp(
        status=SUCCESS,
        operationState=int(operation.state),
        sqlState=failure.sql_state if failure else None,
        errorCode=failure.error_code if failure else None,
        errorMessage=failure.message if failure else None,
        operationStarted=_milliseconds(operation.started_at),
        operationCompleted=_milliseconds(operation.ended_at),
        hasResultSet=operation.state is OperationState.FINISHED,
    )


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000.0)


def listing(method: str, operation: Operation) -> Any:
    """The answer to a question about the catalogue."""
    response = getattr(ttypes, f"T{method}Resp")
    return response(status=SUCCESS, operationHandle=operation_handle(operation))


def table_schema(columns: tuple[Column, ...]) -> Any:
    """The columns of a result."""
    return ttypes.TTableSchema(
        columns=[
            ttypes.TColumnDesc(column.name, _type_desc(column), place, column.comment)
            for place, column in enumerate(columns, 1)
        ]
    )


def _type_desc(column: Column) -> Any:
    numbers = {"precision": column.precision, "scale": column.scale, "characterMaximumLength": column.length}
    given = {name: ttypes.TTypeQualifierValue(i32Value=value) for name, value in numbers.items() if value is not None}
    entry = ttypes.TPrimitiveTypeEntry(int(column.type), ttypes.TTypeQualifiers(given) if given else None)
    return ttypes.TTypeDesc(types=[ttypes.TTypeEntry(primitiveEntry=entry)])


def page(columns: tuple[Column, ...], rows: pa.Table, start: int, has_more: bool) -> Any:
    """A page of rows, by columns."""
    return ttypes.TFetchResultsResp(
        status=SUCCESS,
        hasMoreRows=has_more,
        results=ttypes.TRowSet(
            startRowOffset=start,
            rows=[],
            columns=[_column(column, rows.column(place)) for place, column in enumerate(columns)],
        ),
    )


def _column(column: Column, values: pa.ChunkedArray) -> Any:
    encoded = encode(column, values)
    made = COLUMN_CLASSES[encoded.field](values=encoded.values, nulls=encoded.nulls)
    return ttypes.TColumn(**{encoded.field: made})


LOG = (Column("operation_log", TypeId.STRING),)


def log_page(lines: list[str]) -> Any:
    """Lines of a statement's log."""
    return page(LOG, pa.table({"0": pa.array(lines, pa.string())}), 0, False)
