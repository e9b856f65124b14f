"""What a run needs of an engine: text in, answer out.

An engine answers in its own types; `tpcds.compare` knows which of them mean the same.
"""

from dataclasses import dataclass
from typing import Any, Protocol

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What an engine that switches plans did for one query.

    `join_trees` counts the trees considered, `stages` those executed; `reused`, `cancelled` and `backtracked` count
    stages. `one_stage_reason` says why the query was not split, where it was not.
    """

    join_trees: int
    stages: int
    switches: int
    reused: int
    cancelled: int
    backtracked: int
    one_stage_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query in their order, with the seconds from text to last row."""

    columns: tuple[str, ...]
    rows: list[Row]
    seconds: float
    plan: PlanFacts | None = None


class Engine(Protocol):
    """Answers queries over one data set."""

    def run(self, sql: str) -> Answer:
        """Answer a query written in the engine's dialect.

        Raises:
            EngineError: the query failed.
        """
        ...
