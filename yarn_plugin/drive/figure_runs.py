"""The simulations behind figures: in parallel processes, each result kept in a file, so that a run can be resumed."""

import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path

from yarn_plugin import files
from yarn_plugin.decide.mechanisms.packing import PackingProblem, pack, place_easygoing_first, place_greedily
from yarn_plugin.drive.job_runs import simulate_cells, simulate_sides
from yarn_plugin.drive.pool_simulation import SimulationError
from yarn_plugin.drive.registry import installed
from yarn_plugin.drive.training_runs import TrainingRun, simulate
from yarn_plugin.errors import ReportedError, describe, os_reason
from yarn_plugin.simulation.jobs.virtual_clusters import by_gpu_time
from yarn_plugin.simulation.outcome import Outcome
from yarn_plugin.simulation.paper_figures.job_case import JobCase
from yarn_plugin.simulation.paper_figures.queue_case import QueueCase
from yarn_plugin.simulation.paper_figures.record import Record, of_jobs, of_queue, of_training, read
from yarn_plugin.simulation.paper_figures.specification import Case
from yarn_plugin.simulation.paper_figures.training_case import LIAR, TrainingCase
from yarn_plugin.simulation.shared_queues import outcome


def run_cases(
    cases: Sequence[Case], folder: Path, processes: int | None, on_done: Callable[[int], None]
) -> dict[Case, Record]:
    """The results of these cases: those in the folder, and the others simulated now. `processes` None: one per CPU.

    `on_done`: called with the number of results so far.

    Raises:
        ReportedError: a simulation cannot go on, or a result cannot be written. Those that are done stay in the folder.
    """
    results = {case: kept for case in cases if (kept := _kept(folder, case)) is not None}
    on_done(len(results))
    left = [case for case in cases if case not in results]
    if not left:
        return results
    # Not forked: the progress bar has a thread.
    pool = ProcessPoolExecutor(min(processes or os.cpu_count() or 1, len(left)), multiprocessing.get_context("spawn"))
    try:
        running: dict[Future[Record], Case] = {pool.submit(_run, case): case for case in left}
        for done in as_completed(running):
            case = running[done]
            results[case] = _result(done, case)
            _keep(folder, case, results[case])
            on_done(len(results))
    finally:
        pool.shutdown(cancel_futures=True)
    return results


def _result(done: Future[Record], case: Case) -> Record:
    try:
        return done.result()
    except ReportedError:
        raise
    except BrokenProcessPool:
        raise SimulationError(f"a process that ran {case.policy} with seed {case.seed} was ended") from None
    except Exception as problem:
        raise SimulationError(f"{case.policy} with seed {case.seed}: {describe(problem)}") from problem


def _run(case: Case) -> Record:
    started = time.perf_counter()
    match case:
        case TrainingCase():
            training = simulate(training_run(case)).outcome
            return of_training(training, time.perf_counter() - started)
        case JobCase():
            jobs = _jobs_outcome(case)
            return of_jobs(jobs, time.perf_counter() - started)
        case QueueCase():
            problem = case.problem()
            packed = outcome(problem, _PACK[case.policy](problem))
            return of_queue(packed, time.perf_counter() - started)


_PACK: dict[str, Callable[[PackingProblem], tuple[tuple[int, ...], ...]]] = {
    "best_fit": place_greedily,
    "heuristic": place_easygoing_first,
    "integer_program": lambda problem: pack(problem).gpus,
}
"""By the policy of a queue's case."""


def training_run(case: TrainingCase) -> TrainingRun:
    """The simulation of a case."""
    return TrainingRun(
        case.policy, case.seed, case.workload(), case.cluster(), case.f, case.lease_s, checkpoint_s=case.checkpoint_s,
        error=case.error, lie=case.lie, liars=(LIAR,) if case.lie else (),
    )  # fmt: skip


def _jobs_outcome(case: JobCase) -> Outcome:
    jobs, registry = case.jobs(), installed()
    if case.scenario == "gangs":
        return simulate_cells(case.policy, registry, by_gpu_time(jobs, case.size.load), jobs, "fifo")
    return simulate_sides(case.policy, registry, case.nodes(), jobs, case.alpha)


def file_name(case: Case, version: str) -> str:
    """The name of the file of its result, which another version of the simulator does not share."""
    values = {field.name: getattr(case, field.name) for field in fields(case)}
    text = json.dumps({**values, "size": case.size.model_dump(), "version": version}, sort_keys=True)
    return f"{case.policy}-{case.seed}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _file(folder: Path, case: Case) -> Path:
    return folder / file_name(case, version("yarn-plugin"))


def _kept(folder: Path, case: Case) -> Record | None:
    with suppress(OSError, ValueError):
        return read(_file(folder, case).read_bytes())
    return None


def _keep(folder: Path, case: Case, result: Record) -> None:
    path = _file(folder, case)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, json.dumps(result.json()) + "\n")
    except OSError as problem:
        raise SimulationError(f"result {str(path)!r}: cannot be written ({os_reason(problem)})") from None
