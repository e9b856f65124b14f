"""How many cells of each level quotas have, and how many more they could have."""

from collections.abc import Iterator, Sequence

from yarn_plugin.decide.mechanisms.buddy_cells.cluster import ChainState, Cluster


def level_rows(state: ChainState, cluster: Cluster) -> Iterator[tuple[str, int, str, int, int, int, int, int]]:
    """One row a level; spare: how many more cells the quotas of this level could have."""
    chain, left, free = state.chain, state.quotas.left, state.counts()
    cells_of = cluster.forest.levels[chain.name]
    for level in range(chain.top, 0, -1):
        pinned = sum(1 for cell in cells_of[level - 1] if cell.pinned)
        spare = _spare(state, level, free)
        yield (
            chain.name,
            level,
            chain.types[level - 1],
            chain.sizes[level - 1],
            len(cells_of[level - 1]),
            pinned,
            left[level - 1],
            spare,
        )


def _spare(state: ChainState, level: int, free: Sequence[int]) -> int:
    """How many more cells of a level could be assured: by bisection, as feasibility is monotone."""
    low, high = 0, sum(size * number for size, number in zip(state.chain.sizes, free, strict=True))
    while low < high:
        middle = (low + high + 1) // 2
        if state.quotas.can_add(level, middle, free):
            low = middle
        else:
            high = middle - 1
    return low
