"""The allocator: it learns what happened, places what waits, and moves whom others slow down too much."""

from dataclasses import replace

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
from yarn_plugin.decide.allocators.plan import Idle, Place, Plan, Solve, Wake
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.allocators.shared_gpus.pool import PoolNow
from yarn_plugin.decide.allocators.shared_gpus.settings import SharedGpusSettings
from yarn_plugin.decide.allocators.shared_gpus.state import Packed, SharedGpusState, Slowdown
from yarn_plugin.decide.mechanisms.interference import learn

ADJUST = "adjust"
"""The key of the timer after which workers may be moved again."""


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
        problem = PoolNow(self._settings, self._known, state, seen)
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


def _member_of(key: str) -> str:
    return key.rpartition("#")[2]


def _has_member(seen: Seen, key: str, claim: ClaimKey) -> bool:
    """Whether another lease of the claim is for the member of this one: it was replaced."""
    return any(
        one.claim == claim and one.key != key and str(one.member) == _member_of(key) for one in seen.leases.values()
    )
