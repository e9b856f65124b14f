"""Amounts of resources in the ResourceManager's JSON, in each of their forms."""

from typing import Any

from yarn_plugin.model.resources import MEMORY, VCORES, Resources
from yarn_plugin.observe import fields
from yarn_plugin.observe.answers import each
from yarn_plugin.observe.fields import UnreadableItemError

Json = Any


def resources(written: Json, clamped: bool = False) -> Resources:
    """`resourceInformations` where the ResourceManager sends it, else memory and vCores.

    `clamped`: an amount below 0 counts as none. What a queue uses may be counted below 0 for a moment.

    Raises:
        UnreadableItemError: it is no such thing, or an amount is none.
    """
    if not isinstance(written, dict):
        raise UnreadableItemError(f"{fields.shown(written)} is not an amount of resources")
    listed = written.get("resourceInformations")
    if not isinstance(listed, dict | None):
        raise fields.wrong(written, "resourceInformations")
    entries = each((listed or {}).get("resourceInformation"))
    if entries:
        return named(entries, "name", clamped)
    names = {MEMORY: "memory", VCORES: "vCores"}
    return Resources.of({name: fields.amount(written, field, clamped=clamped) for name, field in names.items()})


def named(entries: list[Json], key: str, clamped: bool = False) -> Resources:
    """A list of objects that each hold a resource's name, under this key, and its `value`.

    Raises:
        UnreadableItemError: it is no such list, or an amount is none.
    """
    if not all(isinstance(entry, dict) for entry in entries):
        raise UnreadableItemError(f"{fields.shown(entries)} is not a list of resources")
    return Resources.of(
        {fields.identifier(entry, key): fields.amount(entry, "value", True, clamped) for entry in entries}
    )
