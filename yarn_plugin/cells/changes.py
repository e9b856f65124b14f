"""What another configuration of cells means for the jobs that run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from yarn_plugin.cells.answers import jobs_of
from yarn_plugin.decide.mechanisms.buddy_cells.reconfiguration import Reconfigured
from yarn_plugin.quantities import count


@dataclass(frozen=True, slots=True)
class Change:
    """Gangs, or jobs of the schedulers inside virtual clusters. `downgraded` become opportunistic; `restarted` lose
    cells of their virtual cluster, and start again on others; `outside` run on GPUs that are no longer part of the
    cluster, which are revoked; `unchanged`: how many go on as they are."""

    downgraded: tuple[str, ...]
    restarted: tuple[str, ...]
    outside: tuple[str, ...]
    unchanged: int

    def lines(self) -> Iterator[str]:
        """For a person."""
        yield f"feasible; {count(self.unchanged, 'gang')} unchanged"
        if self.downgraded:
            yield f"opportunistic from then on: {', '.join(self.downgraded)}"
        if self.restarted:
            yield f"revoked, and started again on other cells of their virtual cluster: {', '.join(self.restarted)}"
        if self.outside:
            yield f"on GPUs that are no longer part of the cluster: {', '.join(self.outside)}"


def change_of(after: Reconfigured, running: Sequence[str], jobs: Mapping[str, str]) -> Change:
    """What a reconfiguration means. `running`: the gangs; `jobs`: of those that are parts of one."""
    outside = jobs_of(after.unleased, jobs)
    restarted = [
        name for name in jobs_of([gang for gang in after.downgraded if gang in jobs], jobs) if name not in outside
    ]
    downgraded = [gang for gang in after.downgraded if gang not in jobs]
    lost = {*outside, *restarted, *downgraded}
    unchanged = sum(name not in lost for name in jobs_of(running, jobs))
    return Change(tuple(downgraded), tuple(restarted), tuple(outside), unchanged)
