"""As YARN's CapacityScheduler divides a parent queue among its users' queues: each is assured of an equal part, and
within one the applications are served first in, first out.

What others do not use goes to those that want more, so that no queue's use exceeds another's that wants more (elastic
queues, maximum-capacity 100%). Whose queue an application is in: `Claim.tenant`. The part that an application is
assured of is what it gets if all other queues use theirs.
"""

from collections import defaultdict
from typing import Any

from yarn_plugin.decide.mechanisms.nested_filling import fill_groups
from yarn_plugin.decide.policies import Decision, Snapshot
from yarn_plugin.decide.policies.dominant_shares import entitled_by, in_turn, used_by
from yarn_plugin.model.causes import Explanation, UserShare
from yarn_plugin.model.share import Claim, Grant


def decide(snapshot: Snapshot, policy_state: Any) -> Decision:
    """Divide the capacity among queues, and serve those in order of arrival."""
    capacity, proportions = snapshot.capacity, snapshot.proportions
    proportions.begin(snapshot.claims)
    queues: dict[str, list[Claim]] = defaultdict(list)
    for claim in snapshot.claims:
        queues[claim.tenant].append(claim)
    fillers = [[proportions.filler(claim, capacity) for claim in claims] for claims in queues.values()]
    resources = len(capacity.amounts)
    now = [
        in_turn(mine, used_by(mine, shares, resources))
        for mine, shares in zip(fillers, fill_groups(fillers, resources), strict=True)
    ]
    used = [used_by(mine, shares, resources) for mine, shares in zip(fillers, now, strict=True)]
    left = [1.0 - sum(of_queue[r] for of_queue in used) for r in range(resources)]
    grants: dict[str, Grant] = {}
    explanations: dict[str, Explanation] = {}
    for claims, mine, shares in zip(queues.values(), fillers, now, strict=True):
        # What a queue's first applications cannot use, for the shape of their demand, is left for others.
        entitled = in_turn(mine, left, shares)
        left = [
            free - after + before
            for free, after, before in zip(
                left, used_by(mine, entitled, resources), used_by(mine, shares, resources), strict=True
            )
        ]
        unassigned = 1 / len(queues)
        for claim, filler, share in zip(claims, mine, entitled, strict=True):
            assured = min(filler.limit, unassigned)
            unassigned -= assured
            guarantee = assured, capacity.scaled(assured)
            grants[claim.app] = grant = proportions.grant(claim, capacity, guarantee, share)
            explanations[claim.app] = UserShare(
                len(queues), 1.0, float(len(claims)), len(claims), assured, share, entitled_by(grant)
            )
    return Decision(grants, explanations, policy_state)
