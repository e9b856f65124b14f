"""From a trace and measured costs to a plan: the central optimiser (Syndicate section 4.4.3)."""

from collections.abc import Callable

from themis_agent.communication.costs import CostTable
from themis_agent.communication.errors import PlanError
from themis_agent.communication.iteration import Iteration, Kind
from themis_agent.communication.options import Option, TimedMotif, TimedOption, options, timed
from themis_agent.communication.plan import Plan, planned
from themis_agent.communication.schedule import Timeline, replay
from themis_agent.communication.search import Candidate, Found, Limits, Numbers, Problem, search


def problem_of(iteration: Iteration, costs: CostTable) -> Problem:
    """The options of every operation, with their times. What costs nothing known is executed as it is called.

    Raises:
        PlanError: the program communicates nothing, or among other numbers of processes than were measured.
    """
    choices: dict[int, list[TimedOption]] = {}
    for task in iteration.operations:
        operation = iteration.tasks[task].operation
        assert operation is not None
        if operation.kind is Kind.OTHER:
            choices[task] = [TimedOption(Option(), (TimedMotif(0, costs.dispatch_s),))]
            continue
        if operation.ranks > costs.ranks:
            raise PlanError(f"costs: measured among {costs.ranks} processes; the job has {operation.ranks}")
        choices[task] = [timed(operation, one, costs) for one in options(operation, len(costs.channels))]
    if not choices:
        raise PlanError("trace: the program calls no collective operation")
    return Problem(iteration, choices, len(costs.channels), costs.overlap)


def make_plan(
    iteration: Iteration,
    costs: CostTable,
    numbers: Numbers,
    limits: Limits,
    out_of_time: Callable[[], bool] = lambda: False,
) -> tuple[Plan, Found]:
    """The best plan that a search finds.

    Raises:
        PlanError: see `problem_of`.
    """
    problem = problem_of(iteration, costs)
    found = search(problem, numbers, limits, out_of_time=out_of_time)
    return plan_of(problem, found.best), found


def plan_of(problem: Problem, candidate: Candidate) -> Plan:
    """A candidate of a search as a plan."""
    chosen = {
        task: options[number].option
        for (task, options), number in zip(problem.choices.items(), candidate.chosen, strict=True)
    }
    order = [[(entry.place.task, entry.place.motif, entry.lag) for entry in one] for one in candidate.sequence]
    return planned(problem.iteration, chosen, order, candidate.period_s)


def timeline_of(problem: Problem, candidate: Candidate, iterations: int) -> Timeline:
    """When everything runs under a candidate."""
    return replay(problem.graph_of(candidate.chosen), iterations, candidate.sequence)
