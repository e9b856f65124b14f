"""Leases that reach their end: their allocator is told before, and may keep them.

What is due is compared as `deadlines` adds it up: a timer at that very moment must find it due, whatever is rounded. By
rules before 5, another sum was compared.
"""

from collections.abc import Iterable, Iterator, Mapping
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
    notice_s, is_exact = settings.notice_s, settings.rules > 4
    due = [end for end in occupancy.untold if (end - notice_s <= at if is_exact else end <= at + notice_s)]
    ending = [leases[key] for key in _of(occupancy.untold, due)]
    told = {entry.key: replace(entry, told_end=entry.leased.until) for entry in ending}
    return Changes(told, happened=(Expiring(tuple(told)),)) if told else NO_CHANGES


def lapse(leases: Mapping[str, Entry], occupancy: Occupancy, at: float, settings: LedgerSettings) -> Changes:
    """Revoke the leases that were not kept by their end, or `overtime_s` later."""
    overtime_s, is_exact = settings.overtime_s, settings.rules > 4
    due = [end for end in occupancy.ends if (end + overtime_s <= at if is_exact else end <= at - overtime_s)]
    changes = NO_CHANGES
    for key in _of(occupancy.ends, due):
        changes += revoke(leases[key], (), LeaseLapsed(), at, settings.grace_s)
    return changes


def deadlines(occupancy: Occupancy, at: float, settings: LedgerSettings) -> Iterator[float]:
    """When one of these has something to do next. What ends so soon that it was due before is told in the next call."""
    if occupancy.ends:
        yield min(occupancy.ends) + settings.overtime_s
    due = [end - settings.notice_s for end in occupancy.untold]
    if due:
        # By earlier rules, what was due before hid all that is due later.
        yield min([time for time in due if time > at], default=at) if settings.rules > 4 else min(due)


def _of(ends: Mapping[float, set[str]], due: Iterable[float]) -> list[str]:
    """The leases of these ends, the first ones first."""
    return [key for end in sorted(due) for key in sorted(ends[end])]
