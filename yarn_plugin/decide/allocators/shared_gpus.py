"""Workers that share GPUs, placed by how much they slow each other down (OJPP), and moved when they suffer.

A worker is a pod of a job that declares the part of a GPU that it needs (`sharing`): its job's gang says how many there
are, or the GPUs of its first alternative. Jobs are placed as a whole, in the order of priority and arrival, beside
workers that they fit with, or on free GPUs (Algorithm 2); a long queue is packed in the worker process. Jobs without
`sharing` get whole GPUs, of one node for each pod. Leases have no end.

On YARN a container belongs to one application, so only workers of one application share a GPU, unless
`across_applications` is set (simulations). Applications tell the slowdowns that they measure (`Slowdown`); each is
learned for its application alone, so that nobody's measurements change what others get. Where a worker is slowed down
beyond the limit, workers are moved (`mechanisms.packing.adjustment`): the new lease replaces the old one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from yarn_plugin.decide.allocators import AllocatorKind
from yarn_plugin.decide.allocators.happenings import (
    Answer,
    Began,
    Broken,
    Changed,
    ClaimKey,
    Due,
    Solved,
    Unplaced,
    Vacated,
    What,
    name_of,
)
from yarn_plugin.decide.allocators.plan import Holding, Idle, Place, Plan, Solve, Wake
from yarn_plugin.decide.allocators.seen import Leased, Seen
from yarn_plugin.decide.mechanisms.interference import Interference, Pair, learn
from yarn_plugin.decide.mechanisms.packing import Job, Limits, PackingProblem, adjust, pack, place_beside
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.resources import GPU, GPU_MEMORY, GPU_MILLI, Resources
from yarn_plugin.model.share import Claim
from yarn_plugin.model.share import Job as DeclaredJob
from yarn_plugin.validation import one_of

ADJUST = "adjust"
"""The key of the timer after which workers may be moved again."""

Learned = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By application: see `mechanisms.interference`."""


@dataclass(frozen=True, slots=True)
class SharedGpusSettings:
    """`interference`: what is known of kinds of training; a file in a configuration (docs/sharing.md).

    Limits, as the paper has them: `max_collision`, the probability that two workers of a GPU need their peak memory at
    once; `max_slowdown`, of any worker; `max_imbalance`, between the slowdowns of the workers of a job.

    `old_weight`: of what was believed, in the average with each measurement. `move_s`: what a move costs, beside the
    grace period of its application; moves within `adjust_every_s` cost at most `move_budget_s` together.
    `pack_jobs`: so many waiting jobs, or more, are packed in the worker process. `retry_s`: a worker that YARN did not
    place is tried again after so many seconds. `across_applications`: see the module.
    """

    interference: Interference = field(default_factory=Interference)
    max_collision: float = 0.1
    max_slowdown: float = 0.2
    max_imbalance: float = 0.1
    old_weight: float = 0.7
    move_s: float = 30.0
    move_budget_s: float = 120.0
    adjust_every_s: float = 60.0
    pack_jobs: int = 10
    retry_s: float = 60.0
    across_applications: bool = False

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        for name, most in (("max_collision", 1), ("max_slowdown", 100), ("max_imbalance", 100), ("old_weight", 1)):
            if not 0 <= getattr(self, name) <= most:
                raise BadInputError(name, getattr(self, name), f"must be a number from 0 to {most}")
        for name in ("move_s", "move_budget_s"):
            if not 0 <= getattr(self, name) <= 1e9:
                raise BadInputError(name, getattr(self, name), "must be a number of seconds from 0 to 1e9")
        for name in ("adjust_every_s", "retry_s"):
            if not 0 < getattr(self, name) <= 1e9:
                raise BadInputError(name, getattr(self, name), "must be a number of seconds above 0, up to 1e9")
        if self.pack_jobs < 1:
            raise BadInputError("pack_jobs", self.pack_jobs, "must be at least 1")

    @property
    def limits(self) -> Limits:
        """The limits of a packing."""
        return Limits(self.max_collision, self.max_slowdown, self.max_imbalance)


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A worker of an application, the pod `member` of its `job`, is slowed down by those that it shares its GPU with:
    by 0.2 if its steps take 1.2 times their time alone."""

    slowdown: float
    job: str = ""
    member: int = 0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            BadInputError: one is out of range.
        """
        if not 0 <= self.slowdown <= 1000:
            raise BadInputError("slowdown", self.slowdown, "must be a number from 0 to 1000: 0.2 is 1.2 times the time")
        if self.member < 0:
            raise BadInputError("member", self.member, "must be at least 0")


@dataclass(frozen=True, slots=True)
class WaitingJobs:
    """What the worker process packs. `jobs`: by claim's name; `pairs`: of their kinds."""

    jobs: tuple[Job, ...]
    pairs: tuple[Pair, ...]
    limits: Limits


@dataclass(frozen=True, slots=True)
class Packed:
    """For each GPU, the names of its workers' claims."""

    gpus: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class SharedGpusState:
    """`resting`: workers that are not placed, by name, until when; None: until their claim is revised. `learned`: the
    slowdowns that applications measured. `moved_at`: when workers were moved last; `round`: of the last problem,
    `is_solving`: its result is still wanted."""

    counter: int = 0
    resting: Mapping[str, float | None] = field(default_factory=dict)
    learned: Learned = field(default_factory=dict)
    moved_at: float | None = None
    round: int = 0
    is_solving: bool = False


class SharedGpus:
    """See the module."""

    def __init__(self, settings: SharedGpusSettings) -> None:
        self._settings = settings
        self._known = settings.interference.slowdowns()

    def initial_state(self) -> SharedGpusState:
        """Nothing is placed."""
        return SharedGpusState()

    def report(self, state: SharedGpusState) -> None:
        """None: the state itself is immutable."""

    def propose(self, state: SharedGpusState, seen: Seen, what: What) -> tuple[SharedGpusState, Plan]:
        """Learn what happened; place what waits; move whom others slow down too much."""
        state, wakes = self._learn(state, seen, what)
        problem = _Problem(self._settings, self._known, state, seen)
        packed: Packed | None = None
        if isinstance(what, Solved) and what.key == f"round {state.round}":
            state = replace(state, is_solving=False)
            packed = what.result if isinstance(what.result, Packed) else Packed(())
        if packed is None and not state.is_solving and not isinstance(what, Answer):
            waiting = problem.of_waiting()
            if waiting is not None:
                state = replace(state, round=state.round + 1, is_solving=True)
                solve = Solve(f"round {state.round}", waiting)
                return state, Plan(solve=(solve,), wake=wakes, idle=seen.everywhere(Idle.DECIDING))
        if state.is_solving:
            return state, Plan(wake=wakes, idle=seen.everywhere(Idle.DECIDING))
        places = [*problem.placed_whole(), *problem.placed_packed(packed), *problem.placed_shared()]
        moves: list[Place] = []
        if not places and (state.moved_at is None or seen.at >= state.moved_at + self._settings.adjust_every_s):
            moves = problem.moved()
            if moves:
                again = seen.at + self._settings.adjust_every_s
                state, wakes = replace(state, moved_at=seen.at), (*wakes, Wake(ADJUST, again))
        state = replace(state, counter=problem.counter)
        idle = seen.everywhere(Idle.TOO_FEW if problem.waiting else Idle.NOT_WANTED)
        return state, Plan(place=(*places, *moves), wake=wakes, idle=idle)

    def _learn(self, state: SharedGpusState, seen: Seen, what: What) -> tuple[SharedGpusState, tuple[Wake, ...]]:
        resting = dict(state.resting)
        wakes: list[Wake] = []
        match what:
            case Began():
                return SharedGpusState(state.counter), ()
            case Changed(claims):
                changed = {name_of(claim) for claim in claims}
                resting = {name: until for name, until in resting.items() if name.rpartition("#")[0] not in changed}
                apps = {app for app, _ in seen.claims}
                learned = {app: values for app, values in state.learned.items() if app in apps}
                return replace(state, resting=resting, learned=learned), ()
            case Due(name) if name != ADJUST:
                resting.pop(name, None)
            case Answer(app, Slowdown() as measured):
                return self._measured(state, seen, app, measured), ()
            case Vacated(freed) | Unplaced(freed) | Broken(freed):
                for each in freed:
                    name = f"{name_of(each.claim)}#{_member_of(each.key)}"
                    if not each.is_over or each.claim not in seen.claims or _has_member(seen, each.key, each.claim):
                        continue
                    if isinstance(what, Unplaced):
                        resting[name] = seen.at + self._settings.retry_s
                        wakes.append(Wake(name, resting[name]))
                    elif isinstance(what, Vacated):
                        # It gave its part back: it is done, until its claim says otherwise.
                        resting[name] = None
        return replace(state, resting=resting), tuple(wakes)

    def _measured(self, state: SharedGpusState, seen: Seen, app: str, measured: Slowdown) -> SharedGpusState:
        """With what a worker measured, if it shares its GPU with workers of known kinds."""
        key, claim = (app, measured.job), seen.claims.get((app, measured.job))
        held = [one for one in seen.leases.values() if one.claim == key and one.member == measured.member]
        lease = next((one for one in held if one.phase == "held"), None)
        if claim is None or claim.sharing is None or lease is None:
            return state
        beside = [
            seen.claims[one.claim].sharing
            for one in seen.leases.values()
            if one.key != lease.key and one.started_at is not None and set(one.cells) & set(lease.cells)
        ]
        kinds = [part.kind for part in beside if part is not None and part.kind]
        if not kinds or len(kinds) < len(beside) or not claim.sharing.kind:
            return state
        old, weight = state.learned.get(app, {}), self._settings.old_weight
        mine = learn(old, claim.sharing.kind, kinds, measured.slowdown, self._known, weight)
        return replace(state, learned={**state.learned, app: mine})


class _Problem:
    """The pool at one moment, as a packing."""

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


def _member_of(key: str) -> str:
    return key.rpartition("#")[2]


def _has_member(seen: Seen, key: str, claim: ClaimKey) -> bool:
    """Whether another lease of the claim is for the member of this one: it was replaced."""
    return any(
        one.claim == claim and one.key != key and str(one.member) == _member_of(key) for one in seen.leases.values()
    )


def solve(waiting: WaitingJobs) -> Packed:
    """Pack jobs onto the fewest GPUs."""
    slowdowns = {(pair.kind, pair.beside): pair.slowdown for pair in waiting.pairs}
    packing = pack(PackingProblem(waiting.jobs, slowdowns, waiting.limits))
    return Packed(tuple(tuple(waiting.jobs[job].id for job in gpu) for gpu in packing.gpus))


def check_job(settings: SharedGpusSettings | None, job: DeclaredJob) -> None:
    """Check the kind of training that a job declares.

    Raises:
        BadInputError: it is not known.
    """
    known = (settings or SharedGpusSettings()).interference.kinds
    if job.sharing is not None and job.sharing.kind and job.sharing.kind not in known:
        expected = one_of(known, job.sharing.kind) if known else "must be left out: this pool knows no kinds"
        raise BadInputError("sharing.kind", job.sharing.kind, expected)


KIND = AllocatorKind(
    "shared_gpus",
    lambda settings, kinds: SharedGpus(settings or SharedGpusSettings()),
    {
        "shared-gpus.state/1": SharedGpusState,
        "shared-gpus.settings/1": SharedGpusSettings,
        "shared-gpus.slowdown/1": Slowdown,
        "shared-gpus.waiting/1": WaitingJobs,
        "shared-gpus.packed/1": Packed,
    },
    parameters=SharedGpusSettings,
    messages=frozenset({"shared-gpus.slowdown/1"}),
    solvers={"shared-gpus.waiting/1": solve},
    check_job=check_job,
)
"""Workers that share GPUs."""
