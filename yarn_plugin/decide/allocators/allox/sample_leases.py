"""The leases of samples: which start, what they tell, and when one is abandoned."""

from collections.abc import Iterable
from dataclasses import replace

from yarn_plugin.decide.allocators.allox.jobs import WHERE, Jobs
from yarn_plugin.decide.allocators.allox.machines import machines
from yarn_plugin.decide.allocators.allox.sampling import FRACTIONS, OpenSample, SampleRun
from yarn_plugin.decide.allocators.allox.settings import AlloxSettings
from yarn_plugin.decide.allocators.allox.state import AlloxState
from yarn_plugin.decide.allocators.happenings import name_of
from yarn_plugin.decide.allocators.plan import Drop, Place, Plan, Wake
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.mechanisms.batch_times import Sample
from yarn_plugin.decide.policies.sides.queue import GPU_KIND, SLOT_KIND, FreeMachines
from yarn_plugin.model.causes import LeaseDropped

SAMPLED, ABANDONED = LeaseDropped("the sample is done"), LeaseDropped("the sample takes far longer than others")
STARTED = LeaseDropped("the job starts, and needs no sample any more")

SAMPLE = "sample/"
"""The keys of the wakes at which samples are abandoned begin with it."""


class SampleLeases:
    """Samples of the jobs of a pool."""

    def __init__(self, settings: AlloxSettings, jobs: Jobs) -> None:
        self._settings, self._jobs = settings, jobs

    def measure(
        self, state: AlloxState, seen: Seen, app: str, run: SampleRun
    ) -> tuple[AlloxState, tuple[Wake, ...], tuple[Drop, ...]]:
        """An application says how fast a job is: of a sample, which is done then, or of the job that runs."""
        key = (app, run.job)
        claim = seen.claims.get(key)
        for lease, sample in state.samples.open.items():
            if sample.job == name_of(key) and sample.alternative == run.alternative:
                samples = state.samples.answered(lease, run.seconds, run.batches, seen.at)
                drops = (Drop(lease, SAMPLED),) if _is_held(seen, lease) else ()
                return replace(state, samples=samples), (Wake(SAMPLE + lease, None),), drops
        for lease, job in state.running.items():
            leased = seen.leases.get(lease)
            if claim is None or leased is None or job.job != name_of(key) or leased.alternative != run.alternative:
                continue
            side = self._jobs.side(claim, job.kind)
            if claim.work is None or side is None or job.started_at is None:
                break
            known = replace(state.samples.of(side), run=Sample(run.batches, run.seconds))
            left = max(claim.work - run.batches, 0.0) * run.seconds / run.batches
            running = {**state.running, lease: replace(job, ends_at=seen.at + left)}
            return replace(state, samples=state.samples.with_measured(side, known), running=running), (), ()
        return state, (), ()

    def abandon(
        self, state: AlloxState, seen: Seen, lease: str
    ) -> tuple[AlloxState, tuple[Wake, ...], tuple[Drop, ...]]:
        """Give up a sample that has run for too long; one that has not is looked at again later."""
        sample = state.samples.open.get(lease)
        if sample is None:
            return state, (), ()
        started = seen.leases[lease].started_at if lease in seen.leases else None
        limit = state.samples.limit_s(self._settings.sample_s)
        first, *_ = state.samples.of_job(sample.job)
        # It may wait for another one of the job.
        since = None if started is None or first != lease else max(started, sample.since)
        if since is None or seen.at - since < limit - 1e-6:
            # It started later than it was placed, or samples take longer than was known then.
            due = (seen.at if since is None else since) + limit
            return state, (Wake(SAMPLE + lease, due),), ()
        drops = (Drop(lease, ABANDONED),) if _is_held(seen, lease) else ()
        return replace(state, samples=state.samples.abandoned(lease, seen.at - since, seen.at)), (), drops

    def withdraw(self, state: AlloxState, seen: Seen, jobs: Iterable[str]) -> tuple[AlloxState, Plan]:
        """The samples of jobs that start are over."""
        samples, ends = state.samples, list[str]()
        for lease in [lease for job in jobs for lease in samples.of_job(job)]:
            samples = samples.withdrawn(lease, seen.at)
            ends.append(lease)
        drops = tuple(
            Drop(lease, STARTED) for lease in ends if lease in seen.leases and seen.leases[lease].phase != "leaving"
        )
        return replace(state, samples=samples), Plan(drop=drops, wake=tuple(Wake(SAMPLE + one, None) for one in ends))

    def start(self, state: AlloxState, seen: Seen) -> tuple[AlloxState, tuple[Place, ...], tuple[Wake, ...]]:
        """Samples on free machines, in turn by user, within the share of the machines that they may hold."""
        if not self._settings.sample_share:
            return state, (), ()
        known = machines(self._settings, state, seen)
        free = FreeMachines.of(known.free_in).machines
        room = [
            max(1, int(self._settings.sample_share * len(waits)))
            - sum(one.kind == kind for one in state.samples.open.values())
            for kind, waits in enumerate(known.free_in)
        ]
        served = {lease.claim for lease in seen.leases.values() if lease.kind != "sample"}
        of_user: dict[str, int] = {}
        for one in state.samples.open.values():
            of_user[one.user] = of_user.get(one.user, 0) + 1
        wanted = [
            (key, kind, side)
            for key, claim in seen.claims.items()
            if key not in served and name_of(key) not in state.resting
            for kind in (GPU_KIND, SLOT_KIND)
            if (side := self._jobs.unknown_side(state, claim, kind)) is not None
        ]
        measuring = {one.side for one in state.samples.open.values()}
        places, wakes, counter, samples = [], [], state.counter, state.samples
        limit = samples.limit_s(self._settings.sample_s)
        while wanted:
            wanted.sort(key=lambda one: of_user.get(seen.claims[one[0]].tenant, 0))
            key, kind, side = wanted.pop(0)
            if side in measuring or room[kind] <= 0 or not free[kind]:
                continue
            cell = known.cells[kind][free[kind].pop(0)]
            if not self._jobs.has_room(seen, kind, cell):
                wanted.insert(0, (key, kind, side))
                continue
            claim, counter = seen.claims[key], counter + 1
            assert claim.work is not None
            batches = samples.next_batches(side, claim.work)
            holdings, alternative = self._jobs.holdings(seen, key, kind, cell)
            number = len(samples.of(side).samples) + 1
            note = f"sample {number} of {len(FRACTIONS)} on {WHERE[kind]}: {batches:g} of {claim.work:g}"
            places.append(Place(str(counter), key, holdings, alternative=alternative, kind="sample", note=note))
            wakes.append(Wake(f"{SAMPLE}{counter}", seen.at + limit))
            open_sample = OpenSample(name_of(key), claim.tenant, side, alternative, kind, batches, seen.at + limit)
            samples = samples.opened(str(counter), open_sample)
            of_user[claim.tenant] = of_user.get(claim.tenant, 0) + 1
            room[kind] -= 1
            measuring.add(side)
        return replace(state, counter=counter, samples=samples), tuple(places), tuple(wakes)


def _is_held(seen: Seen, lease: str) -> bool:
    return lease in seen.leases and seen.leases[lease].phase == "held"
