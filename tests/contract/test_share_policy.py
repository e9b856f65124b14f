"""The contract of share policies, rule by rule (yarn_plugin/decide/policies/__init__.py), for each policy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.policies import Snapshot
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.causes import Explanation
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Demand

NAMES = ("memory-mb", "vcores", "yarn.io/gpu")


def vectors(minimum, maxima):
    return st.fixed_dictionaries(
        {name: st.integers(minimum, top) for name, top in zip(NAMES, maxima, strict=True)}
    ).map(Resources.of)


def claim(number, drawn):
    weight, demand, used, user = drawn
    return Claim(f"app_{number}", weight, None if demand is None else Demand((demand,)), used, tenant=user)


demands = st.one_of(st.none(), vectors(0, (8192, 32, 8)))
drawn_claims = st.tuples(
    st.floats(0.1, 10.0), demands, vectors(0, (4096, 16, 4)), st.sampled_from(["ann", "bob", "eve"])
)
snapshots = st.builds(
    Snapshot,
    capacity=st.one_of(vectors(1, (65_536, 128, 16)), vectors(0, (65_536, 128, 16)), st.just(Resources())),
    claims=st.lists(drawn_claims, max_size=6).map(
        lambda all_drawn: tuple(map(claim, range(len(all_drawn)), all_drawn))
    ),
)


@pytest.fixture(params=sorted(BUILT_IN.policies), scope="module")
def decide(request):
    policy = BUILT_IN.policy(request.param)
    return lambda snapshot, policy_state=None: policy.decide(snapshot, policy_state)


def total(amounts):
    return sum(amounts, Resources())


@given(snapshot=snapshots)
def test_1_guarantees_and_entitlements_never_exceed_the_capacity(decide, snapshot):
    grants = decide(snapshot).grants.values()
    assert total(grant.guarantee for grant in grants).fits(snapshot.capacity)
    assert total(grant.entitlement for grant in grants).fits(snapshot.capacity)


@given(snapshot=snapshots)
def test_2_no_application_is_entitled_to_more_than_it_can_use(decide, snapshot):
    grants = decide(snapshot).grants
    for one in snapshot.claims:
        if one.demand is not None:
            assert any(grants[one.app].entitlement.fits(wanted) for wanted in one.demand.alternatives)


@given(snapshot=snapshots)
def test_3_a_resource_remains_unassigned_only_if_no_application_can_use_more_of_it(decide, snapshot):
    """Amounts are integers: each claim may miss a fraction of one unit of each resource."""
    grants, parts = decide(snapshot).grants, len(snapshot.claims)
    unassigned = snapshot.capacity - total(grant.entitlement for grant in grants.values())
    for one in snapshot.claims:
        wanted = snapshot.capacity if one.demand is None else one.demand.alternatives[0].at_most(snapshot.capacity)
        has_all = all(amount - grants[one.app].entitlement[name] <= 1 for name, amount in wanted)
        lacks = [name for name, _ in wanted if unassigned[name] <= parts]
        # An application that lacks one resource cannot use what remains of the others.
        assert has_all or lacks


@given(snapshot=snapshots)
def test_4_the_same_snapshot_and_policy_state_give_the_same_decision(decide, snapshot):
    first = decide(snapshot)
    assert decide(snapshot) == first
    again = decide(snapshot, first.policy_state)
    assert decide(snapshot, first.policy_state) == again


@given(snapshot=snapshots)
def test_5_every_claim_gets_a_grant_and_every_grant_an_explanation(decide, snapshot):
    decision = decide(snapshot)
    assert set(decision.grants) == set(decision.explanations) == {one.app for one in snapshot.claims}
    assert all(isinstance(one, Explanation) for one in decision.explanations.values())


def test_an_unknown_policy_is_an_error_that_lists_the_known_ones():
    with pytest.raises(BadInputError, match=r"policy 'lottery': .*max_min"):
        BUILT_IN.policy("lottery")
