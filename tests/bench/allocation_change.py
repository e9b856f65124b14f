"""How long a change of GPUs takes, and checkpoints: what Themis, thesis section 3.6.2.3, calls systems overheads.

From the journals of the arbiter and of the searches that `live_fairness` has run on YARN. A change begins when the
arbiter decides to revoke GPUs, and ends when the first step begins of the trial that was started on them, of the same
search or of another one. Its parts:

notice      until the search that loses the GPUs stops a trial
stop        until no process runs on them: SIGTERM, the end of the step, a checkpoint, and its upload
hand-over   until the other trial is started: YARN reports the end, the GPUs are given back and granted
container   until its launcher runs in a container, without `restore`
restore     the checkpoint is read from the store
processes   the training processes start, until their first step begins
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench import live_fairness
from tests.bench.trial_times import Run, holder_before, recorded
from yarn_plugin.console import out, table
from yarn_plugin.journal.records import read_records

PARTS = ("notice", "stop", "hand-over", "container", "restore", "processes")


def measure() -> dict[str, Any]:
    """Medians and 95th percentiles, in seconds."""
    if not live_fairness.runs():
        live_fairness.measure()
    figures: dict[str, list[float]] = {}
    for folder in live_fairness.runs():
        runs = [run for journal in sorted(folder.glob("*/journal")) for run in recorded(journal.parent).runs]
        for one in [*_changes(runs, _revocations(folder / "arbiter-journal")), *_checkpoints(runs)]:
            for name, seconds in one.items():
                figures.setdefault(name, []).append(seconds)
    thesis = {"total": "35 / 50", "checkpoint": "5 to 10"}
    rows = [
        (name, len(values), f"{statistics.median(values):.2f}", f"{_p95(values):.2f}", thesis.get(name, ""))
        for name, values in figures.items()
    ]
    out.print(table(None, ("seconds", "#number", "#median", "#p95", "#thesis"), rows))
    shown = {f"{name}_s_p50": statistics.median(values) for name, values in figures.items()}
    return shown | {f"{name}_s_p95": _p95(values) for name, values in figures.items()}


def _revocations(journal: Path) -> dict[str, list[float]]:
    """When the arbiter revoked GPUs of each lease, by its journal."""
    found: dict[str, list[float]] = {}
    for record in read_records(journal):
        for command in record.get("commands", ()):
            message = command.get("message", {})
            if message.get("type") == "revoke":
                found.setdefault(message["lease"], []).append(record["at"])
    return found


def _changes(runs: Sequence[Run], revocations: Mapping[str, list[float]]) -> Iterator[dict[str, float]]:
    """The parts of each change, and their sum."""
    for run in runs:
        before = holder_before(run, runs)
        if before is None or not before.revoked or run.started is None or run.trains_from is None:
            continue
        decided = max(at for at in revocations[before.revoked] if at <= before.stop_told)
        restore_s = run.started["restore_s"]
        times = (
            before.stop_told - decided,
            before.ended - before.stop_told,
            run.start_told - before.ended,
            run.started["at"] - run.start_told - restore_s,
            restore_s,
            run.trains_from - run.started["at"],
        )
        yield {**dict(zip(PARTS, times, strict=True)), "total": run.trains_from - decided}


def _checkpoints(runs: Sequence[Run]) -> Iterator[dict[str, float]]:
    """Of each checkpoint: until the script has saved it and the launcher has seen it, and its upload and commit."""
    for run in runs:
        reported = {one["step"]: one["at"] for one in run.of("reported")}
        for one in run.of("checkpointed"):
            if one["step"] in reported:
                whole_s = one["at"] - reported[one["step"]]
                yield {"checkpoint": whole_s, "save": whole_s - one["seconds"], "upload and commit": one["seconds"]}


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, round(0.95 * (len(values) - 1)))]
