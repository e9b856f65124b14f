"""Who can hold leases: the claims of a pool, as their allocator knows them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from yarn_plugin.decide.allocators.happenings import ClaimKey
from yarn_plugin.decide.leases.state import key_of
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim


@dataclass(frozen=True, slots=True)
class ClaimChanges:
    """`claims`: as they are now, without what they use. `changed`: new, gone and revised ones; `gone`: of these."""

    claims: tuple[Claim, ...]
    changed: tuple[ClaimKey, ...]
    gone: tuple[ClaimKey, ...]


def update(known: Sequence[Claim], shown: Iterable[Claim]) -> ClaimChanges:
    """Learn who arrived, who left and who was revised.

    A claim can hold leases from when YARN runs its application's master, which can request containers: cells leased to
    one that YARN does not know, or that waits for its master, would stay idle. It stays while YARN starts the master
    again.
    """
    before = {key_of(claim): claim for claim in known}
    now: dict[ClaimKey, Claim] = {}
    for claim in shown:
        key = key_of(claim)
        if claim.is_registered and claim.yarn_app is not None and (key in before or not claim.is_submitted):
            now[key] = _without_use(claim)
    changed = [key for key, claim in now.items() if before.get(key) != claim]
    gone = [key for key in before if key not in now]
    if not (changed or gone):
        return ClaimChanges(tuple(known), (), ())
    # Known ones stay in their order; new ones follow as they arrived.
    order = [*(key for key in before if key in now), *(key for key in now if key not in before)]
    return ClaimChanges(tuple(now[key] for key in order), (*changed, *gone), tuple(gone))


def _without_use(claim: Claim) -> Claim:
    return replace(claim, used=Resources(), held=Resources(), is_submitted=False)
