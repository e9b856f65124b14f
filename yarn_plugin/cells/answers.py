"""Answers of the allocator of cells in words: where a gang goes, whom it evicts, or why it waits."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from yarn_plugin.decide.mechanisms.buddy_cells.answers import Answer, Bind, Preempt, Reason, Wait
from yarn_plugin.decide.mechanisms.buddy_cells.cluster import Cluster
from yarn_plugin.decide.mechanisms.buddy_cells.explanation import Explanation, Missing, enlarged_quota
from yarn_plugin.decide.mechanisms.buddy_cells.gangs import Placement, Request
from yarn_plugin.decide.mechanisms.buddy_cells.specification import ClusterSpec
from yarn_plugin.quantities import count


def answer_lines(
    answer: Answer, explanation: Explanation | None, request: Request, spec: ClusterSpec, jobs: Mapping[str, str]
) -> Iterator[str]:
    """The answer to a request, in lines. `explanation`: if it waits; `spec`: of the cluster; `jobs`: of the gangs that
    are parts of one."""
    match answer:
        case Bind():
            yield f"now, on {places(answer.placement)}"
        case Preempt():
            yield f"after evicting {', '.join(jobs_of(answer.victims, jobs))}: on {places(answer.placement)}"
        case Wait():
            assert explanation is not None
            yield from _wait_lines(answer, explanation, request, spec)


def _wait_lines(answer: Wait, explanation: Explanation, request: Request, spec: ClusterSpec) -> Iterator[str]:
    if explanation.missing:
        yield "never, with these quotas:"
        for missing in explanation.missing:
            yield f"  {_missing(missing, request)}"
            if missing.lacks:
                yield f"  {_enlarged(enlarged_quota(Cluster(spec), request.cluster, missing), missing, request)}"
        return
    reasons = {
        Reason.NO_ROOM: f"waits: no room in {request.cluster} at priority {request.priority}",
        Reason.BAD_NODE: "waits: only bad nodes have room",
        Reason.EXCLUDED_NODE: "waits: only excluded nodes have room",
        Reason.UNUSABLE_CELLS: f"waits: {request.cluster} has room, but only bad or excluded nodes are left for it",
        Reason.NEVER_FITS: f"never: {request.cluster} has no cells to try",
    }
    yield reasons[answer.reason]
    yield f"until any of these ends: {', '.join(explanation.after)}" if explanation.after else "no single end is enough"


def _missing(missing: Missing, request: Request) -> str:
    where = f"chain {missing.chain}"
    if missing.lacks is None:
        return f"{where}: each pod fits on a cell, but not all {len(request.sizes)} at once"
    largest = count(missing.largest, "leaf", "leaves")
    if not missing.lacks:
        return f"{where}: a pod has {missing.pod} leaves, the largest node {largest}"
    return (
        f"{where}: a pod has {missing.pod} leaves, and the largest cell of {request.cluster} that is a node or smaller "
        f"has {largest}; needs a cell of type {missing.lacks} or larger in its quota"
    )


def _enlarged(quota: Mapping[str, int] | None, missing: Missing, request: Request) -> str:
    if quota is None:
        return "no such cell is left beside the quotas of others; theirs would have to be smaller, or the chain larger"
    cells = ", ".join(
        f'{{ chain = "{missing.chain}", type = "{kind}", number = {number} }}' for kind, number in quota.items()
    )
    return f"its quota in this chain would have to be: virtual_clusters.{request.cluster}.cells = [{cells}]"


def jobs_of(gangs: Iterable[str], jobs: Mapping[str, str]) -> list[str]:
    """The gangs by names that users know: those of their jobs, each once. `jobs`: of gangs that are parts of one."""
    return list(dict.fromkeys(jobs.get(gang, gang) for gang in gangs))


def places(placement: Placement) -> str:
    """Nodes, with the addresses of leaves."""
    parts = []
    for leaves in placement.physical:
        node = leaves[0].node
        assert node is not None
        parts.append(f"{node.address}[{','.join(leaf.address for leaf in leaves)}]")
    return " ".join(parts)


def answer_figures(answer: Answer, explanation: Explanation | None, jobs: Mapping[str, str]) -> dict[str, Any]:
    """An answer as JSON. `explanation`: of one that waits."""
    figures: dict[str, Any] = {"answer": type(answer).__name__.lower()}
    if isinstance(answer, Bind | Preempt):
        figures["pods"] = [
            {"node": leaves[0].node.address if leaves[0].node else "", "leaves": [leaf.address for leaf in leaves]}
            for leaves in answer.placement.physical
        ]
    if isinstance(answer, Preempt):
        figures["evicts"] = jobs_of(answer.victims, jobs)
    if isinstance(answer, Wait) and explanation is not None:
        figures["reason"] = Reason.NEVER_FITS if explanation.missing else answer.reason
        figures["until_any_ends"] = list(explanation.after)
    return figures
