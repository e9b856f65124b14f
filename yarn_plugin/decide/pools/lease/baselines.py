"""Rounds of policies without auctions: everyone's jobs are the problem, assignments to jobs the result."""

from dataclasses import dataclass, replace

from yarn_plugin.decide.policies.leasing import AppStatus, Assignment, LeaseProblem
from yarn_plugin.decide.pools.controller import Registry
from yarn_plugin.decide.pools.lease.state import Round
from yarn_plugin.decide.pools.lease.turn import Turn
from yarn_plugin.model.gpus import Job


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
    settings, apps = turn.settings, []
    for app in turn.active():
        estimate = now.estimates.get(app)
        if estimate is None:
            continue
        jobs = tuple(_as_leased(turn, now, app, job) for job in estimate.jobs)
        attained = sum(job.attained_gpu_s for job in jobs)
        claim = turn.claims[app]
        apps.append(AppStatus(app, turn.state.members[app].arrived_at, jobs, claim.weight, attained))
    machines = turn.inventory.machines(now.offer, turn.inventory.places)
    seed = settings.seed * 1_000_003 + now.number
    return PolicyProblem(
        settings.policy, LeaseProblem(now.number, turn.at, settings.lease_s, machines, tuple(apps), seed)
    )


def _as_leased(turn: Turn, now: Round, app: str, job: Job) -> Job:
    held = (
        gpu
        for one in turn.leases_of(app)
        if one.lease.job == job.id and one.lease.id not in now.ending
        for gpu in one.staying
    )
    return replace(job, held=turn.inventory.count(held))
