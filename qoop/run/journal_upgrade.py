"""Upgrade records of query journals that earlier versions wrote.

- Version 0 has no field `v`; otherwise it is version 1.
- Up to version 1 causes were sentences. They become `UntypedCause`, unparsed.
- Up to version 2 why a query runs as written was a sentence. It becomes the same.
"""

from collections.abc import Callable
from typing import Any

Record = dict[str, Any]

WON_BY = {"either": "share or row counts"}
"""Values of `won_by` that were renamed."""


def upgrade(record: Record, version: int) -> Record:
    """A record in the format of the current version; parts that do not fit its own version are left unchanged."""
    if version < 2:
        record = _causes_as_values(record)
    return _as_written_as_values(record) if version < 3 else record


def _as_written_as_values(record: Record) -> Record:
    commands, event = record.get("commands"), record.get("event")
    if record.get("kind") == "query":
        return {**record, "cause": _untyped(record.get("reason"))}
    if isinstance(event, dict) and event.get("type") == "CannotPlan":
        return {**record, "event": {"type": "CannotPlan", "cause": _untyped(event.get("reason"))}}
    if isinstance(commands, list):
        return {**record, "commands": [_with_cause(one) if isinstance(one, dict) else one for one in commands]}
    return record


def _with_cause(command: Record) -> Record:
    cause = command.get("cause")
    if not isinstance(cause, dict) or cause.get("kind") != "not-planned":
        return command
    return {**command, "cause": {"kind": "not-planned", "cause": _untyped(cause.get("said"))}}


def _untyped(sentence: Any) -> Any:
    return {"kind": "said", "text": sentence} if isinstance(sentence, str) else sentence


def _causes_as_values(record: Record) -> Record:
    commands = record.get("commands")
    if not isinstance(commands, list):
        return record
    return {**record, "commands": [_command(one) if isinstance(one, dict) else one for one in commands]}


def _command(command: Record) -> Record:
    change = _CHANGES.get(str(command.get("type")))
    return change(command) if change else command


def _note(command: Record) -> Record:
    decision = command.get("decision")
    if not isinstance(decision, dict):
        return command
    seconds, won_by = decision.get("seconds"), decision.get("won_by")
    found = {**_said(decision, "cause"), "won_by": WON_BY.get(str(won_by), won_by)}
    found.pop("reason", None)
    if isinstance(seconds, list) and seconds and all(isinstance(one, int | float) for one in seconds):
        found["fastest"] = seconds.index(min(seconds))
    return {**command, "decision": found}


def _said(fields: Record, name: str) -> Record:
    """The fields of a command, with the sentence in field `name` moved to `cause`."""
    if not isinstance(fields.get(name), str):
        return fields
    others = {other: value for other, value in fields.items() if other != name}
    return {**others, "cause": {"kind": "said", "text": fields[name]}}


_CHANGES: dict[str, Callable[[Record], Record]] = {
    "Note": _note,
    "RunAsWritten": lambda command: _said(command, "reason"),
    "Fail": lambda command: _said(command, "error"),
}
