"""Max-min shares between users, divided by weight among each user's applications.

Of n users each is guaranteed R / n (QOOP section 2.3.2, Pseudocode 1, with users for jobs), of which an application
gets its part by weight among its user's. Entitlements add what others leave unused: it goes to the applications of the
same user first, then to other users. So neither more applications nor larger weights get a user more. Whose an
application is: `Claim.tenant`.
"""

from collections import defaultdict
from typing import Any

from yarn_plugin.decide.mechanisms.nested_filling import fill_groups
from yarn_plugin.decide.policies import Decision, Snapshot
from yarn_plugin.decide.policies.dominant_shares import entitled_by
from yarn_plugin.model.causes import Explanation, UserShare
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Grant


def decide(snapshot: Snapshot, policy_state: Any) -> Decision:
    """Grant guarantees by user and weight, and entitlements by water-filling in two levels."""
    capacity, proportions = snapshot.capacity, snapshot.proportions
    proportions.begin(snapshot.claims)
    users: dict[str, list[Claim]] = defaultdict(list)
    for claim in snapshot.claims:
        users[claim.tenant].append(claim)
    fillers = [[proportions.filler(claim, capacity) for claim in claims] for claims in users.values()]
    entitled = fill_groups(fillers, len(capacity.amounts))
    guarantees: dict[float, tuple[float, Resources]] = {}
    grants: dict[str, Grant] = {}
    explanations: dict[str, Explanation] = {}
    for claims, shares in zip(users.values(), entitled, strict=True):
        total = sum(claim.weight for claim in claims)
        for claim, share in zip(claims, shares, strict=True):
            part = claim.weight / total / len(users)
            if part not in guarantees:
                guarantees[part] = part, capacity.scaled(part)
            grants[claim.app] = grant = proportions.grant(claim, capacity, guarantees[part], share)
            explanations[claim.app] = UserShare(
                len(users), claim.weight, total, len(claims), part, share, entitled_by(grant)
            )
    return Decision(grants, explanations, policy_state)
