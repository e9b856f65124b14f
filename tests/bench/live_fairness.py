"""Finish-time fairness of live searches on YARN, by Themis and by Tiresias, beside the simulator and the agents' word.

Six staggered searches, whose trials' steps sleep, on 16 counted GPUs of an embedded cluster; the same for each policy.
Of a search, rho = T_sh / (T_alone x N_avg) (Themis, thesis, equations 3.1 and 3.2): T_sh is from YARN's start to its
finish, N_avg the time-weighted number of the six during it. T_alone is the exact time of its emulated steps, since all
its trials fit at once, and what another search, which runs alone before the six, takes beyond its steps: the mean over
all runs.

    python -m tests.bench.live_fairness themis      # or tiresias: runs one, 6 to 8 minutes
    python -m tests.bench.live_fairness             # those that were not run, and the table

Results are in out/live_fairness, a folder for each run, which also has the journals; runs that are there are not
repeated. `--again` adds a run.
"""

import argparse
import json
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.live_searches import (
    GPUS_PER_MACHINE,
    LEASE_S,
    MACHINES,
    F,
    LiveCluster,
    Searched,
    Times,
    live_cluster,
)  # fmt: skip
from tests.bench.trial_times import Run, holder_before, recorded
from themis_agent.agent import leasing, searching
from themis_agent.agent.commands import SendEstimate
from themis_agent.agent.events import Asked
from themis_agent.agent.state import State, by_slot, machines_of
from themis_agent.bids.finish_time import ideal_s
from yarn_plugin.console import out, table, write_json
from yarn_plugin.drive.training_runs import TrainingRun, simulate
from yarn_plugin.model.auction import EstimateRequest
from yarn_plugin.model.gpus import Machine, Slot, Slowdown
from yarn_plugin.simulation.over_time import Contention
from yarn_plugin.simulation.training.apps import TrainingApp, TrainingJob, TrainingWorkload, ordered
from yarn_plugin.simulation.training.cluster import TrainingCluster

POLICIES = ("themis", "tiresias")
GPUS = MACHINES * GPUS_PER_MACHINE
RESULTS = Path("out/live_fairness")
PROBE = Searched("probe", 0, 1, 4, 10, 1.0)
"""Run alone on the idle cluster: what it takes beyond its steps is the overhead of a search."""

APPS = (
    Searched("a", 0, 1, 4, 80, 1.1),
    Searched("b", 20, 3, 4, 40, 2.0),
    Searched("c", 50, 3, 4, 40, 1.5),
    Searched("d", 60, 1, 4, 120, 1.5),
    Searched("e", 90, 4, 2, 120, 1.1),
    Searched("f", 100, 4, 2, 60, 1.5),
)
SEEDS, JITTER_S = 20, 1.0
"""Simulations of each run, and by how many seconds their arrivals differ from those of the run."""
LIMIT_S = 480.0
"""A run fails that takes longer."""


def measure() -> dict[str, Any]:
    """Run what was not run yet; the figures of all runs, and the largest rho of each policy."""
    for policy in POLICIES:
        if not runs(policy):
            run(policy)
    return report()


def report() -> dict[str, Any]:
    """The figures of the runs that are there: the means of the policies' largest rho, and how far agents and the
    simulator are off at most, as a part of what was measured."""
    measured = {folder.name: json.loads((folder / "result.json").read_text()) for folder in runs()}
    overhead_s = statistics.fmean(one["overhead_s"] for one in measured.values())
    for name, one in measured.items():
        for app, row in zip(APPS, one["searches"], strict=True):
            row["alone_s"] = app.alone_s + overhead_s
            row["rho"] = row["jct_s"] / (row["alone_s"] * row["n_avg"])
        out.print(_table(f"{name}: a move takes {one['move_s']:.1f} s", one["searches"]))
    rows = [row for one in measured.values() for row in one["searches"]]
    largest = {
        policy: [max(row["rho"] for row in one["searches"]) for one in measured.values() if one["policy"] == policy]
        for policy in POLICIES
    }
    results: dict[str, Any] = {f"max_rho_{name}": statistics.fmean(found) for name, found in largest.items() if found}
    if all(largest.values()):
        results["max_rho_themis_of_tiresias"] = results["max_rho_themis"] / results["max_rho_tiresias"]
    if answered := [row for row in rows if row["rho_said"] is not None]:
        results["rho_said_off_most"] = max(abs(row["rho_said"] / row["rho"] - 1) for row in answered)
        results["jct_said_off_most"] = max(abs(row["jct_said_s"] / row["jct_s"] - 1) for row in answered)
    results["jct_off_most"] = max(abs(row["jct_s"] / row["simulated_s"] - 1) for row in rows)
    within = [row["simulated_s_min"] <= row["jct_s"] <= row["simulated_s_max"] for row in rows]
    results["jct_outside_simulated_range"] = f"{within.count(False)} of {len(within)}"
    results["overhead_s"] = overhead_s
    return {**results, "runs": measured}


def runs(policy: str = "*") -> list[Path]:
    """The folders of the runs that are there."""
    return sorted(path.parent for path in RESULTS.glob(f"{policy}-*/result.json"))


def run(policy: str) -> None:
    """Run the six searches under a policy, and write what was measured."""
    with tempfile.TemporaryDirectory(prefix="live-fairness-") as made:
        folder = Path(made).resolve()
        with live_cluster(policy, folder) as live:
            overhead_s = live.times(live.submit(PROBE), LIMIT_S).seconds - PROBE.alone_s
            time.sleep(2)
            began = time.time()
            times = _all(live)
        kept = RESULTS / f"{policy}-{time.strftime('%H%M%S', time.gmtime(began))}"
        for app in APPS:
            # Its checkpoints and the trials' folders are not needed any more.
            for part in ("journal", "app.json", "logs"):
                source, target = live.store / app.name / part, kept / app.name / part
                target.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
        shutil.copyfile(folder / "arbiter" / "state" / "journal", kept / "arbiter-journal")
    raw = {"policy": policy, "overhead_s": overhead_s, "times": {name: asdict(one) for name, one in times.items()}}
    write_json(kept / "raw.json", raw)
    analyse(kept)


def _all(live: LiveCluster) -> dict[str, Times]:
    """Submit each search when it arrives; when YARN started and finished each."""
    began = time.monotonic()
    submitted = {}
    for app in APPS:
        time.sleep(max(0.0, began + app.arrival_s - time.monotonic()))
        submitted[app.name] = live.submit(app)
    return {name: live.times(search, began + LIMIT_S - time.monotonic()) for name, search in submitted.items()}


def analyse(folder: Path) -> None:
    """Write the figures of a run beside what was recorded."""
    raw = json.loads((folder / "raw.json").read_text())
    times = {name: Times(**one) for name, one in raw["times"].items()}
    present = Contention(((one.started, one.finished, 1.0) for one in times.values()), lambda count: count)
    read = {app.name: recorded(folder / app.name) for app in APPS}
    moves_s = list(_moves_s([run for one in read.values() for run in one.runs]))
    move_s = statistics.median(moves_s) if moves_s else 0.0
    begun = {name: one.states[0][0] for name, one in read.items()}
    simulated = [_simulated(raw["policy"], times, begun, move_s, seed) for seed in range(SEEDS)]
    rows = []
    for app in APPS:
        its, again = times[app.name], [one[app.name] for one in simulated]
        said = _said(read[app.name].states, present, its) if raw["policy"] == "themis" else None
        rows.append(
            {
                "search": app.name,
                "arrival_s": its.started - times["a"].started,
                "jct_s": its.seconds,
                "n_avg": present.mean(its.started, its.finished),
                "rho_said": said.rho if said is not None else None,
                "n_avg_said": said.n_avg if said is not None else None,
                "jct_said_s": said.jct_s if said is not None else None,
                "simulated_s": statistics.median(again),
                "simulated_s_min": min(again),
                "simulated_s_max": max(again),
            }
        )
    measured = {"policy": raw["policy"], "overhead_s": raw["overhead_s"], "move_s": move_s, "moves": len(moves_s)}
    write_json(folder / "result.json", {**measured, "searches": rows})


@dataclass(frozen=True)
class Said:
    """What an agent says in the middle of its life: its rho, N_avg until then, by which it is asked, and the time from
    arrival to end that follows (T_sh)."""

    rho: float
    n_avg: float
    jct_s: float


def _said(states: Sequence[tuple[float, State]], present: Contention, its: Times) -> Said:
    """What the agent answers to the question for its rho, at the time nearest to the middle of its life at which it
    holds GPUs."""
    middle = (its.started + its.finished) / 2
    holding = [(wall, state) for wall, state in states if state.gpus and state.outcome is None]
    wall, state = min(holding, key=lambda one: abs(one[0] - middle))
    held = state.gpus
    slots = by_slot(tuple(held), held)
    question = EstimateRequest(0, present.mean(its.started, wall), slots, machines_of(held), GPUS)
    answer = leasing.answer(state, state.begun_at + wall - states[0][0], Asked("", question))
    assert isinstance(answer, SendEstimate)
    rho = answer.estimate.rho
    assert rho is not None
    return Said(rho, question.contention, rho * ideal_s(searching.work(state), question.contention, GPUS))


def _moves_s(runs: Sequence[Run]) -> Iterator[float]:
    """Seconds without training on GPUs each time that they were revoked, and trained another trial next."""
    for run in runs:
        before = holder_before(run, runs)
        if before is not None and before.revoked and run.trains_from is not None:
            yield run.trains_from - before.stop_told


def _simulated(
    policy: str, times: dict[str, Times], begun: dict[str, float], move_s: float, seed: int
) -> dict[str, float]:
    """The seconds from YARN's start until the simulator ends each search, whose agents begin when they did live, give
    or take `JITTER_S`."""
    draws = random.Random(seed)
    arrivals = {name: max(0.0, at - begun["a"] + draws.uniform(-JITTER_S, JITTER_S)) for name, at in begun.items()}
    apps = [
        TrainingApp(
            app.name,
            arrivals[app.name],
            tuple(
                TrainingJob(str(trial), app.steps, app.gpu_s, app.gang, app.gang, slowdown=_spread(app))
                for trial in range(app.trials)
            ),
        )
        for app in APPS
    ]
    machines = tuple(
        Machine(f"m{number}", "r", (Slot(f"m{number}/0", GPUS_PER_MACHINE),)) for number in range(MACHINES)
    )
    run = TrainingRun(
        policy, seed, TrainingWorkload(ordered(apps)), TrainingCluster(machines), F, LEASE_S, checkpoint_s=move_s
    )
    jobs = simulate(run).outcome.jobs
    ended = {app.name: max(job.ended_at or 0.0 for job in jobs if job.group == app.name) for app in APPS}
    return {name: begun["a"] + at - times[name].started for name, at in ended.items()}


def _spread(app: Searched) -> Slowdown:
    return Slowdown(1, app.slowdown, app.slowdown)


def _shown(row: dict[str, Any]) -> tuple[str, str, str]:
    """What the agent said."""
    if row["rho_said"] is None:
        return "", "", ""
    return f"{row['rho_said']:.2f}", f"{row['n_avg_said']:.2f}", f"{row['jct_said_s']:.0f}"


def _table(title: str, rows: list[dict[str, Any]]) -> Any:
    columns = (
        "search", "#arrival", "#JCT", "#alone", "#N_avg", "#rho", "#rho by the agent", "#its N_avg", "#its JCT",
        "#simulated JCT", "#range",
    )  # fmt: skip
    shown = [
        (
            row["search"], f"{row['arrival_s']:.0f}", f"{row['jct_s']:.0f}", f"{row['alone_s']:.0f}",
            f"{row['n_avg']:.2f}", f"{row['rho']:.2f}",
            *_shown(row), f"{row['simulated_s']:.0f}",
            f"{row['simulated_s_min']:.0f} to {row['simulated_s_max']:.0f}",
        )
        for row in rows
    ]  # fmt: skip
    return table(title, columns, shown)


def main() -> None:
    """See the module."""
    given = argparse.ArgumentParser(prog="python -m tests.bench.live_fairness")
    given.add_argument("policy", nargs="?", choices=POLICIES)
    given.add_argument("--again", action="store_true", help="also if there is such a run")
    options = given.parse_args()
    # The cluster is stopped in any case.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.policy is None:
        measure()
    elif options.again or not runs(options.policy):
        run(options.policy)
        report()


if __name__ == "__main__":
    main()
