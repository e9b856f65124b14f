"""Themis, thesis section 3.6.1: the baselines, each with a story computed by hand."""

import pytest

from tests import auction_rounds
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.mechanisms.partial_allocation import allocate
from yarn_plugin.decide.policies.lease.slaq import fitted
from yarn_plugin.decide.policies.leasing import AppStatus, LeaseProblem
from yarn_plugin.model.gpus import Job, Machine, Slot, Slowdown

SPREAD_HALVES = Slowdown(slot=1.0, machine=2.0, rack=4.0)
INSENSITIVE = Slowdown(slot=1.0, machine=1.02, rack=1.04)


def machine(name, *slots, rack="r"):
    return Machine(name, rack, tuple(Slot(f"{name}{number}", gpus) for number, gpus in enumerate(slots, 1)))


def job(name, work_s=1000.0, gpus=1, **other):
    """`work_s`: GPU seconds left, in iterations of one second."""
    return Job(name, work_s, other.pop("iteration_s", 1.0), max_gpus=gpus, **other)


def app(name, *jobs, arrived_at=0.0, **other):
    return AppStatus(name, arrived_at, jobs, attained_gpu_s=sum(one.attained_gpu_s for one in jobs), **other)


def given_by(policy, machines, *apps, lease_s=60.0):
    problem = LeaseProblem(1, 5000.0, lease_s, tuple(machines), apps)
    return {f"{one.app}.{one.job}": dict(one.gpus) for one in BUILT_IN.lease_policy(policy).allocate(problem)}


def test_tiresias_serves_the_least_attained_service():
    """8 GPUs: `new` has had nothing and takes 4; of `mid` the job with 1200 comes before that with 2400."""
    old = app("old", job("a", gpus=4, attained_gpu_s=7200.0))
    mid = app("mid", job("a", gpus=2, attained_gpu_s=2400.0), job("b", gpus=3, attained_gpu_s=1200.0))
    new = app("new", job("a", gpus=4), arrived_at=100.0)
    machines = [machine("m", 2, 2), machine("n", 2, 2)]
    assert given_by("tiresias", machines, old, mid, new) == {
        "new.a": {"m1": 2, "m2": 2},
        "mid.b": {"n1": 2, "n2": 1},
        "mid.a": {"n2": 1},
    }


def test_tiresias_takes_gpus_as_listed():
    first = app("first", job("a", gpus=3))
    second = app("second", job("a", gpus=4, slowdown=SPREAD_HALVES), arrived_at=1.0)
    assert given_by("tiresias", [machine("m", 4), machine("n", 4)], first, second) == {
        "first.a": {"m1": 3},
        "second.a": {"m1": 1, "n1": 3},
    }


def test_gandiva_serves_the_highest_placement_preference():
    """1 / S is 1 for both GPUs of m1, and for the GPU beside that which `growing` holds in n1; first the larger.
    What is left, one GPU, is no gang for `late`."""
    early = app("early", job("a", gpus=2, min_gpus=2, slowdown=INSENSITIVE), arrived_at=1.0)
    late = app("late", job("a", gpus=2, min_gpus=2, slowdown=SPREAD_HALVES), arrived_at=2.0)
    growing = app("growing", job("a", gpus=2, slowdown=SPREAD_HALVES, held=(("n1", 1),)), arrived_at=3.0)
    machines = [machine("m", 2), machine("n", 1), machine("o", 1)]
    assert given_by("gandiva", machines, early, late, growing) == {"early.a": {"m1": 2}, "growing.a": {"n1": 1}}


def test_tiresias_serves_the_earlier_one_of_two_with_the_same_service():
    """A tenth three times, and three tenths: as sums of floats they differ by 2 ** -54."""
    first = app("first", job("a", gpus=2, attained_gpu_s=0.1 + 0.1 + 0.1), arrived_at=1.0)
    second = app("second", job("a", gpus=2, attained_gpu_s=0.3), arrived_at=2.0)
    assert first.attained_gpu_s > second.attained_gpu_s
    assert given_by("tiresias", [machine("m", 2)], first, second) == {"first.a": {"m1": 2}}
    later, least = job("b", attained_gpu_s=0.3), job("a", attained_gpu_s=0.1 + 0.1 + 0.1)
    assert given_by("tiresias", [machine("m", 1)], app("one", later, least)) == {"one.a": {"m1": 1}}
    more = app("more", job("a", gpus=2, attained_gpu_s=0.300001), arrived_at=0.0)
    assert given_by("tiresias", [machine("m", 2)], more, second) == {"second.a": {"m1": 2}}


def test_gandiva_prefers_few_machines_where_it_matters():
    """Two machines of 2 GPUs: 4 GPUs at half the speed are no faster than 2 on one machine, for the insensitive job
    they are. Its preference is 1 / 1.02, that of the sensitive one 1."""
    sensitive = app("sensitive", job("a", gpus=4, slowdown=SPREAD_HALVES), arrived_at=1.0)
    insensitive = app("insensitive", job("a", gpus=4, slowdown=INSENSITIVE))
    machines = [machine("m", 2), machine("n", 2)]
    assert given_by("gandiva", machines, sensitive, insensitive) == {
        "sensitive.a": {"m1": 2},
        "insensitive.a": {"n1": 2},
    }
    assert given_by("gandiva", machines, insensitive) == {"insensitive.a": {"m1": 2, "n1": 2}}
    assert given_by("gandiva", machines, sensitive) == {"sensitive.a": {"m1": 2}}


def test_gandiva_greedy_spreads_gangs():
    """`first` takes the 3 GPUs of m1. A fourth in another machine gives it a speed of 4 / 1.02, `second` one of 1."""
    first = app("first", job("a", gpus=4, slowdown=INSENSITIVE))
    second = app("second", job("a", gpus=4, slowdown=SPREAD_HALVES), arrived_at=1.0)
    machines = [machine("m", 3), machine("n", 4)]
    assert given_by("gandiva_greedy", machines, first, second) == {
        "first.a": {"m1": 3, "n1": 1},
        "second.a": {"n1": 3},
    }
    assert given_by("gandiva", machines, first, second) == {"first.a": {"n1": 4}, "second.a": {"m1": 3}}


def test_gandiva_greedy_compares_speeds():
    """With 1 GPU of m1, the next in another machine gives `first` a speed of 2 / 2, `second` one of 1: the fewest GPUs
    decide. Then `second` is at 2, within its slot."""
    first = app("first", job("a", gpus=4, slowdown=SPREAD_HALVES))
    second = app("second", job("a", gpus=4, slowdown=SPREAD_HALVES), arrived_at=1.0)
    assert given_by("gandiva_greedy", [machine("m", 1), machine("n", 2)], first, second) == {
        "first.a": {"m1": 1},
        "second.a": {"n1": 2},
    }


def test_optimus_serves_the_highest_throughput_scaling():
    """Two GPUs in two machines run at 2 / 1.1 of one GPU's speed.

    `fresh` has no throughput yet and gets the first step. Then `one` scales by 2 / 1 within its slot, `fresh` by 1.82,
    `two` by 3 / 1.1 / 2 = 1.36: `one` gets it. Then `fresh` has the most, and the GPU beside those of `one` is listed
    first. At last `one` scales by 3 / 1.1 / 2 = 1.36, `fresh` by 3 / 2 = 1.5.
    """
    one = app("one", job("a", gpus=4, held=(("m1", 1),)))
    two = app("two", job("a", gpus=4, held=(("n1", 2),)), arrived_at=1.0)
    fresh = app("fresh", job("a", gpus=4), arrived_at=2.0)
    machines = [machine("m", 2), machine("n", 1), machine("o", 1)]
    assert given_by("optimus", machines, one, two, fresh) == {
        "fresh.a": {"m1": 1, "n1": 1, "o1": 1},
        "one.a": {"m1": 1},
    }


def test_optimus_leaves_gpus_idle_that_make_nothing_faster():
    """3 GPUs on two machines run at 3 / 2 of one GPU's speed, 2 on one machine at 2."""
    sensitive = app("sensitive", job("a", gpus=4, slowdown=SPREAD_HALVES, held=(("m1", 2),)))
    assert given_by("optimus", [machine("m", 0), machine("n", 2)], sensitive) == {}


def test_slaq_serves_the_largest_decrease_in_loss():
    """Losses of 1 / (k + 1), 10 iterations per GPU and lease. After 9 iterations a GPU lowers the loss by
    1/10 - 1/20 = 0.05, a second by 1/20 - 1/30 = 0.017, a third by 1/30 - 1/40 = 0.008; after 99 the first only by
    1/100 - 1/110 = 0.0009. A job without losses gets one GPU before all."""
    early = app("early", job("a", gpus=3, iteration_s=6.0, iterations_done=9.0, losses=((0.0, 1.0), (9.0, 0.1))))
    late = app("late", job("a", gpus=3, iteration_s=6.0, iterations_done=99.0, losses=((0.0, 1.0), (99.0, 0.01))))
    fresh = app("fresh", job("a", gpus=3, iteration_s=6.0), arrived_at=9.0)
    machines = [machine("m", 5)]
    assert given_by("slaq", machines, early, late, fresh) == {
        "early.a": {"m1": 3},
        "late.a": {"m1": 1},
        "fresh.a": {"m1": 1},
    }


def test_slaq_fits_a_power_law():
    curve = fitted(((0.0, 8.0), (1.0, 2.0), (3.0, 0.5)))
    assert (curve.at(0.0), curve.exponent) == (pytest.approx(8.0), pytest.approx(2.0))
    assert curve.at(9.0) == pytest.approx(0.08)
    assert fitted(((0.0, 1.0),)) is None
    assert fitted(((0.0, 1.0), (5.0, 2.0))).at(50.0) == fitted(((0.0, 1.0), (5.0, 2.0))).at(5.0)
    assert fitted(((0.0, 1.0), (5.0, -1.0))).exponent == 0.0


def test_slaq_survives_losses_that_fall_abruptly():
    """From 1 to 1e-300 within an iteration of many: the power law has an exponent of 7e8."""
    curve = fitted(((1e6, 1.0), (1e6 + 1, 1e-300)))
    assert curve.at(0.0) > 0
    assert curve.at(1e6 + 10) == 0.0
    abrupt = app("abrupt", job("a", gpus=2, iterations_done=1e6 + 1, losses=((1e6, 1.0), (1e6 + 1, 1e-300))))
    assert given_by("slaq", [machine("m", 2)], abrupt) == {"abrupt.a": {"m1": 2}}


def test_optimus_lets_jobs_without_gpus_take_turns():
    """Two GPUs for three jobs: those with the least GPU time so far."""
    apps = [app(name, job("a", gpus=4, attained_gpu_s=had)) for name, had in (("x", 60.0), ("y", 0.0), ("z", 30.0))]
    assert given_by("optimus", [machine("m", 2)], *apps) == {"y.a": {"m1": 1}, "z.a": {"m1": 1}}


def test_srtf_serves_the_shortest_remaining_time_and_srsf_the_least_service():
    """4 GPUs on one machine: `wide` needs 400 GPU seconds, 100 s on its 4; `narrow` 120 s on its one."""
    wide = app("wide", job("a", 400.0, gpus=4, slowdown=SPREAD_HALVES))
    narrow = app("narrow", job("a", 120.0))
    machines = [machine("m", 2, 2)]
    assert given_by("srtf", machines, wide, narrow) == {"wide.a": {"m1": 2, "m2": 2}}
    assert given_by("srsf", machines, wide, narrow) == {"narrow.a": {"m1": 1}, "wide.a": {"m1": 1, "m2": 2}}


def test_srtf_counts_the_slowdown_of_the_gpus_that_are_free():
    """On two machines of 2 GPUs `wide` is as fast on 2 as on 4: 200 s. So `narrow` is first; then two GPUs of one
    machine are faster for `wide` than all three."""
    wide = app("wide", job("a", 400.0, gpus=4, slowdown=SPREAD_HALVES))
    narrow = app("narrow", job("a", 120.0))
    machines = [machine("m", 2), machine("n", 2)]
    assert given_by("srtf", machines, wide, narrow) == {"narrow.a": {"m1": 1}, "wide.a": {"n1": 2}}


def test_srtf_of_many_jobs_counts_all_their_work():
    """Two GPUs: `many` has four jobs of 60 s, 240 / 2 = 120 s; `long` has one of 100 s, and comes first."""
    many = app("many", *(job(name, 60.0) for name in "abcd"))
    long = app("long", job("a", 100.0), arrived_at=5.0)
    assert given_by("srtf", [machine("m", 2)], many, long) == {"long.a": {"m1": 1}, "many.a": {"m1": 1}}


def test_srsf_sums_the_service_of_all_jobs():
    """`many` has 4 x 60 = 240 GPU seconds left, `long` 100; of `many` the job with the least comes first."""
    many = app("many", job("a", 70.0), job("b", 60.0), job("c", 50.0), job("d", 60.0))
    long = app("long", job("a", 100.0), arrived_at=5.0)
    assert given_by("srsf", [machine("m", 2)], many, long) == {"long.a": {"m1": 1}, "many.c": {"m1": 1}}


def test_drf_equalises_shares_of_the_gpus():
    """`holder` has 3 of 8. The 5 free ones go to `late` 1, `two` 1, `late` 2, `two` 2 (its other job), `late` 3."""
    holder = app("holder", job("a", gpus=8, held=(("m1", 3),)))
    late = app("late", job("a", gpus=8), arrived_at=10.0)
    two = app("two", job("a"), job("b"), arrived_at=20.0)
    machines = [machine("m", 1), machine("n", 4)]
    assert given_by("drf", machines, holder, late, two) == {
        "late.a": {"m1": 1, "n1": 2},
        "two.a": {"n1": 1},
        "two.b": {"n1": 1},
    }


def test_max_min_follows_weights_and_packs():
    """Weights 3 and 1 of 8 GPUs: 6 and 2. The gang of 6 takes one machine whole and part of the other."""
    heavy = app("heavy", job("a", gpus=8), weight=3.0, arrived_at=1.0)
    light = app("light", job("a", gpus=8), weight=1.0)
    machines = [machine("m", 4), machine("n", 4)]
    assert given_by("max_min", machines, heavy, light) == {"heavy.a": {"m1": 4, "n1": 2}, "light.a": {"n1": 2}}
    assert given_by("drf", machines, heavy, light) == {"light.a": {"m1": 4}, "heavy.a": {"n1": 4}}


def test_figure_3_5_drf_scatters_both_of_two_apps_that_need_a_machine_each():
    """Instance 1: equal shares of two machines of 4 GPUs. `second` holds 2 of m. As listed, `first` gets the other 2
    and 2 of n: both run at the rate of 2 GPUs, and each would have 4 with a machine of its own. Packed, they do."""
    first = app("first", job("a", gpus=4, slowdown=SPREAD_HALVES))
    second = app("second", job("a", gpus=4, slowdown=SPREAD_HALVES, held=(("m1", 2),)))
    machines = [machine("m", 2), machine("n", 4)]
    given = given_by("drf", machines, first, second)
    assert given == {"first.a": {"m1": 2, "n1": 2}, "second.a": {"n1": 2}}
    packed = given_by("max_min", machines, first, second)
    assert packed == {"first.a": {"n1": 4}, "second.a": {"m1": 2}}


@pytest.mark.parametrize("policy", ["drf", "max_min", "tiresias"])
def test_figure_3_5_who_needs_the_large_machine_envies_who_has_it(policy):
    """Instance 2: shares are equal, and the large machine goes to `insensitive`, who loses 2% without it: `sensitive`
    envies it, and both together would gain by an exchange."""
    insensitive = app("insensitive", job("a", gpus=4, slowdown=INSENSITIVE))
    sensitive = app("sensitive", job("a", gpus=4, slowdown=SPREAD_HALVES), arrived_at=1.0)
    machines = [machine("m", 4), machine("n", 2), machine("o", 2)]
    given = given_by(policy, machines, insensitive, sensitive)
    assert given == {"insensitive.a": {"m1": 4}, "sensitive.a": {"n1": 2, "o1": 2}}


def test_figure_3_5_the_auction_gives_the_large_machine_to_whom_it_matters():
    machines = [auction_rounds.machine(name, gpus) for name, gpus in (("m", 4), ("n", 2), ("o", 2))]
    bids = [
        auction_rounds.bid(name, 8, auction_rounds.row(1, 4), auction_rounds.row(slowdown.machine, 2, 2))
        for name, slowdown in (("insensitive", INSENSITIVE), ("sensitive", SPREAD_HALVES))
    ]
    won = {award.app: dict(award.won) for award in allocate(auction_rounds.problem(machines, *bids)).awards}
    assert won == {"insensitive": {"n/s0": 2, "o/s0": 2}, "sensitive": {"m/s0": 4}}
