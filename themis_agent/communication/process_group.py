"""A process group of torch that has its operations executed by the enforcer; torch itself is not changed.

`torch.distributed` lets a backend be an object of Python that takes the place of the process group. Each of its
channels is a process group of gloo of its own, which executes one operation after the other.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo

from themis_agent.communication.comparing import Comparisons, Done
from themis_agent.communication.enforcer import Completion, Enforcer
from themis_agent.communication.iteration import Kind, Operation
from themis_agent.communication.motifs import Motif
from themis_agent.communication.options import Placed

BACKEND = "themis"

_DECOMPOSABLE = (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT)
"""Reductions of which a part may be reduced before the rest."""


def gloo(store: Any, name: str, rank: int, size: int, timeout: timedelta, interface: str) -> Any:
    """A gloo group with one thread: it executes its operations one after the other. `interface`: of the network, or ""
    for the one that torch chooses.
    """
    options = ProcessGroupGloo._Options()
    device = (
        ProcessGroupGloo.create_device(interface=interface) if interface else ProcessGroupGloo.create_default_device()
    )
    options._devices, options._threads, options._timeout = [device], 1, timeout
    return ProcessGroupGloo(PrefixStore(f"{name}/", store), rank, size, options)


class Connections:
    """The gloo groups of one process group: one for each channel, one for checks, one for transfers between two
    processes; and for each channel those of the groups of a tree.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, interfaces: Sequence[str]) -> None:
        def connect(name: str, interface: str) -> Any:
            return gloo(store, name, rank, size, timeout, interface)

        self.rank, self.size = rank, size
        self.channels = [connect(f"channel-{number}", one) for number, one in enumerate(interfaces)]
        self.checks = connect("checks", interfaces[0])
        self.comparisons = Comparisons(self._highest)
        self.direct = connect("direct", interfaces[0])
        self._waiters = ThreadPoolExecutor(len(interfaces), "communication waiter")
        self._trees: dict[tuple[int, tuple[int, ...]], Any] = {}
        for members in _tree_groups(size):
            for channel, interface in enumerate(interfaces):
                if rank in members:
                    name = f"channel-{channel}-of-{'-'.join(map(str, members))}"
                    group = gloo(store, name, members.index(rank), len(members), timeout, interface)
                    self._trees[channel, members] = group
        self._unbroken = [*self.channels, *self._trees.values(), self.direct, self.checks]

    def when_ended(self, work: Any, done: Done) -> None:
        """Call `done` when torch's Work has ended."""

        def ended(waitable: Any) -> None:
            try:
                waitable.wait()
            except RuntimeError as problem:
                done(problem)
            else:
                done(None)

        try:
            future = work.get_future()
        except RuntimeError:
            # Gloo's reduce-scatter has none.
            self._waiters.submit(ended, work)
        else:
            future.then(ended)

    def _highest(self, numbers: Sequence[int], done: Callable[[Sequence[int], BaseException | None], None]) -> None:
        """Begin to find the highest number of all processes at each place."""
        highest = torch.tensor(numbers)
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        work = self.checks.allreduce([highest], options)
        self.when_ended(work, lambda error: done(highest.tolist(), error))

    def of(self, channel: int, members: tuple[int, ...]) -> Any:
        """The group of these members on a channel."""
        return self.channels[channel] if len(members) == self.size else self._trees[channel, members]

    def abandon(self, checks: bool = True) -> None:
        """Break all connections that are not broken yet, so that nothing waits any longer; those for checks last, by
        which others may still learn why. `checks`: whether those too.
        """
        kept = [] if checks else [self.checks]
        breaking = [group for group in self._unbroken if group not in kept]
        self._unbroken = kept
        for group in breaking:
            group.abort()
        self._waiters.shutdown(wait=False)


def _tree_groups(size: int) -> list[tuple[int, ...]]:
    """The members of each group that a tree of fan 2 needs, other than all."""
    found = []
    members = tuple(range(size))
    while len(members) > 1:
        found += [pair for place in range(0, len(members), 2) if 1 < len(pair := members[place : place + 2]) < size]
        members = members[::2]
        if 2 < len(members) < size:
            found.append(members)
    return list(dict.fromkeys(found))


Begin = Callable[[int, Placed], Any]
"""Begins a motif (its number among the steps) and returns torch's Work; None: there was nothing to do."""


class TorchJob:
    """An operation on tensors. `begin_motif` begins one, `unpack` puts the results of all into the output."""

    def __init__(self, connections: Connections, name: str, begin_motif: Begin, unpack: Callable[[], None]) -> None:
        self._connections, self._name, self._begin, self._unpack = connections, name, begin_motif, unpack

    def check(self, fingerprint: int, done: Done) -> None:
        """Compare the number with the other processes'."""
        self._connections.comparisons.compare(fingerprint, self._name, done)

    def begin(self, number: int, motif: Placed, done: Done) -> None:
        """Begin a motif on its channel."""
        work = self._begin(number, motif)
        if work is None:
            done(None)
        else:
            self._connections.when_ended(work, done)

    def finish(self) -> None:
        """Make the output whole."""
        self._unpack()


class PlannedWork(dist.Work):  # type: ignore[misc]
    """What a call returns. It really fails: `torch._C._distributed_c10d._create_work_from_future` around a future of
    Python that has failed returns as if it had succeeded.
    """

    def __init__(
        self, enforcer: Enforcer, completion: Completion, iteration: int, operation: int, results: list[Any]
    ) -> None:
        super().__init__()
        self._enforcer, self._completion, self._results = enforcer, completion, results
        self._iteration, self._operation = iteration, operation

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self._completion.ended

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._completion.ended and self._completion.error is None

    def exception(self) -> BaseException | None:
        """What it failed with."""
        return self._completion.error

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait for the end.

        Raises:
            CommunicationError: it has failed, here or in another process.
        """
        self._enforcer.waiting(self._iteration, self._operation, over=False)
        self._completion.wait()
        self._enforcer.waiting(self._iteration, self._operation, over=True)
        return True

    def synchronize(self) -> None:
        """As `wait`."""
        self.wait()

    def result(self) -> list[Any]:
        """The outputs."""
        return self._results

    def get_future(self) -> Any:
        """A future of the outputs that fails as this does, also for what waits in C++."""
        future: torch.futures.Future[Any] = torch.futures.Future()

        def end(error: BaseException | None) -> None:
            if error is None:
                future.set_result(self._results)
            else:
                future.set_exception(RuntimeError(str(error)))

        self._completion.then(end)
        # The chained future fails in C++ too, which `future` itself does not.
        return future.then(lambda ended: ended.wait())


Method = TypeVar("Method", bound=Callable[..., Any])


def _not_compiled(method: Method) -> Method:
    """To torch.compile a group is opaque: its compiler fails in code that uses the group's own attributes."""
    return cast(Method, torch.compiler.disable(method))


class PlannedGroup(dist.ProcessGroup):  # type: ignore[misc]
    """The operations of one group. `number`: of the group among those of this process. `close`: ends all of them."""

    def __init__(self, enforcer: Enforcer, connections: Connections, number: int, close: Callable[[], None]) -> None:
        super().__init__(connections.rank, connections.size)
        self._enforcer, self._connections, self._number = enforcer, connections, number
        self._name = self._description = ""
        self._close = close

    # What torch asks of a group

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """The name of the backend."""
        return BACKEND

    def getSize(self) -> int:  # noqa: N802 - torch's name
        """How many processes there are."""
        return self._connections.size

    def getRank(self) -> int:  # noqa: N802 - torch's name
        """Which of them this is."""
        return self._connections.rank

    def size(self) -> int:
        """How many processes there are."""
        return self._connections.size

    def setGroupName(self, name: str) -> None:  # noqa: N802 - torch's name
        """Torch names the group, for functional collectives."""
        self._name = name

    def getGroupName(self) -> str:  # noqa: N802 - torch's name
        """The name that torch gave."""
        return self._name

    def setGroupDesc(self, description: str) -> None:  # noqa: N802 - torch's name
        """Torch describes the group."""
        self._description = description

    def getGroupDesc(self) -> str:  # noqa: N802 - torch's name
        """The description that torch gave."""
        return self._description

    def shutdown(self) -> None:
        """Destroy it."""
        self._close()

    def abort(self) -> None:
        """Destroy it at once."""
        self._close()

    # Operations that can become several motifs

    @_not_compiled
    def allreduce(self, tensors: list[Any], opts: Any = None) -> PlannedWork:
        """All-reduce, in place."""
        opts = dist.AllreduceOptions() if opts is None else opts
        operator = opts.reduceOp
        # Not `in`: the constants do not equal an operator, but it equals them.
        decomposable = any(operator == one for one in _DECOMPOSABLE)
        if len(tensors) != 1 or not tensors[0].is_contiguous() or not decomposable:
            return self._as_called("allreduce", tensors, tensors, opts)
        flat, scattered = tensors[0].view(-1), dict[tuple[int, int], Any]()

        def begin(number: int, placed: Placed) -> Any:
            motif = placed.step.motif
            group = self._connections.of(placed.channel, motif.members) if self._takes_part(motif) else None
            part = flat[motif.start : motif.stop]
            match motif.kind:
                case _ if group is None:
                    return None
                case Kind.ALL_REDUCE:
                    return group.allreduce([part], opts)
                case Kind.REDUCE_SCATTER:
                    share = scattered[motif.start, motif.stop] = torch.empty_like(part)
                    options = dist.ReduceScatterOptions()
                    options.reduceOp = operator
                    return group._reduce_scatter_base(share, flat[_all_parts(motif)], options)
                case Kind.ALL_GATHER:
                    return group._allgather_base(flat[_all_parts(motif)], scattered.pop((motif.start, motif.stop)))
                case Kind.REDUCE:
                    return group.reduce([part], _rooted(dist.ReduceOptions(), motif, operator))
                case Kind.BROADCAST:
                    return group.broadcast([part], _rooted(dist.BroadcastOptions(), motif))
            raise AssertionError(motif.kind)

        return self._call(Kind.ALL_REDUCE, flat, begin, tensors)

    @_not_compiled
    def broadcast(self, tensors: list[Any], opts: Any = None) -> PlannedWork:
        """Broadcast, in place."""
        if len(tensors) != 1 or not tensors[0].is_contiguous():
            return self._as_called("broadcast", tensors, tensors, opts)
        flat = tensors[0].view(-1)

        def begin(number: int, placed: Placed) -> Any:
            motif = placed.step.motif
            return self._connections.channels[placed.channel].broadcast([flat[motif.start : motif.stop]], opts)

        return self._call(Kind.BROADCAST, flat, begin, tensors)

    @_not_compiled
    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> PlannedWork:
        """Gather the inputs of all, one after the other, in `output`."""
        if not (output.is_contiguous() and input.is_contiguous()):
            return self._as_called("_allgather_base", [output], output, input)
        rows, flat, parts = output.view(self.size(), -1), input.view(-1), _Parts()

        def begin(number: int, placed: Placed) -> Any:
            motif, group = placed.step.motif, self._connections.channels[placed.channel]
            if motif.stop - motif.start == flat.numel():
                return group._allgather_base(output.view(-1), flat)
            return group._allgather_base(parts.receive(rows, motif), flat[motif.start : motif.stop])

        return self._call(Kind.ALL_GATHER, flat, begin, [output], parts.unpack)

    @_not_compiled
    def reduce_scatter_single(self, output: Any, input: Any, opts: Any = None) -> PlannedWork:
        """Reduce, and leave each process its part of the result in `output`."""
        opts = dist.ReduceScatterOptions() if opts is None else opts
        if not (output.is_contiguous() and input.is_contiguous()):
            return self._as_called("_reduce_scatter_base", [output], output, input, opts)
        rows, flat = input.view(self.size(), -1), output.view(-1)

        def begin(number: int, placed: Placed) -> Any:
            motif, group = placed.step.motif, self._connections.channels[placed.channel]
            if motif.stop - motif.start == flat.numel():
                return group._reduce_scatter_base(flat, input.view(-1), opts)
            part = rows[:, motif.start : motif.stop].contiguous().view(-1)
            return group._reduce_scatter_base(flat[motif.start : motif.stop], part, opts)

        return self._call(Kind.REDUCE_SCATTER, input, begin, [output])

    @_not_compiled
    def all_to_all_single(
        self, output: Any, input: Any, output_split_sizes: list[int], input_split_sizes: list[int], opts: Any = None
    ) -> PlannedWork:
        """Send a part of the input to each process."""
        even = not any(output_split_sizes) and not any(input_split_sizes)
        if not even or not (output.is_contiguous() and input.is_contiguous()):
            return self._as_called("alltoall_base", [output], output, input, output_split_sizes, input_split_sizes)
        size, rank, parts = self.size(), self._connections.rank, _Parts()
        sent, received = input.view(size, -1), output.view(size, -1)

        def begin(number: int, placed: Placed) -> Any:
            motif, group = placed.step.motif, self._connections.channels[placed.channel]
            width = motif.stop - motif.start
            if motif.shifts is None and width == sent.shape[1]:
                return group.alltoall_base(output.view(-1), input.view(-1), [], [])
            first, last = motif.shifts or (0, size)
            to = sorted((rank + shift) % size for shift in range(first, last))
            sources = sorted((rank - shift) % size for shift in range(first, last))
            packed = sent[to, motif.start : motif.stop].contiguous().view(-1)
            into = parts.receive(received, motif, sources)
            return group.alltoall_base(into, packed, _split(sources, size, width), _split(to, size, width))

        return self._call(Kind.ALL_TO_ALL, input, begin, [output], parts.unpack)

    _allgather_base = all_gather_into_tensor = all_gather_single
    _reduce_scatter_base = reduce_scatter_tensor = reduce_scatter_single
    alltoall_base = all_to_all_single

    # Operations that are executed as they are called

    @_not_compiled
    def allgather(self, outputs: list[list[Any]], inputs: list[Any], opts: Any = None) -> PlannedWork:
        """All-gather into lists of tensors."""
        return self._as_called("allgather", outputs, outputs, inputs)

    @_not_compiled
    def reduce_scatter(self, outputs: list[Any], inputs: list[list[Any]], opts: Any = None) -> PlannedWork:
        """Reduce-scatter of lists of tensors."""
        return self._as_called("reduce_scatter", outputs, outputs, inputs, opts or dist.ReduceScatterOptions())

    @_not_compiled
    def alltoall(self, outputs: list[Any], inputs: list[Any], opts: Any = None) -> PlannedWork:
        """All-to-all of lists of tensors, each as large as it is."""
        sizes = [[one.numel() for one in tensors] for tensors in (outputs, inputs)]
        into = torch.empty(sum(sizes[0]), dtype=inputs[0].dtype, device=inputs[0].device)
        packed = torch.cat([one.reshape(-1) for one in inputs])

        def unpack() -> None:
            for tensor, part in zip(outputs, into.split(sizes[0]), strict=True):
                tensor.copy_(part.view_as(tensor))

        return self._call(
            Kind.OTHER,
            packed,
            lambda number, placed: self._connections.channels[placed.channel].alltoall_base(into, packed, *sizes),
            outputs,
            unpack,
            "alltoall",
        )

    @_not_compiled
    def reduce(self, tensors: list[Any], opts: Any = None) -> PlannedWork:
        """Reduce to one process."""
        return self._as_called("reduce", tensors, tensors, opts)

    @_not_compiled
    def gather(self, outputs: list[list[Any]], inputs: list[Any], opts: Any = None) -> PlannedWork:
        """Gather in one process."""
        return self._as_called("gather", outputs, outputs, inputs, opts)

    @_not_compiled
    def scatter(self, outputs: list[Any], inputs: list[list[Any]], opts: Any = None) -> PlannedWork:
        """Scatter from one process."""
        return self._as_called("scatter", outputs, outputs, inputs, opts)

    @_not_compiled
    def allreduce_coalesced(self, tensors: list[Any], opts: Any = None) -> PlannedWork:
        """All-reduce several tensors."""
        return self._as_called("allreduce_coalesced", tensors, tensors, opts)

    @_not_compiled
    def all_gather_single_coalesced(self, outputs: list[Any], inputs: list[Any], opts: Any = None) -> PlannedWork:
        """Gather several tensors, each in a tensor of its own."""
        return self._as_called("all_gather_single_coalesced", outputs, outputs, inputs)

    @_not_compiled
    def reduce_scatter_single_coalesced(self, outputs: list[Any], inputs: list[Any], opts: Any = None) -> PlannedWork:
        """Reduce-scatter several tensors."""
        return self._as_called("reduce_scatter_single_coalesced", outputs, outputs, inputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    @_not_compiled
    def barrier(self, opts: Any = None) -> PlannedWork:
        """Wait for all."""
        return self._as_called("barrier", [])

    @_not_compiled
    def send(self, tensors: list[Any], destination: int, tag: int) -> Any:
        """Send to one process, beside the operations of all."""
        return self._connections.direct.send(tensors, destination, tag)

    @_not_compiled
    def recv(self, tensors: list[Any], source: int, tag: int) -> Any:
        """Receive from one process."""
        return self._connections.direct.recv(tensors, source, tag)

    @_not_compiled
    def recv_anysource(self, tensors: list[Any], tag: int) -> Any:
        """Receive from any process."""
        return self._connections.direct.recv_anysource(tensors, tag)

    def _takes_part(self, motif: Motif) -> bool:
        return self._connections.rank in motif.members

    def _as_called(self, method: str, results: list[Any], *arguments: Any) -> PlannedWork:
        def begin(number: int, placed: Placed) -> Any:
            given = [one for one in arguments if one is not None]
            return getattr(self._connections.channels[placed.channel], method)(*given)

        first = results[0] if results else torch.empty(0)
        return self._call(
            Kind.OTHER, first[0] if isinstance(first, list) and first else first, begin, results, name=method
        )

    def _call(
        self,
        kind: Kind,
        tensor: Any,
        begin: Begin,
        results: list[Any],
        unpack: Callable[[], None] = lambda: None,
        name: str = "",
    ) -> PlannedWork:
        is_tensor = isinstance(tensor, torch.Tensor)
        operation = Operation(
            kind,
            tensor.numel() if is_tensor else 0,
            str(tensor.dtype).removeprefix("torch.") if is_tensor else "",
            tensor.element_size() if is_tensor else 0,
            self.size(),
            f"{self._number} {name}".strip(),
        )
        job = TorchJob(self._connections, name or kind, begin, unpack)
        completion, iteration, place = self._enforcer.call(operation, job)
        return PlannedWork(self._enforcer, completion, iteration, place, results)


class _Parts:
    """Parts of rows that arrive packed, and where they go."""

    def __init__(self) -> None:
        self._received: list[tuple[Any, Any, Sequence[int] | slice, Motif]] = []

    def receive(self, rows: Any, motif: Motif, sources: Sequence[int] | None = None) -> Any:
        """Memory for a motif: a part of each row, or of these."""
        count = rows.shape[0] if sources is None else len(sources)
        into = torch.empty(count * (motif.stop - motif.start), dtype=rows.dtype, device=rows.device)
        self._received.append((into, rows, slice(None) if sources is None else list(sources), motif))
        return into

    def unpack(self) -> None:
        """Put them into their rows."""
        for into, rows, which, motif in self._received:
            rows[which, motif.start : motif.stop] = into.view(-1, motif.stop - motif.start)


def _all_parts(motif: Motif) -> slice:
    return slice(motif.start, motif.start + motif.stride * len(motif.members))


def _split(ranks: Sequence[int], size: int, width: int) -> list[int]:
    return [width if rank in ranks else 0 for rank in range(size)]


def _rooted(options: Any, motif: Motif, operator: Any = None) -> Any:
    options.rootRank = motif.members.index(motif.root if motif.root is not None else motif.members[0])
    options.rootTensor = 0
    if operator is not None:
        options.reduceOp = operator
    return options
