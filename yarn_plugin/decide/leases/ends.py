"""Leases that reach their end: their allocator is told before, and may keep them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from yarn_plugin.decide.allocators.happenings import Expiring
from yarn_plugin.decide.leases.book import NO_CHANGES, Changes
from yarn_plugin.decide.leases.lifetime import revoke
from yarn_plugin.decide.leases.occupancy import Occupancy
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.leases.state import Entry
from yarn_plugin.model.causes import LeaseLapsed


def expire(leases: Mapping[str, Entry], occupancy: Occupancy, at: float, settings: LedgerSettings) -> Changes:
    """Tell of the leases that end within `notice_s`."""
    told = {
        entry.key: replace(entry, told_end=entry.leased.until)
        for entry in _ending(leases, occupancy, at + settings.notice_s)
        if entry.told_end != entry.leased.until
    }
    return Changes(told, happened=(Expiring(tuple(told)),)) if told else NO_CHANGES


def lapse(leases: Mapping[str, Entry], occupancy: Occupancy, at: float, settings: LedgerSettings) -> Changes:
    """Revoke the leases that were not kept by their end, or `overtime_s` later."""
    changes = NO_CHANGES
    for entry in _ending(leases, occupancy, at - settings.overtime_s):
        changes += revoke(entry, (), LeaseLapsed(), at, settings.grace_s, occupancy.cells)
    return changes


def deadlines(leases: Mapping[str, Entry], occupancy: Occupancy, settings: LedgerSettings) -> Iterator[float]:
    """When one of these has something to do next."""
    for until, keys in occupancy.ends.items():
        waits = [leases[key] for key in keys if leases[key].leased.phase == "held"]
        if waits:
            yield until + settings.overtime_s
        if any(entry.told_end != until for entry in waits):
            yield until - settings.notice_s


def _ending(leases: Mapping[str, Entry], occupancy: Occupancy, by: float) -> list[Entry]:
    """The leases whose end is by then, unless they are revoked as a whole."""
    ends = sorted(until for until in occupancy.ends if until <= by)
    found = [leases[key] for until in ends for key in sorted(occupancy.ends[until])]
    return [entry for entry in found if entry.leased.phase == "held"]
