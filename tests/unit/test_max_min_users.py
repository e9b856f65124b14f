"""Max-min shares between users, and by weight among each user's applications."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarn_plugin.decide.mechanisms.nested_filling import fill_groups
from yarn_plugin.decide.mechanisms.water_filling import Filler, fill
from yarn_plugin.decide.policies import Snapshot
from yarn_plugin.decide.policies.max_min_users import decide
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim, Demand

WHOLE = Resources.of({"memory-mb": 12_000, "vcores": 120})
CLOSE = 1e-9


def grants(**claims):
    """The guarantee and the entitlement of each application, in percent: user_number = (weight, vcores or None)."""
    made = tuple(
        Claim(
            app,
            weight,
            None if vcores is None else Demand((Resources.of({"memory-mb": 100 * vcores, "vcores": vcores}),)),
            Resources(),
            tenant=app.partition("_")[0],
        )
        for app, (weight, vcores) in claims.items()
    )
    found = decide(Snapshot(WHOLE, made), None).grants
    return {
        app: (round(100 * grant.guarantee_fraction), round(100 * grant.entitlement_fraction))
        for app, grant in found.items()
    }


def test_ten_applications_get_their_user_no_more_than_one():
    found = grants(**{f"ann_{number}": (1.0, None) for number in range(10)}, bob_0=(1.0, None))
    assert found == {**{f"ann_{number}": (5, 5) for number in range(10)}, "bob_0": (50, 50)}


def test_weights_divide_a_users_share_and_not_the_others():
    assert grants(ann_0=(3.0, None), ann_1=(1.0, None), bob_0=(1.0, None)) == {
        "ann_0": (38, 38),
        "ann_1": (12, 12),
        "bob_0": (50, 50),
    }


def test_what_an_application_leaves_goes_to_its_users_others_first():
    assert grants(ann_0=(1.0, 12), ann_1=(1.0, None), bob_0=(1.0, None)) == {
        "ann_0": (25, 10),
        "ann_1": (25, 40),
        "bob_0": (50, 50),
    }


def test_what_a_user_leaves_goes_to_the_others():
    assert grants(ann_0=(1.0, 12), ann_1=(1.0, 12), bob_0=(1.0, None)) == {
        "ann_0": (25, 10),
        "ann_1": (25, 10),
        "bob_0": (50, 80),
    }


def fillers(weights):
    shapes = st.sampled_from([(1.0, 1.0), (1.0, 0.5), (0.25, 1.0), (1.0, 0.0), (0.0, 1.0)])
    return st.lists(st.builds(Filler, weights, shapes, st.integers(0, 12).map(lambda parts: parts / 12)), max_size=7)


@given(fillers(st.just(1.0)))
@settings(max_examples=50)
def test_groups_of_one_are_filled_as_without_groups(wanted):
    assert [shares[0] for shares in fill_groups([[one] for one in wanted], 2)] == pytest.approx(fill(wanted, 2))


@given(fillers(st.floats(0.1, 10.0)))
@settings(max_examples=50)
def test_a_single_group_is_filled_as_without_groups(wanted):
    assert fill_groups([wanted], 2)[0] == pytest.approx(fill(wanted, 2), abs=CLOSE)


@given(st.lists(fillers(st.floats(0.1, 10.0)), min_size=1, max_size=4))
@settings(max_examples=50)
def test_a_filler_stops_only_at_its_limit_or_at_an_exhausted_resource(groups):
    found = fill_groups(groups, 2)
    flat = [
        (one, share)
        for group, shares in zip(groups, found, strict=True)
        for one, share in zip(group, shares, strict=True)
    ]
    used = [sum(share * one.shape[r] for one, share in flat) for r in range(2)]
    assert all(use <= 1 + CLOSE for use in used)
    for one, share in flat:
        assert share <= one.limit + CLOSE
        assert share >= one.limit - CLOSE or any(used[r] >= 1 - CLOSE and one.shape[r] for r in range(2))


@given(st.lists(fillers(st.floats(0.1, 10.0)), min_size=1, max_size=4), st.integers(2, 9))
@settings(max_examples=50)
def test_a_claim_split_into_parts_gains_nothing(groups, parts):
    whole = Filler(1.0, (1.0, 0.5), 1.0)
    split = [Filler(1.0, whole.shape, whole.limit / parts)] * parts
    assert sum(fill_groups([split, *groups], 2)[0]) == pytest.approx(sum(fill_groups([[whole], *groups], 2)[0]))
