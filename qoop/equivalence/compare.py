"""Compare a plan that the planner made with the query as written."""

from collections.abc import Mapping

from qoop.equivalence.canonical import canonical_text
from qoop.equivalence.spark_tree import Node
from qoop.equivalence.translate import translate


def difference(written: tuple[Node, Mapping[int, str]], made: tuple[Node, Mapping[int, str]]) -> str | None:
    """Where two analysed plans differ; None if they compute the same rows.

    Each plan comes with the tables that its leaves read (see `translate`).

    Raises:
        UnverifiableError: a plan has a part that cannot be compared.
    """
    first, second = (canonical_text(translate(plan, tables)) for plan, tables in (written, made))
    if first == second:
        return None
    start = next((place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
    return f"{first[max(start - 60, 0) : start + 100]!r} became {second[max(start - 60, 0) : start + 100]!r}"
