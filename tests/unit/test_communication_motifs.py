"""Motifs: every way to divide an operation has the effect of the operation (Syndicate sections 4.4.2.1 and C.0.1)."""

import itertools

import numpy as np
import pytest

from themis_agent.communication.iteration import Kind, Operation
from themis_agent.communication.motifs import Motif, Parallel, Sequential, rewrite, ring, segment, spline, steps, tree
from themis_agent.communication.options import Algorithm, Option, composition, options, placed


def operation(kind, elements, ranks):
    return Operation(kind, elements, "int64", 8, ranks)


def parts(motif):
    return [
        (r, slice(r * motif.stride + motif.start, r * motif.stride + motif.stop)) for r in range(len(motif.members))
    ]


def execute(motif, inputs, outputs, scattered):
    """What a motif does to the tensors of all ranks. All-reduces and broadcasts work in place, on `outputs`."""
    members, part = motif.members, slice(motif.start, motif.stop)
    match motif.kind:
        case Kind.ALL_REDUCE | Kind.REDUCE:
            total = sum(outputs[rank][part].copy() for rank in members)
            for rank in members if motif.kind is Kind.ALL_REDUCE else [motif.root]:
                outputs[rank][part] = total
        case Kind.BROADCAST:
            for rank in members:
                outputs[rank][part] = outputs[motif.root][part]
        case Kind.REDUCE_SCATTER:
            for r, where in parts(motif):
                scattered[members[r], motif.start] = sum(outputs[rank][where] for rank in members)
        case Kind.ALL_GATHER:
            for r, where in parts(motif):
                for rank in members:
                    outputs[rank][where] = scattered[members[r], motif.start]
        case Kind.ALL_TO_ALL:
            first, last = motif.shifts or (0, len(members))
            for rank, shift in itertools.product(members, range(first, last)):
                to = (rank + shift) % len(members)
                source = slice(to * motif.stride + motif.start, to * motif.stride + motif.stop)
                outputs[to][rank * motif.stride + motif.start : rank * motif.stride + motif.stop] = inputs[rank][source]


def effect(op, steps_, seed=0):
    inputs = [np.random.default_rng(seed + rank).integers(0, 1000, op.elements) for rank in range(op.ranks)]
    outputs = [one.copy() if op.kind is not Kind.ALL_TO_ALL else np.full_like(one, -1) for one in inputs]
    scattered = {}
    for step in steps_:
        execute(step.motif, inputs, outputs, scattered)
    return inputs, outputs


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("elements", [1, 7, 24, 1000])
def test_every_division_of_an_all_reduce_sums(ranks, elements):
    op = operation(Kind.ALL_REDUCE, elements, ranks)
    for algorithm, segments in itertools.product((Algorithm.WHOLE, Algorithm.RING, Algorithm.TREE), (1, 2, 5)):
        inputs, outputs = effect(op, steps(composition(op, Option(algorithm, 2, segments))))
        assert all((one == sum(inputs)).all() for one in outputs), (algorithm, segments)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_every_division_of_an_all_to_all_transposes(ranks):
    op = operation(Kind.ALL_TO_ALL, 6 * ranks, ranks)
    for ways, segments in itertools.product((1, 2, 4, 8), (1, 2, 4)):
        inputs, outputs = effect(op, steps(composition(op, Option(Algorithm.SPLINE, ways, segments))))
        rows = np.stack(inputs).reshape(ranks, ranks, 6)
        assert (np.stack(outputs).reshape(ranks, ranks, 6) == rows.transpose(1, 0, 2)).all(), (ways, segments)


def test_operators_compose_recursively():
    motif = Motif(Kind.ALL_REDUCE, 0, 64, tuple(range(8)), 64)
    divided = rewrite(rewrite(motif, segment(2)), tree(2))
    assert isinstance(divided, Parallel)
    assert all(isinstance(one, Sequential) for one in divided.parts)
    kinds = [step.motif.kind for step in steps(divided.parts[0])]
    # 8 ranks: 4 reductions, 2 of their roots, an all-reduce of 2, and the broadcasts back.
    assert kinds.count(Kind.REDUCE) == kinds.count(Kind.BROADCAST) == 6
    assert kinds.count(Kind.ALL_REDUCE) == 1


def test_steps_wait_for_what_goes_before_them():
    found = steps(ring(Motif(Kind.ALL_REDUCE, 0, 8, (0, 1), 8)))
    assert [(step.motif.kind, step.after) for step in found] == [(Kind.REDUCE_SCATTER, ()), (Kind.ALL_GATHER, (0,))]
    # What does not divide evenly is reduced beside the ring.
    odd = steps(ring(Motif(Kind.ALL_REDUCE, 0, 9, (0, 1), 9)))
    assert [(step.motif.kind, step.motif.elements, step.after) for step in odd][-1] == (Kind.ALL_REDUCE, 1, ())


def test_an_operator_leaves_alone_what_it_does_not_fit():
    exchange = Motif(Kind.ALL_TO_ALL, 0, 4, (0, 1), 4)
    assert ring(exchange) == tree(2)(exchange) == exchange
    reduce = Motif(Kind.ALL_REDUCE, 0, 4, (0, 1), 4)
    assert spline(2)(reduce) == reduce
    assert segment(8)(Motif(Kind.OTHER, 0, 4, (0, 1), 4)) == Motif(Kind.OTHER, 0, 4, (0, 1), 4)
    assert len(segment(8)(reduce).parts) == 4


def test_segments_take_turns_on_channels_and_stay_there():
    op = operation(Kind.ALL_REDUCE, 1000, 2)
    found = placed(op, Option(Algorithm.RING, 1, 4, (0, 1)))
    assert [one.channel for one in found] == [0, 0, 1, 1, 0, 0, 1, 1]


def test_small_operations_are_not_segmented():
    small, large = operation(Kind.ALL_REDUCE, 16, 2), operation(Kind.ALL_REDUCE, 1 << 20, 2)
    assert {one.segments for one in options(small, 2)} == {1}
    assert {one.segments for one in options(large, 2)} == {1, 2, 4, 8}
    assert list(options(operation(Kind.OTHER, 10, 2), 2)) == [Option()]
