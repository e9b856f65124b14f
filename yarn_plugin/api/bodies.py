"""Reading the JSON of a request strictly: what other readers would understand differently is refused."""

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute

from yarn_plugin.api.problems import Refused

LONGEST_NUMBER = 4000
"""Digits of a number that are looked at, at most; Python itself reads no more than 4,300."""


class StrictRoute(APIRoute):
    """A route whose body is UTF-8 and JSON to the letter: no key twice, no NaN, nothing nested without end."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, on a request that is read strictly."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strict


class _StrictRequest(Request):
    async def json(self) -> Any:
        return parse(await self.body())


def parse(body: bytes) -> Any:
    """The value that a body holds.

    Raises:
        Refused: 400 or 422, naming what is wrong.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as problem:
        raise Refused(400, "body", None, f"write it in UTF-8; byte {problem.start} is not") from None
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer)
    except json.JSONDecodeError as problem:
        expected = f"write JSON: {problem.msg} (character {problem.pos})"
        raise Refused(422, "body", text[problem.pos : problem.pos + 40], expected) from None
    except RecursionError:
        raise Refused(400, "body", None, "nest fewer lists and objects") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Refused(422, "body", key, "write each key of an object once")
        found[key] = value
    return found


def _constant(name: str) -> NoReturn:
    raise Refused(422, "body", name, "write a number; JSON has none of this name")


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise Refused(422, "body", digits, f"write a number of at most {LONGEST_NUMBER} digits")
    return int(digits)
