"""What the terminal shows of the searches at the end."""

from collections.abc import Iterator
from pathlib import Path

from tpcds.demo.searches.page import features
from tpcds.demo.searches.record import Search, SearchesRecord
from tpcds.demo.searches.told import Told
from yarn_plugin import console
from yarn_plugin.console import out


def print_verdict(record: SearchesRecord, page: Path) -> Iterator[str]:
    """Print the searches, and which features this run showed; yields what is wrong."""
    told = Told(record)
    columns = ("search", "#trials", "#resumed", "#seconds", "best trial", "#loss", "#accuracy")
    out.print(console.table(None, columns, [_row(told, one) for one in record.searches]))
    rows = [(name, "yes" if seen else "not in this run", how) for name, seen, how in features(record)]
    out.print(console.table(None, ("shown", "", "how often, where"), rows))
    out.print(f"report: {page}", soft_wrap=True)
    for one in record.searches:
        if one.final != "SUCCEEDED":
            yield f"search {one.name} did not succeed: {one.final}"
    if record.query is not None and not record.query.equal_to_duckdb:
        yield f"the answer of query {record.query.query} beside the searches differs from DuckDB's; see {page}"


def _row(told: Told, one: Search) -> tuple[str, ...]:
    best = one.best
    accuracy = "" if best is None or best.accuracy is None else f"{100 * best.accuracy:.1f} %"
    named = ("none", "") if best is None else (best.trial, f"{best.loss:.3f}")
    resumed = sum(again.search == one.name for again in told.resumed)
    took = f"{one.ended_at - one.submitted_at:.0f}"
    return one.name, str(sum(one.trials.values())), str(resumed), took, *named, accuracy
