"""`qoop status`: the running and the latest queries of this user on this machine."""

import time
from datetime import datetime
from pathlib import Path

from qoop.run.query_status import QueryStatus, read_statuses
from qoop.run.wording import in_slots
from yarn_plugin import console
from yarn_plugin.quantities import count, seconds

RECENT = 10
"""How many queries that have ended are shown."""


def show_status(everything: bool, json_file: Path | None) -> None:
    """Print the running queries and the latest others, and write them to `json_file` if given."""
    now, known = time.time(), read_statuses()
    running = [one for one in known if one.state == "running"]
    ended = [one for one in known if one.state != "running"]
    shown = running + (ended if everything else ended[:RECENT])
    if not shown:
        console.out.print("no queries yet; qoop submit runs one")
    else:
        columns = ("query", "started", "state", "#progress", "plan", "#stages", "share", "#time", "#estimate")
        console.out.print(console.table(None, columns, [_row(one, now) for one in shown]))
    for one in running:
        if one.why:
            console.out.print(f"{one.name}: {one.why}", soft_wrap=True)
    if len(ended) > len(shown) - len(running):
        console.out.print(f"{count(len(ended) - RECENT, 'earlier query', 'earlier queries')}: --all")
    if json_file is not None:
        console.write_json(json_file, {"queries": [one.model_dump() for one in shown]})


def _row(query: QueryStatus, now: float) -> tuple[str, ...]:
    progress = query.progress(now)
    where = "in the cluster" if query.in_cluster else "as written"
    plan = where if query.plan is None else f"{query.plan} of {query.plans}"
    if query.switches:
        plan += f", {count(query.switches, 'switch', 'switches')}"
    return (
        query.name,
        f"{datetime.fromtimestamp(query.started):%m-%d %H:%M:%S}",
        query.state,
        "-" if progress is None else f"{progress:.0%}",
        plan,
        str(query.stages),
        "-" if query.slots is None else in_slots(query.slots),
        seconds(query.seconds(now)),
        "-" if query.estimate_s is None else seconds(query.estimate_s),
    )
