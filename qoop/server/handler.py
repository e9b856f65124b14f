"""HiveServer2's calls: each is one method here, the same for every transport."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from TCLIService import ttypes

from qoop.server import answers, info, metadata
from qoop.server.backend import Spark, SparkSide
from qoop.server.caller import Caller
from qoop.server.encoding import schema_of
from qoop.server.errors import GENERAL_ERROR, InvalidHandleError, LimitError, ServerError
from qoop.server.limits import ServerLimits
from qoop.server.messages import Call, UnknownMethodError, decode, encode, encode_failure
from qoop.server.metadata import Listing
from qoop.server.operations import Failure, Handle, Operation, OperationKind, OperationState
from qoop.server.results import ResultRoom
from qoop.server.sessions import Session, Sessions
from qoop.server.statements import Statements
from yarn_plugin.errors import describe

log = logging.getLogger("qoop.server")

OLDEST_PROTOCOL, NEWEST_PROTOCOL = 5, 9
"""`TProtocolVersion`s from V6, since which rows are sent by columns, to V10."""

MAX_FETCH = 1_000_000
"""Rows of a page, however many a client asks for."""

FETCH_FIRST = 4
"""The `TFetchOrientation` that starts again from the first row."""

SHORT_CALLS = 8
"""Threads for calls that open sessions, or encode rows. Statements have their own."""

Method = Callable[[Any, Caller], Awaitable[Any]]


class Handler:
    """Answers messages. Its own methods run in the event loop, and hold no thread while they wait.

    Args:
        room: for results.
    """

    def __init__(self, spark: Spark, limits: ServerLimits, room: ResultRoom) -> None:
        self._spark, self._limits = spark, limits
        self.statements = Statements(limits, room)
        self._calls = ThreadPoolExecutor(SHORT_CALLS, thread_name_prefix="call")
        self.sessions = Sessions[SparkSide](limits)
        self._methods: dict[str, Method] = {
            "OpenSession": self._open_session,
            "CloseSession": self._close_session,
            "GetInfo": self._get_info,
            "ExecuteStatement": self._execute_statement,
            "GetOperationStatus": self._get_operation_status,
            "CancelOperation": self._cancel_operation,
            "CloseOperation": self._close_operation,
            "GetResultSetMetadata": self._get_result_set_metadata,
            "FetchResults": self._fetch_results,
            "GetLog": self._get_log,
            **{name: partial(self._list, name, kind, ask) for name, (kind, ask) in QUESTIONS.items()},
        }

    async def answer(self, message: bytes, caller: Caller) -> bytes:
        """The answer to a message."""
        try:
            call = decode(message)
        except UnknownMethodError as unknown:
            return unknown.answer
        try:
            response = await self._respond(call, caller)
        except ServerError as problem:
            response = answers.refusal(call.name, problem)
        except Exception as problem:
            log.exception("call %s of %s failed", call.name, caller.user)
            return encode_failure(call, describe(problem))
        if call.name == "FetchResults":
            return bytes(await self._in_thread(encode, call, response))
        return encode(call, response)

    async def _respond(self, call: Call, caller: Caller) -> Any:
        method = self._methods.get(call.name)
        if method is None:
            raise ServerError(f"{call.name}: not supported", "0A000")
        if call.request is None:
            raise ServerError(f"{call.name}: has no request")
        return await method(call.request, caller)

    async def gone(self, connection: object) -> None:
        """A connection has ended: its sessions end too, with what runs in them."""
        for session in self.sessions.of_connection(connection):
            log.info("session %s of %s: its connection ended", session.handle, session.user)
            await self._in_thread(self.sessions.close, session)

    async def close_idle(self) -> None:
        """Close the sessions that nobody uses."""
        for session in self.sessions.idle():
            log.info(
                "session %s of %s: closed, idle for %g s", session.handle, session.user, self._limits.idle_timeout_s
            )
            await self._in_thread(self.sessions.close, session)

    def stop_starting(self) -> None:
        """Refuse new statements, and those that wait for their turn."""
        self.statements.close()
        for session in self.sessions.all():
            self.statements.refuse_waiting(session)

    @property
    def is_busy(self) -> bool:
        """Whether a statement runs, or waits to."""
        return any(session.is_busy for session in self.sessions.all())

    async def close(self) -> None:
        """Close all sessions."""
        for session in self.sessions.all():
            await self._in_thread(self.sessions.close, session)
        self._calls.shutdown(wait=False)

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._calls, function, *args)

    async def _open_session(self, request: Any, caller: Caller) -> Any:
        version = request.client_protocol
        if version is None or version < OLDEST_PROTOCOL:
            raise ServerError(f"client_protocol {version}: must be at least HIVE_CLI_SERVICE_PROTOCOL_V6", "08001")
        new = partial(self._spark.open_session, caller.user, self._settings(request))
        opening = asyncio.ensure_future(self._in_thread(self.sessions.open, caller.user, caller.connection, new))
        try:
            session = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The connection has ended meanwhile: nobody will close the session.
            opening.add_done_callback(self._close_unused)
            raise
        log.info("session %s of %s: opened", session.handle, session.user)
        return ttypes.TOpenSessionResp(
            status=answers.SUCCESS,
            serverProtocolVersion=min(version, NEWEST_PROTOCOL),
            sessionHandle=answers.session_handle(session.handle),
            configuration={},
        )

    def _settings(self, request: Any) -> dict[str, str]:
        """What a session is opened with: Spark takes a moment for each, and keeps it as long as the session lasts.

        Raises:
            LimitError: it is too much.
        """
        given = dict(request.configuration or {})
        most, most_chars = self._limits.max_settings, self._limits.max_settings_chars
        chars = sum(len(name) + len(value) for name, value in given.items())
        if len(given) > most or chars > most_chars:
            raise LimitError(
                f"configuration: has {len(given)} settings of {chars} characters; "
                f"must have at most {most} of {most_chars}; use SET for the others"
            )
        return given

    def _close_unused(self, opening: "asyncio.Future[Session[SparkSide]]") -> None:
        if not opening.cancelled() and opening.exception() is None:
            self.sessions.close(opening.result())

    async def _close_session(self, request: Any, caller: Caller) -> Any:
        session = self._session(request, caller)
        await self._in_thread(self.sessions.close, session)
        log.info("session %s of %s: closed", session.handle, session.user)
        return ttypes.TCloseSessionResp(status=answers.SUCCESS)

    async def _get_info(self, request: Any, caller: Caller) -> Any:
        self._session(request, caller)
        value = info.value(request.infoType, self._spark.version)
        given = {"stringValue": value} if isinstance(value, str) else {"lenValue": value}
        return ttypes.TGetInfoResp(status=answers.SUCCESS, infoValue=ttypes.TGetInfoValue(**given))

    async def _execute_statement(self, request: Any, caller: Caller) -> Any:
        session = self._session(request, caller)
        operation = self.statements.start(session, request.statement or "")
        if (request.queryTimeout or 0) > 0:
            self._limit_time(operation, float(request.queryTimeout))
        if not request.runAsync:
            await self._ended_here(session, operation)
        return ttypes.TExecuteStatementResp(status=answers.SUCCESS, operationHandle=answers.operation_handle(operation))

    def _limit_time(self, operation: Operation, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, operation.time_out, seconds)
        operation.when_ended(partial(_soon, loop, timer.cancel))

    async def _ended(self, operation: Operation, seconds: float | None) -> None:
        """Wait until an operation has ended, for so many seconds at most."""
        ended = asyncio.Event()
        tell = partial(_soon, asyncio.get_running_loop(), ended.set)
        operation.when_ended(tell)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await ended.wait()
        finally:
            operation.forget(tell)

    async def _ended_here(self, session: Session[SparkSide], operation: Operation) -> None:
        """Wait until an operation has finished, whose handle the client does not have yet.

        Raises:
            ServerError: it has failed.
        """
        try:
            await self._ended(operation, None)
        except asyncio.CancelledError:
            session.remove(operation)
            raise
        if operation.failure is not None:
            session.remove(operation)
            raise _failed(operation.failure)

    async def _get_operation_status(self, request: Any, caller: Caller) -> Any:
        _, operation = self._operation(request, caller)
        # Beeline asks again at once: this call takes a while, but not for so long that its log would be late.
        await self._ended(operation, self._limits.poll_s)
        return answers.operation_status(operation)

    async def _cancel_operation(self, request: Any, caller: Caller) -> Any:
        _, operation = self._operation(request, caller)
        operation.cancel()
        return ttypes.TCancelOperationResp(status=answers.SUCCESS)

    async def _close_operation(self, request: Any, caller: Caller) -> Any:
        session, operation = self._operation(request, caller)
        session.remove(operation)
        return ttypes.TCloseOperationResp(status=answers.SUCCESS)

    async def _get_result_set_metadata(self, request: Any, caller: Caller) -> Any:
        _, operation = self._operation(request, caller)
        await self._ended(operation, self._limits.poll_s)
        if not operation.has_ended:
            raise ServerError(f"statement {operation.handle}: still runs", "HY010")
        return ttypes.TGetResultSetMetadataResp(status=answers.SUCCESS, schema=answers.table_schema(operation.columns))

    async def _fetch_results(self, request: Any, caller: Caller) -> Any:
        _, operation = self._operation(request, caller)
        from_start = request.orientation == FETCH_FIRST
        most = min(max(request.maxRows or 0, 0), MAX_FETCH)
        if request.fetchType == 1:
            return answers.log_page(operation.log.fetch(most, from_start))
        if operation.failure is not None:
            raise _failed(operation.failure)
        if operation.state is not OperationState.FINISHED:
            raise ServerError(f"statement {operation.handle}: still runs; its rows cannot be fetched yet", "HY010")
        return await self._in_thread(self._page, operation, most, from_start)

    def _page(self, operation: Operation, most: int, from_start: bool) -> Any:
        with operation.fetching:
            result = operation.result
            if operation.state is not OperationState.FINISHED:
                raise InvalidHandleError(f"statement {operation.handle}: was closed while its rows were fetched")
            if from_start:
                operation.fetched = 0
            start = operation.fetched
            if result is None:
                return answers.page(operation.columns, schema_of(operation.columns).empty_table(), start, False)
            rows = result.page(start, most, self._limits.max_page_bytes)
            operation.fetched = start + rows.num_rows
            return answers.page(operation.columns, rows, start, operation.fetched < result.rows)

    async def _get_log(self, request: Any, caller: Caller) -> Any:
        _, operation = self._operation(request, caller)
        lines = operation.log.fetch(self._limits.max_log_lines)
        return ttypes.TGetLogResp(status=answers.SUCCESS, log="".join(f"{line}\n" for line in lines))

    async def _list(
        self, name: str, kind: OperationKind, ask: Callable[[SparkSide, Any], Listing], request: Any, caller: Caller
    ) -> Any:
        """Answer a question about the catalogue: an operation that has finished."""
        session = self._session(request, caller)
        operation = self.statements.ask(session, kind, partial(ask, session.backend, request))
        await self._ended_here(session, operation)
        return answers.listing(name, operation)

    def _session(self, request: Any, caller: Caller) -> Session[SparkSide]:
        return self.sessions.find(_handle(request.sessionHandle, "sessionId"), caller.user)

    def _operation(self, request: Any, caller: Caller) -> tuple[Session[SparkSide], Operation]:
        return self.sessions.find_operation(_handle(request.operationHandle, "operationId"), caller.user)


QUESTIONS: dict[str, tuple[OperationKind, Callable[[SparkSide, Any], Listing]]] = {
    "GetTypeInfo": (OperationKind.GET_TYPE_INFO, lambda spark, asked: metadata.type_info()),
    "GetCatalogs": (OperationKind.GET_CATALOGS, lambda spark, asked: metadata.catalogs()),
    "GetSchemas": (OperationKind.GET_SCHEMAS, lambda spark, asked: metadata.schemas(spark, asked.schemaName)),
    "GetTables": (
        OperationKind.GET_TABLES,
        lambda spark, asked: metadata.tables(spark, asked.schemaName, asked.tableName, asked.tableTypes),
    ),
    "GetTableTypes": (OperationKind.GET_TABLE_TYPES, lambda spark, asked: metadata.table_types()),
    "GetColumns": (
        OperationKind.GET_COLUMNS,
        lambda spark, asked: metadata.columns(spark, asked.schemaName, asked.tableName, asked.columnName),
    ),
    "GetFunctions": (
        OperationKind.GET_FUNCTIONS,
        lambda spark, asked: metadata.functions(spark, asked.functionName),
    ),
    "GetPrimaryKeys": (OperationKind.UNKNOWN, lambda spark, asked: metadata.primary_keys()),
    "GetCrossReference": (OperationKind.UNKNOWN, lambda spark, asked: metadata.cross_references()),
}
"""The questions about the catalogue."""


def _failed(failure: Failure) -> ServerError:
    return ServerError(failure.message, failure.sql_state, failure.error_code)


def _handle(given: Any, field: str) -> Handle:
    identifier = getattr(given, field, None)
    if identifier is None or not identifier.guid:
        raise InvalidHandleError(f"{field}: missing", GENERAL_ERROR)
    return Handle(bytes(identifier.guid), bytes(identifier.secret or b""))


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Have a call made in the event loop, from any thread; not if it has been closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
