"""A simulation of training behind a figure: a plain value, from which its applications and its cluster follow."""

from dataclasses import dataclass, replace
from typing import Literal

from yarn_plugin.model.gpus import Machine, Slot, Slowdown
from yarn_plugin.quantities import count
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob, TrainingWorkload
from yarn_plugin.simulation.training.cluster import TrainingCluster, load
from yarn_plugin.simulation.training.generate import CUT, PERIOD_S, Generator
from yarn_plugin.simulation.training.models import NETWORK_INTENSIVE
from yarn_plugin.simulation.training.statistics import work_s
from yarn_plugin.toml_files import Section

MEDIAN_JOBS = 75
"""Jobs of an application in the thesis (figure 3.2)."""

LIAR = "app1"
HOLDER = "A0"


class TrainingSize(Section):
    """How large the simulations are. `jobs`: at most, of an application; with fewer than in the thesis, searches of
    workload 2 begin at a later phase. `scale`: of durations. `load`: GPUs that all work needs until the last arrival,
    as a multiple of the cluster's. `cut`: the shortest and the longest application, as multiples of the median: leases
    are not scaled, and applications of seconds, which only wait for leases to end, would decide the largest rho."""

    cluster: str
    apps: int
    jobs: int
    scale: float
    load: float = 1.0
    cut: tuple[float, float] = CUT

    @property
    def shown(self) -> str:
        """As a person reads it."""
        return (
            f"{self.apps} applications of at most {count(self.jobs, 'job')} on {self.cluster}, durations times "
            f"{self.scale:g}, {self.cut[0]:g} to {self.cut[1]:g} times the median, load {self.load:g}"
        )


Scenario = Literal["1", "2", "liar", "example"]


@dataclass(frozen=True, slots=True)
class TrainingCase:
    """A simulation. `scenario`: workload 1 or 2 of the thesis (section 3.6.1), the eight equal applications of figure
    3.18, or the two of figure 3.5. `part`: 2 or 4 for half or a quarter of the cluster. Times in seconds."""

    seed: int
    size: TrainingSize
    policy: str = "themis"
    scenario: Scenario = "2"
    part: int = 1
    f: float = 0.8
    lease_s: float = 600.0
    network_share: float | None = None
    error: float = 0.0
    lie: float = 0.0
    checkpoint_s: float = 0.0

    def cluster(self) -> TrainingCluster:
        """Its GPUs."""
        if self.scenario == "liar":
            # Section 3.6.3: 64 GPUs, one machine with 8 and the others with 2.
            sizes = [8] + [2] * 28
            return TrainingCluster(tuple(_machine(n, f"r{n % 4}", gpus) for n, gpus in enumerate(sizes)))
        if self.scenario == "example":
            return TrainingCluster((_machine(0, "r0", 4), _machine(1, "r0", 2), _machine(2, "r0", 2)))
        return TrainingCluster(_machines(self.size)[:: self.part])

    def workload(self) -> TrainingWorkload:
        """Its applications."""
        if self.scenario == "liar":
            return TrainingWorkload(tuple(_equal_app(number) for number in range(1, 9)))
        if self.scenario == "example":
            return TrainingWorkload((_holder(), _example_app("A1", 1.0), _example_app("A2", 103.6 / 80.4)))
        return _generated(int(self.scenario), self.size, self.network_share, self.seed)


def _machines(size: TrainingSize) -> tuple[Machine, ...]:
    """A known cluster, or 4 machines of 2 slots of 1 GPU in 2 racks."""
    if size.cluster != "8 GPUs":
        return load(size.cluster).machines
    return tuple(Machine(f"m{n}", f"r{n % 2}", (Slot(f"m{n}/s1", 1), Slot(f"m{n}/s2", 1))) for n in range(4))


def _machine(number: int, rack: str, gpus: int) -> Machine:
    return Machine(f"m{number}", rack, (Slot(f"m{number}/s", gpus),))


def _equal_app(number: int) -> TrainingApp:
    """One of 8 identical applications with equal preferences: a job of up to 8 GPUs, and 8 GPU hours of work."""
    job = TrainingJob("1", 8 * 3600.0, 1.0, max_gpus=8, slowdown=NETWORK_INTENSIVE)
    return TrainingApp(f"app{number}", 0.0, (job,))


def _example_app(name: str, slowdown: float) -> TrainingApp:
    """Instance 2 of figure 3.5: a job of 4 tasks, of Inception-v3 or VGG16. Table 3.1: VGG16 has 103.6 images a second
    on one server, 80.4 on two; Inception-v3 as many on both."""
    job = TrainingJob("1", 4 * 3600.0, 1.0, max_gpus=4, slowdown=Slowdown(1.0, slowdown, slowdown))
    return TrainingApp(name, 60.0, (job,))


def _holder() -> TrainingApp:
    """Holds all 8 GPUs for five minutes, so that both applications are there when GPUs are given out."""
    job = TrainingJob("1", 8 * 300.0, 1.0, min_gpus=8, max_gpus=8, slowdown=Slowdown(1.0, 1.0, 1.0))
    return TrainingApp(HOLDER, 0.0, (job,))


def _generated(workload: int, size: TrainingSize, network_share: float | None, seed: int) -> TrainingWorkload:
    """A workload of the thesis at this size; applications arrive so that the load is the size's whatever the seed."""
    scale = size.scale if workload == 1 else size.scale * min(size.jobs / MEDIAN_JOBS, 1.0)
    generator = Generator(1 if workload == 1 else 2, size.apps, scale=scale, network_share=network_share, cut=size.cut)
    apps = [_trimmed(app, size.jobs) for app in generator.generate(seed).apps]
    period_s = sum(map(work_s, apps)) / (sum(one.gpus for one in _machines(size)) * size.load)
    # Gaps between arrivals are in proportion to the period.
    return TrainingWorkload(
        tuple(replace(app, arrival_s=round(app.arrival_s * period_s / PERIOD_S, 3)) for app in apps)
    )


def _trimmed(app: TrainingApp, most: int) -> TrainingApp:
    if len(app.jobs) <= most:
        return app
    if not app.phases:
        return replace(app, jobs=app.jobs[:most])
    count = 1 << (most.bit_length() - 1)
    phases = app.phases[-count.bit_length() :]
    jobs = tuple(replace(job, iterations=sum(phases)) for job in app.jobs[:count])
    return replace(app, jobs=jobs, phases=phases)
