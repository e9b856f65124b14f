"""All processes begin a plan at the same iteration, whoever is late or killed."""

import threading
import time

import pytest

from tests.eventually import eventually
from themis_agent.communication.commit import MARGIN, Coordinator, Decision, Keys, Participant, Proposal, Vote
from themis_agent.communication.errors import CommitError, PlanError
from themis_agent.communication.iteration import Kind, Operation
from themis_agent.communication.plan import in_order

PLAN = in_order((Operation(Kind.ALL_REDUCE, 4, "float32", 4, 2),), 1)


class SharedStore:
    """In memory. `away`: every call fails."""

    def __init__(self):
        self._values, self._lock, self.away = {}, threading.Lock(), False

    def _reach(self):
        if self.away:
            raise RuntimeError("connection closed")

    def set(self, key, value):
        self._reach()
        with self._lock:
            self._values[key] = value

    def get(self, key):
        self._reach()
        with self._lock:
            return self._values.get(key)

    def set_first(self, key, value):
        self._reach()
        with self._lock:
            return self._values.setdefault(key, value)


def accept(plan):
    pass


class Process:
    """A rank: a thread that trains, and one that takes part. `late_s`: before each answer of the second."""

    def __init__(self, store, rank, barrier, iteration_s=0.002, late_s=0.0, timeout_s=5.0, iterations=10_000):
        self.participant = Participant(store, rank, timeout_s, accept)
        self.versions, self.error = [], None
        self._barrier, self._iteration_s, self._late_s, self._iterations = barrier, iteration_s, late_s, iterations
        self.stopped, self.killed = threading.Event(), threading.Event()
        self.threads = [threading.Thread(target=self._train), threading.Thread(target=self._take_part)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def _train(self):
        try:
            for iteration in range(self._iterations):
                if self.stopped.is_set():
                    break
                version, _ = self.participant.at(iteration)
                # As a collective operation: nobody ends an iteration before all have begun it.
                self._barrier.wait(5)
                self.versions.append(version)
                time.sleep(self._iteration_s)
        except (threading.BrokenBarrierError, CommitError) as problem:
            self.error = problem
        self._barrier.abort()

    def _take_part(self):
        while not self.stopped.is_set() and not self.killed.is_set():
            try:
                self.participant.poll()
            except RuntimeError as problem:
                self.participant.lose(str(problem))
                return
            time.sleep(self._late_s or 0.001)


def job(store, ranks, late_s=0.0, **options):
    barrier = threading.Barrier(ranks)
    made = [
        Process(store, rank, barrier, late_s=late_s if rank == ranks - 1 else 0.0, **options) for rank in range(ranks)
    ]
    for one in made:
        one.start()
    return made


def end(processes):
    for one in processes:
        one.stopped.set()
    for one in processes:
        for thread in one.threads:
            thread.join(10)


def until_trained(processes, iterations):
    """Wait until each process has begun so many iterations, or one has failed."""
    eventually(lambda: any(one.error for one in processes) or min(len(one.versions) for one in processes) >= iterations)


def votes(store):
    """Those of two processes on the first plan, as far as there are any."""
    texts = [store.get(Keys(1).vote(rank)) for rank in range(2)]
    return [Vote.model_validate_json(text) for text in texts if text is not None]


def assert_never_mixed(processes):
    count = min(len(one.versions) for one in processes)
    assert count
    for iteration in range(count):
        assert len({one.versions[iteration] for one in processes}) == 1, iteration


def commit_plans(plans, late_s):
    store = SharedStore()
    processes = job(store, 3, late_s)
    coordinator = Coordinator(store, 3, 5.0)
    decisions = [coordinator.propose(PLAN) for _ in range(plans)]
    until_trained(processes, max(decision.at or 0 for decision in decisions) + 1)
    end(processes)
    assert all(decision.at is not None for decision in decisions), decisions
    assert_never_mixed(processes)
    versions = processes[0].versions
    # A plan that the next one follows before it has begun is never in force.
    assert versions == sorted(versions)
    for version, decision in enumerate(decisions, 1):
        assert versions[decision.at - 1] < version <= versions[decision.at]
    return processes


def test_all_begin_a_plan_at_the_same_iteration():
    commit_plans(6, 0.0)


def test_a_late_process_holds_the_others_back_only_while_in_doubt():
    processes = commit_plans(3, 0.03)
    assert processes[-1].participant.blocked_s > 0


@pytest.mark.matrix
@pytest.mark.parametrize("late_s", [0.0, 0.06])
def test_200_plans(late_s):
    commit_plans(200, late_s)


def test_a_plan_that_one_refuses_is_not_begun():
    store = SharedStore()
    processes = job(store, 2)

    def refuse(plan):
        raise PlanError("plan: would deadlock")

    processes[1].participant._check = refuse
    decision = Coordinator(store, 2, 5.0).propose(PLAN)
    until_trained(processes, 1)
    end(processes)
    assert decision == Decision(reason="plan: would deadlock")
    assert {version for one in processes for version in one.versions} == {0}


@pytest.mark.parametrize("phase", ["proposed", "voted"])
def test_a_coordinator_that_is_killed_leaves_the_processes_training(phase):
    store = SharedStore()
    processes = job(store, 2, timeout_s=0.3)
    store.set(Keys(1).proposal, Proposal(version=1, plan=PLAN).model_dump_json())
    if phase == "voted":
        eventually(lambda: len(votes(store)) == 2)
    # Nobody decides; the first that has waited long enough does, for all.
    eventually(lambda: store.get(Keys(1).decision) is not None)
    until_trained(processes, max(len(one.versions) for one in processes) + MARGIN + 1)
    end(processes)
    assert [one.error for one in processes if isinstance(one.error, CommitError)] == []
    assert Decision.model_validate_json(store.get(Keys(1).decision)).at is None
    assert {version for one in processes for version in one.versions} == {0}
    assert min(len(one.versions) for one in processes) > MARGIN


def test_a_coordinator_that_is_killed_after_its_decision_has_decided():
    store = SharedStore()
    processes = job(store, 2)
    store.set(Keys(1).proposal, Proposal(version=1, plan=PLAN).model_dump_json())
    eventually(lambda: len(votes(store)) == 2)
    at = max(one.iteration for one in votes(store)) + 10 * MARGIN
    store.set_first(Keys(1).decision, Decision(at=at).model_dump_json())
    until_trained(processes, at + 1)
    end(processes)
    assert_never_mixed(processes)
    assert processes[0].versions[at - 1 : at + 1] == [0, 1]


def test_a_process_that_is_killed_before_its_vote_aborts_the_plan():
    store = SharedStore()
    processes = job(store, 2, timeout_s=2.0)
    processes[1].killed.set()
    time.sleep(0.01)
    decision = Coordinator(store, 2, 0.2).propose(PLAN)
    end(processes)
    assert decision.at is None
    assert decision.reason == "1 of 2 processes did not vote"
    assert_never_mixed(processes)


def test_a_store_that_is_away_in_doubt_ends_the_job_with_the_reason():
    store = SharedStore()
    processes = job(store, 2, timeout_s=1.0)
    store.set(Keys(1).proposal, Proposal(version=1, plan=PLAN).model_dump_json())
    eventually(lambda: len(votes(store)) == 2)
    store.away = True
    for one in processes:
        one.threads[0].join(5)
    end(processes)
    errors = [one.error for one in processes]
    assert any(isinstance(one, CommitError) for one in errors)
    assert all(one is not None for one in errors)
    assert "in doubt, and its store is away" in str(next(one for one in errors if isinstance(one, CommitError)))


def test_a_store_that_is_away_otherwise_does_not_matter():
    store = SharedStore()
    processes = job(store, 2, iterations=30)
    store.away = True
    for one in processes:
        one.threads[0].join(5)
    end(processes)
    assert min(len(one.versions) for one in processes) == 30
