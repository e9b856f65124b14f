"""Workers that share GPUs, placed by how much they slow each other down (OJPP), and moved when they suffer.

A worker is a pod of a job that declares the part of a GPU that it needs (`sharing`): its job's gang says how many there
are, or the GPUs of its first alternative. Jobs are placed as a whole, in the order of priority and arrival, beside
workers that they fit with, or on free GPUs (Algorithm 2); a long queue is packed in the worker process. Jobs without
`sharing` get whole GPUs, of one node for each pod. Leases have no end.

On YARN a container belongs to one application, so only workers of one application share a GPU, unless
`across_applications` is set (simulations). Applications tell the slowdowns that they measure (`Slowdown`); each is
learned for its application alone, so that nobody's measurements change what others get. Where a worker is slowed down
beyond the limit, workers are moved (`mechanisms.packing.adjustment`): the new lease replaces the old one.
"""

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.shared_gpus.allocator import SharedGpus
from yarn_plugin.decide.allocators.shared_gpus.settings import SharedGpusSettings
from yarn_plugin.decide.allocators.shared_gpus.state import Packed, SharedGpusState, Slowdown, WaitingJobs
from yarn_plugin.decide.mechanisms.packing import PackingProblem, pack
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.share import Job
from yarn_plugin.validation import one_of


def solve(waiting: WaitingJobs) -> Packed:
    """Pack jobs onto the fewest GPUs."""
    slowdowns = {(pair.kind, pair.beside): pair.slowdown for pair in waiting.pairs}
    packing = pack(PackingProblem(waiting.jobs, slowdowns, waiting.limits))
    return Packed(tuple(tuple(waiting.jobs[job].id for job in gpu) for gpu in packing.gpus))


def check_job(settings: SharedGpusSettings | None, job: Job) -> None:
    """Check the kind of training that a job declares.

    Raises:
        BadInputError: it is not known.
    """
    known = (settings or SharedGpusSettings()).interference.kinds
    if job.sharing is not None and job.sharing.kind and job.sharing.kind not in known:
        expected = one_of(sorted(known)) if known else "must be left out: this pool knows no kinds"
        raise BadInputError("sharing.kind", job.sharing.kind, expected)


KIND = AllocatorKind(
    "shared_gpus",
    lambda settings, kinds: SharedGpus(settings or SharedGpusSettings()),
    {
        "shared-gpus.state/1": SharedGpusState,
        "shared-gpus.settings/1": SharedGpusSettings,
        "shared-gpus.slowdown/1": Slowdown,
        "shared-gpus.waiting/1": WaitingJobs,
        "shared-gpus.packed/1": Packed,
    },
    parameters=SharedGpusSettings,
    messages=frozenset({"shared-gpus.slowdown/1"}),
    solvers={"shared-gpus.waiting/1": solve},
    check_job=check_job,
)
"""Workers that share GPUs."""

__all__ = ["KIND", "SharedGpusSettings", "Slowdown"]
