"""The jobs of a pool as AlloX matches them: how long each takes on a GPU and on a slot of cores."""

import math

from yarn_plugin.decide.allocators.allox.sampling import side_of
from yarn_plugin.decide.allocators.allox.settings import AlloxSettings
from yarn_plugin.decide.allocators.allox.state import AlloxState
from yarn_plugin.decide.allocators.happenings import ClaimKey, name_of
from yarn_plugin.decide.allocators.plan import Holding
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.mechanisms.allox import Job
from yarn_plugin.decide.mechanisms.matching.problem import LONGEST_S
from yarn_plugin.decide.policies.sides.queue import GPU_KIND, SLOT_KIND
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Claim
from yarn_plugin.model.topology import NODE

WHERE = ("a GPU", "a slot of cores")
"""The kinds of machines, for people."""


class Jobs:
    """Reads claims, with the settings of the pool."""

    def __init__(self, settings: AlloxSettings) -> None:
        self._settings = settings
        self._slot = Resources.of(dict(settings.cpu_slot))

    def side(self, claim: Claim, kind: int) -> str | None:
        """The name of a side, if the job can run there."""
        for amounts in claim.demand.alternatives if claim.demand is not None else ():
            if self.kind_of(amounts) == kind:
                return side_of(claim, kind, amounts)
        return None

    def unknown_side(self, state: AlloxState, claim: Claim, kind: int) -> str | None:
        """The name of a side that is still to be sampled; None: its speed was declared, or is known well enough."""
        side = self.side(claim, kind)
        if side is None or claim.work is None or not self._settings.sample_share or state.samples.of(side).is_done:
            return None
        return None if self._declared(claim, kind) else side

    def _declared(self, claim: Claim, kind: int) -> bool:
        alternatives = claim.demand.alternatives if claim.demand is not None else ()
        speeds = claim.speeds or (None,) * len(alternatives)
        return any(speed and self.kind_of(amounts) == kind for amounts, speed in zip(alternatives, speeds, strict=True))

    def waiting(self, state: AlloxState, seen: Seen) -> dict[str, Job]:
        """The jobs that wait, in order of arrival."""
        served = {lease.claim for lease in seen.leases.values() if lease.kind != "sample"}
        shares, waiting = self.shares(seen), {}
        for key, claim in seen.claims.items():
            if key in served or name_of(key) in state.resting:
                continue
            times = self._known_times(state, claim)
            if any(seconds is not None for seconds in times):
                arrived_at = claim.arrived_at if claim.declared_at is None else claim.declared_at
                waiting[name_of(key)] = Job(name_of(key), claim.tenant, times, shares, arrived_at)
        return waiting

    def shares(self, seen: Seen) -> tuple[float, float]:
        """The part of all GPUs that one is, and of all vcores that a slot has."""
        total = Resources.of({name: sum(cell.capacity[name] for cell in seen.cells.at(NODE)) for name in (GPU, VCORES)})
        return 1 / max(total[GPU], 1), self._slot[VCORES] / max(total[VCORES], 1)

    def _known_times(self, state: AlloxState, claim: Claim) -> tuple[float | None, float | None]:
        """The seconds on each side that is known: as declared, or else as measured."""
        declared = self._times(claim)
        if claim.work is None or not self._settings.sample_share:
            return declared
        times = list(declared)
        for kind in (GPU_KIND, SLOT_KIND):
            side = self.side(claim, kind)
            if side is not None and not self._declared(claim, kind):
                known = state.samples.of(side)
                seconds = known.seconds(claim.work) if known.is_done else None
                times[kind] = None if seconds is None else min(seconds, LONGEST_S)
        if times[GPU_KIND] is None and self.unknown_side(state, claim, GPU_KIND) is not None:
            return None, None
        if times == [None, None] and self.unknown_side(state, claim, SLOT_KIND) is None:
            # Its samples died on every side: it may still run as a whole.
            return declared
        return times[0], times[1]

    def _times(self, claim: Claim) -> tuple[float | None, float | None]:
        """The seconds of a job on a GPU and on a slot; None where it cannot run."""
        alternatives = claim.demand.alternatives if claim.demand is not None else ()
        speeds = claim.speeds or (None,) * len(alternatives)
        best = max((speed for speed in speeds if speed), default=1.0)
        work = claim.work if claim.work is not None else best * self._settings.unknown_s
        times: list[float | None] = [None, None]
        for amounts, speed in zip(alternatives, speeds, strict=True):
            kind = self.kind_of(amounts)
            if kind is not None:
                seconds = min(work / (speed or best), LONGEST_S)
                times[kind] = min(seconds, times[kind] if times[kind] is not None else math.inf)  # type: ignore[type-var]
        return times[0], times[1]

    def kind_of(self, amounts: Resources) -> int | None:
        """The kind of machine that an alternative fits on; None: it is larger than any."""
        if amounts[GPU]:
            return GPU_KIND if amounts[GPU] == 1 else None
        fits = self._slot and amounts and all(amounts[name] <= self._slot[name] for name in (VCORES, MEMORY))
        return SLOT_KIND if fits else None

    def holdings(self, seen: Seen, claim: ClaimKey, kind: int, cell: str) -> tuple[tuple[Holding, ...], int]:
        """What a job leases on a machine, and which of its alternatives that is."""
        demand = seen.claims[claim].demand
        assert demand is not None
        alternative = next(index for index, amounts in enumerate(demand.alternatives) if self.kind_of(amounts) == kind)
        return self._held(seen, kind, cell), alternative

    def has_room(self, seen: Seen, kind: int, cell: str) -> bool:
        """Whether a free machine can be leased now: other containers may use its node."""
        held = self._held(seen, kind, cell)
        # By earlier rules, the vcores of a GPU's job were looked at alone: they lacked room where another GPU did.
        return seen.room.fits(*held) if seen.rules > 5 else all(map(seen.room.fits, held))

    def _held(self, seen: Seen, kind: int, cell: str) -> tuple[Holding, ...]:
        if kind == SLOT_KIND:
            return (Holding(cell, self._slot),)
        node = seen.cells.node_of(cell)
        if not self._settings.gpu_vcores or node is None:
            return (Holding(cell),)
        return Holding(cell), Holding(node, Resources.of({VCORES: self._settings.gpu_vcores}))
