"""The allocators inside virtual clusters: how they are made, and what they need."""

from collections.abc import Mapping
from typing import Any

from yarn_plugin.decide.allocators import Allocator, AllocatorKind
from yarn_plugin.decide.allocators.auction import AuctionSettings
from yarn_plugin.decide.allocators.buddy_cells.settings import BuddyCellsSettings
from yarn_plugin.decide.allocators.buddy_cells.state import BuddyCellsState
from yarn_plugin.decide.allocators.job_rounds import JobRounds, JobRoundsSettings
from yarn_plugin.decide.pools.lease import refusal
from yarn_plugin.decide.pools.lease.state import LeaseState


def allocator_of(scheduler: str, settings: BuddyCellsSettings, kinds: Mapping[str, AllocatorKind]) -> Allocator:
    """The allocator inside a virtual cluster, by its own name or by that of its lease policy."""
    if scheduler in kinds:
        return kinds[scheduler].make(_inside_settings(kinds[scheduler], settings), kinds)
    return JobRounds(JobRoundsSettings(scheduler, settings.inside_lease_s))


def _inside_settings(kind: AllocatorKind, settings: BuddyCellsSettings) -> Any:
    """The parameters of an allocator inside a virtual cluster: its defaults, and how long the auction leases."""
    if kind.parameters is AuctionSettings:
        return AuctionSettings(lease_s=settings.inside_lease_s)
    return None if kind.parameters is None else kind.parameters()


def overtime_s(settings: BuddyCellsSettings, kinds: Mapping[str, AllocatorKind]) -> float:
    """What the allocators inside need."""
    inside = [kinds[scheduler] for scheduler in settings.inside.values() if scheduler in kinds]
    return max((kind.overtime_s(_inside_settings(kind, settings), kinds) for kind in inside), default=0.0)


def check_answer(state: BuddyCellsState, app: str, message: object) -> None:
    """Check an answer to an auction inside a virtual cluster."""
    for guest in state.guests.values():
        if isinstance(guest.allocated, LeaseState) and any(key[0] == app for key in guest.claims):
            refusal.check(guest.allocated, app, message)
