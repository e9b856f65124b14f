"""One case of the fuzz, made from its seed: tables, settings, a query."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from random import Random

from tests.fuzz import query as queries
from tests.fuzz import schema, settings
from tests.fuzz.schema import Table
from tests.fuzz.tree import Query

CASES_PER_WORLD = 25
"""Consecutive seeds with the same tables, which cost more to make than a query to run."""


@dataclass(frozen=True)
class Case:
    """A query over tables under settings. `attempt`: how many queries of this seed Spark has rejected before."""

    seed: int
    attempt: int
    tables: tuple[Table, ...]
    settings: tuple[str, ...]
    query: Query
    constructs: frozenset[str]

    @property
    def text(self) -> str:
        """The query."""
        return str(self.query)

    @property
    def read(self) -> tuple[Table, ...]:
        """The tables that the query reads."""
        return tuple(table for table in self.tables if table.name.lower() in self.text.lower())

    @property
    def is_repeated(self) -> bool:
        """Whether the query is run again after its tables have changed."""
        return self.seed % 10 == 7

    @property
    def is_read_in_part(self) -> bool:
        """Whether the first rows are also read alone, by a limit on the frame of the query."""
        return self.seed % 2 == 1 and bool(self.query.order)

    def later(self) -> "Case":
        """The case after the tables that it reads have got other rows."""
        random, read = Random(f"later {self.seed}"), self.read
        return replace(self, tables=tuple(table.changed(random) if table in read else table for table in self.tables))

    def golden(self) -> str:
        """Everything that is needed to run it again, as SQL."""
        made = [f"{statement};" for table in self.read for statement in table.statements()]
        if self.is_repeated:
            made += [f"-- later: {statement};" for table in self.later().read for statement in table.statements()]
        sets = [f"SET {name}={value};" for name, value in settings.values(self.settings).items()]
        return "\n".join(
            [f"-- seed {self.seed}: {', '.join(self.settings) or 'no settings'}", *made, *sets, f"{self.text};"]
        )


@lru_cache(maxsize=8)
def world(number: int) -> tuple[Table, ...]:
    """The tables of consecutive seeds."""
    return schema.tables(Random(f"tables {number}"))


def by_world(seeds: Iterable[int]) -> list[list[int]]:
    """Ordered seeds, those with the same tables together."""
    return [list(group) for _, group in groupby(seeds, lambda seed: seed // CASES_PER_WORLD)]


def make(seed: int, attempt: int = 0) -> Case:
    """The case of a seed."""
    tables = world(seed // CASES_PER_WORLD)
    random = Random(f"case {seed}/{attempt}")
    names = settings.draw(random)
    query, constructs = queries.write(random, tables, names)
    return Case(seed, attempt, tables, names, query, constructs)
