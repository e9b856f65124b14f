"""AlloX: jobs that may run on a GPU or on a slot of cores (see `allocator`)."""

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.allox.allocator import Allox, solve
from yarn_plugin.decide.allocators.allox.sampling import SampleRun
from yarn_plugin.decide.allocators.allox.settings import AlloxSettings, check_job
from yarn_plugin.decide.allocators.allox.state import AlloxState, Queue
from yarn_plugin.decide.mechanisms.allox import Starts

KIND = AllocatorKind(
    "allox",
    lambda settings, kinds: Allox(settings),
    {
        "allox.state/1": AlloxState,
        "allox.settings/1": AlloxSettings,
        "allox.queue/1": Queue,
        "allox.starts/1": Starts,
        "allox.sample": SampleRun,
    },
    parameters=AlloxSettings,
    messages=frozenset({"allox.sample"}),
    solvers={"allox.queue/1": solve},
    check_job=check_job,
)
"""AlloX."""
