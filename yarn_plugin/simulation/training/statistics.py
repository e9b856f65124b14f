"""What a workload is like, beside what the thesis says about its own (section 3.2.2)."""

from dataclasses import dataclass
from statistics import median

from yarn_plugin.simulation.training.apps import TrainingApp, TrainingWorkload

HOUR, DAY = 3600.0, 86_400.0


@dataclass(frozen=True, slots=True)
class Statistic:
    """A number of a workload. `thesis`: of the thesis' own; None where it gives none."""

    name: str
    value: float
    thesis: float | None = None


def statistics(workload: TrainingWorkload) -> tuple[Statistic, ...]:
    """Of a workload with applications."""
    apps = workload.apps
    jobs = [job for app in apps for job in app.jobs]
    work = [work_s(app) for app in apps]
    span_s = apps[-1].arrival_s - apps[0].arrival_s
    middle = median(work)
    return (
        Statistic("applications", len(apps), 85),
        Statistic("jobs", len(jobs)),
        Statistic("share of applications with 1 job", sum(len(app.jobs) == 1 for app in apps) / len(apps), 0.1),
        Statistic("median jobs of an application", median(len(app.jobs) for app in apps), 75),
        Statistic("most jobs of an application", max(len(app.jobs) for app in apps), 100),
        Statistic("median GPU days of an application", middle / DAY, 11.5),
        Statistic("median GPU hours of a task", median(job.work_s / job.max_gpus for job in jobs) / HOUR, 3.75),
        Statistic("share of applications 10 times shorter", sum(one < middle / 10 for one in work) / len(work)),
        Statistic("share of applications 10 times longer", sum(one > middle * 10 for one in work) / len(work)),
        Statistic("mean GPUs of a job", sum(job.max_gpus for job in jobs) / len(jobs)),
        Statistic("hours from the first to the last arrival", span_s / HOUR, 14 * 24),
        Statistic("GPUs busy on average, if all work were done by then", sum(work) / span_s if span_s else 0.0, 50),
        Statistic("share of applications slowed to 0.8 or less by machines", _network_share(apps)),
    )


def work_s(app: TrainingApp) -> float:
    """GPU seconds of an application without slowdown. With successive halving, which jobs survive is not known: all
    count with the mean time of an iteration."""
    if not app.phases:
        return sum(job.work_s for job in app.jobs)
    mean = sum(job.iteration_s for job in app.jobs) / len(app.jobs)
    return sum((len(app.jobs) >> phase) * iterations * mean for phase, iterations in enumerate(app.phases))


def _network_share(apps: tuple[TrainingApp, ...]) -> float:
    return sum(any(job.slowdown.machine >= 1.25 for job in app.jobs) for app in apps) / len(apps)
