"""DLRM on modelled instances: what each system makes of it; and plans enforced on sleeping links."""

import statistics

import numpy as np
import pytest

from tests.emulated_links import FixedPlans, SleepingChannel, SleepingProgram
from themis_agent.communication import figures
from themis_agent.communication.baselines import System, outcome, problem_for
from themis_agent.communication.enforcer import Enforcer
from themis_agent.communication.iteration import Iteration, Need
from themis_agent.communication.modelled import RANGES, model
from themis_agent.communication.options import Option
from themis_agent.communication.planning import plan_of
from themis_agent.communication.search import Limits, Problem, search


@pytest.fixture(scope="module")
def instance():
    return model({name: (low + high) / 2 for name, (low, high) in RANGES.items()})


@pytest.fixture(scope="module")
def outcomes(instance):
    numbers = np.random.default_rng(0)
    return {system: outcome(system, instance, numbers, Limits()) for system in System}


def test_every_system_is_at_least_as_good_as_the_thesis_ranks_it(outcomes):
    period = {system: one.period_s for system, one in outcomes.items()}
    assert period[System.SYNDICATE] < period[System.EXECUTION_ONLY] < period[System.LIFO] < period[System.IN_ORDER]
    assert period[System.SYNDICATE] < period[System.PREFETCHING] < period[System.HAND_OPTIMISED] < period[System.LIFO]
    assert period[System.SYNDICATE] < period[System.SCHEDULE_ONLY] < period[System.LIFO]


def test_the_computation_is_the_same_under_every_system(outcomes):
    computed = [one.period_s * (1 - one.idle) for one in outcomes.values()]
    assert computed == pytest.approx([computed[0]] * len(computed))


def test_only_syndicate_and_s_exec_use_both_channels(instance, outcomes):
    for system, found in outcomes.items():
        choices = problem_for(system, instance).choices.values()
        used = {options[number].option.channels for options, number in zip(choices, found.chosen, strict=True)}
        assert (len(used) == 2) == (system in (System.SYNDICATE, System.EXECUTION_ONLY)), system


def test_data_is_fetched_one_batch_ahead_and_not_more(instance):
    prefetching = instance.prefetching.tasks
    assert [(prefetching[need.task].name, need.lag) for need in prefetching[0].needs] == [("forward embeddings", 1)]


def test_the_figures_are_made_from_the_file():
    of = figures.specification()
    kept = figures.instances(of.parameters.model_copy(update={"instances": 2, "steps": 50}))
    assert len(kept) == 2
    assert all(0.42 <= one[System.LIFO].idle <= 0.48 for one in kept)
    checked = figures.check(of.claims, kept)
    assert [one.claim.id for one in checked] == ["lifo", "hand_optimised", "prefetching", "s_exec", "s_sched", "idle"]
    assert all(one.low <= one.median <= one.high for one in checked)
    page = figures.page(of, checked, kept)
    assert [section.title for section in page.sections] == ["Claims", "Charts", "Not asserted"]


def as_segments(problem):
    """The same times with options whose motifs are segments: what the enforcer divides by itself."""
    choices = {}
    for task, options in problem.choices.items():
        choices[task] = []
        for one in options:
            channels = (0,) if problem.serial else one.option.channels
            choices[task].append(type(one)(Option(segments=len(one.motifs), channels=channels), one.motifs))
    return Problem(problem.iteration, choices, problem.channels, problem.overlap, problem.serial)


def calling_ahead(iteration):
    """The prefetching program as it calls: the data of the next batch right after the embeddings of this one."""
    old = iteration.tasks
    order = [1, 0, *range(2, len(old))]
    new = {task: place for place, task in enumerate(order)}
    tasks = []
    for task in order:
        needs = [Need(new[need.task], need.lag) for need in old[task].needs]
        if task == 0:
            needs = [Need(new[1])]
        elif task == 1:
            needs = [Need(new[need.task], 1) for need in old[task].needs]
        tasks.append(type(old[task])(old[task].name, tuple(needs), old[task].seconds, old[task].operation))
    return Iteration(tuple(tasks)), new


class Emulated:
    """A candidate enforced on sleeping links; `unit_s`: a unit of the model's time."""

    def __init__(self, problem, candidate, unit_s):
        problem = as_segments(problem)
        self.channels = [SleepingChannel(), SleepingChannel()]
        self.enforcer = Enforcer(2, FixedPlans(plan_of(problem, candidate)), 60.0, observe=self._observe)
        options = {
            task: all_options[number].motifs
            for (task, all_options), number in zip(problem.choices.items(), candidate.chosen, strict=True)
        }
        self.program = SleepingProgram(
            problem.iteration, lambda task: [one.seconds for one in options[task]], self.enforcer, self.channels, unit_s
        )
        self.seen, self.number = [], 0

    def _observe(self, seen):
        self.seen.append(seen)

    def median_s(self, iterations):
        """Of so many iterations, after two that fill the pipeline."""
        began = len(self.seen)
        for _ in range(iterations):
            self.program.run(self.number)
            self.number += 1
        return statistics.median(one.seconds for one in self.seen[began + (2 if not began else 0) :])

    def close(self):
        # The last motifs may be ordered after some of an iteration that never comes.
        self.enforcer.close()
        for one in self.channels:
            one.close()


def emulated(instance, unit_s):
    numbers = np.random.default_rng(0)
    by_hand = problem_for(System.HAND_OPTIMISED, instance)
    hand = Emulated(by_hand, outcome(System.HAND_OPTIMISED, instance, numbers, Limits()), unit_s)
    ahead, new = calling_ahead(instance.prefetching)
    moved = {new[task]: options for task, options in instance.options.items()}
    problem = Problem(ahead, dict(sorted(moved.items())), 2)
    found = search(problem, numbers, Limits()).best
    return hand, Emulated(problem, found, unit_s), found


def test_plans_of_both_kinds_are_enforced_on_sleeping_links(instance):
    hand, planned, _ = emulated(instance, 0.0001)
    for one in (hand, planned):
        one.median_s(5)
        one.close()
        assert [seen.version for seen in one.seen] == [0, 1, 1, 1, 1]


@pytest.mark.matrix
def test_the_planned_order_beats_the_hand_optimised_one_as_predicted(instance):
    unit_s = 0.004
    hand, planned, found = emulated(instance, unit_s)
    pairs = []
    for _ in range(10):
        pairs.append((hand.median_s(3), planned.median_s(3)))
    hand.close()
    planned.close()
    ratio = statistics.median(a / b for a, b in pairs)
    measured = statistics.median(b for _, b in pairs)
    print(f"hand-optimised / planned: {ratio:.3f}; planned {measured:.3f} s, predicted {found.period_s * unit_s:.3f} s")
    assert ratio >= 1.15
    assert measured <= 1.15 * found.period_s * unit_s
