"""What a cluster of cells refuses: files that cannot be right, and requests that nothing could ever make right."""

from yarn_plugin.errors import BadInputError


class CellFileError(BadInputError):
    """A description of cells and virtual clusters is contradictory."""


class InfeasibleError(CellFileError):
    """The quotas of the virtual clusters exceed what the physical cells can be split into."""

    def __init__(self, chain: str, level: int, kind: str, needed: int, available: int) -> None:
        super().__init__(
            f"virtual_clusters: chain {chain}, level {level}: cells of type {kind} in all quotas:",
            needed,
            f"only {available} available at this level after what is pinned and what higher levels take; "
            f"reduce the quotas by {needed - available}, or add cells",
        )
        self.chain, self.level, self.kind, self.needed, self.available = chain, level, kind, needed, available


class RejectedError(BadInputError):
    """A request names something that does not exist, or asks for more than its gang has."""
