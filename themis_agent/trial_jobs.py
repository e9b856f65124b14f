"""The trials of a search that can run on a GPU or on a slot of cores, as jobs at the arbiter."""

from collections.abc import Sequence

from themis_agent.agent import trial_leases
from themis_agent.agent.commands import DeclareTrials
from themis_agent.agent.searching import begun
from themis_agent.app_file import AppFile, Side
from yarn_plugin.api.jobs import Alternative, Job
from yarn_plugin.model.resources import GPU, MEMORY, VCORES


def jobs(alternatives: Sequence[Alternative], declared: DeclareTrials) -> list[Job]:
    """The jobs of a declaration."""
    return [Job(name=one.trial, alternatives=list(alternatives), work=one.work) for one in declared.jobs]


def first_jobs(app: AppFile) -> list[Job]:
    """The jobs of a search that begins; none if the search knows no sides."""
    declarations = trial_leases.declared(None, begun(app.settings(), 0.0))
    return [job for declared in declarations for job in jobs(alternatives_of(app), declared)]


def alternatives_of(app: AppFile) -> list[Alternative]:
    """What a trial needs on a GPU, and on a slot of cores; nothing if the search knows no sides."""
    return [_alternative(app, side, gpus) for side, gpus in ((app.gpu, 1), (app.cpu, 0)) if side is not None]


def _alternative(app: AppFile, side: Side, gpus: int) -> Alternative:
    amounts = {VCORES: side.vcores or app.vcores, MEMORY: side.memory_mb or app.memory_mb}
    return Alternative(resources={GPU: gpus, **amounts} if gpus else amounts, speed=side.speed)
