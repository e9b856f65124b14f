"""What applications say to the controllers of their pools: as the types that these declare, and no others."""

import math
from dataclasses import fields
from functools import cache

from yarn_plugin.api import wire
from yarn_plugin.api.problems import Refused
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.journal.codec import Codec, UnknownRecordError
from yarn_plugin.model.share import Pool

MAX_DEPTH = 32
"""Levels of lists and objects in a message. A journal nests it deeper, and reads no more than some 250 levels."""

MAX_INTEGER = 2**63
"""The integers of a message lie between this and its negative."""


class Messages:
    """Reads messages, each by its tag. Whatever is read can be journaled, and is read again as what it is."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._codec, self._allowed = cache(self._make_codec), cache(self._find_allowed)

    def read(self, pool: Pool | None, said: wire.Message) -> object:
        """The message, for the controller of this pool.

        Raises:
            Refused: 422, naming what the controller does not take.
        """
        allowed = self._allowed(pool.controller) if pool is not None else {}
        if pool is None or said.type not in allowed:
            expected = f"one of {', '.join(sorted(allowed))}" if allowed else "the pool's controller takes no messages"
            raise Refused(422, "type", said.type, expected)
        extra = said.model_extra or {}
        known = {field.name for field in fields(allowed[said.type])}
        unknown = next((name for name in extra if name not in known), None)
        if unknown is not None:
            shown = ", ".join(sorted(known)) or "no fields"
            raise Refused(422, unknown, None, f"leave it out: {said.type} has {shown}")
        for name, value in extra.items():
            _check_plain(name, value)
        codec = self._codec(pool.controller)
        try:
            message = codec.read({**extra, "type": said.type})
            codec.check(message)
        except UnknownRecordError as problem:
            raise Refused(422, problem.field or "body", None, problem.problem) from None
        except (ValueError, TypeError, RecursionError):
            # Such as half a character: what no journal can hold is not decided on.
            raise Refused(422, "body", None, f"it cannot be recorded as {said.type}; write numbers and text") from None
        return message

    def _find_allowed(self, controller: str) -> dict[str, type]:
        tags = self._registry.tags()
        return {tag: tags[tag] for tag in self._registry.kind(controller).messages}

    def _make_codec(self, controller: str) -> Codec:
        # Of the messages alone: what is nested in one must not become a controller's state, or another pool's type.
        return Codec(self._allowed(controller), unknown_fields="forbid")


def _check_plain(field: str, value: object, depth: int = 1) -> None:
    """Refuse what is nested too deep, and numbers that are not finite or have too many digits."""
    match value:
        case float() if not math.isfinite(value):
            raise Refused(422, field, value, "write a finite number")
        case int() if not -MAX_INTEGER <= value < MAX_INTEGER:
            raise Refused(422, field, value, "write an integer of at most 64 bits")
        case list() | dict():
            if depth >= MAX_DEPTH:
                raise Refused(422, field, None, f"nest at most {MAX_DEPTH} lists and objects")
            for one in value.values() if isinstance(value, dict) else value:
                _check_plain(field, one, depth + 1)
