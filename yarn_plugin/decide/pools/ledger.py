"""The controller of pools whose cells an allocator leases: the ledger executes, the allocator decides.

One call, in order: cells that broke, claims that left, the input, what was vacated, what starts, what ends soon; then
the allocator hears what happened, one event after the other, and its plans are executed; then the ends of leases that
it did not keep, containers beyond leases, and the timer.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from yarn_plugin.decide.allocators import Allocator, adopted, happenings
from yarn_plugin.decide.allocators.auction import AuctionSettings
from yarn_plugin.decide.allocators.cells import Cells, cells_of
from yarn_plugin.decide.allocators.happenings import ClaimKey, What
from yarn_plugin.decide.allocators.plan import NOTHING, Plan, PlanError
from yarn_plugin.decide.allocators.seen import Seen
from yarn_plugin.decide.commands import RecordRound
from yarn_plugin.decide.events import ContainersListed, Registered
from yarn_plugin.decide.leases import ends, excess, handover, losses, open_commands, records, room
from yarn_plugin.decide.leases.book import Book, Changes, LeasesSeen
from yarn_plugin.decide.leases.claims import update
from yarn_plugin.decide.leases.execution import execute
from yarn_plugin.decide.leases.lifetime import end_all, start_vacated
from yarn_plugin.decide.leases.occupancy import Occupancy
from yarn_plugin.decide.leases.open_commands import OpenQuestions
from yarn_plugin.decide.leases.settings import RECORDS_S, RULES, LedgerSettings
from yarn_plugin.decide.leases.state import Ledger, Problem, key_of
from yarn_plugin.decide.pools import inputs
from yarn_plugin.decide.pools.commands import Accept, Command, Hold, Refuse, SetTimer, Solve
from yarn_plugin.decide.pools.controller import Kind, Registry
from yarn_plugin.decide.pools.inputs import FromApp, Input, Outcome, TimerDue
from yarn_plugin.decide.pools.lease.settings import THEMIS, check_disjoint
from yarn_plugin.decide.pools.lease.state import LeaseState
from yarn_plugin.decide.pools.view import View
from yarn_plugin.decide.topology import cell_of_node
from yarn_plugin.errors import BadInputError
from yarn_plugin.model.auction import Release
from yarn_plugin.model.causes import Cause, LeaseDropped, PoolSuperseded, RecordRefused
from yarn_plugin.model.journaled import Mutable, Tagged, parts_of
from yarn_plugin.model.resources import GPU
from yarn_plugin.model.share import Claim, Job, Pool
from yarn_plugin.model.topology import Topology

NEXT = "next"
"""The key of the ledger's own timer."""

WAKE = "wake/"
"""The keys of an allocator's timers begin with it."""

READS = frozenset({"claims", "topology", "use", "steering", "superseded"})

MAX_PLANS = 1000
"""Plans of one call. An allocator that causes more is taken to go round in circles."""


@dataclass(frozen=True, slots=True)
class LedgerState:
    """`allocator`: the name of the one that decides; `allocated`: its state."""

    allocator: str
    ledger: Ledger = field(default_factory=Ledger)
    allocated: Annotated[Any, Tagged()] = None

    def parts(self) -> tuple[Mutable, ...]:
        """The mutable parts: those of the allocator's state."""
        return parts_of(self.allocated)


@dataclass(slots=True)
class _Known:
    """What follows from the last call, for a controller that is kept: recognised by the values that it follows from.

    `due`: when something is due, questions aside. `is_settled`: the next call would find the same use of nodes.
    """

    view: View
    ledger: Ledger
    cells: Cells
    occupancy: Occupancy
    claims: Mapping[ClaimKey, Claim]
    steering: handover.Steering
    in_use: handover.InUse
    is_any_unlisted: bool
    listed: Mapping[str, int]
    seen: LeasesSeen
    due: float | None
    questions: OpenQuestions
    is_settled: bool

    def is_all_but(self, ledger: Ledger, view: View, at: float) -> bool:
        """Whether nothing has changed since and nothing is due, but that an application answers a question.

        The rest of a call would find nothing to do, and takes time proportional to the applications: a round of
        questions would take the square of that.
        """
        if ledger is not self.ledger or not self.is_settled:
            return False
        dues = [due for due in (self.due, self.questions.due()) if due is not None]
        return all(at < due for due in dues) and view.is_like(self.view)


class LedgerController:
    """Leases the cells of a pool as an allocator plans (see the module)."""

    def __init__(self, pool: str, settings: LedgerSettings, allocator: Allocator) -> None:
        self._pool, self._settings, self._allocator = pool, settings, allocator
        self.reads = READS | ({"node_used"} if settings.has_task_size else set())
        if settings.rules > 5:
            self.reads |= {"looked"}
        self._known: _Known | None = None

    def initial_state(self) -> LedgerState:
        """A pool without leases."""
        return LedgerState(self._settings.allocator, allocated=self._allocator.initial_state())

    def report(self, state: LedgerState) -> object:
        """The allocator's; the ledger itself is immutable."""
        return self._allocator.report(state.allocated)

    def advance(
        self, state: LedgerState, view: View, at: float, what: Input
    ) -> tuple[LedgerState, tuple[Command, ...]]:
        """Take one input (see the module)."""
        # An exception leaves no occupancy behind: it may have been changed in part.
        known, self._known = self._known, None
        if view.superseded is not None:
            return self._end_all(state, PoolSuperseded(view.superseded))
        ended: tuple[Command, ...] = ()
        if state.allocator != self._settings.allocator:
            state, ended = self._end_all(state, LeaseDropped("another allocator decides for the pool now"))
        cells = (
            known.cells
            if known is not None and known.view.topology is view.topology
            else cells_of_pool(view.topology, self._settings)
        )
        call = _Call(self._pool, self._settings, self._allocator, state, view, at, cells, known)
        answered = call.answered(what)
        if known is not None and isinstance(what, FromApp) and answered and known.is_all_but(state.ledger, view, at):
            is_over = call.take_answer(what, answered)
        else:
            call.look()
            call.take(what, answered)
            is_over = False
        if not is_over:
            call.let_allocator_decide()
            call.end_leases()
        state, commands = call.ended(known.due if known is not None and is_over else call.next_due())
        self._known = call.known(state)
        return state, (*ended, *commands)

    def _end_all(self, state: LedgerState, cause: Cause) -> tuple[LedgerState, tuple[Command, ...]]:
        """End all leases at once, and forget what the allocator knows: it begins anew, if it ever does."""
        changes = end_all(state.ledger.leases.values(), cause)
        timers = [SetTimer(NEXT, None), *(SetTimer(WAKE + key, None) for key in state.ledger.wakes)]
        return replace(self.initial_state(), ledger=Ledger(state.ledger.counter)), (*changes.commands, *timers)


def cells_of_pool(topology: Topology, settings: LedgerSettings) -> Cells:
    """The cells that a pool leases."""
    return cells_of(topology, settings.usable_gpus, settings.gpu_memory_mb)


class _Call:
    """One call of the controller: the ledger without its leases, which are in `book`; and the allocator's state."""

    def __init__(
        self,
        pool: str,
        settings: LedgerSettings,
        allocator: Allocator,
        state: LedgerState,
        view: View,
        at: float,
        cells: Cells,
        known: _Known | None,
    ) -> None:
        self._settings, self._allocator, self._view, self._at, self._cells = settings, allocator, view, at, cells
        self._name, self._ledger, self._allocated = state.allocator, state.ledger, state.allocated
        self._timers: list[Command] = []
        self._due: float | None = None
        self._open = None if known is None else known.questions
        self._claims: Mapping[ClaimKey, Claim] = {}
        self._known, self._leases_before = known, state.ledger.leases
        # By all containers, also those of other pools, it is known for pools with the size of a task.
        self._sees_strangers = settings.rules > 5 and settings.has_task_size
        is_known = known is not None and known.ledger.leases is state.ledger.leases
        occupancy, seen = (known.occupancy, known.seen) if known is not None and is_known else (None, None)
        self.book = Book(pool, state.ledger, cells, occupancy, seen)
        self._has_same_cells = occupancy is not None and occupancy.cells is cells
        if known is not None and known.view.claims is view.claims and known.view.steering == view.steering:
            self._steering = known.steering
        else:
            apps = {one.app: one.yarn_app for one in view.claims if one.is_registered and one.yarn_app}
            self._steering = handover.Steering(view.steering, apps)
        if known is not None and known.view.use is view.use and known.view.topology is view.topology:
            self._in_use = known.in_use
        else:
            self._in_use = handover.gpus_in_use(view.use, view.topology)
        if known is not None and known.view.claims is view.claims and known.in_use is self._in_use:
            self._is_any_unlisted, self._listed = known.is_any_unlisted, known.listed
        else:
            self._is_any_unlisted = room.is_any_unlisted(view.claims, self._in_use)
            self._listed = room.completely_listed(view.claims, self._in_use) if self._sees_strangers else {}

    def known(self, state: LedgerState) -> _Known:
        """What the next call may begin with."""
        return _Known(
            self._view,
            state.ledger,
            self._cells,
            self.book.occupancy,
            self._claims,
            self._steering,
            self._in_use,
            self._is_any_unlisted,
            self._listed,
            self.book.last_seen,
            self._due,
            self._questions(),
            self._is_settled(state.ledger),
        )

    # What follows from the view.

    def look(self) -> None:
        """Take in cells and claims. An allocator that begins sees them; another one is told what changed."""
        if not self._ledger.has_begun:
            self.book.happened.append(happenings.Began())
            self._ledger = replace(self._ledger, records_due=self._settings.records_s > 0)
        if self._ledger.records_due:
            self._wait_for_records()
        changed_cells = self._take_cells()
        changed_claims = self._take_claims()
        beyond = self._beyond_leases()
        self._count_strangers(beyond)
        moved = self._find_crowded(beyond)
        if self._ledger.has_begun and (changed_claims or changed_cells or moved):
            self.book.happened.append(happenings.Changed(changed_claims, (*changed_cells, *moved)))
        if not self._ledger.has_begun:
            self._ledger = replace(self._ledger, has_begun=True)

    def _wait_for_records(self) -> None:
        """Find out until when applications may register again: that needs a YARN which answers."""
        until = self._ledger.records_until
        if not self._view.steering or (self._settings.rules > 5 and not self._view.looked):
            until = None
        elif until is None:
            until = self._at + self._settings.records_s
        self._ledger = replace(self._ledger, records_until=until, records_due=until is None or self._at < until)

    def _beyond_leases(self) -> dict[str, int]:
        return room.beyond_leases(self._in_use, self.book.occupancy.gpus_on) if self._settings.rules > 3 else {}

    def _count_strangers(self, beyond: Mapping[str, int]) -> None:
        if not self._sees_strangers:
            return
        occupancy, node_used = self.book.occupancy, self._view.node_used.items()
        cells = ((cell_of_node(self._view.topology, name), amounts[GPU]) for name, amounts in node_used)
        found = room.strangers(
            self._ledger.strangers,
            {node: used for node, used in cells if node is not None},
            beyond,
            self._listed,
            occupancy.gpus_of_all,
        )
        if found != self._ledger.strangers:
            self._ledger = replace(self._ledger, strangers=found)

    def _is_settled(self, ledger: Ledger) -> bool:
        if self._settings.rules < 6:
            return True
        # Leases that this call changed may explain another part of what is used.
        is_same = ledger.leases is self._leases_before
        return is_same and all(one.surplus <= one.gpus for one in ledger.strangers.values())

    def _find_crowded(self, beyond: Mapping[str, int]) -> list[str]:
        """Note which free GPUs cannot be leased now; returns those for which that has changed."""
        before = self._ledger.crowded
        # Until YARN is read, this arbiter knows no containers of applications that another one has admitted.
        is_unread = self._settings.rules > 5 and self._ledger.records_due and self._ledger.records_until is None
        crowded = room.crowded(
            self.book.occupancy,
            self._view.node_used,
            beyond,
            self._ledger.strangers,
            self._is_any_unlisted or is_unread,
            self._ledger.records_due,
            self._settings,
        )
        self.book.occupancy.crowded = frozenset(crowded)
        if crowded != before:
            self._ledger = replace(self._ledger, crowded=crowded)
        return sorted(set(crowded) ^ set(before))

    def _take_claims(self) -> tuple[ClaimKey, ...]:
        known = self._known
        if known is not None and known.view.claims is self._view.claims and known.ledger.claims is self._ledger.claims:
            self._claims = known.claims
            return ()
        if known is not None and known.ledger.claims is self._ledger.claims:
            before = known.claims
        else:
            before = {key_of(claim): claim for claim in self._ledger.claims}
        claims = update(before, self._view.claims)
        self._claims = claims.claims
        if claims.changed:
            self.book.apply(losses.end_gone(self.book.leases, self.book.occupancy, claims.gone))
            self._ledger = replace(self._ledger, claims=tuple(claims.claims.values()))
        return claims.changed

    def _take_cells(self) -> tuple[str, ...]:
        if self._has_same_cells:
            return ()
        occupancy, cells = self.book.occupancy, self._cells
        nodes = losses.known_nodes(cells)
        changed = losses.changed_nodes(self._ledger.nodes, nodes)
        if changed:
            self.book.apply(losses.break_cells(self.book.leases, occupancy, changed, cells, self._settings.rules))
            self._ledger = replace(self._ledger, nodes=nodes)
        self.book.occupancy = occupancy.moved(cells, self.book.leases, changed)
        return changed

    # What comes in.

    def take(self, what: Input, answered: list[str]) -> None:
        """Take one input, and all that its time brings. `answered`: the questions that it answers."""
        listed = None
        match what:
            case inputs.Restarted():
                self._repeat()
                self.book.happened.append(happenings.Restarted())
            case inputs.Reconfigured():
                self.book.happened.append(happenings.Reconfigured())
            case TimerDue(key) if key.startswith(WAKE):
                self._wake(key.removeprefix(WAKE))
            case FromApp(app, Release() as release):
                leases, occupancy, grace_s = self.book.leases, self.book.occupancy, self._settings.grace_s
                self.book.apply(handover.release(leases, occupancy, self._in_use, app, release, self._at, grace_s))
            case FromApp(app, Registered(leases=leases)):
                found, refused = records.check(leases or (), app, self.book.occupancy, self._in_use.get(app, {}))
                self._refuse(app, refused)
                # Before the allocator hears of the new claims: it might place them elsewhere.
                self.book.happened[:0] = [happenings.Recorded(app, found)] if found else []
            case FromApp(app, message) if any(key[0] == app for key in self._claims):
                self._close_questions(answered)
                self.book.happened.append(happenings.Answer(app, message))
            case Outcome(_, "done", ContainersListed() as found):
                listed = found.app
                self._take_list(found)
            case Outcome(id) if id in self._ledger.problems:
                self._solved(what)
        self._close_questions(())
        self._take_back(listed)
        self._settle(list(self.book.occupancy.leaving))
        self._start()
        self.book.apply(ends.expire(self.book.leases, self.book.occupancy, self._at, self._settings))

    def answered(self, what: Input) -> list[str]:
        """The questions that an input answers."""
        if not isinstance(what, FromApp) or isinstance(what.message, Release):
            return []
        return self._questions().answered(what.app, what.message, self._settings.rules)

    def take_answer(self, what: FromApp, answered: list[str]) -> bool:
        """Take the answer to questions, where nothing else has changed. Whether the allocator plans nothing, so that
        nothing else is to be done."""
        assert self._known is not None
        self._claims = self._known.claims
        self._ledger = replace(self._ledger, asked=self._known.questions.close(answered))
        answer = happenings.Answer(what.app, what.message)
        self._allocated, plan = self._allocator.propose(self._allocated, self._seen(), answer)
        if plan == NOTHING:
            return True
        self._carry_out(plan)
        return False

    def _wake(self, key: str) -> None:
        wakes = {other: due for other, due in self._ledger.wakes.items() if other != key}
        self._ledger = replace(self._ledger, wakes=wakes)
        self.book.happened.append(happenings.Due(key))

    def _solved(self, what: Outcome) -> None:
        problems = dict(self._ledger.problems)
        key = problems.pop(what.id).key
        self._ledger = replace(self._ledger, problems=problems)
        self.book.happened.append(happenings.Solved(key, what.kind, what.result, what.error))

    def _repeat(self) -> None:
        leases = [self.book.leases[key] for key in sorted(self.book.occupancy.leaving)]
        self.book.apply(open_commands.revoke_again(leases, self._at, self._settings.grace_s))
        asked, commands = open_commands.ask_again(self._ledger.asked, self._at)
        self._ledger = replace(self._ledger, asked=asked)
        problems = [one.command for one in self._ledger.problems.values()]
        self.book.apply(Changes(commands=(*commands, *problems)))

    def _close_questions(self, answered: list[str] | tuple[()]) -> None:
        if self._ledger.asked:
            apps = {app for app, _ in self._claims}
            still = open_commands.still_open(self._ledger.asked, answered, apps, self._at)
            if len(still) < len(self._ledger.asked):
                self._ledger = replace(self._ledger, asked=still)

    def _take_back(self, listed: str | None) -> None:
        for key in sorted(self.book.occupancy.unplaced) if self._settings.place_within_s else ():
            leases, occupancy = self.book.leases, self.book.occupancy
            self.book.apply(
                handover.take_back(
                    leases, key, occupancy, self._in_use, self._steering, listed, self._at, self._settings
                )
            )

    def _take_list(self, found: ContainersListed) -> None:
        yarn_app, topology = self._steering.yarn_apps.get(found.app), self._view.topology
        if yarn_app is None:
            return
        self.book.apply(handover.note_listed(self.book.leases, self.book.occupancy, found, topology, yarn_app))
        if self._view.steering:
            known, leases, occupancy = self._ledger.excess, self.book.leases, self.book.occupancy
            rules = self._settings.rules
            signals = excess.signal(
                known,
                found,
                topology,
                lambda node, used: excess.allowed(leases, occupancy, found.app, node, used, self._at, rules)[0],
            )
            self.book.apply(Changes(commands=signals))

    def _settle(self, keys: Iterable[str]) -> None:
        """End what is vacated of these leases, then start what waited for it, which may revoke what it replaces."""
        use = self._view.use if self._settings.rules > 3 else None
        while entries := [self.book.leases[key] for key in keys]:
            for entry in sorted(entries, key=lambda one: (one.leased.by or 0.0, one.key)):
                leases, occupancy = self.book.leases, self.book.occupancy
                self.book.apply(handover.end_vacated(entry, leases, occupancy, self._in_use, use, self._at))
            self._start()
            keys = self._just_revoked()

    def _start(self) -> None:
        if self.book.occupancy.waiting:
            self.book.apply(start_vacated(self.book.leases, self.book.occupancy, self._at, self._settings.grace_s))

    def _just_revoked(self) -> list[str]:
        return [key for key in self.book.occupancy.leaving if self.book.leases[key].lists_tell is None]

    # What the allocator decides.

    def let_allocator_decide(self) -> None:
        """Tell the allocator what happened, and execute its plans, until nothing more happens.

        Raises:
            PlanError: it asks for what cannot be, or never comes to rest.
        """
        count = 0
        while self.book.happened:
            count += 1
            if count > MAX_PLANS:
                raise PlanError(f"{MAX_PLANS} plans at one time, and more happens: the allocator does not come to rest")
            self._tell(self.book.happened.pop(0))

    def _tell(self, what: What) -> None:
        if isinstance(what, happenings.Recorded):
            self._adopt(what)
            return
        self._allocated, plan = self._allocator.propose(self._allocated, self._seen(), what)
        if plan is not NOTHING:
            self._carry_out(plan)

    def _adopt(self, what: happenings.Recorded) -> None:
        """Let the allocator lease an application what it has records of; for others these GPUs are not free."""
        crowded, recorded = self.book.occupancy.crowded, {gpu for one in what.leases for gpu in one.gpus}
        self.book.occupancy.crowded = crowded | recorded
        self._allocated, plan = self._allocator.propose(self._allocated, self._seen(), what)
        self.book.occupancy.crowded = frozenset()
        self._carry_out(plan)
        adopted = {gpu for key in self.book.occupancy.by_app.get(what.app, ()) for gpu in self.book.leases[key].gpus}
        self._refuse(what.app, records.refused(what.leases, "policy", recorded - adopted))
        blocked = tuple([gpu for gpu in self._ledger.crowded if gpu not in adopted])
        self._ledger = replace(self._ledger, crowded=blocked)
        if moved := self._find_crowded(self._beyond_leases()):
            self.book.happened.append(happenings.Changed(cells=tuple(moved)))

    def _refuse(self, app: str, causes: Iterable[RecordRefused]) -> None:
        self.book.apply(Changes(commands=tuple(Refuse(self.book.new_id(), app, cause) for cause in causes)))

    def _carry_out(self, plan: Plan) -> None:
        execute(self.book, plan, self._claims, self._at, self._settings.grace_s, self._settings.rules)
        self._send(plan)
        self._start()
        self._settle(self._just_revoked())

    def _seen(self) -> Seen:
        book, settings, steering = self.book, self._settings, self._view.steering
        return Seen(
            self._at,
            settings.seed,
            self._cells,
            self._claims,
            book.seen(),
            book.occupancy,
            steering,
            settings.rules,
            settings.grace_s,
        )

    def _send(self, plan: Plan) -> None:
        for ask in plan.ask:
            if not any(app == ask.app for app, _ in self._claims):
                raise PlanError(f"ask {ask.app!r}: it has no claim")
        asked = {id: open_commands.question(id, ask, self._at) for ask in plan.ask if (id := self.book.new_id())}
        problems: dict[str, Problem] = {}
        for solve in plan.solve:
            command = Solve(self.book.new_id(), solve.problem)
            problems[command.id] = Problem(solve.key, command)
        questions, solves = [one.command for one in asked.values()], [one.command for one in problems.values()]
        waiting = [Hold(self.book.new_id(), one.app, one.cause) for one in plan.hold]
        accepted = [Accept(self.book.new_id(), app) for app in plan.accept]
        records = [RecordRound(self._path(one.inside), one.round) for one in plan.record]
        self.book.apply(Changes(commands=(*questions, *solves, *waiting, *accepted, *records)))
        now = [wake.key for wake in plan.wake if wake.at is not None and wake.at <= self._at]
        self.book.happened += [happenings.Due(key) for key in now]
        later = {wake.key: None if wake.key in now else wake.at for wake in plan.wake}
        wakes = {**self._ledger.wakes, **later}
        self._timers += [SetTimer(WAKE + key, due) for key, due in later.items()]
        known = self._ledger
        self._ledger = replace(
            known,
            asked={**known.asked, **asked} if asked else known.asked,
            problems={**known.problems, **problems} if problems else known.problems,
            wakes={key: due for key, due in wakes.items() if due is not None},
            idle=known.idle if plan.idle is None else dict(plan.idle),
        )

    def _path(self, inside: str) -> str:
        """The pool, or a virtual cluster of it."""
        return f"{self.book.pool}/{inside}" if inside else self.book.pool

    # The end of the call.

    def end_leases(self) -> None:
        """Revoke leases that were not kept by their end; then look for containers beyond leases."""
        self.book.apply(ends.lapse(self.book.leases, self.book.occupancy, self._at, self._settings))
        self._settle(self._just_revoked())
        self.let_allocator_decide()
        found, commands = excess.find_excess(
            self._ledger.excess,
            self.book.leases,
            self.book.occupancy,
            self._in_use,
            self._steering,
            self._at,
            self._settings,
        )
        if found != self._ledger.excess:
            self._ledger = replace(self._ledger, excess=found)
        self.book.apply(Changes(commands=commands))

    def next_due(self) -> float | None:
        """When something is due next, questions aside."""
        return min((time for time in self._deadlines() if time > self._at), default=None)

    def ended(self, due: float | None) -> tuple[LedgerState, tuple[Command, ...]]:
        """The state and the commands of the call. `due`: when something is due next, questions aside."""
        self._due = due
        dues = [one for one in (due, self._questions().due()) if one is not None]
        state = LedgerState(self._name, self.book.ledger(self._ledger), self._allocated)
        return state, (*self.book.commands, *self._timers, SetTimer(NEXT, min(dues, default=None)))

    def _questions(self) -> OpenQuestions:
        if self._open is None or self._open.asked is not self._ledger.asked:
            self._open = OpenQuestions(self._ledger.asked)
        return self._open

    def _deadlines(self) -> Iterator[float]:
        book, settings = self.book, self._settings
        yield from ends.deadlines(book.occupancy, self._at, settings)
        for key in book.occupancy.leaving:
            if (by := book.leases[key].leased.by) is not None:
                yield by
        for key in book.occupancy.unplaced if settings.place_within_s else ():
            entry = book.leases[key]
            began = entry.leased.started_at if entry.listed_at is None else entry.listed_at
            if began is not None:
                yield began + settings.place_within_s
        if self._ledger.records_due and self._ledger.records_until is not None and self._ledger.crowded:
            yield self._ledger.records_until
        for one in self._ledger.excess.values():
            yield excess.next_list(one, settings.grace_s)


def _make(pool: Pool, registry: Registry) -> LedgerController:
    settings = pool.parameters
    assert isinstance(settings, LedgerSettings)
    kind = registry.allocator(settings.allocator)
    policy, least = kind.policy(settings.settings), kind.overtime_s(settings.settings, registry.allocators)
    if policy is not None:
        registry.lease_policy(policy)
    settings = replace(settings, overtime_s=max(settings.overtime_s, least))
    return LedgerController(pool.name, settings, kind.make(settings.settings, registry.allocators))


def _adopt(pool: Pool, state: object, seen: View) -> LedgerState | None:
    """The state of a pool whose GPUs the lease controller leased."""
    settings = pool.parameters
    if not (isinstance(settings, LedgerSettings) and settings.adopts_leases and isinstance(state, LeaseState)):
        return None
    # Another allocator does not go on with these leases: the ledger ends them.
    rounds = settings.settings if isinstance(settings.settings, AuctionSettings) else AuctionSettings()
    return LedgerState(THEMIS, *adopted.adopt(state, seen, cells_of_pool(seen.topology, settings), rounds))


def _messages(pool: Pool, registry: Registry) -> frozenset[str]:
    """The messages that the pool's allocator accepts."""
    settings = pool.parameters
    known = registry.allocators.get(settings.allocator) if isinstance(settings, LedgerSettings) else None
    return frozenset() if known is None else known.messages


def _check_message(pool: Pool, registry: Registry, state: object, app: str, message: object) -> None:
    """Check a message with the pool's allocator."""
    if isinstance(state, LedgerState) and state.allocator in registry.allocators:
        registry.allocators[state.allocator].check(state.allocated, app, message)


def _check_job(pool: Pool, registry: Registry, job: Job) -> None:
    """Check a job with the pool's allocator.

    Raises:
        BadInputError: it is wrong there, or none of its alternatives could ever be leased: the pool has no GPUs.
    """
    settings = pool.parameters
    # Rounds lease GPUs also where the pool does not list them: they counted in no share, and still need not.
    leases_listed = not (isinstance(settings, LedgerSettings) and isinstance(settings.settings, AuctionSettings))
    alternatives = job.demand.alternatives if leases_listed and job.demand is not None else ()
    for place, amounts in enumerate(alternatives):
        if amounts[GPU] and GPU not in pool.resources:
            expected = f"must be left out: pool {pool.name} has no GPUs, only {', '.join(pool.resources)}"
            raise BadInputError(f"alternatives.{place}.resources.{GPU}", amounts[GPU], expected)
    if isinstance(settings, LedgerSettings):
        registry.allocator(settings.allocator).check_job(settings.settings, job)


KIND = Kind(
    "ledger",
    _make,
    {"ledger/1": LedgerState, "ledger.settings/1": LedgerSettings},
    parameters=LedgerSettings,
    fixed={"rules": RULES, "adopts_leases": True, "records_s": RECORDS_S},
    messages=frozenset({"lease.release"}),
    messages_of=_messages,
    check_pools=check_disjoint,
    adopt=_adopt,
    check_job=_check_job,
    check_message=_check_message,
)
