"""Limits and refusals: every answer that is not 2xx names the field, the value, and what would be right."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from yarn_plugin import validation
from yarn_plugin.api import wire
from yarn_plugin.serving import limits as serving
from yarn_plugin.serving.refusals import REASONS, RETRY_AFTER, Refusals, answer


@dataclass(frozen=True, slots=True)
class Limits(serving.Limits):
    """Limits of the service, over all callers.

    `metrics_apps`: the number of applications with metrics of their own. `changes_per_s`, `changes_burst`: the rate at
    which one user may change something, and each application may answer; and how many at once.
    """

    max_streams: int = 2048
    metrics_apps: int = 200
    changes_per_s: float = 10.0
    changes_burst: int = 100


MAX_VALUE_LENGTH = 120
"""Characters of a refused value in an answer; the rest is left out."""
MAX_PROBLEMS = 20


class Refused(HTTPException):
    """The request is refused, with a problem: the field, the value, what would be right."""

    def __init__(self, status: int, field: str, value: Any, expected: str, retry_after: int | None = None) -> None:
        retry_after = RETRY_AFTER if status == 503 else retry_after
        super().__init__(status, headers=None if retry_after is None else {"Retry-After": str(retry_after)})
        self.problems = [wire.Problem(field=field, value=printable(value), expected=expected)]

    @classmethod
    def with_problems(cls, status: int, problems: list[wire.Problem]) -> "Refused":
        """The refusal for several problems."""
        refused = cls(status, "body", None, "")
        refused.problems = problems
        return refused


def answer_problems(service: FastAPI, refusals: Refusals) -> None:
    """Have every answer that is not 2xx list problems, and none show a traceback."""

    def refuse(status: int, problems: Iterable[wire.Problem], headers: Mapping[str, str] | None = None) -> Response:
        refusals.count(REASONS.get(status, "other"))
        return answer(status, problems, headers)

    @service.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return refuse(error.status_code, error.problems, error.headers)

    @service.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        expected = f"{error.detail.lower()}; the routes are in /openapi.json"
        problem = wire.Problem(field="path", value=printable(request.scope["path"]), expected=expected)
        return refuse(error.status_code, [problem], error.headers)

    @service.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return refuse(422, problems_of(error.errors()))

    @service.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        expected = "the arbiter failed on this request; see its log"
        return refuse(500, [wire.Problem(field="path", value=printable(request.scope["path"]), expected=expected)])


def printable(value: Any) -> Any:
    """A refused value that is short and always valid JSON."""
    match value:
        case None | bool():
            return value
        case int() if abs(value) < 10**30:
            return value
        case float() if math.isfinite(value):
            return value
        case str():
            return _shortened(value)
    try:
        return _shortened(repr(value))
    except (ValueError, RecursionError):
        # An integer with too many digits to print, or endless nesting.
        return f"(a value of type {type(value).__name__} that is too large to show)"


def _shortened(text: str) -> str:
    shortened = text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}... ({len(text)} characters)"
    # A lone surrogate is valid in JSON, but not in UTF-8.
    return shortened.encode("utf-8", "backslashreplace").decode()


def problems_of(errors: Sequence[Any]) -> list[wire.Problem]:
    """The first of pydantic's errors as problems."""
    problems = [_problem(dict(one)) for one in errors[:MAX_PROBLEMS]]
    if len(errors) > MAX_PROBLEMS:
        problems.append(wire.Problem(field="body", expected="more problems are not listed; fix those above first"))
    return problems


def _problem(error: dict[str, Any]) -> wire.Problem:
    field = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path", "header"))
    return wire.Problem(
        field=_shortened(field) or "body",
        value=printable(error.get("input")),
        expected=validation.expectation(error, "object"),
    )
