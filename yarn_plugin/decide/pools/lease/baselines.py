"""Rounds of policies without auctions: everyone's jobs are the problem, assignments to jobs the result."""

from dataclasses import dataclass

from yarn_plugin.decide.policies.leasing import AppStatus, Assignment, LeaseProblem
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.pools.lease.quotas import Quotas
from yarn_plugin.decide.pools.lease.state import Round
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.model.gpus import Gpus


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """A problem, and the name of the policy that solves it."""

    policy: str
    problem: LeaseProblem


@dataclass(frozen=True, slots=True)
class Assignments:
    """A policy's result."""

    round: int
    assignments: tuple[Assignment, ...]


def solve(registry: Registry, problem: PolicyProblem) -> Assignments:
    """Have the policy decide."""
    return Assignments(problem.problem.round, registry.lease_policy(problem.policy).allocate(problem.problem))


def lease_problem(turn: Turn, now: Round) -> PolicyProblem:
    """The problem of a round: the GPUs that are offered, and the jobs of everyone who answered.

    What jobs hold is what they lease, whatever their application says.
    """
    settings, apps, quotas = turn.settings, [], Quotas(turn, now)
    for app in turn.active():
        estimate = now.estimates.get(app)
        if estimate is None:
            continue
        leased, jobs = _leased(turn, now, app), estimate.jobs
        described = turn.descriptions.of(app, jobs)
        if leased or described.holds:
            jobs = tuple([job.holding(leased.get(job.id, ())) for job in jobs])
        jobs = quotas.jobs(app, jobs)
        # Its jobs may have run elsewhere; of jobs that have ended only the leases tell.
        attained = max(described.attained_gpu_s, turn.attained_gpu_s(app))
        claim = turn.claims[app]
        apps.append(AppStatus(app, turn.state.members[app].arrived_at, jobs, claim.weight, attained))
    if turn.state.crowded:
        machines = turn.inventory.machines(turn.by_slot(now.offer), turn.inventory.places)
    else:
        machines = turn.index.machines(gpu for lease in now.ending for gpu in turn.state.leases[lease].staying)
    seed = settings.seed * 1_000_003 + now.number
    return PolicyProblem(
        settings.policy, LeaseProblem(now.number, turn.at, settings.lease_s, machines, tuple(apps), seed)
    )


def _leased(turn: Turn, now: Round, app: str) -> dict[str, Gpus]:
    """What the jobs of an application keep: their leases that do not end now."""
    gpus: dict[str, list[str]] = {}
    for one in turn.leases_of(app):
        if one.lease.id not in now.ending:
            gpus.setdefault(one.lease.job, []).extend(one.staying)
    return {job: turn.inventory.count(mine) for job, mine in gpus.items()}
