"""`yarn-plugin replay`."""

from datetime import datetime
from pathlib import Path

import click

from yarn_plugin import console
from yarn_plugin.api import translate
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.replay import replay as run


@click.command(context_settings=console.CONTEXT)
@click.argument("journal", type=click.Path(path_type=Path))
@click.option("--app", help="Only decisions about this application (the arbiter's id, or YARN's).")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many decisions to show.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the figures to a file too.")
def replay(journal: Path, app: str | None, limit: int, json_file: Path | None) -> None:
    """What an arbiter decided and why, from its JOURNAL alone (the file `journal` in its --state folder).

    Decides again on every input in the order of then, and says how many decisions this version would take otherwise.
    Reads only: the arbiter may be running.
    """
    done = run(journal, installed())
    decisions = translate.decisions(done.history, app)[-limit:]
    rows = [(one.seq, datetime.fromtimestamp(one.at), one.cause, one.kind, one.app, one.reason) for one in decisions]
    console.out.print(console.table(None, ("#seq", "at", "on", "did", "app", "why"), rows))
    console.out.print(f"{done.inputs} inputs decided on again, {done.different} differently")
    if done.set_aside:
        console.out.print(f"{done.set_aside} inputs set aside: nothing could be decided on them")
    if done.dropped:
        console.out.print(f"not read: {done.dropped}")
    if json_file is not None:
        figures = {
            "inputs": done.inputs,
            "different": done.different,
            "set_aside": done.set_aside,
            "dropped": done.dropped,
        }
        console.write_json(json_file, {**figures, "decisions": [one.model_dump() for one in decisions]})
