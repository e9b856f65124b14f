"""The page of the demo's searches: who held which GPU, auctions and payments, resumed trials, the best ones.

`write_page(folder / "searches.json", folder / "searches.html")`. Everything on it is recorded; what did not happen in a
run is named as such.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tpcds.demo.searches.charts import Times, held_chart, leases_chart, rho_chart
from tpcds.demo.searches.record import BestTrial, Search, SearchesRecord
from tpcds.demo.searches.sentences import explained, opened, rho_text
from tpcds.demo.searches.told import END_WORDS, Resumed, Told, part
from yarn_plugin.quantities import count, number, seconds
from yarn_plugin.report import (
    Badge,
    Code,
    Column,
    Details,
    Entries,
    Entry,
    KeyFigure,
    KeyFigures,
    Page,
    Section,
    Table,
    Text,
    write,
)
from yarn_plugin.report.markup import Block

REASONS = {
    "revoked": "its GPU was lost in an auction",
    "paused": "its rung had ended",
    "moved": "it moved to other GPUs",
    "": "it ended by itself, or was lost",
}
"""Why a run of a trial that goes on later was stopped."""


def write_page(record: Path, out: Path) -> None:
    """Write the page.

    Raises:
        DemoReportError: the record cannot be read.
        ReportError: the page cannot be written.
    """
    write(page(SearchesRecord.read(record)), out)


def page(record: SearchesRecord) -> Page:
    """The page of what was recorded."""
    told, times = Told(record), Times(record)
    began = datetime.fromtimestamp(record.began_at, UTC)
    gpus = record.gpu_nodes * record.gpus_per_node
    return Page(
        f"{_number_word(len(record.searches))} hyperparameter searches share {gpus} GPUs fairly",
        f"Hyperband with real training in JAX, on GPUs that YARN counts on {count(record.gpu_nodes, 'node')}; "
        f"{began:%Y-%m-%d %H:%M} UTC",
        (
            Section("GPUs", tuple(_gpus(told, times))),
            Section("Fairness", tuple(_fairness(told, times))),
            Section("Auctions", tuple(_auctions(told, times))),
            Section("Leases that ended", tuple(_leases(told))),
            Section("Trials that were stopped and resumed", tuple(_resumed(told, times))),
            Section("Best trials", tuple(_best(record))),
            Section("The query beside them", tuple(_query(record, times))),
            Section("Settings", tuple(_settings(record))),
        ),
        tuple(_top(told, times)),
    )


def features(record: SearchesRecord) -> list[tuple[str, bool, str]]:
    """What the demo is to show: the name, whether this run shows it, and where or how often."""
    told = Told(record)
    payments, leftovers, resumed, best = told.payments, told.leftovers, told.resumed, _best_of(record)
    lowest = min((award.share_max for _, award in payments), default=None)
    moved, again = sum(one.is_moved for one in resumed), sum(one.again for one in resumed)
    dealt = [f"{told.name(app)} {gpus} in round {one.round}" for one, app, gpus in leftovers]
    return [
        ("rounds with two bids or more", bool(told.contended), _in_rounds([one.round for one in told.contended])),
        (
            "payments c < 1",
            bool(payments),
            f"{len(payments)}, the lowest c {lowest:.2f}" if lowest is not None else "every winner kept all",
        ),
        ("leftovers for a bystander", bool(leftovers), ", ".join(dealt[:4]) or "bidders kept all"),
        (
            "leases that ended",
            bool(told.ended),
            f"{len(told.ended)} of single GPUs, {len(told.lost)} of them lost in an auction",
        ),
        (
            "trials resumed from checkpoints",
            bool(resumed),
            f"{len(resumed)}, {moved} on other GPUs; {count(again, 'step')} executed again",
        ),
        ("best trial", best is not None, "none" if best is None or best.best is None else _named(best.name, best.best)),
    ]


def _named(search: str, best: BestTrial) -> str:
    accuracy = "" if best.accuracy is None else f", accuracy {100 * best.accuracy:.1f} %"
    return f"{best.trial} of {search}: loss {best.loss:.3g}{accuracy}"


def _number_word(value: int) -> str:
    return {1: "One", 2: "Two", 3: "Three", 4: "Four"}.get(value, str(value))


def _in_rounds(numbers: list[int]) -> str:
    return f"{len(numbers)}: " + ", ".join(map(str, numbers)) if numbers else "none"


def _best_of(record: SearchesRecord) -> Search | None:
    found = [one for one in record.searches if one.best is not None]
    return min(found, key=lambda one: one.best.loss if one.best else 0.0, default=None)


def _top(told: Told, times: Times) -> Iterator[Block]:
    record = told.record
    trials = sum(sum(one.trials.values()) for one in record.searches)
    steps = sum(one.steps for one in record.searches)
    yield Text(
        f"{_number_word(len(record.searches))} searches trained {trials} networks on handwritten digits, "
        f"{number(steps)} epochs in all. Their GPUs were leased for about {record.rounds.lease_s:g} s at a time: when "
        f"leases ended, the searches that were worst off bid for the GPUs in an auction, "
        f"{len(told.auctions)} in {number(times.end)} s.",
        "lead",
    )
    yield KeyFigures(tuple(_figures(told)))
    if not record.rounds.complete:
        yield Text("The arbiter's journal no longer has the first rounds.", "warning")
    bad = [one for one in record.searches if one.final != "SUCCEEDED"]
    for one in bad:
        yield Text(f"{one.name} did not succeed: {one.final}", "warning")
    rows = tuple((name, Badge("yes", "good") if seen else Badge("not in this run", "warn"), how)
                 for name, seen, how in features(record))  # fmt: skip
    yield Table((Column("shown here"), Column(""), Column("how often, where")), rows)


def _figures(told: Told) -> Iterator[KeyFigure]:
    record, best = told.record, _best_of(told.record)
    if best is not None and best.best is not None:
        if best.best.accuracy is not None:
            note = "of images it was not trained on"
            yield KeyFigure("best accuracy", f"{100 * best.best.accuracy:.1f} %", note, "accent")
        yield KeyFigure("best loss", f"{best.best.loss:.3g}", f"{best.name}, {best.best.trial}")
    yield KeyFigure("auctions", str(len(told.auctions)), f"{len(told.contended)} with two bids or more")
    paid = sum(award.won - award.kept for _, award in told.payments)
    yield KeyFigure("payments c < 1", str(len(told.payments)), f"{count(paid, 'GPU')} paid")
    yield KeyFigure("leftovers", str(sum(gpus for *_, gpus in told.leftovers)), "GPUs, to bystanders")
    again = sum(one.again for one in told.resumed)
    yield KeyFigure("trials resumed", str(len(told.resumed)), f"{count(again, 'step')} executed again")
    rhos = [rho for one in record.rounds.rounds for _, rho in one.rhos if rho is not None]
    yield KeyFigure("largest rho", number(max(rhos)) if rhos else "none", "that was bounded, at a round")


def _gpus(told: Told, times: Times) -> Iterator[Block]:
    yield Text(
        "A bar is a lease of one GPU. A search that wins its GPU again is not disturbed, and its bar goes on. "
        "Vertical lines are auctions."
    )
    yield leases_chart(told, times)
    yield held_chart(told, times)


def _fairness(told: Told, times: Times) -> Iterator[Block]:
    yield Text(
        "rho is the time that a search takes in the shared cluster, divided by its time with an equal part of its own. "
        "Without GPUs it is unbounded, which is a gap here. The searches with the largest rho may bid: "
        f"with f = {told.record.rounds.f:g}, 1 - f of them, rounded up."
    )
    yield rho_chart(told, times)
    rows = []
    for app, name in told.names.items():
        known = [dict(one.rhos)[app] for one in told.record.rounds.rounds if app in dict(one.rhos)]
        bounded = [rho for rho in known if rho is not None]
        rows.append(
            (name, len(known), len(known) - len(bounded), max(bounded, default=None), bounded[-1] if bounded else None)
        )
    columns = (Column("search"), Column("rounds", True), Column("of these unbounded", True),
               Column("largest rho", True, 2), Column("last rho", True, 2))  # fmt: skip
    yield Table(columns, tuple(rows))


def _auctions(told: Told, times: Times) -> Iterator[Block]:
    yield Text(
        "Each bidder says what its rho would be with parts of the offer. The auction maximises the product of the "
        "improvements. A winner keeps c of what it won: the less, the more its bid costs the others, so that lying "
        "does not pay. What is paid or won by nobody goes, by chance, to searches that were not offered any."
    )
    yield Table(
        (Column("round", True), Column("at, s", True, 0), Column("opened by"), Column("GPUs", True), Column("bidders"),
         Column("won, kept (c)"), Column("leftovers to"), Column("idle", True)),
        tuple(
            (
                one.round,
                times(one.at),
                opened(one),
                one.gpus,
                ", ".join(f"{told.name(bid.app)} (rho {rho_text(bid.rho)})" for bid in one.bids),
                one.error
                or "; ".join(
                    f"{told.name(award.app)} {award.won}, {award.kept} ({part(award)})"
                    for award in one.awards
                    if award.won
                ),
                ", ".join(f"{told.name(app)} {gpus}" for app, gpus in one.leftovers),
                sum(gpus for _, gpus in one.idle) or None,
            )
            for one in told.record.rounds.rounds
        ),
        empty="No round was recorded.",
    )  # fmt: skip
    if not told.payments:
        yield Text("In this run every winner kept all that it won: no bid cost the others anything.", "warning")
    if not told.leftovers:
        yield Text("In this run no bystander got leftovers: bidders won and kept all that was offered.", "warning")
    yield Entries(tuple(
        Entry(f"+{times(one.at):.0f} s", explained(told, one), Badge(f"round {one.round}"), opened(one))
        for one in told.record.rounds.rounds
    ))  # fmt: skip


def _leases(told: Told) -> Iterator[Block]:
    names = list(told.names.values())
    rows = []
    for name in names:
        mine = [one for one in told.record.rounds.leases if told.name(one.app) == name]
        again = sum(len(one.wins) - 1 for one in mine)
        ends = Counter(END_WORDS.get(one.ended_by or "", one.ended_by or "held at the end") for one in mine)
        gpu_s = sum(one.end - one.start for one in mine if one.end is not None)
        vacated = [one.end - one.revoked_at for one in mine if one.end is not None and one.revoked_at is not None]
        said = ", ".join(f"{many} {how}" for how, many in ends.items())
        rows.append((name, len(mine), again, said, max(vacated, default=None), gpu_s))
    columns = (Column("search"), Column("GPUs granted", True), Column("won again", True), Column("how they ended"),
               Column("slowest to vacate, s", True, 1), Column("GPU seconds held", True, 0))  # fmt: skip
    yield Text(
        "A lease that ends is auctioned while its holder trains on. Who loses it saves checkpoints and vacates the "
        "GPUs; the winner gets them when YARN lists no container there any more."
    )
    yield Table(columns, tuple(rows))


def _resumed(told: Told, times: Times) -> Iterator[Block]:
    found = told.resumed
    if not found:
        yield Text("In this run no trial was stopped and resumed.", "warning")
        return
    again, lost = sum(one.again for one in found), sum(one.lost_steps for one in told.record.searches)
    yield Text(
        f"{count(len(found), 'time')}, a trial went on from its checkpoint, "
        f"{sum(one.is_moved for one in found)} of them on another GPU. {count(again, 'step')} executed again; "
        f"{count(lost, 'step')} lost after the newest checkpoint."
    )
    yield Table(
        (Column("at, s", True, 0), Column("search"), Column("trial"), Column("from GPU"), Column("to GPU"),
         Column("stopped since"), Column("from step", True), Column("to step", True), Column("executed again", True)),
        tuple(_resumed_row(one, times) for one in found),
    )  # fmt: skip


def _resumed_row(one: Resumed, times: Times) -> tuple[str | float | None, ...]:
    reason = REASONS.get(one.before.reason, one.before.reason)
    there = ", ".join(one.after.cells) if one.is_moved else "the same"
    return (
        times(one.after.began), one.search, one.after.trial, ", ".join(one.before.cells), there, reason,
        one.stored, one.after.last_step, one.again,
    )  # fmt: skip


def _best(record: SearchesRecord) -> Iterator[Block]:
    rows = []
    for one in record.searches:
        trials = ", ".join(f"{many} {name}" for name, many in one.trials.items())
        best, took = one.best, one.ended_at - one.submitted_at
        parameters = "" if best is None else ", ".join(f"{name} = {_short(of)}" for name, of in best.parameters.items())
        accuracy = None if best is None or best.accuracy is None else 100 * best.accuracy
        figures = (None, None) if best is None else (best.loss, best.step)
        rows.append(("none" if best is None else best.trial, one.name, *figures, accuracy, parameters, trials, took))
    columns = (Column("best trial"), Column("search"), Column("loss", True, 3), Column("epochs", True),
               Column("accuracy, %", True, 1), Column("parameters"), Column("trials"),
               Column("submission to end, s", True, 0))  # fmt: skip
    note = "Loss and accuracy are those of 297 images that are not trained on; the accuracy is computed from the best "
    yield Table(columns, tuple(rows), note=f"{note}trial's exported checkpoint.")


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _query(record: SearchesRecord, times: Times) -> Iterator[Block]:
    run = record.query
    if run is None:
        yield Text("No query ran beside the searches.", "warning")
        return
    began, ended = run.submitted_at, run.ended_at
    beside = [one.name for one in record.searches if one.submitted_at < ended and one.ended_at > began]
    equal = "equal to DuckDB's" if run.equal_to_duckdb else "NOT equal to DuckDB's"
    yield Text(
        f"TPC-DS query {run.query} ran from {times(began):.0f} to {times(ended):.0f} s in the pool "
        f"sql of the same arbiter, while {', '.join(beside) or 'nothing'} trained: {seconds(run.seconds)}, "
        f"{count(run.rows, 'row')}, {equal}. Its nodes have {record.cpu_per_node:g} cores each; those with GPUs have "
        f"no such limit ({record.quotas})."
    )


def _settings(record: SearchesRecord) -> Iterator[Block]:
    yield Text("The arbiter's configuration, and the files that were submitted:")
    yield Code(record.config)
    for one in record.searches:
        yield Details(f"{one.name}, {one.yarn_app}", (Code(one.file),))
