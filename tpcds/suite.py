"""Run queries on one engine and compare each answer with those of the reference engines."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from tpcds import queries
from tpcds.answers import Answer, Engine, compare
from tpcds.errors import EngineError
from tpcds.results import QueryRow
from yarn_plugin.quantities import count

MAX_SHOWN_DIFFERENCES = 5
"""Differing cells listed in the results; their total is always given."""

TextOf = Callable[[int, str], str]


@dataclass(frozen=True, slots=True)
class NamedEngine:
    """An engine with its name and its SQL dialect."""

    name: str
    dialect: str
    engine: Engine


def run_suite(
    numbers: Sequence[int],
    measured: NamedEngine,
    references: Sequence[NamedEngine] = (),
    repeat: int = 1,
    text_of: TextOf = queries.text,
) -> Iterator[QueryRow]:
    """Yield the result of each query as soon as it is known; a failed query yields a row with its error."""
    for number in numbers:
        yield _run_query(number, measured, references, repeat, text_of)


def _run_query(
    number: int, measured: NamedEngine, references: Sequence[NamedEngine], repeat: int, text_of: TextOf
) -> QueryRow:
    try:
        answers = [measured.engine.run(text_of(number, measured.dialect)) for _ in range(repeat)]
    except EngineError as failed:
        return QueryRow(query=number, error=str(failed))
    comparisons = _compare(number, answers, measured.name, references, text_of)
    row = QueryRow(query=number, **_measurements(answers))
    differences = tuple(difference for lines in comparisons.values() for difference in lines)
    equal = {f"equal_to_{name}": not lines for name, lines in comparisons.items()}
    return row.model_copy(update={**equal, "differences": differences})


def _measurements(answers: Sequence[Answer]) -> Mapping[str, object]:
    answer = answers[-1]
    seconds = [answer.seconds for answer in answers]
    return {
        "seconds": statistics.median(seconds),
        "repetitions": tuple(seconds),
        "rows": len(answer.rows),
        "blank": not any(cell for row in answer.rows for cell in row),
        **(asdict(answer.plan) if answer.plan else {}),
    }


def _compare(
    number: int, answers: Sequence[Answer], name: str, references: Sequence[NamedEngine], text_of: TextOf
) -> dict[str, list[str]]:
    """The differences from each reference, as lines; every repetition is compared, not only the last."""
    differences: dict[str, list[str]] = {}
    for reference in references:
        try:
            expected = reference.engine.run(text_of(number, reference.dialect))
        except EngineError as failed:
            differences[reference.name] = [f"not compared with {reference.name}, which failed: {failed}"]
            continue
        differing = max((compare(answer, expected) for answer in answers), key=len)
        lines = [
            f"{name} differs from {reference.name}: {difference}" for difference in differing[:MAX_SHOWN_DIFFERENCES]
        ]
        if len(differing) > MAX_SHOWN_DIFFERENCES:
            lines.append(f"{name} differs from {reference.name}: {count(len(differing), 'difference')} in total")
        differences[reference.name] = lines
    return differences
