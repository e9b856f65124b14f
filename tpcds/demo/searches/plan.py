"""What the searches of the demo are: their files, and the cluster and arbiter on which they contend.

Each search can use all GPUs at first, so that from the second arrival on every auction is contended. Seeds are fixed;
which GPUs are won when still depends on how fast the machine starts processes.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tpcds.demo.cluster import Shape

GPU_NODES, GPUS_PER_NODE = 2, 4

SHAPE = Shape(nodes=4, memory_mb=4096, vcores=8, cpu_per_node=0.5, gpu_nodes=GPU_NODES, gpus_per_node=GPUS_PER_NODE)
"""Two nodes for queries and application masters, with half a core each; two with GPUs, and no limit."""

F, LEASE_S, GRID_S, GRACE_S = 0.4, 30, 10, 15

ARBITER = f"""\
[[pools]]
name = "sql"
queue = "root.sql"

[[pools]]
name = "gpu"
queue = "root.gpu"
resources = ["memory-mb", "vcores", "yarn.io/gpu"]
controller = "lease"
[pools.parameters]
policy = "themis"
partition = "gpu"
f = {F}                         # GPUs are offered to the 1 - f of the searches that are worst off: to 2 of 3
lease_s = {LEASE_S}
grid_s = {GRID_S}                      # leases end together, at multiples of this
grace_s = {GRACE_S}                     # to save checkpoints and vacate GPUs that another search won
rounding = "nearest"             # of what a winner keeps; up, winners of four GPUs often keep all in spite of c < 1
estimate_s = 20
bid_s = 20
place_within_s = 90             # a search may get leftovers before its application master runs
"""
"""The arbiter's configuration. Times to answer are long: the machine is busy while application masters start."""

MASTER_MEMORY_MB = 512
"""Of each search's application master, which runs on a node for queries."""

STEP_MS = 4000
"""How long a step lasts on one GPU: none is there, so the training script waits."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A search. `parameters`: command-line options of the training script by name. `space`: lines of TOML."""

    name: str
    max_steps: int
    eta: int
    seed: int
    parameters: Mapping[str, str]
    space: str

    def file(self, store: Path) -> str:
        """Its file, for `themis-agent submit`; checkpoints below `store`."""
        options = " ".join(f"--{option}={value}" for option, value in self.parameters.items())
        fixed = f"--steps={self.max_steps} --batches-per-step=15 --checkpoint-every=1 --emulated-step-ms={STEP_MS}"
        return f"""\
name = "{self.name}"
command = "python -m themis_agent.examples.digits_jax {fixed} {options}"
algorithm = "hyperband"
max_steps = {self.max_steps}              # 15 batches each: an epoch of the handwritten digits
eta = {self.eta}
seed = {self.seed}
step_s = {STEP_MS / 1000:g}
memory_mb = 900
grace_s = {GRACE_S - 3}
checkpoint = "{store.as_uri()}"

[space]
{self.space}
[environment]
python = "{sys.executable}"
env = {{ JAX_PLATFORMS = "cpu", XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false", OMP_NUM_THREADS = "1" }}
"""


SEARCHES = (
    SearchPlan(
        "rates",
        9,
        3,
        1,
        {"learning-rate": "{rate}", "momentum": "{momentum}"},
        'rate = { type = "float", low = 0.001, high = 1.0, log = true }\n'
        'momentum = { type = "float", low = 0.5, high = 0.98 }\n',
    ),
    SearchPlan(
        "widths",
        4,
        2,
        2,
        {"hidden": "{hidden}", "learning-rate": "{rate}"},
        'hidden = { type = "int", low = 4, high = 128, log = true }\n'
        'rate = { type = "float", low = 0.01, high = 1.0, log = true }\n',
    ),
    SearchPlan(
        "batches",
        4,
        2,
        3,
        {"batch": "{batch}", "learning-rate": "{rate}"},
        'batch = { type = "categorical", choices = [24, 48, 96] }\n'
        'rate = { type = "float", low = 0.01, high = 1.0, log = true }\n',
    ),
)
"""In the order of their submission. `rates` has 17 trials, the others have 10."""
