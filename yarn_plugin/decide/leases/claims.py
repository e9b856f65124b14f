"""Who can hold leases: the claims of a pool, as their allocator knows them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from operator import attrgetter

from yarn_plugin.decide.allocators.happenings import ClaimKey
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim

_told = attrgetter(*(one.name for one in fields(Claim) if one.name not in ("used", "held", "is_submitted")))
"""What an allocator is told of a claim: all but what it uses, which changes all the time."""


@dataclass(frozen=True, slots=True)
class ClaimChanges:
    """`claims`: as they are now, without what they use. `changed`: new, gone and revised ones; `gone`: of these."""

    claims: Mapping[ClaimKey, Claim]
    changed: tuple[ClaimKey, ...]
    gone: tuple[ClaimKey, ...]


def update(known: Mapping[ClaimKey, Claim], shown: Iterable[Claim]) -> ClaimChanges:
    """Learn who arrived, who left and who was revised.

    A claim can hold leases from when YARN runs its application's master, which can request containers: cells leased to
    one that YARN does not know, or that waits for its master, would stay idle. It stays while YARN starts the master
    again.
    """
    now: dict[ClaimKey, Claim] = {}
    changed: list[ClaimKey] = []
    for claim in shown:
        key = claim.app, claim.job
        if (before := known.get(key)) is claim:
            now[key] = claim
        elif claim.is_registered and claim.yarn_app is not None and (before is not None or not claim.is_submitted):
            if before is not None and _told(before) == _told(claim):
                now[key] = before
            else:
                now[key] = without_use(claim)
                changed.append(key)
    gone = [key for key in known if key not in now]
    if not (changed or gone):
        return ClaimChanges(known, (), ())
    # Known ones stay in their order; new ones follow as they arrived.
    claims = {key: now[key] for key in known if key in now} | now
    return ClaimChanges(claims, (*changed, *gone), tuple(gone))


def without_use(claim: Claim) -> Claim:
    """A claim without what it uses."""
    if not (claim.used or claim.held or claim.is_submitted):
        return claim
    return replace(claim, used=Resources(), held=Resources(), is_submitted=False)
