"""Records of a query's journal that an earlier version wrote, as this version writes them.

- Version 0 has no field `v`; it is version 1 otherwise.
- Up to version 1 causes were sentences. They become `Said`: nothing is read out of them.
"""

from collections.abc import Callable
from typing import Any

Record = dict[str, Any]

WON_BY = {"either": "share or row counts"}
"""What was called otherwise."""


def upgrade(record: Record, version: int) -> Record:
    """A record of a version as the present one has it; whatever is not as that version writes it stays as it is."""
    return _causes_as_values(record) if version < 2 else record


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
    """The fields with a sentence among them, under a name, as the cause."""
    if not isinstance(fields.get(name), str):
        return fields
    others = {other: value for other, value in fields.items() if other != name}
    return {**others, "cause": {"kind": "said", "text": fields[name]}}


_CHANGES: dict[str, Callable[[Record], Record]] = {
    "Note": _note,
    "RunAsWritten": lambda command: _said(command, "reason"),
    "Fail": lambda command: _said(command, "error"),
}
