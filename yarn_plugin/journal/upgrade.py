"""Upgrades records of earlier versions to the present one: dicts in, dicts out.

Version 0: records without `v`. Version 1: reasons were sentences. Version 2: three fields of pools had other names.
Only this module knows earlier versions.
"""

from collections.abc import Callable
from typing import Any, cast

from yarn_plugin.journal.records import JournalError, Record

VERSION = 3

SAME_DECISIONS_SINCE = 2
"""The first version whose recorded decisions must equal those of a replay; earlier ones gave other commands."""


class JournalVersionError(JournalError):
    """A record was written by a later version of the program."""


def version_of(record: Record) -> int:
    """The version of a record.

    Raises:
        JournalVersionError: it is later than this program's, or invalid.
    """
    version = record.get("v", 0)
    if type(version) is not int or not 0 <= version <= VERSION:
        raise JournalVersionError(
            f"journal: record {record.get('seq')} has version {version!r}, this program reads up to {VERSION}; "
            "use the release that wrote it, or a later one"
        )
    return version


def upgrade(record: Record) -> Record:
    """The record in the present version.

    Raises:
        JournalVersionError: a later version wrote it.
    """
    for step in _STEPS[version_of(record) :]:
        record = step(record)
    return record


def _from_0(record: Record) -> Record:
    """Upgrade from version 0: times were wall times, and reaching the manager counted as having polled it."""
    record = {"wall": record.get("at"), **record, "v": 1}
    event: dict[str, Any] | None = record.get("event")
    if event is not None and event.get("type") == "ManagerReached":
        record["event"] = {**event, "looked": True}
    state: dict[str, Any] | None = record.get("state")
    if state is not None and "manager_error" in state:
        record["state"] = {**state, "looked": state["manager_error"] is None}
    return record


_REASONED = ("Dismiss", "WriteWeights", "ListContainers", "SignalContainers")
"""The commands of version 1 with a reason of their own; that of TellShare is in its share."""


def _from_1(record: Record) -> Record:
    """Upgrade from version 1: reasons were sentences, and members were not stored by pool."""
    record = {**record, "v": 2}
    if "commands" in record:
        record["commands"] = [_command_from_1(command) for command in record["commands"]]
    state: dict[str, Any] | None = record.get("state")
    if state is not None:
        state = record["state"] = dict(state)
        if "members" in state:
            state["pool_states"] = _pool_states(state, state.pop("members"))
            state.pop("policy_states", None)
        if "dismissed" in state:
            state["dismissed"] = {app: _with_cause(one) for app, one in state["dismissed"].items()}
    return record


def _pool_states(state: dict[str, Any], members: dict[str, Any]) -> dict[str, Any]:
    """The states of the pools, from the members of all pools; there was only the share controller."""
    held: dict[str, dict[str, Any]] = {pool["name"]: {} for pool in state.get("pools", [])}
    for app, member in members.items():
        home = _home(state, app)
        if home in held:
            held[home][app] = {**member, "share": _with_cause(member["share"])}
    return {name: {"controller": "share", "state": {"type": "share/1", "members": mine}} for name, mine in held.items()}


def _home(state: dict[str, Any], app: str) -> str | None:
    """The pool of an application: the one it registered in, or the deepest one that contains its queue."""
    if app in state.get("registered", {}):
        return cast(str, state["registered"][app]["pool"])
    queue = state.get("cluster", {}).get("apps", {}).get(app, {}).get("queue", "")
    over = [pool for pool in state.get("pools", []) if f"{queue}.".startswith(f"{pool['queue']}.")]
    return max(over, key=lambda pool: len(pool["queue"]))["name"] if over else None


def _command_from_1(command: dict[str, Any]) -> dict[str, Any]:
    if command.get("type") == "TellShare":
        return {**command, "share": _with_cause(command["share"])}
    return _with_cause(command) if command.get("type") in _REASONED else command


def _with_cause(written: dict[str, Any]) -> dict[str, Any]:
    kept = {name: field for name, field in written.items() if name != "reason"}
    return {**kept, "cause": {"kind": "said", "text": written["reason"]}}


_POOL_FIELDS = {"overstay": "preempt_after", "settle": "idle_timeout", "submit_within": "submit_timeout"}
"""The fields of a pool that version 3 renamed."""


def _from_2(record: Record) -> Record:
    """Upgrade from version 2: rename three fields of pools, in the state and in the event `Configured`; described nodes
    have no GPU model."""
    record = {**record, "v": 3}
    for holder in ("state", "event"):
        value: dict[str, Any] | None = record.get(holder)
        if value is not None and "pools" in value:
            record[holder] = {**value, "pools": [_pool_from_2(pool) for pool in value["pools"]]}
        described: dict[str, Any] | None = (value or {}).get("topology")
        if described is not None and "nodes" in described:
            nodes = [{**node, "gpu_model": ""} for node in described["nodes"]]
            record[holder] = {**record[holder], "topology": {**described, "nodes": nodes}}
    return record


def _pool_from_2(pool: dict[str, Any]) -> dict[str, Any]:
    return {_POOL_FIELDS.get(name, name): value for name, value in pool.items()}


_STEPS: tuple[Callable[[Record], Record], ...] = (_from_0, _from_1, _from_2)
