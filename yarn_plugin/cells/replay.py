"""Replays of a case: following the recorded answers, or freely.

FOLLOW: each answer is compared with the recorded one, which is then applied, so that every step is compared in the
state of the recorded scheduler. FREE: our own answers are applied, and only invariants are checked; operations on pods
that we did not bind are skipped.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from yarn_plugin.cells.cases import Agreement, Case, Expectation, Operation, Outcome, Step, sizes_of
from yarn_plugin.cells.comparison import (
    is_same_shape,
    place_of,
    places,
    recorded_place,
    recorded_places,
    shape_of,
)
from yarn_plugin.cells.findings import Finding, Replay
from yarn_plugin.decide.mechanisms.buddy_cells.allocator import WORK_LIMIT, Allocator, Call
from yarn_plugin.decide.mechanisms.buddy_cells.answers import Answer, Bind, Preempt
from yarn_plugin.decide.mechanisms.buddy_cells.cells import OPPORTUNISTIC
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.errors import CellFileError, RejectedError
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Gang, Placement, Request, Stage
from yarn_plugin.decide.mechanisms.buddy_cells.health import bad_cells
from yarn_plugin.decide.mechanisms.buddy_cells.invariants import InvariantError, validate
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import (
    RunningGang,
    RunningPod,
    UnservableError,
    record_of,
    recover,
    reserve_running,
)
from yarn_plugin.toml_files import FileError


@dataclass(frozen=True, slots=True)
class Bound:
    """A pod that runs: its gang, and its place there."""

    gang: str
    slot: int


class CannotFollowError(Exception):
    """A recorded answer cannot be applied, since our state differs from the recorded one in an allowed way."""


class _Run(ABC):
    """A replay in progress."""

    def __init__(self, case: Case, mode: str) -> None:
        self.case = case
        self.result = Replay(mode)
        self.bad: set[str] = set()
        self.bound: dict[str, Bound] = {}
        self.running: dict[str, RunningGang] = {}
        """The gangs as they were bound first."""
        self.allocator: Allocator
        self.position, self.step = 0, case.file.steps[0]

    def run(self) -> Replay:
        """Replay every step; an unexpected exception ends the replay."""
        steps = self.case.file.steps
        if steps[0].op is not Operation.INIT:
            self._build(self.case.file.config)
        for self.position, self.step in enumerate(steps):
            self.result.steps += 1
            try:
                self._do(self.step)
                if self.step.op is not Operation.INIT:
                    validate(self.allocator.cluster)
                    self.allocator.cluster.commit()
            except CannotFollowError as problem:
                self._note(self.result.forced, f"stopped: {problem}")
                break
            except InvariantError as problem:
                self._note(self.result.broken, f"invariant: {problem}")
                break
            except FileError:
                raise
            except Exception as problem:  # noqa: BLE001 - a crash is a result of the replay
                self._note(self.result.broken, f"{type(problem).__name__}: {problem}")
                break
        return self.result

    def _do(self, step: Step) -> None:
        match step.op:
            case Operation.SCHEDULE:
                self.schedule(step)
            case Operation.DELETE:
                self._delete(step.pod)
            case Operation.DELETE_UNALLOCATED:
                if step.pod not in self.bound:
                    request = self.case.file.specs[step.spec].request(step.pod, step.leaf_cell_number)
                    self.allocator.withdraw(request.gang, step.pod)
            case Operation.BAD_NODE:
                self.bad.add(step.node)
                self.allocator.cluster.set_bad(step.node, True)
            case Operation.HEALTHY_NODE:
                self.bad.discard(step.node)
                self.allocator.cluster.set_bad(step.node, False)
            case Operation.RESTART | Operation.RECONFIGURE:
                self.restart(step)
            case Operation.INIT:
                self._init(step)
        if step.op is not Operation.INIT:
            self.compare_after(step)

    def _build(self, config: str) -> None:
        self.allocator = Allocator(Cluster(self.case.configuration(config)))
        for node in sorted(self.bad):
            self.allocator.cluster.set_bad(node, True)

    def _init(self, step: Step) -> None:
        config = step.config or self.case.file.config
        self.case.path_of(config)
        try:
            self._build(config)
            outcome = Outcome.OK
        except (CellFileError, FileError):
            outcome = Outcome.REJECTED
        if not self.result.outcomes.count(outcome is step.expect.outcome):
            self._note(self.result.broken, f"init: {outcome}, recorded {step.expect.outcome}")

    def _delete(self, pod: str) -> None:
        bound = self.bound.pop(pod, None)
        gang = self.allocator.cluster.gangs.get(bound.gang) if bound is not None else None
        if gang is not None:
            self.allocator.end(gang, pod)
            if gang.name not in self.allocator.cluster.gangs:
                self.running.pop(gang.name, None)

    def call(self, step: Step) -> Call:
        """The request of a step."""
        nodes = self.allocator.cluster.forest.nodes
        excluded = set(step.suggested_except or ())
        if step.suggested is not None:
            excluded |= nodes.keys() - set(step.suggested)
        request = self.case.file.specs[step.spec].request(step.pod, step.leaf_cell_number)
        return Call(step.pod, step.leaf_cell_number, request, frozenset(excluded), step.phase != "filtering")

    def decide(self, call: Call) -> tuple[Outcome, Answer | None]:
        """Our answer and its class."""
        try:
            answer = self.allocator.decide(call)
        except RejectedError:
            return Outcome.REJECTED, None
        match answer:
            case Bind():
                return Outcome.BIND, answer
            case Preempt():
                return Outcome.PREEMPT, answer
        return Outcome.WAIT, answer

    def check_answer(self, call: Call, answer: Answer | None, is_new: bool) -> None:
        """Check what must hold for any answer."""
        expect, request = self.step.expect, call.request
        if isinstance(answer, Bind | Preempt):
            self._check_placement(answer, request, is_new)
        is_legal = bool(expect.vc_fit) and not self.bad and request.ignores_exclusions and self.result.mode == "follow"
        if is_legal and not self.result.served.count(isinstance(answer, Bind | Preempt)):
            self._note(self.result.broken, "a legal request is not served")

    def _check_placement(self, answer: Bind | Preempt, request: Request, is_new: bool) -> None:
        placement = answer.placement
        sizes = tuple(len(leaves) for leaves in placement.physical)
        if sizes != request.sizes and is_new:
            self._note(self.result.broken, f"the gang is not placed whole: {sizes}")
        nodes = {leaf.node.address for leaf in placement.leaves() if leaf.node is not None}
        if is_new and (on_bad := nodes & self.bad):
            self._note(self.result.broken, f"a new gang gets the bad nodes {', '.join(sorted(on_bad))}")
        if isinstance(answer, Preempt):
            if not request.guaranteed:
                self._note(self.result.broken, "opportunistic work preempts")
            for name in answer.victims:
                victim = self.allocator.cluster.gangs[name]
                if victim.placement.virtual is not None and (
                    victim.request.priority >= request.priority or victim.request.cluster != request.cluster
                ):
                    self._note(self.result.broken, f"victim {name} is guaranteed its place")

    def _note(self, findings: list[Finding], text: str) -> None:
        findings.append(Finding(self.position, self.step.pod or self.step.node, text))

    @abstractmethod
    def schedule(self, step: Step) -> None:
        """Answer a request, compare and apply."""

    @abstractmethod
    def restart(self, step: Step) -> None:
        """Start again with the pods that run."""

    def compare_after(self, step: Step) -> None:  # noqa: B027 - nothing to compare with where our answers are applied
        """Compare the state with the recorded one."""


class _Follow(_Run):
    """Compare each answer, then apply the recorded one."""

    def schedule(self, step: Step) -> None:
        call, cluster = self.call(step), self.allocator.cluster
        before = cluster.savepoint()
        known, downgraded = cluster.gangs.get(call.request.gang), self._downgraded()
        outcome, answer = self.decide(call)
        self.check_answer(call, answer, known is None)
        recorded = step.expect
        if recorded.outcome is Outcome.CRASH:
            self._note(self.result.survived, f"{outcome}{_described(answer)}")
            cluster.rollback(before)
            return
        if recorded.outcome is Outcome.WAIT and outcome in (Outcome.BIND, Outcome.PREEMPT):
            self._note(self.result.better, f"{outcome}{_described(answer)}; recorded: wait")
            validate(cluster)
            cluster.rollback(before)
            self._decide_greedily(call, before)
            return
        if not self.result.outcomes.count(outcome is recorded.outcome):
            self._note(self.result.broken, f"{outcome}{_described(answer)}; recorded: {recorded.outcome}")
            cluster.rollback(before)
            self._force(call, recorded)
            return
        agrees = answer is None or self._compare(answer, recorded)
        if isinstance(answer, Preempt) and recorded.group and not agrees:
            cluster.rollback(before)
            self._force(call, recorded)
        elif isinstance(answer, Bind) and not step.no_commit:
            if not agrees and self._downgraded() - downgraded != self._recorded_downgrades() - downgraded:
                cluster.rollback(before)
                self._downgrade_as_recorded()
            self._apply_bind(call, recorded)

    def _downgraded(self) -> set[str]:
        return {gang.name for gang in self.allocator.cluster.gangs.values() if gang.downgraded}

    def _recorded_downgrades(self) -> set[str]:
        groups = self.step.after.groups
        return {name for name, state in groups.items() if state is not None and state.endswith("+lazy")}

    def _downgrade_as_recorded(self) -> None:
        for name in sorted(self._recorded_downgrades()):
            if (gang := self.allocator.cluster.gangs.get(name)) is not None:
                self.allocator.downgrade(gang)

    def _decide_greedily(self, call: Call, before: int) -> None:
        """Do as the recorded scheduler, which waited: its order of nodes changes."""
        self.allocator.work_limit = 0
        outcome, _ = self.decide(call)
        self.allocator.work_limit = WORK_LIMIT
        if outcome is not Outcome.WAIT:
            self.allocator.cluster.rollback(before)

    def _compare(self, answer: Answer, recorded: Expectation) -> bool:
        """Compare as far as the recorded scheduler agrees with itself; whether the placements are the same."""
        if not isinstance(answer, Bind | Preempt):
            return True
        placement = answer.placement
        size = sum(len(leaves) for leaves in placement.physical)
        if recorded.group_leaf_cells is not None and size != recorded.group_leaf_cells:
            self._note(self.result.broken, f"{size} leaves, recorded {recorded.group_leaf_cells}")
        if recorded.group is not None:
            is_same = places(placement) == recorded_places(recorded.group)
        else:
            is_same = not isinstance(answer, Bind) or (
                place_of(placement.physical[answer.slot]) == recorded_place(recorded.node, recorded.leaf_cells)
            )
        has_victims = isinstance(answer, Preempt)
        same_victims = not has_victims or self._pods(answer.victims) == sorted(  # type: ignore[union-attr]
            pod for pods in recorded.victims.values() for pod in pods
        )
        if recorded.agree is Agreement.EXACT and not self.result.exact.count(is_same and same_victims):
            self._note(self.result.broken, f"{_described(answer)[2:]}; recorded: {_recorded(recorded)}")
        if recorded.agree in (Agreement.EXACT, Agreement.SHAPE) and recorded.shape is not None:
            agrees = is_same_shape(shape_of(placement), recorded.shape)
            if not self.result.shapes.count(agrees) and recorded.agree is Agreement.SHAPE:
                self._note(self.result.broken, f"shape of {_described(answer)[2:]}; recorded: {_recorded(recorded)}")
        return is_same

    def _pods(self, gangs: Iterable[str]) -> list[str]:
        return sorted(pod for gang in gangs for pod in self.allocator.cluster.gangs[gang].pods)

    def _apply_bind(self, call: Call, recorded: Expectation) -> None:
        cluster = self.allocator.cluster
        gang = cluster.gangs.get(call.request.gang)
        if gang is not None and gang.stage is Stage.PREEMPTING:
            if recorded.group is not None and places(gang.placement) != recorded_places(recorded.group):
                self._note(self.result.forced, f"bind {_recorded(recorded)}")
                self.allocator.cancel(gang)
                gang = None
            else:
                slot = _slot_of(gang.placement, recorded)
                self.allocator.start(call, Bind(gang.placement, slot))
                self.running[gang.name] = record_of(gang)
                self.bound[call.pod] = Bound(gang.name, slot)
                return
        if gang is None:
            running = _recorded_gang(call.request, recorded)
            self.running[call.request.gang] = running
            for pod in running.pods:
                self._clear(running.chain, pod)
            gang = recover(self.allocator, running)
        if gang is None:
            raise CannotFollowError("the recorded leaves are held by others")
        slot = _slot_of(gang.placement, recorded)
        self.allocator.fill(gang, slot, call.pod)
        self.bound[call.pod] = Bound(gang.name, slot)

    def _clear(self, chain: str, pod: RunningPod) -> None:
        """Cancel preemptions on the leaves of a pod."""
        for address in pod.leaves:
            leaf = self.allocator.cluster.forest.leaf[chain, pod.node, address]
            if leaf.reserver is not None:
                self.allocator.cancel(leaf.reserver)

    def _force(self, call: Call, recorded: Expectation) -> None:
        """Adopt the recorded answer where ours was different."""
        if recorded.outcome is Outcome.PREEMPT and recorded.group is not None:
            self._note(self.result.forced, f"preempt {_recorded(recorded)}")
            self._downgrade_as_recorded()
            if call.reserves:
                running = _recorded_gang(call.request, recorded)
                for pod in running.pods:
                    self._clear(running.chain, pod)
                try:
                    reserve_running(self.allocator, running, call.pod)
                except UnservableError as problem:
                    raise CannotFollowError(str(problem)) from None
        elif recorded.outcome is Outcome.BIND and not self.step.no_commit:
            self._apply_bind(call, recorded)

    def restart(self, step: Step) -> None:
        self._build(step.config or self.case.file.config)
        bound, self.bound = self.bound, {}
        for pod in step.replay_order:
            place = bound.get(pod)
            if place is None:
                continue
            gang = self.allocator.cluster.gangs.get(place.gang) or recover(self.allocator, self.running[place.gang])
            if gang is not None:
                self.allocator.fill(gang, place.slot, pod)
                self.bound[pod] = place

    def compare_after(self, step: Step) -> None:
        after, cluster = step.after, self.allocator.cluster
        pairs: list[tuple[str, object, object]] = []
        for name, expected in after.groups.items():
            gang = cluster.gangs.get(name)
            pairs.append((f"group {name}", None if gang is None else _state(gang), expected))
        if after.used is not None:
            pairs.append(("used", _used(cluster), after.used))
        for name, number in after.vc_bad_cells.items():
            pairs.append((f"bad cells of {name}", bad_cells(cluster, cluster.virtual[name]), number))
        for what, ours, theirs in pairs:
            if not self.result.after.count(ours == theirs):
                self._note(self.result.differing, f"{what}: {ours}, recorded {theirs}")


class _Free(_Run):
    """Apply our own answers."""

    def schedule(self, step: Step) -> None:
        if step.pod in self.bound:
            return
        call = self.call(step)
        before = self.allocator.cluster.gangs.get(call.request.gang)
        outcome, answer = self.decide(call)
        is_new = before is None or before.name not in self.allocator.cluster.gangs
        self.check_answer(call, answer, is_new)
        if step.expect.outcome is Outcome.CRASH:
            self._note(self.result.survived, f"{outcome}{_described(answer)}")
        if isinstance(answer, Bind) and not step.no_commit:
            gang = self.allocator.start(call, answer)
            self.bound[call.pod] = Bound(gang.name, answer.slot)

    def restart(self, step: Step) -> None:
        gangs = [gang for gang in self.allocator.cluster.gangs.values() if gang.stage is not Stage.PREEMPTING]
        self._build(step.config or self.case.file.config)
        bound, self.bound = self.bound, {}
        for gang in gangs:
            again = recover(self.allocator, record_of(gang))
            if again is None:
                continue
            for pod, place in bound.items():
                if place.gang == gang.name:
                    self.allocator.fill(again, place.slot, pod)
                    self.bound[pod] = place
            was_guaranteed = gang.placement.virtual is not None
            if step.op is Operation.RESTART and was_guaranteed != (again.placement.virtual is not None):
                self._note(self.result.broken, f"gang {gang.name} lost its guarantee at a restart")
        if step.op is Operation.RESTART and (lost := bound.keys() - self.bound.keys()):
            self._note(self.result.broken, f"lost at a restart: {', '.join(sorted(lost))}")


def follow(case: Case) -> Replay:
    """Replay a case, applying the recorded answers."""
    return _Follow(case, "follow").run()


def run_freely(case: Case) -> Replay:
    """Replay a case, applying our own answers."""
    return _Free(case, "free").run()


def _recorded_gang(request: Request, recorded: Expectation) -> RunningGang:
    """The gang of a recorded placement."""
    assert recorded.group is not None
    pods: list[RunningPod] = []
    for size in sizes_of(recorded.group):
        for index, (node, leaves) in enumerate(recorded.group[size]):
            match recorded.preassigned:
                case None:
                    types: tuple[str, ...] = ()
                case str():
                    types = (recorded.preassigned,) * len(leaves)
                case _:
                    types = tuple(recorded.preassigned[size][index])
            pods.append(RunningPod(node, tuple(str(leaf) for leaf in leaves), types))
    chain = recorded.chain or (recorded.shape.chain if recorded.shape is not None else "")
    return RunningGang(request, chain, tuple(pods))


def _slot_of(placement: Placement, recorded: Expectation) -> int:
    place = recorded_place(recorded.node, recorded.leaf_cells)
    for slot, leaves in enumerate(placement.physical):
        if leaves and place_of(leaves) == place:
            return slot
    raise CannotFollowError(f"gang has no pod on {recorded.node}")


def _state(gang: Gang) -> str:
    return f"{gang.stage}{'+lazy' if gang.downgraded else ''}"


def _used(cluster: Cluster) -> tuple[int, int]:
    """The leaves of gangs that hold virtual cells, and those of opportunistic and downgraded gangs."""
    guaranteed = low = 0
    for gang in cluster.gangs.values():
        if gang.stage is not Stage.PREEMPTING:
            number = sum(1 for _ in gang.placement.leaves())
            if gang.priority == OPPORTUNISTIC:
                low += number
            else:
                guaranteed += number
    return guaranteed, low


def _described(answer: Answer | None) -> str:
    if not isinstance(answer, Bind | Preempt):
        return "" if answer is None else f": {answer.reason}"
    pods = " ".join(
        f"{node}[{','.join(leaves)}]" for node, leaves in map(place_of, filter(None, answer.placement.physical))
    )
    return f": {pods}{' evicting ' + ', '.join(answer.victims) if isinstance(answer, Preempt) else ''}"


def _recorded(recorded: Expectation) -> str:
    if recorded.group is None:
        return f"{recorded.node}[{','.join(map(str, recorded.leaf_cells))}]"
    pods = " ".join(
        f"{node}[{','.join(map(str, leaves))}]"
        for size in sizes_of(recorded.group)
        for node, leaves in recorded.group[size]
    )
    victims = ", ".join(pod for pods in recorded.victims.values() for pod in pods)
    return f"{pods}{' evicting ' + victims if victims else ''}"
