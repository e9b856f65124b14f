"""Searches: which trials live, and how long."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from themis_agent.search import (
    Bracket,
    Decision,
    Failed,
    Phase,
    Report,
    SearchTuner,
    Trial,
    Work,
    asha,
    bracket_sizes,
    curve_stopping,
    hyperband,
    iterations_of_budget,
    successive_halving,
    to_the_end,
)
from themis_agent.search.curves import possible_curves
from themis_agent.search.halving import phase_count, survivors
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.gpus import Job


def trials(count, iteration_s=1.0, **more):
    return [Trial(f"t{number:02}", iteration_s, **more) for number in range(count)]


def ended_phase(search, iteration, losses):
    """Every named trial reports the end of the phase: the decisions of all reports."""
    found = []
    for trial, loss in losses.items():
        search, decisions = search.take(Report(trial, iteration, loss))
        found += decisions
    return search, found


@pytest.mark.parametrize(("count", "eta", "phases"), [(1, 2, 1), (2, 2, 2), (3, 2, 2), (4, 2, 3), (9, 3, 3), (8, 3, 2)])
def test_number_of_phases(count, eta, phases):
    assert phase_count(count, eta) == phases


def test_survivors():
    assert survivors(11, 4, 2) == (11, 5, 2, 1)


def test_halving_keeps_the_best_half_and_ties_go_by_id():
    search = successive_halving(trials(5, max_gpus=4), (10, 20, 30))
    assert search.work() == Work(
        (Bracket(tuple(Job(f"t{i:02}", 10, 1.0, max_gpus=4) for i in range(5)), (Phase(2, 20, 4), Phase(1, 30, 4))),),
        10 * 5 + 20 * 2 + 30,
        20,
    )
    search, decisions = ended_phase(search, 10, {"t04": 0.5, "t03": 0.9, "t00": 0.7, "t01": 0.5, "t02": 0.5})
    assert decisions == [
        Decision("t01", "promote", 30),
        Decision("t02", "promote", 30),
        Decision("t04", "stop"),
        Decision("t00", "stop"),
        Decision("t03", "stop"),
    ]
    assert [(job.id, job.iterations_left, job.iterations_done) for job in search.work().jobs] == [
        ("t01", 20, 10),
        ("t02", 20, 10),
    ]
    search, decisions = ended_phase(search, 30, {"t01": 0.4, "t02": 0.3})
    assert decisions == [Decision("t02", "promote", 60), Decision("t01", "stop")]
    search, decisions = ended_phase(search, 60, {"t02": 0.2})
    assert decisions == [Decision("t02", "complete")]
    assert search.ended and search.work() == Work((), 120, 20)


def test_a_phase_ends_with_its_slowest_trial():
    search = successive_halving(trials(2), (10, 10))
    search, decisions = search.take(Report("t00", 10, 0.1))
    assert decisions == ()
    assert [(job.id, job.iterations_left) for job in search.work().jobs] == [("t01", 10)]
    # The waiting one still counts for the median.
    assert [job.iterations_left for job in search.work().brackets[0].jobs] == [0, 10]


def test_failed_trials_and_losses_that_are_no_numbers_are_worst():
    search = successive_halving(trials(4), (10, 10, 10))
    search, _ = search.take(Failed("t00"))
    search, decisions = ended_phase(search, 10, {"t01": math.nan, "t02": 5.0, "t03": 7.0})
    assert decisions == [Decision("t02", "promote", 20), Decision("t03", "promote", 20), Decision("t01", "stop")]
    search, _ = search.take(Failed("t02"))
    search, decisions = search.take(Failed("t03"))
    assert decisions == () and search.ended


def test_a_promoted_trial_may_be_worth_nothing():
    """All but one failed: fewer trials than planned run on."""
    search = successive_halving(trials(4), (10, 10, 10))
    for trial in ("t00", "t01", "t02"):
        search, _ = search.take(Failed(trial))
    search, decisions = search.take(Report("t03", 10, 1.0))
    assert decisions == (Decision("t03", "promote", 20),)
    assert [job.id for job in search.work().jobs] == ["t03"]


def test_late_reports_change_nothing():
    search = successive_halving(trials(2), (10, 10))
    search, _ = ended_phase(search, 10, {"t00": 1.0, "t01": 2.0})
    assert search.take(Report("t01", 11, 0.0)) == (search, ())
    assert search.take(Failed("unknown")) == (search, ())


def test_a_trial_may_fall_back_to_its_checkpoint():
    search = to_the_end(trials(1, iterations=100))
    for report in (Report("t00", 10, 3.0), Report("t00", 20, 2.0), Report("t00", 15, 2.5)):
        search, _ = search.take(report)
    assert search.trials[0].losses == ((10, 3.0), (15, 2.5))
    assert search.work().jobs[0].iterations_left == 85


def test_a_measured_iteration_time_counts_from_then_on():
    search, _ = to_the_end(trials(1, iterations=100)).take(Report("t00", 10, iteration_s=2.0))
    assert search.work().jobs[0].iteration_s == 2.0


def test_the_budget_of_the_thesis_is_8_16_and_36_iterations():
    four = [Trial(str(number), seconds) for number, seconds in enumerate((80, 100, 100, 120))]
    assert iterations_of_budget(four, 10_000, eta=2) == (8, 16, 36)
    assert successive_halving(four, (8, 16, 36)).budget_gpu_s == 10_000
    with pytest.raises(BadInputError, match="too small"):
        iterations_of_budget(four, 300, eta=2)


def test_brackets_of_hyperband():
    """Algorithm 1 with R = 81 and eta = 3."""
    assert [(size.trials, size.iterations, size.phases) for size in bracket_sizes(81, 3)] == [
        (81, 1, 5),
        (34, 3, 4),
        (15, 9, 3),
        (8, 27, 2),
        (5, 81, 1),
    ]
    assert [(size.trials, size.iterations) for size in bracket_sizes(1, 2)] == [(1, 1)]


def test_hyperband_runs_its_brackets_side_by_side():
    search = hyperband(trials(4 + 3 + 3), 4, eta=2, max_gpus=2)
    assert [[job.iterations_left for job in bracket.jobs] for bracket in search.work().brackets] == [
        [1] * 4,
        [2] * 3,
        [4] * 3,
    ]
    # From 1 to 2 to 4 iterations in the first bracket, from 2 to 4 in the second.
    assert [bracket.phases for bracket in search.work().brackets] == [
        (Phase(2, 1, 2), Phase(1, 2, 2)),
        (Phase(1, 2, 2),),
        (),
    ]
    assert (search.work().budget_gpu_s, search.work().max_gpus) == (4 + 2 + 2 + 6 + 2 + 12, 8 + 6 + 6)
    search, decisions = ended_phase(search, 4, {"t07": 1.0, "t08": 1.0, "t09": 1.0})
    assert decisions == [Decision(f"t0{i}", "complete") for i in (7, 8, 9)]
    assert len(search.work().brackets) == 2 and not search.ended
    with pytest.raises(BadInputError, match="need 10"):
        hyperband(trials(9), 4)


def test_all_trials_to_the_end():
    search = to_the_end(trials(2, iterations=100, max_gpus=2))
    assert search.work().max_gpus == 4
    search, decisions = search.take(Report("t00", 100, 1.0))
    assert decisions == (Decision("t00", "complete"),)
    assert [job.id for job in search.work().jobs] == ["t01"]
    assert search.work().budget_gpu_s == 200
    search, decisions = search.take(Failed("t01"))
    assert decisions == () and search.ended
    assert search.take(Report("t00", 100, 1.0))[1] == ()


def test_an_allocation_names_the_gpus_of_each_trial():
    tuner = SearchTuner(to_the_end(trials(2, iterations=100)))
    tuner.apply({"t00": (("slot", 1),)})
    assert [job.held for job in tuner.work().jobs] == [(("slot", 1),), ()]
    tuner.apply({})
    assert [job.held for job in tuner.work().jobs] == [(), ()]
    assert tuner.take(Report("t01", 100))[0].kind == "complete"


def power_curve(a, b, c, until):
    return [(float(at), a + b * (at + 1.0) ** -c) for at in range(until)]


def test_the_curve_is_found():
    (curve,) = possible_curves(power_curve(0.5, 2.0, 0.5, 20))
    assert (curve.a, curve.b, curve.c) == pytest.approx((0.5, 2.0, 0.5))
    assert curve.reaches(0.75) == pytest.approx(63)
    assert curve.reaches(0.5) == math.inf
    assert curve.reaches(9.0) == 0.0
    assert possible_curves(power_curve(0.5, 2.0, 0.5, 3)) == ()


def test_rising_losses_are_taken_for_constant():
    curves = possible_curves([(float(at), 1.0 + at) for at in range(5)])
    assert {curve.b for curve in curves} == {0.0}


def run_curve(search, trial, losses):
    found = []
    for at, loss in losses:
        search, decisions = search.take(Report(trial, at, loss))
        found += [(at, decision) for decision in decisions]
    return search, found


def test_a_trial_that_cannot_catch_up_is_stopped():
    search = curve_stopping(trials(2, iterations=1000))
    search, found = run_curve(search, "t00", power_curve(0.1, 1.0, 1.0, 50))
    assert found == []
    search, found = run_curve(search, "t01", power_curve(0.6, 1.0, 1.0, 100))
    # With 941 iterations to go, it has fallen by 0.0005 in each of the latest.
    assert found == [(59.0, Decision("t01", "stop"))]
    assert [one.trial.id for one in search.trials] == ["t00"]


def test_a_new_best_loss_stops_others():
    search = curve_stopping(trials(2, iterations=1000))
    search, found = run_curve(search, "t01", power_curve(0.6, 1.0, 1.0, 200))
    assert found == []
    search, found = run_curve(search, "t00", [(0.0, 0.5)])
    assert found == [(0.0, Decision("t01", "stop"))]


def test_nobody_is_stopped_before_the_patience_is_over():
    search = curve_stopping(trials(2, iterations=1000), patience=90)
    search, _ = run_curve(search, "t00", power_curve(0.1, 1.0, 1.0, 50))
    _, found = run_curve(search, "t01", power_curve(0.6, 1.0, 1.0, 100))
    assert found == [(90.0, Decision("t01", "stop"))]


def sigmoid(middle, width):
    return [1.0 - 0.8 / (1.0 + math.exp((middle - at) / width)) for at in range(1, 101)]


LATE_BLOOMERS = {
    "a straight line": [1.0 - 0.007 * at for at in range(1, 101)],
    "slow at first": sigmoid(20, 5),
    "slower": sigmoid(40, 8),
    "falls in the second half": sigmoid(60, 10),
    "a curve of another exponent": [0.05 + 2.0 * (at + 1.0) ** -0.5 for at in range(1, 101)],
    "a warm-up": [*[2.0] * 30, *(0.2 + 1.0 / at for at in range(1, 71))],
}


@pytest.mark.parametrize("name", LATE_BLOOMERS)
@pytest.mark.parametrize("order", ["side by side", "one after the other"])
def test_a_late_bloomer_survives_the_defaults(name, order):
    """Its curve crosses that of a trial which learns fast and ends higher; the patience is half of the steps."""
    late, fast = LATE_BLOOMERS[name], [0.5 + 1.0 / at for at in range(1, 101)]
    search, found = curve_stopping(trials(2, iterations=100), patience=50), []
    said = [(trial, at, loss) for trial, losses in (("t00", fast), ("t01", late)) for at, loss in enumerate(losses, 1)]
    for trial, at, loss in said if order == "one after the other" else sorted(said, key=lambda one: one[1]):
        search, decisions = search.take(Report(trial, float(at), loss))
        found += decisions
    assert late[-1] < fast[-1]
    assert Decision("t01", "complete") in found


def test_a_trial_that_is_the_best_at_its_iteration_is_not_stopped():
    """Both have their learning rates lowered at iteration 60; the worse one has ended."""
    search = curve_stopping(trials(2, iterations=100), patience=50)
    for trial, lead in (("t00", 0.0), ("t01", 0.05)):
        for at in range(1, 101):
            loss = (0.9 if at < 60 else 0.4) - lead
            search, decisions = search.take(Report(trial, float(at), loss))
        assert decisions == (Decision(trial, "complete"),)


def test_a_trial_that_has_stopped_to_learn_is_stopped_when_the_patience_is_over():
    search = curve_stopping(trials(2, iterations=100), patience=50)
    search, _ = run_curve(search, "t00", [(float(at), 0.5 + 1.0 / at) for at in range(1, 60)])
    _, found = run_curve(search, "t01", [(float(at), 0.9 + 0.02 * math.sin(at)) for at in range(1, 60)])
    assert found[0][0] <= 53 and found[0][1] == Decision("t01", "stop")


def test_the_best_losses_by_iteration_are_bounded():
    search = curve_stopping(trials(1, iterations=10_000))
    for at in range(1, 3000):
        search, _ = search.take(Report("t00", float(at), 1.0 / at))
    assert len(search.frontier) <= 512
    assert search.frontier[-1] == (2999.0, 1.0 / 2999)


def test_the_forecast_is_the_latest_possible_end():
    """The curve a + b / sqrt(k + 1) = 0.5 + 2 / sqrt(k + 1) reaches 0.75 at k = 63."""
    search = curve_stopping(trials(2, iterations=1000), target=0.75)
    search, _ = run_curve(search, "t00", power_curve(0.5, 2.0, 0.5, 20))
    left = {job.id: job.iterations_left for job in search.work().jobs}
    assert left == pytest.approx({"t00": 63 - 19, "t01": 1000})
    search, found = run_curve(search, "t00", [(63.0, 0.75)])
    assert found == [(63.0, Decision("t00", "complete"))]
    assert search.work().budget_gpu_s == 2000


def test_a_curve_that_never_reaches_the_target_ends_with_the_last_iteration():
    search = curve_stopping(trials(1, iterations=1000), target=0.2)
    search, _ = run_curve(search, "t00", power_curve(0.5, 2.0, 0.5, 20))
    assert search.work().jobs[0].iterations_left == 1000 - 19


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: successive_halving([], (1,)), "at least one"),
        (lambda: successive_halving(trials(2) + trials(2), (1,)), "two have the same id"),
        (lambda: successive_halving(trials(2), (1,), eta=1), "eta"),
        (lambda: successive_halving(trials(3), (1, 1, 1)), "1 to 2 phases"),
        (lambda: successive_halving(trials(3), (1, 0)), "each above 0"),
        (lambda: successive_halving(trials(3), (1, 1), max_gpus=(1,)), "2 caps"),
        (lambda: bracket_sizes(0.5), "max_iterations"),
        (lambda: bracket_sizes(math.inf), "max_iterations"),
        (lambda: bracket_sizes(9, 1), "eta"),
        (lambda: to_the_end([]), "at least one"),
        (lambda: to_the_end(trials(1)), "number of iterations"),
        (lambda: curve_stopping(trials(1)), "number of iterations"),
        (lambda: curve_stopping([]), "at least one"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(BadInputError, match=message):
        make()


@given(
    st.integers(1, 20),
    st.integers(2, 4),
    st.data(),
)
def test_halving_ends_with_one_winner_whatever_is_reported(count, eta, data):
    phases = phase_count(count, eta)
    search = successive_halving(trials(count), [1.0] * phases, eta)
    losses = {}
    decisions = []
    for phase in range(phases):
        running = [one.trial.id for one in search.trials]
        assert len(running) == count // eta**phase
        order = data.draw(st.permutations(running))
        losses = {trial: data.draw(st.sampled_from([0.1, 0.2, 0.3])) for trial in order}
        search, found = ended_phase(search, phase + 1.0, losses)
        decisions += found
    complete = [decision.trial for decision in decisions if decision.kind == "complete"]
    assert len(complete) == count // eta ** (phases - 1) and search.ended
    assert sum(decision.kind == "stop" for decision in decisions) == count - len(complete)
    assert set(complete) == set(losses)


def run_asha(search, loss, together):
    """Train `together` trials at a time, the highest rung first, to the end; all decisions."""
    found = []
    while not search.ended:
        jobs = [job for job in search.work().jobs if job.iterations_left > 0]
        jobs = sorted(jobs, key=lambda job: (-job.iterations_done, job.id))[:together]
        for job in jobs:
            until = job.iterations_done + job.iterations_left
            search, decisions = search.take(Report(job.id, until, loss(job.id)))
            found += decisions
    return search, found


@pytest.mark.parametrize("together", [1, 3, 27])
def test_asha_promotes_a_third_of_those_seen_and_trains_the_best_to_the_end(together):
    """Algorithm 2: of 27 trials in any order, 9 reach the second rung, or a few more that were good so far."""
    _, found = run_asha(asha(trials(27), 27, 3), lambda name: float(name[1:]), together)
    promoted = [one for one in found if one.kind == "promote"]
    assert {one.trial for one in found if one.kind == "complete"} >= {"t00"}
    assert 9 <= len([one for one in promoted if one.until == 3]) <= 12
    assert {one.trial for one in found if one.kind in ("stop", "complete")} == {one.id for one in trials(27)}


def test_asha_waits_for_nobody():
    search = asha(trials(9), 9, 3)
    for name in ("t00", "t01"):
        search, decisions = search.take(Report(name, 1, 1.0))
        assert decisions == ()
    search, decisions = search.take(Report("t02", 1, 0.5))
    (promotion,) = decisions
    assert (promotion.trial, promotion.kind, promotion.until) == ("t02", "promote", 3)
    assert promotion.ranking.place == 1
    # One that waits is promoted by what others reach later.
    for name in ("t03", "t04"):
        search, _ = search.take(Report(name, 1, 2.0))
    search, decisions = search.take(Report("t05", 1, 3.0))
    assert [one.trial for one in decisions] == ["t00"]


def test_asha_goes_on_when_failures_leave_too_few_for_a_promotion():
    search = asha(trials(3), 3, 3)
    for name in ("t00", "t01"):
        search, _ = search.take(Failed(name))
    search, decisions = search.take(Report("t02", 1, 1.0))
    assert [(one.trial, one.kind) for one in decisions] == [("t02", "promote")]
    search, decisions = search.take(Report("t02", 3, 1.0))
    assert [one.kind for one in decisions] == ["complete"]
    assert search.ended
