"""What processes call is compared, several operations at once where a program calls them faster than they are told."""

import random

import pytest

from themis_agent.communication.comparing import WINDOW, Comparisons
from themis_agent.communication.errors import DifferentOperationsError


class Group:
    """Processes that compare. An exchange ends when the test says so, once all have begun theirs."""

    def __init__(self, processes):
        self.begun = [[] for _ in range(processes)]
        self.exchanges = 0
        self.processes = [Comparisons(self._of(rank)) for rank in range(processes)]
        self.told = [[] for _ in range(processes)]

    def _of(self, rank):
        return lambda numbers, done: self.begun[rank].append((numbers, done))

    def call(self, rank, fingerprint):
        operation = f"operation {len(self.told[rank])}"
        self.processes[rank].compare(fingerprint, operation, self.told[rank].append)

    def deliver(self):
        """End the next exchange, if all have begun it; whether they have."""
        if not all(self.begun):
            return False
        ending = [mine.pop(0) for mine in self.begun]
        highest = [max(numbers) for numbers in zip(*(numbers for numbers, _ in ending), strict=True)]
        self.exchanges += 1
        for _, done in ending:
            done(highest, None)
        return True


def test_what_is_called_during_an_exchange_is_compared_together():
    group = Group(2)
    for fingerprint in range(4):
        for rank in range(2):
            group.call(rank, fingerprint)
    assert group.deliver()
    assert [len(told) for told in group.told] == [1, 1]
    assert group.deliver()
    assert group.told == [[None] * 4] * 2
    assert not group.deliver()


@pytest.mark.parametrize("seed", range(30))
def test_processes_that_are_at_different_calls_compare_the_same_ones(seed):
    draw, processes, calls = random.Random(seed), 3, 3 * WINDOW
    group = Group(processes)
    called = [0] * processes
    while min(map(len, group.told)) < calls:
        rank = draw.randrange(processes + 1)
        if rank == processes:
            group.deliver()
        elif called[rank] < calls:
            group.call(rank, 2**62 - 1 - called[rank])
            called[rank] += 1
        elif all(one == calls for one in called):
            assert group.deliver()
    assert group.told == [[None] * calls] * processes
    assert group.exchanges <= calls


@pytest.mark.parametrize("seed", range(10))
def test_a_difference_is_told_of_the_operation_that_differs_and_of_none_before(seed):
    draw, calls = random.Random(seed), 20
    group, wrong = Group(2), draw.randrange(calls)
    for number in range(calls):
        for rank in range(2):
            group.call(rank, 2 * number + (rank and number == wrong))
        if draw.random() < 0.5:
            group.deliver()
    while group.deliver():
        pass
    for told in group.told:
        assert [isinstance(error, DifferentOperationsError) for error in told] == [n == wrong for n in range(calls)]
        assert str(told[wrong]).startswith("operation ")


def test_an_operation_that_not_all_have_called_is_not_compared():
    group = Group(2)
    for _ in range(3):
        group.call(0, 5)
    group.call(1, 5)
    assert group.deliver()
    assert not group.deliver()
    assert group.told == [[None], [None]]


def test_an_exchange_that_fails_fails_all_that_waits():
    told = []
    comparisons = Comparisons(lambda numbers, done: exchanges.append(done))
    exchanges = []
    for fingerprint in range(3):
        comparisons.compare(fingerprint, "all-reduce", told.append)
    lost = RuntimeError("connection reset")
    exchanges[0]((), lost)
    assert told == [lost] * 3
    assert len(exchanges) == 1


def test_an_exchange_that_cannot_begin_fails_what_waits():
    def closed(numbers, done):
        raise RuntimeError("closed")

    told = []
    Comparisons(closed).compare(1, "all-reduce", told.append)
    assert [str(error) for error in told] == ["closed"]
