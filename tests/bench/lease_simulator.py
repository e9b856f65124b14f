"""The time of a round of leases in the simulator, applications and solver included, and the seconds of a whole run.

`256`: 12 searches of the generator's first workload, a tenth as long as in the thesis, on the 256 GPUs of Themis,
thesis section 3.6.1, which they contend for. `2232`: 600 applications of one to six jobs of 1 to 16 GPUs on
Philly's 2,232 GPUs, most of which stay free, as in its trace. Leases of 20 minutes; processor time.
"""

import random
import time
from typing import Any

from yarn_plugin.drive.training_runs import TrainingRun, simulate
from yarn_plugin.model.gpus import Slowdown
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob, TrainingWorkload, ordered
from yarn_plugin.simulation.training.cluster import load
from yarn_plugin.simulation.training.generate import Generator

LEASE_S = 1200.0
HOUR = 3600.0


def measure() -> dict[str, Any]:
    """Milliseconds per round and seconds in all, by pool and policy."""
    contended = Generator(workload=1, apps=12, scale=0.1, period_s=6 * HOUR).generate(seed=0)
    result = _measured("2232_tiresias", TrainingRun("tiresias", 0, _many(), load("philly-2232"), lease_s=LEASE_S))
    for policy in ("tiresias", "themis"):
        result |= _measured(f"256_{policy}", TrainingRun(policy, 0, contended, load("themis-256"), lease_s=LEASE_S))
    return result


def _measured(name: str, run: TrainingRun) -> dict[str, Any]:
    started = time.process_time()
    outcome = simulate(run).outcome
    spent = time.process_time() - started
    assert not outcome.unfinished
    rounds = len(outcome.rounds)
    return {f"{name}_ms_per_round": 1e3 * spent / rounds, f"{name}_s": spent, f"{name}_rounds": rounds}


def _many() -> TrainingWorkload:
    """Applications whose jobs are short gangs, as in Philly's trace; arrivals are a Poisson process."""
    chance, at, apps = random.Random(3), 0.0, []
    for number in range(600):
        at += chance.expovariate(1 / 100.0)
        gpus = chance.choices((1, 2, 4, 8, 16), (80, 8, 6, 5, 1))[0]
        jobs = tuple(
            TrainingJob(str(place), chance.lognormvariate(7.5, 1.5), float(gpus), gpus, gpus, 1, Slowdown())
            for place in range(chance.randint(1, 6))
        )
        apps.append(TrainingApp(f"app{number}", at, jobs))
    return TrainingWorkload(ordered(apps))
