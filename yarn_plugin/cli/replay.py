"""`yarn-plugin replay`."""

from datetime import datetime
from pathlib import Path

import click

from yarn_plugin import console
from yarn_plugin.api import translate
from yarn_plugin.cli.options import json_option
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.replay import replay as run
from yarn_plugin.quantities import count


@click.command(context_settings=console.CONTEXT)
@click.argument("journal", type=click.Path(path_type=Path))
@click.option("--app", metavar="APP", help="Show only decisions about this application (the arbiter's id or YARN's).")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="Show the last decisions, this many."
)
@json_option
def replay(journal: Path, app: str | None, limit: int, json_file: Path | None) -> None:
    """Explain an arbiter's decisions from JOURNAL alone: the file `journal` in its --state directory.

    Replays every event (anything the arbiter reacts to: an API call, a poll of the ResourceManager, a timer) with the
    installed version, and counts the decisions that differ from the recorded ones; the exit code is 0 all the same.
    Needs no cluster and writes nothing; the arbiter may be running. seq: the number of the event.

    \b
    Example:
      yarn-plugin replay ~/.local/state/yarn-plugin/arbiter/rm1-8088/journal --app app_17
    """
    done = run(journal, installed())
    decisions = translate.decisions(done.history, app)[-limit:]
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
