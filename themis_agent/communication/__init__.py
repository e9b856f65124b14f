"""The communication of a training job, planned as a whole (docs/communication.md).

from themis_agent import communication
communication.init_process_group("gloo")
"""

from typing import Any


def init_process_group(backend: str | None = None, **options: Any) -> None:
    """As `torch.distributed.init_process_group`, planned or traced if THEMIS_COMMUNICATION says so."""
    # torch is an extra, and slow to import.
    from themis_agent.communication import session

    session.init_process_group(backend, **options)


def iteration_done() -> None:
    """Mark the end of an iteration, in a program without a torch optimizer."""
    from themis_agent.communication import session

    session.iteration_done()


def overlap_fsdp(model: Any) -> None:
    """Have a model that `fully_shard` was applied to communicate beside its computation, also on CPUs."""
    from themis_agent.communication import fsdp

    fsdp.overlap(model)


__all__ = ["init_process_group", "iteration_done", "overlap_fsdp"]
