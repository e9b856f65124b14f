"""The pool at one moment, as a packing: who waits, who runs beside whom, and what leases follow from that."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from yarn_plugin.decide.allocators.happenings import ClaimKey, name_of
from yarn_plugin.decide.allocators.plan import Holding, Place
from yarn_plugin.decide.allocators.seen import Leased, Seen
from yarn_plugin.decide.allocators.shared_gpus.settings import SharedGpusSettings
from yarn_plugin.decide.allocators.shared_gpus.state import Learned, Packed, SharedGpusState, WaitingJobs
from yarn_plugin.decide.mechanisms.interference import Pair
from yarn_plugin.decide.mechanisms.packing import Job, PackingProblem, adjust, place_beside
from yarn_plugin.model.resources import GPU, GPU_MEMORY, GPU_MILLI, Resources
from yarn_plugin.model.share import Claim


class PoolNow:
    """See the module."""

    def __init__(
        self, settings: SharedGpusSettings, known: Mapping[tuple[str, str], float], state: SharedGpusState, seen: Seen
    ) -> None:
        self._settings, self._seen, self._resting = settings, seen, state.resting
        self.counter = state.counter
        replaced = {one.replaces for one in seen.leases.values() if one.replaces is not None}
        self._leases = [one for one in seen.leases.values() if one.phase != "leaving" and one.key not in replaced]
        self._members: dict[ClaimKey, set[int]] = {}
        for one in self._leases:
            self._members.setdefault(one.claim, set()).add(one.member)
        missing = (key for key in seen.claims if self._missing(key))
        self.waiting = sorted(missing, key=lambda key: -seen.claims[key].priority)
        self._free = list(seen.room.free_in())
        self._sharers = {key: part for key in seen.claims if (part := self._job(key)) is not None}
        self._pairs = self._slowdowns(known, state.learned)

    # What there is.

    def _job(self, key: ClaimKey) -> Job | None:
        """A claim that shares GPUs, with all of its workers; None: it needs whole GPUs."""
        part, gpus = self._seen.claims[key].sharing, self._seen.cells.gpus
        if part is None or not any(self._seen.cells[gpu].capacity[GPU_MILLI] for gpu in gpus):
            return None
        kind = part.kind and (part.kind if self._settings.across_applications else f"{key[0]}/{part.kind}")
        increment = part.peak_memory - part.memory
        workers = len(_pods(self._seen.claims[key]))
        return Job(name_of(key), kind, workers, part.computing, part.memory, increment, part.peak_probability)

    def _slowdowns(self, known: Mapping[tuple[str, str], float], learned: Learned) -> dict[tuple[str, str], float]:
        """The slowdowns of the kinds of all sharers, as `_job` names them."""
        owners: dict[str, dict[str, str]] = {}
        for key in self._sharers:
            part = self._seen.claims[key].sharing
            assert part is not None
            if part.kind:
                owner = "" if self._settings.across_applications else key[0]
                owners.setdefault(owner, {})[part.kind] = self._sharers[key].kind
        found = {}
        for owner, kinds in owners.items():
            # Across applications, the worst that any of them measured.
            apps = [learned[owner]] if owner in learned else list(learned.values()) if not owner else []
            for kind, name in kinds.items():
                for beside, other in kinds.items():
                    measured = [app[kind][beside] for app in apps if beside in app.get(kind, {})]
                    slowdown = max(measured) if measured else known.get((kind, beside))
                    if slowdown is not None:
                        found[name, other] = slowdown
        return found

    def _missing(self, key: ClaimKey) -> list[int]:
        """The members of a claim that have no lease, and are to have one."""
        held = self._members.get(key, set())
        pods, name = _pods(self._seen.claims[key]), name_of(key)
        return [number for number in range(len(pods)) if number not in held and f"{name}#{number}" not in self._resting]

    def _shared(self) -> dict[str, list[Leased]]:
        """The workers on each shared GPU."""
        found: dict[str, list[Leased]] = {}
        for one in self._leases:
            if one.claim in self._sharers and one.holdings[0].amounts:
                found.setdefault(one.holdings[0].cell, []).append(one)
        return found

    # What is placed.

    def placed_whole(self) -> list[Place]:
        """Jobs that need whole GPUs."""
        places: list[Place] = []
        for key in [key for key in self.waiting if key not in self._sharers]:
            claim, missing = self._seen.claims[key], self._missing(key)
            free, chosen = list(self._free), []
            pods = _pods(claim)
            for member in missing:
                gpus = self._on_one_node(free, pods[member], claim.leaf_type)
                if gpus is None:
                    break
                chosen.append((member, gpus))
                free = [gpu for gpu in free if gpu not in gpus]
            if len(chosen) == len(missing):
                self._free = free
                gang = self._gang(chosen)
                places += [self._place(key, member, tuple(map(Holding, gpus)), gang) for member, gpus in chosen]
                self.waiting.remove(key)
        return places

    def placed_packed(self, packed: Packed | None) -> list[Place]:
        """Jobs as the worker process packed them, on free GPUs: those of which all workers find one."""
        if packed is None:
            return []
        keys = {name_of(key): key for key in self.waiting if key in self._sharers}
        gpus, numbers = packed.gpus[: len(self._free)], {name: len(self._missing(key)) for name, key in keys.items()}
        whole = {name for name in keys if sum(gpu.count(name) for gpu in gpus) == numbers[name]}
        there = [tuple(name for name in gpu if name in whole) for gpu in gpus]
        used = [(self._free[index], names) for index, names in enumerate(there) if names]
        places = self._places(used, keys)
        self._free = [gpu for gpu in self._free if gpu not in dict(used)]
        return places

    def placed_shared(self) -> list[Place]:
        """Jobs that share GPUs, beside those that are there and on free GPUs."""
        places: list[Place] = []
        if not any(key in self._sharers for key in self.waiting):
            return places
        for model, group in groupby(
            [key for key in self.waiting if key in self._sharers], key=lambda key: self._seen.claims[key].leaf_type
        ):
            keys = list(group)
            shared = {gpu: workers for gpu, workers in self._shared().items() if self._is_model(gpu, model)}
            for place in places:
                self._add(shared, place, model)
            free = [gpu for gpu in self._free if self._is_model(gpu, model)]
            problem, there, index_of = self._packing(shared, keys)
            order = [index_of[name_of(key)] for key in keys]
            placed = place_beside(problem, there, order, len(free))
            names = [job.id.rpartition("+")[0] for job in problem.jobs]
            cells = [*shared, *free]
            new = [
                (cells[number], tuple(names[job] for job in gpu if job in order))
                for number, gpu in enumerate(placed)
                if any(job in order for job in gpu)
            ]
            places += self._places(new, {name_of(key): key for key in keys})
            self._free = [gpu for gpu in self._free if gpu not in dict(new)]
        return places

    def of_waiting(self) -> WaitingJobs | None:
        """The first jobs that wait to share GPUs, as many as free ones can have the computing for, as a problem for the
        worker process; None: they are too few for one."""
        jobs, computing = list[Job](), 0.0
        for key in [key for key in self.waiting if key in self._sharers]:
            job = replace(self._sharers[key], workers=len(self._missing(key)))
            computing += job.workers * job.computing
            if computing > len(self._free):
                break
            jobs.append(job)
        if len(jobs) < self._settings.pack_jobs:
            return None
        kinds = {job.kind for job in jobs}
        pairs = tuple(Pair(a, b, value) for (a, b), value in sorted(self._pairs.items()) if {a, b} <= kinds)
        return WaitingJobs(tuple(jobs), pairs, self._settings.limits)

    def moved(self) -> list[Place]:
        """The moves that help workers which are slowed down too much."""
        shared = self._shared()
        problem, there, index_of = self._packing(shared, ())
        keys = {index_of[name_of(key)]: key for key in self._sharers if name_of(key) in index_of}
        costs = [0.0] * len(problem.jobs)
        fixed = []
        for index, key in keys.items():
            claim = self._seen.claims[key]
            costs[index] = self._settings.move_s + claim.grace
            # A lease that waits, or leaves, is already under way.
            if any(one.claim == key and one.phase != "held" for one in self._seen.leases.values()):
                fixed.append(index)
        free = list(self._free)
        gpus = [*there, *((),) * len(free)]
        moves = adjust(problem, gpus, costs, self._settings.move_budget_s, fixed)
        cells, places, moved = [*shared, *free], [], set[str]()
        for move in moves:
            key = keys[move.job]
            on = [one for one in shared.get(cells[move.source], ()) if one.claim == key and one.key not in moved]
            if on and self._is_model(cells[move.target], self._seen.claims[key].leaf_type):
                moved.add(on[0].key)
                holding = self._holding(key, cells[move.target])
                note = "moved: together, workers were slowed down too much"
                places.append(replace(self._place(key, on[0].member, (holding,), None, note), replaces=on[0].key))
        return places

    # Translation.

    def _packing(
        self, shared: Mapping[str, Sequence[Leased]], waiting: Iterable[ClaimKey]
    ) -> tuple[PackingProblem, tuple[tuple[int, ...], ...], dict[str, int]]:
        """The workers that are on shared GPUs and those that wait, as a packing; where the first are; and the index of
        each claim. A job of which some workers run is there twice: as what runs, and as what waits."""
        jobs: list[Job] = []
        index_of: dict[str, int] = {}
        for workers in shared.values():
            for one in workers:
                name = name_of(one.claim)
                if name not in index_of:
                    index_of[name] = len(jobs)
                    jobs.append(replace(self._sharers[one.claim], id=f"{name}+there"))
        there = tuple(tuple(index_of[name_of(one.claim)] for one in workers) for workers in shared.values())
        for key in waiting:
            index_of[name_of(key)] = len(jobs)
            jobs.append(replace(self._sharers[key], id=f"{name_of(key)}+waits", workers=len(self._missing(key))))
        return PackingProblem(tuple(jobs), self._pairs, self._settings.limits), there, index_of

    def _places(self, gpus: Sequence[tuple[str, tuple[str, ...]]], keys: Mapping[str, ClaimKey]) -> list[Place]:
        """Leases for workers on GPUs, each by its cell and the names of its claims."""
        members: dict[str, list[tuple[int, str]]] = {}
        left = {name: self._missing(key) for name, key in keys.items()}
        for gpu, names in gpus:
            for name in names:
                members.setdefault(name, []).append((left[name].pop(0), gpu))
        places = []
        for name, chosen in members.items():
            key, gang = keys[name], self._gang(chosen)
            places += [self._place(key, member, (self._holding(key, gpu),), gang) for member, gpu in chosen]
            self.waiting.remove(key)
        return places

    def _holding(self, key: ClaimKey, gpu: str) -> Holding:
        """A worker's part of a GPU. Its increment is no one's: one increment of all that are there always fits."""
        part, memory = self._sharers[key], self._seen.cells[gpu].capacity[GPU_MEMORY]
        # Rounded down, so that parts which are 1 together fit.
        amounts = {GPU_MILLI: int(part.computing * 1000 + 1e-6), GPU_MEMORY: int(part.memory * memory + 1e-6)}
        return Holding(gpu, Resources.of({name: max(amount, 1) for name, amount in amounts.items()}))

    def _place(
        self, key: ClaimKey, member: int, holdings: tuple[Holding, ...], gang: str | None, note: str = ""
    ) -> Place:
        self.counter += 1
        return Place(f"{self.counter}#{member}", key, holdings, member=member, gang=gang, note=note)

    def _gang(self, workers: Sequence[object]) -> str | None:
        return f"g{self.counter + 1}" if len(workers) > 1 else None

    def _add(self, shared: dict[str, list[Leased]], place: Place, model: str) -> None:
        cell = place.holdings[0].cell
        if self._is_model(cell, model):
            shared.setdefault(cell, []).append(Leased(place.key, place.claim, place.holdings, place.member))

    def _on_one_node(self, free: Sequence[str], count: int, model: str) -> list[str] | None:
        by_node: dict[str | None, list[str]] = {}
        for gpu in free:
            if self._is_model(gpu, model):
                by_node.setdefault(self._seen.cells.node_of(gpu), []).append(gpu)
        fitting = [gpus for gpus in by_node.values() if len(gpus) >= count]
        return min(fitting, key=len)[:count] if fitting else None

    def _is_model(self, gpu: str, model: str) -> bool:
        return not model or self._seen.cells.gpus[gpu].model == model


def _pods(claim: Claim) -> list[int]:
    """The GPUs of each pod of a claim."""
    if claim.gang is not None:
        return [pods.cells_each for pods in claim.gang.pods for _ in range(pods.number)]
    gpus = next((one[GPU] for one in claim.demand.alternatives if one[GPU]), 0) if claim.demand is not None else 1
    return [1] * gpus if claim.sharing is not None else [gpus] * bool(gpus)
