"""`yarn-plugin replay`."""

import os
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from yarn_plugin import console
from yarn_plugin.api import translate
from yarn_plugin.api.missed_bids import text
from yarn_plugin.cli.options import json_option
from yarn_plugin.drive.recorded_rounds import RecordedRound, RecordedRounds, recorded_rounds, round_settings
from yarn_plugin.drive.recorded_training import RecordedTraining, lease_pool, recorded_training
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.replay import replay as run
from yarn_plugin.drive.training_runs import TrainingRun, simulate_all
from yarn_plugin.errors import BadInputError
from yarn_plugin.quantities import count, number
from yarn_plugin.simulation.figures import TrainingFigures, training_figures


@click.command(context_settings=console.CONTEXT)
@click.argument("journal", type=click.Path(path_type=Path))
@click.option("--app", metavar="APP", help="Show only decisions about this application (the arbiter's id or YARN's).")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="Show the last decisions, this many."
)
@click.option(
    "--policy",
    metavar="NAME[,NAME]",
    help="Run the applications of a pool of leased GPUs again under these policies, such as tiresias, in virtual time.",
)
@click.option("--rounds", is_flag=True, help="Show the rounds of a pool of leased GPUs; --json also has the leases.")
@click.option(
    "--pool", metavar="NAME", help="With --policy or --rounds: the pool.  [default: the only one whose GPUs are leased]"
)
@json_option
def replay(
    journal: Path,
    app: str | None,
    limit: int,
    policy: str | None,
    rounds: bool,
    pool: str | None,
    json_file: Path | None,
) -> None:
    """Explain an arbiter's decisions from JOURNAL alone: the file `journal` in its --state directory.

    Replays every event (anything the arbiter reacts to: an API call, a poll of the ResourceManager, a timer) with the
    installed version, and counts the decisions that differ from the recorded ones; the exit code is 0 all the same.
    Needs no cluster and writes nothing; the arbiter may be running. seq: the number of the event.

    With --policy: the applications arrive as recorded, with the jobs that they described, and the table compares what
    another policy would have made of them with the recorded run. The recorded policy is also run again: how far it is
    from the recorded run shows what the simulator does not model.

    \b
    Examples:
      yarn-plugin replay ~/.local/state/yarn-plugin/arbiter/rm1-8088/journal --app app_17
      yarn-plugin replay journal --policy tiresias,gandiva
      yarn-plugin replay journal --rounds --json rounds.json
    """
    if policy is None and not rounds and pool is not None:
        raise BadInputError("--pool", pool, "needs --policy or --rounds")
    if policy is not None and rounds:
        raise BadInputError("--rounds", "", "cannot be combined with --policy")
    done = run(journal, installed())
    if rounds:
        home = lease_pool((one for one in done.state.pools if round_settings(one) is not None), pool)
        _print_rounds(recorded_rounds(home, done.history), json_file)
        return
    if policy is not None:
        _compare(recorded_training(done.state, done.history, pool), policy.split(","), json_file)
        return
    decisions = translate.decisions(done.history, app)[-limit:]
    if app is not None and not decisions:
        console.err.print(f"note: the journal has no decision about {app!r}; without --app, those about all are shown")
    rows = [(one.seq, datetime.fromtimestamp(one.at), one.cause, one.kind, one.app, one.reason) for one in decisions]
    console.out.print(console.table(None, ("#seq", "time", "event", "decision", "app", "reason"), rows))
    console.out.print(f"{count(done.inputs, 'event')} replayed, {count(done.different, 'different decision')}")
    if done.skipped:
        console.out.print(f"{count(done.skipped, 'event')} skipped (recorded as failed)")
    if done.dropped:
        console.out.print(f"not read: {done.dropped}")
    if json_file is not None:
        figures = {
            "inputs": done.inputs,
            "different": done.different,
            "set_aside": done.skipped,
            "dropped": done.dropped,
        }
        console.write_json(json_file, {**figures, "decisions": [one.model_dump() for one in decisions]})


def _compare(recorded: RecordedTraining, policies: list[str], json_file: Path | None) -> None:
    """Print the recorded run beside runs of the same applications under other policies."""
    settings = recorded.settings
    runs = [
        TrainingRun(
            policy, settings.seed, recorded.workload, recorded.cluster, settings.f, settings.lease_s,
            payments=settings.payments, max_bidders=settings.max_bidders, max_gpus_per_user=settings.max_gpus_per_user,
            entitlement=settings.entitlement,
        )
        for policy in dict.fromkeys([settings.policy, *policies])
    ]  # fmt: skip
    rows = [("recorded", training_figures(recorded.outcome), recorded.outcome.unfinished)]
    for one in simulate_all(runs, os.cpu_count() or 1):
        rows.append((str(one.policy), training_figures(one.outcome), one.outcome.unfinished))
    columns = ("run", "#max rho", "#mean completion (min)", "#makespan (min)", "#GPU time (min)", "#not ended")
    console.out.print(console.table(None, columns, [_row(*row) for row in rows]))
    if recorded.left_out:
        apps = ", ".join(recorded.left_out)
        console.err.print(f"note: left out, as they never described their jobs: {apps}")
    if json_file is not None:
        console.write_json(json_file, [{"run": name, **asdict(its), "unfinished": n} for name, its, n in rows])


def _print_rounds(recorded: RecordedRounds, json_file: Path | None) -> None:
    names = {one.app: one.name for one in recorded.apps}
    columns = ("#round", "time", "opened by", "#GPUs", "offered to", "bids", "won (c)", "leftover to", "idle")
    rows = [_round_row(one, names) for one in recorded.rounds]
    console.out.print(console.table(None, columns, rows))
    if not recorded.complete:
        console.out.print("earlier rounds are no longer in the journal")
    if json_file is not None:
        console.write_json(json_file, asdict(recorded))


def _round_row(recorded: RecordedRound, names: dict[str, str]) -> tuple[object, ...]:
    def name(app: str) -> str:
        return names.get(app, app)

    def amounts(given: tuple[tuple[str, int], ...]) -> str:
        return ", ".join(f"{name(app)} {gpus}" for app, gpus in given)

    won = ", ".join(
        f"{name(award.app)} {award.kept} of {award.won} ({_part(award.share_min, award.share_max)})"
        for award in recorded.awards
        if award.won
    )
    asked = ", ".join(map(name, recorded.offered_to))
    bids = ", ".join(
        [*(name(bid.app) for bid in recorded.bids), *(text(bid, name(bid.app)) for bid in recorded.missed_bids)]
    )
    when, opened = datetime.fromtimestamp(recorded.at).strftime("%Y-%m-%d %H:%M:%S"), ", ".join(recorded.opened_by)
    return (
        recorded.round, when, opened, recorded.gpus, asked, bids, recorded.error or won, amounts(recorded.leftovers),
        amounts(recorded.idle),
    )  # fmt: skip


def _part(low: float, high: float) -> str:
    return f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"


def _row(name: str, its: TrainingFigures, unfinished: int) -> tuple[str, ...]:
    return (
        name, number(its.max_rho_app, 2), number(its.avg_jct_app, 1), number(its.makespan, 1), number(its.gpu_time, 1),
        str(unfinished),
    )  # fmt: skip
