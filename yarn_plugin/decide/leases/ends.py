"""Leases that reach their end: their allocator is told before, and may keep them.

What is due is compared as `deadlines` adds it up: a timer at that very moment must find it due, whatever is rounded. By
rules before 5, another sum was compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from yarn_plugin.decide.allocators.happenings import Expiring
from yarn_plugin.decide.leases.book import NO_CHANGES, Changes
from yarn_plugin.decide.leases.lifetime import revoke
from yarn_plugin.decide.leases.occupancy import Occupancy
from yarn_plugin.decide.leases.settings import LedgerSettings, Rules
from yarn_plugin.decide.leases.state import Entry
from yarn_plugin.model.causes import LeaseLapsed


def expire(leases: Mapping[str, Entry], occupancy: Occupancy, at: float, settings: LedgerSettings) -> Changes:
    """Tell of the leases that end within `notice_s`."""
    ending = [leases[key] for key in _due(occupancy.untold, -settings.notice_s, at, settings.rules)]
    told = {entry.key: replace(entry, told_end=entry.leased.until) for entry in ending}
    return Changes(told, happened=(Expiring(tuple(told)),)) if told else NO_CHANGES


def lapse(leases: Mapping[str, Entry], occupancy: Occupancy, at: float, settings: LedgerSettings) -> Changes:
    """Revoke the leases that were not kept by their end, or `overtime_s` later."""
    changes = NO_CHANGES
    for key in _due(occupancy.ends, settings.overtime_s, at, settings.rules):
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


def _due(ends: Mapping[float, set[str]], after_s: float, at: float, rules: Rules) -> list[str]:
    """The leases for which something is due `after_s` after their end, the first ends first."""
    due = [end for end in ends if (end + after_s <= at if rules > 4 else end <= at - after_s)]
    return [key for end in sorted(due) for key in sorted(ends[end])]
