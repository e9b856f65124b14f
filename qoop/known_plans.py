"""Plans that were made before in this process: for the same text over the same tables they are not made again."""

from collections.abc import Callable
from dataclasses import dataclass, field

from qoop.errors import CannotSplitError
from qoop.estimate.cost import CostModel
from qoop.estimate.statistics import TableStatistics
from qoop.latest import Latest
from qoop.parsing.moment import Moment
from qoop.parsing.spark_sql import Catalogue, Types
from qoop.parsing.statement import Statement
from qoop.planner import NOTHING_FOUND, Findings, PlannedQuery, plan
from qoop.plans.candidates import CutPolicy

MAX_PLANNED = 100
"""How many queries are kept; beyond that, those that ran longest ago are forgotten."""

Statistics = Callable[[str], TableStatistics]


@dataclass
class _LookUps:
    """A catalogue and statistics that remember what was asked and answered."""

    catalogue: Catalogue
    statistics_of: Statistics
    known_columns: dict[str, Types | None] = field(default_factory=dict)
    known_statistics: dict[str, TableStatistics] = field(default_factory=dict)

    def columns(self, table: str) -> Types | None:
        self.known_columns[table] = self.catalogue.columns(table)
        return self.known_columns[table]

    def statistics(self, table: str) -> TableStatistics:
        self.known_statistics[table] = self.statistics_of(table)
        return self.known_statistics[table]


@dataclass(frozen=True)
class _Made:
    """A planned query, or why it cannot be planned, and all that was looked up for it."""

    planned: PlannedQuery | CannotSplitError
    columns: dict[str, Types | None]
    statistics: dict[str, TableStatistics]

    def holds(self, catalogue: Catalogue, statistics: Statistics) -> bool:
        """Whether all answers would be the same; column orders count."""
        same_columns = all(_listed(catalogue.columns(table)) == _listed(old) for table, old in self.columns.items())
        return same_columns and all(statistics(table) == old for table, old in self.statistics.items())


class KnownPlans:
    """The latest planned queries.

    What `plan` makes depends on nothing but its arguments, the answers of the catalogue and the statistics, so it is
    made again when any of these has changed. A query that reads the current date or time is planned each time.
    """

    def __init__(self) -> None:
        self._made: Latest[object, _Made] = Latest(MAX_PLANNED)

    def plan(
        self,
        statement: Statement,
        catalogue: Catalogue,
        statistics: Statistics,
        cut_policy: CutPolicy,
        model: CostModel,
        now: Callable[[], Moment] | None = None,
        fewer_stages: bool = False,
        findings: Findings = NOTHING_FOUND,
    ) -> PlannedQuery:
        """See `qoop.planner.plan`; what cannot be planned is remembered too."""
        key = (statement.text, statement.syntax, cut_policy, model, now is None, fewer_stages, findings)
        made = self._made.get(key)
        if made is None or not made.holds(catalogue, statistics):
            asked = _LookUps(catalogue, statistics)
            planned: PlannedQuery | CannotSplitError
            try:
                planned = plan(statement, asked, asked.statistics, cut_policy, model, now, fewer_stages, findings)
                if planned.moment is not None:
                    return planned
            except CannotSplitError as problem:
                planned = CannotSplitError(problem.cause)
            made = _Made(planned, asked.known_columns, asked.known_statistics)
        self._made.put(key, made)
        if isinstance(made.planned, CannotSplitError):
            raise CannotSplitError(made.planned.cause)
        return made.planned


def _listed(columns: Types | None) -> list[tuple[str, str]] | None:
    return list(columns.items()) if columns is not None else None
