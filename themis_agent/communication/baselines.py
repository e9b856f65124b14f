"""What Syndicate is compared with (Syndicate section 4.6.4), and prefetching as TorchRec's pipelines do it today.

Last-in-first-out and hand-optimised execute one motif at a time, each operation in the way that is fastest alone. An
oracle chooses their segments: the numbers that lead to the shortest iteration.
"""

import enum
from collections.abc import Callable
from dataclasses import replace

from themis_agent.communication.iteration import Iteration, Kind
from themis_agent.communication.modelled import Model
from themis_agent.communication.options import Algorithm
from themis_agent.communication.schedule import REPLAYED, Graph, Priority, fold, list_schedule
from themis_agent.communication.search import (
    Candidate,
    Chosen,
    Evaluate,
    Limits,
    Numbers,
    Problem,
    in_order,
    scheduled,
    search,
)

_PASSES = 3
"""How often the oracle goes over all operations."""


class System(enum.StrEnum):
    """How the communication of an iteration is ordered and executed."""

    IN_ORDER = "in order"
    LIFO = "last-in-first-out"
    HAND_OPTIMISED = "hand-optimised"
    PREFETCHING = "hand-optimised, prefetching"
    EXECUTION_ONLY = "S-Exec"
    SCHEDULE_ONLY = "S-Sched"
    SYNDICATE = "Syndicate"


def problem_for(system: System, of: Model) -> Problem:
    """What a system may choose from."""
    match system:
        case System.IN_ORDER | System.LIFO:
            return _one_execution(of, of.iteration, splines=False)
        case System.HAND_OPTIMISED:
            return _one_execution(of, of.iteration, splines=True)
        case System.PREFETCHING:
            return _one_execution(of, of.prefetching, splines=True)
        case System.SCHEDULE_ONLY:
            return _one_execution(of, of.prefetching, splines=False)
        case System.EXECUTION_ONLY:
            return Problem(of.iteration, of.options, 2)
        case System.SYNDICATE:
            return Problem(of.prefetching, of.options, 2)


def outcome(system: System, of: Model, numbers: Numbers, limits: Limits) -> Candidate:
    """What a system makes of an instance."""
    problem = problem_for(system, of)
    match system:
        case System.IN_ORDER:
            return in_order(problem, problem.greedy)
        case System.LIFO:
            return _segmented(problem, _by_priority(_last_first))
        case System.HAND_OPTIMISED | System.PREFETCHING:
            return _segmented(problem, _by_priority(_exchanges_first))
        case System.SCHEDULE_ONLY:
            return _segmented(problem, scheduled)
        case System.EXECUTION_ONLY:
            return search(problem, numbers, limits, in_order).best
        case System.SYNDICATE:
            return search(problem, numbers, limits).best


def _one_execution(of: Model, iteration: Iteration, splines: bool) -> Problem:
    """One motif at a time; for each operation the execution that is fastest alone, with every number of segments."""
    choices = {}
    for task, options in of.options.items():
        allowed = [one for one in options if splines or one.option.algorithm is not Algorithm.SPLINE]
        whole = min((one for one in allowed if one.option.segments == 1), key=lambda one: one.total_s).option
        choices[task] = [one for one in allowed if replace(one.option, segments=1) == whole]
    return Problem(iteration, choices, 2, serial=True)


def _segmented(problem: Problem, evaluate: Evaluate) -> Candidate:
    """The oracle: one operation after the other, the number of segments with the shortest iteration, until none is
    better.
    """
    best = evaluate(problem, problem.greedy)
    sizes: list[int] = [len(options) for options in problem.choices.values()]
    for _ in range(_PASSES):
        before = best.period_s
        for place, size in enumerate(sizes):
            for number in range(size):
                if number != best.chosen[place]:
                    chosen = (*best.chosen[:place], number, *best.chosen[place + 1 :])
                    best = min(best, evaluate(problem, chosen), key=lambda one: one.period_s)
        if best.period_s >= before:
            break
    return best


def _by_priority(priority_of: Callable[[Problem, Graph], Priority]) -> Evaluate:
    def evaluate(problem: Problem, chosen: Chosen) -> Candidate:
        under = problem.graph_of(chosen)
        timeline = list_schedule(under, REPLAYED, priority_of(problem, under))
        return Candidate(chosen, fold(timeline, REPLAYED - 2), timeline.period_s, timeline.idle)

    return evaluate


def _last_first(problem: Problem, under: Graph) -> Priority:
    """What was called last goes first (ByteScheduler, as the thesis emulates it)."""
    return lambda iteration, node: (-iteration, -under.places[node].task, under.places[node].motif)


def _exchanges_first(problem: Problem, under: Graph) -> Priority:
    """All-to-alls before all-reduces, each in the order of the program."""

    def key(iteration: int, node: int) -> tuple[float, ...]:
        operation = problem.iteration.tasks[under.places[node].task].operation
        reduces = operation is not None and operation.kind is Kind.ALL_REDUCE
        return (reduces, iteration, under.places[node].task, under.places[node].motif)

    return key


def is_kept(of: Candidate, idle: tuple[float, float]) -> bool:
    """Whether an instance, by its outcome under last-in-first-out, is one of the model with this idle time."""
    return idle[0] <= of.idle <= idle[1]
