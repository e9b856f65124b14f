"""How much applications have been served: the GPU seconds of their leases, those of jobs that have ended included."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from yarn_plugin.decide.allocators.seen import Seen


@dataclass(frozen=True, slots=True)
class Running:
    """A lease of an application: so many GPUs since then."""

    app: str
    gpus: int
    since: float


@dataclass(frozen=True, slots=True)
class Attained:
    """GPU seconds: `ended`, by application, of what it holds no longer; `running`, by lease."""

    ended: Mapping[str, float] = field(default_factory=dict)
    running: Mapping[str, Running] = field(default_factory=dict)

    def until(self, seen: Seen) -> "Attained":
        """With what has started and ended since the last call."""
        apps, running = {app for app, _ in seen.claims}, dict(self.running)
        ended = {app: gpu_s for app, gpu_s in self.ended.items() if app in apps}
        for key, one in self.running.items():
            lease = seen.leases.get(key)
            gpus = 0 if lease is None else len(lease.staying)
            if gpus != one.gpus:
                _end(ended, running, key, one, gpus, seen.at)
        for key, lease in seen.leases.items():
            if key not in running and lease.started_at is not None and lease.staying:
                running[key] = Running(lease.claim[0], len(lease.staying), lease.started_at)
        return Attained(ended, running)

    def without(self, key: str, gpus: int, at: float) -> "Attained":
        """With so many GPUs of a lease less from now on."""
        one = self.running.get(key)
        if one is None:
            return self
        ended, running = dict(self.ended), dict(self.running)
        _end(ended, running, key, one, one.gpus - gpus, at)
        return Attained(ended, running)

    def totals(self, at: float) -> dict[str, float]:
        """The GPU seconds of each application so far."""
        totals = dict(self.ended)
        for one in self.running.values():
            totals[one.app] = totals.get(one.app, 0.0) + one.gpus * (at - one.since)
        return totals


def _end(ended: dict[str, float], running: dict[str, Running], key: str, one: Running, gpus: int, at: float) -> None:
    """Count a lease until now; it goes on with `gpus`."""
    ended[one.app] = ended.get(one.app, 0.0) + one.gpus * (at - one.since)
    if gpus > 0:
        running[key] = replace(one, gpus=gpus, since=at)
    else:
        del running[key]
