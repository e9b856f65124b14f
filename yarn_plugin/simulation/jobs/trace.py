"""The jobs of a trace of gangs: the columns of Philly's (timestamp, duration, num_gpus, cluster), a line per job.

`cluster` is the job's virtual cluster. Times are whole seconds, so that ends that meet do so in every cluster.
"""

from collections import Counter
from pathlib import Path

from yarn_plugin.model.resources import GPU, Resources
from yarn_plugin.model.share import Demand
from yarn_plugin.quantities import count
from yarn_plugin.simulation.jobs.job import Job, JobWorkload, gang_of
from yarn_plugin.simulation.training.philly import read_rows

DAY_S = 86_400


def read(
    where: str,
    path: Path,
    gpus_per_node: int,
    from_day: int = 0,
    days: int | None = None,
    largest: int | None = None,
) -> JobWorkload:
    """The jobs of a file that arrive from midnight of its day `from_day` (0: the first) on, for so many `days`.

    `largest`: only those of so many virtual clusters, the ones with the most GPU time in these days.

    Raises:
        FileError: the file is invalid.
    """
    rows, notes = read_rows(where, path)
    midnight = rows[0].timestamp.replace(hour=0, minute=0, second=0, microsecond=0)
    arrivals = [(round((row.timestamp - midnight).total_seconds()) - from_day * DAY_S, row) for row in rows]
    chosen = [(at, row) for at, row in arrivals if at >= 0 and (days is None or at < days * DAY_S)]
    used: Counter[str] = Counter()
    for _, row in chosen:
        used[row.cluster] += round(row.duration * row.num_gpus)
    clusters = {name for name, _ in used.most_common(largest)}
    jobs: list[Job] = []
    for at, row in chosen:
        if row.cluster in clusters:
            gang, seconds = gang_of(row.num_gpus, gpus_per_node), float(max(round(row.duration), 1))
            demand = Demand((Resources.of({GPU: gang.cells}),))
            jobs.append(Job(len(jobs), row.cluster, float(at), demand, (seconds,), (seconds,), gang, gang.cells))
    about = f"{count(len(jobs), 'job')} of {count(len(clusters), 'virtual cluster')}"
    return JobWorkload(tuple(jobs), (*notes, about))
