"""Max-min shares against brute force (QOOP, section 2.3.2, Pseudocode 1; DRF, NSDI 2011, section 4.2)."""

import itertools
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from yarn_plugin.decide.mechanisms.water_filling import Filler, fill
from yarn_plugin.decide.policies import Snapshot
from yarn_plugin.decide.policies.max_min import decide
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Demand

CLOSE = 1e-9
GRID = 12


def fillers(resources, most):
    """Fillers over some resources: small integer weights, shapes and limits in twelfths."""

    def one(draw_shape):
        weight, shape, limit = draw_shape
        largest = max(shape)
        shape = tuple(part / largest for part in shape) if largest else (0.0,) * resources
        return Filler(float(weight), shape, limit / GRID if largest else 0.0)

    shapes = st.tuples(*[st.integers(0, GRID)] * resources)
    return st.lists(st.tuples(st.integers(1, 4), shapes, st.integers(0, GRID)).map(one), min_size=1, max_size=most)


some_fillers = st.integers(1, 3).flatmap(lambda count: st.tuples(st.just(count), fillers(count, 6)))
few_fillers = st.integers(1, 2).flatmap(lambda count: st.tuples(st.just(count), fillers(count, 3)))


def used(given_fillers, shares, resource):
    return sum(share * filler.shape[resource] for filler, share in zip(given_fillers, shares, strict=True))


def is_full(given_fillers, shares, resource):
    return used(given_fillers, shares, resource) >= 1 - CLOSE


def levels(given_fillers, shares):
    """The shares by weight, smallest first: what max-min makes as large as possible, from the left."""
    return sorted(share / filler.weight for filler, share in zip(given_fillers, shares, strict=True))


@given(some_fillers)
def test_no_resource_is_exceeded_and_no_claim_gets_more_than_it_wants(case):
    resources, wanted = case
    shares = fill(wanted, resources)
    assert all(used(wanted, shares, resource) <= 1 + CLOSE for resource in range(resources))
    assert all(0 <= share <= filler.limit + CLOSE for filler, share in zip(wanted, shares, strict=True))


@given(some_fillers)
def test_a_claim_below_its_demand_needs_an_exhausted_resource(case):
    """Work-conserving."""
    resources, wanted = case
    shares = fill(wanted, resources)
    for filler, share in zip(wanted, shares, strict=True):
        blocked = any(filler.shape[r] > 0 and is_full(wanted, shares, r) for r in range(resources))
        assert share >= filler.limit - CLOSE or blocked


@given(some_fillers)
def test_everybody_has_a_bottleneck(case):
    """Nobody's share can rise without lowering one that is not larger by weight: this is max-min fairness."""
    resources, wanted = case
    shares = fill(wanted, resources)
    for i, filler in enumerate(wanted):
        bottlenecks = [
            r
            for r in range(resources)
            if filler.shape[r] > 0
            and is_full(wanted, shares, r)
            and all(
                shares[j] / other.weight <= shares[i] / filler.weight + CLOSE
                for j, other in enumerate(wanted)
                if other.shape[r] > 0 and shares[j] > CLOSE
            )
        ]
        assert shares[i] >= filler.limit - CLOSE or bottlenecks


@given(few_fillers)
def test_no_division_on_a_grid_is_better_from_the_smallest_up(case):
    """Lexicographic optimality against every division in twelfths."""
    resources, wanted = case
    found = levels(wanted, fill(wanted, resources))
    exact = [[Fraction(part).limit_denominator(GRID) for part in filler.shape] for filler in wanted]
    limits = [round(filler.limit * GRID) for filler in wanted]
    for steps in itertools.product(*(range(limit + 1) for limit in limits)):
        sums = (sum(Fraction(step, GRID) * shape[r] for step, shape in zip(steps, exact, strict=True))
                for r in range(resources))  # fmt: skip
        if all(total <= 1 for total in sums):
            other = levels(wanted, [step / GRID for step in steps])
            assert not is_better(other, found)


def is_better(one, other):
    """Whether the first is larger at the first place where they differ."""
    for mine, theirs in zip(one, other, strict=True):
        if abs(mine - theirs) > CLOSE:
            return mine > theirs
    return False


@given(some_fillers, st.randoms(use_true_random=False))
def test_the_order_does_not_matter(case, shuffle):
    resources, wanted = case
    order = list(range(len(wanted)))
    shuffle.shuffle(order)
    shuffled = fill([wanted[i] for i in order], resources)
    straight = fill(wanted, resources)
    assert all(abs(straight[i] - share) < CLOSE for i, share in zip(order, shuffled, strict=True))


@given(some_fillers, st.integers(2, 9))
def test_only_the_ratio_of_weights_matters(case, factor):
    resources, wanted = case
    heavier = [Filler(filler.weight * factor, filler.shape, filler.limit) for filler in wanted]
    pairs = zip(fill(wanted, resources), fill(heavier, resources), strict=True)
    assert all(abs(one - other) < CLOSE for one, other in pairs)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_a_claim_that_wants_everything_gets_its_weight(weights):
    shares = fill([Filler(float(weight), (1.0, 1.0), 1.0) for weight in weights], 2)
    expected = [weight / sum(weights) for weight in weights]
    assert all(abs(one - other) < CLOSE for one, other in zip(shares, expected, strict=True))


@given(fillers(1, 6))
def test_a_smaller_demand_never_lowers_the_minimum_of_the_others(wanted):
    modest = [Filler(wanted[0].weight, wanted[0].shape, wanted[0].limit / 2), *wanted[1:]]
    before, after = fill(wanted, 1), fill(modest, 1)
    assert not is_better(levels(wanted[1:], before[1:]), levels(wanted[1:], after[1:]))


# The policy on top of it: whole amounts, guarantees, claims.

amounts = st.fixed_dictionaries({"memory-mb": st.integers(0, 4096), "vcores": st.integers(0, 16)}).map(Resources.of)
capacities = st.fixed_dictionaries({"memory-mb": st.integers(1, 65_536), "vcores": st.integers(1, 64)}).map(
    Resources.of
)
demands = st.one_of(st.none(), amounts.map(lambda amount: Demand((amount,))))
claims = st.lists(st.tuples(st.sampled_from([0.5, 1.0, 1.0, 2.0, 3.7]), demands, amounts), min_size=1, max_size=7).map(
    lambda drawn: tuple(Claim(f"app_{i}", *fields) for i, fields in enumerate(drawn))
)
snapshots = st.builds(Snapshot, capacities, claims)


@given(snapshots)
def test_guarantees_are_proportional_to_weight_and_fit(seen):
    grants = decide(seen, None).grants
    total = sum(claim.weight for claim in seen.claims)
    for claim in seen.claims:
        assert abs(grants[claim.app].guarantee_fraction - claim.weight / total) < CLOSE
    assert sum((grant.guarantee for grant in grants.values()), Resources()).fits(seen.capacity)


@given(snapshots)
def test_an_entitlement_is_at_least_the_guarantee_or_all_that_is_wanted(seen):
    """Sharing what others do not want never costs anybody a part of its own (sharing incentive)."""
    for claim, grant in zip(seen.claims, decide(seen, None).grants.values(), strict=True):
        wants_all = claim.demand is None
        wanted = 1.0 if wants_all else min(claim.demand.alternatives[0].dominant_fraction(seen.capacity), 1.0)
        assert grant.entitlement_fraction >= min(grant.guarantee_fraction, wanted) - CLOSE


@given(snapshots, st.randoms(use_true_random=False))
def test_the_order_of_the_claims_does_not_matter(seen, shuffle):
    shuffled = list(seen.claims)
    shuffle.shuffle(shuffled)
    straight, other = decide(seen, None).grants, decide(Snapshot(seen.capacity, tuple(shuffled)), None).grants
    for app, grant in straight.items():
        assert abs(grant.entitlement_fraction - other[app].entitlement_fraction) < CLOSE
        assert grant.entitlement == other[app].entitlement
        assert grant.guarantee == other[app].guarantee
