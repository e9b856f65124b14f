"""Runs the searches of the demo, with a query beside them, as a person would: with the commands of this package."""

import getpass
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from themis_agent.submitting import applications
from themis_agent.submitting.search import state_of
from tpcds.data import DataSet
from tpcds.demo.cluster import DemoCluster, DemoError, demo_cluster, run
from tpcds.demo.record import Run
from tpcds.demo.runs import RunSpec, SubmittedQuery
from tpcds.demo.searches.journal import read_search
from tpcds.demo.searches.plan import ARBITER, GPU_NODES, GPUS_PER_NODE, MASTER_MEMORY_MB, SEARCHES, SHAPE, SearchPlan
from tpcds.demo.searches.record import BestTrial, Rounds, SearchesRecord
from tpcds.reference import DuckDbEngine
from yarn_plugin.api.client import ArbiterError
from yarn_plugin.console import out
from yarn_plugin.observe.resource_manager import ManagerError, ResourceManager
from yarn_plugin.quantities import count

TIMEOUT_S = 900.0
POLL_S = 1.0
MIN_FREE = 1 << 20
"""Bytes that the disk has free, or it is full."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A submitted search. `folder`: of its journal and checkpoints. `file`: its text."""

    plan: SearchPlan
    yarn_app: str
    folder: Path
    file: str
    submitted_at: float


def run_searches(folder: Path, data: DataSet, duckdb: DuckDbEngine, query: int) -> SearchesRecord:
    """Run the searches, and a TPC-DS query once they train, on a cluster in `folder`; returns what was recorded.

    Raises:
        DemoError: something did not start, a search failed, or the query did.
    """
    folder.mkdir(parents=True)
    gpus = GPU_NODES * GPUS_PER_NODE
    out.print(f"cluster: {SHAPE.nodes - GPU_NODES} nodes for queries, {GPU_NODES} with {gpus} GPUs, and the arbiter")
    with demo_cluster(folder, SHAPE, ARBITER) as cluster:
        began_at = time.time()
        manager = ResourceManager([cluster.rm_url], getpass.getuser())
        progress = Progress(cluster, began_at)
        with _stopped_at_end(manager) as submitted:
            for plan in SEARCHES:
                submitted.append(_submit(cluster, folder, plan))
                progress.say(f"{plan.name} is submitted: {submitted[-1].yarn_app}")
            _wait(progress, manager, submitted, lambda: any(map(_trains, submitted)))
            result = _query_beside(cluster, data, duckdb, query, progress, manager, submitted)
        finals = {one.yarn_app: _final(manager, one.yarn_app) for one in submitted}
        best = {one.yarn_app: _best(one) for one in submitted}
    # The arbiter has ended: its journal is complete.
    run("yarn-plugin", "replay", folder / "arbiter" / "journal", "--rounds", "--json", folder / "rounds.json")
    return SearchesRecord(
        began_at=began_at,
        ended_at=time.time(),
        gpu_nodes=GPU_NODES,
        gpus_per_node=GPUS_PER_NODE,
        cpu_per_node=SHAPE.cpu_per_node,
        quotas=cluster.quotas,
        config=ARBITER,
        rounds=Rounds.model_validate(json.loads((folder / "rounds.json").read_text())),
        searches=tuple(
            read_search(one.folder, one.yarn_app, finals[one.yarn_app], one.file, one.submitted_at, best[one.yarn_app])
            for one in submitted
        ),
        query=result,
    )


class Progress:
    """Prints the arbiter's rounds, and what else happens, with the seconds since the beginning."""

    def __init__(self, cluster: DemoCluster, began_at: float) -> None:
        self._client, self._began_at = cluster.client(), began_at
        self._last = 0
        self._names: dict[str, str] = {}

    def say(self, text: str) -> None:
        """Print a line."""
        out.print(f"  {time.time() - self._began_at:4.0f} s  {text}", soft_wrap=True)

    def look(self) -> None:
        """Print the rounds since the last look; nothing while the arbiter does not answer."""
        with suppress(ArbiterError):
            decisions = [one for one in self._client.list_decisions(500) if one.seq > self._last]
            # Those of searches that have ended since the last look are no longer listed.
            self._names |= {app.app: app.name for app in self._client.list_apps()}
            for one in decisions:
                self._last = max(self._last, one.seq)
                if one.because is not None and one.because["kind"] == "lease-round":
                    self.say(re.sub(r"\bapp_\w+", lambda found: self._names.get(found[0], found[0]), one.reason))


@contextmanager
def _stopped_at_end(manager: ResourceManager) -> Iterator[list[Submitted]]:
    """Searches that are still running at the end are killed, so that no trial outlives the demo."""
    submitted: list[Submitted] = []
    try:
        yield submitted
    finally:
        with suppress(ManagerError):
            for one in applications.searches(manager):
                if not one.has_ended:
                    applications.kill(manager, one.id)


def _submit(cluster: DemoCluster, folder: Path, plan: SearchPlan) -> Submitted:
    store = folder / "searches"
    store.mkdir(exist_ok=True)
    text, file, written = plan.file(store), folder / f"{plan.name}.toml", folder / f"{plan.name}.json"
    file.write_text(text)
    access = ("--rm", cluster.rm_url, "--arbiter", cluster.arbiter_url, "--token-file", cluster.user_token_file)
    submitted_at = time.time()
    run("themis-agent", "submit", file, *access, "--master-memory-mb", MASTER_MEMORY_MB, "--json", written)
    found = json.loads(written.read_text())
    return Submitted(plan, found["application"], Path(found["folder"]), text, submitted_at)


def _query_beside(
    cluster: DemoCluster,
    data: DataSet,
    duckdb: DuckDbEngine,
    query: int,
    progress: Progress,
    manager: ResourceManager,
    submitted: list[Submitted],
) -> Run:
    """Run a query while the searches train, and wait for both."""
    with ExitStack() as stack:
        beside = SubmittedQuery(cluster, data, RunSpec("B", query), cluster.folder / "query")
        stack.callback(beside.stop)
        progress.say(f"query {query} is submitted beside them, in the pool sql")
        _wait(progress, manager, submitted, lambda: not beside.is_running)
        result = beside.finish(duckdb, data, cluster.folder)
        equal = "equal to DuckDB's" if result.equal_to_duckdb else "NOT equal to DuckDB's"
        progress.say(f"query {query}: {result.seconds:.1f} s, {count(result.rows, 'row')}, {equal}")
        _wait(progress, manager, submitted, lambda: False)
    return result


def _wait(progress: Progress, manager: ResourceManager, submitted: list[Submitted], until: Callable[[], bool]) -> None:
    """Print progress until something holds, or all searches have ended.

    Raises:
        DemoError: that takes too long, or the disk is full.
    """
    deadline, running = time.monotonic() + TIMEOUT_S, _running(manager, submitted)
    while running and not until():
        if time.monotonic() > deadline:
            raise DemoError(f"the searches have not ended within {TIMEOUT_S:g} s; see {submitted[0].folder.parent}")
        time.sleep(POLL_S)
        _check_room(submitted[0].folder)
        progress.look()
        now = _running(manager, submitted)
        for one in running:
            if one not in now:
                progress.say(f"{one.plan.name} has ended: {_final(manager, one.yarn_app)}")
        running = now


def _check_room(folder: Path) -> None:
    """On a full disk no agent decides anything, and the searches would never end.

    Raises:
        DemoError: the disk is full.
    """
    if shutil.disk_usage(folder).free < MIN_FREE:
        raise DemoError(f"the disk of {folder} is full: the searches cannot go on, and there is no page of them")


def _running(manager: ResourceManager, submitted: list[Submitted]) -> list[Submitted]:
    try:
        ended = {one.id for one in applications.searches(manager) if one.has_ended}
    except ManagerError:
        return submitted
    return [one for one in submitted if one.yarn_app not in ended]


def _final(manager: ResourceManager, yarn_app: str) -> str:
    found = applications.get(manager, yarn_app)
    if found is None:
        raise DemoError(f"YARN no longer knows {yarn_app}")
    return f"{found.final}: {found.diagnostics}" if found.final != "SUCCEEDED" else found.final


def _trains(one: Submitted) -> bool:
    state = state_of(one.folder)
    return state is not None and any(trial.step for trial in state.trials.values())


def _best(one: Submitted) -> BestTrial | None:
    """The best trial, with the accuracy of its checkpoint, which is exported."""
    # Needs scikit-learn, for its images.
    from themis_agent.examples.digits_accuracy import accuracy

    written, to = one.folder.parent / f"{one.plan.name}-best.json", one.folder.parent / f"{one.plan.name}-best"
    try:
        run("themis-agent", "best", one.folder, "--export", to, "--json", written)
    except DemoError:
        return None
    found = json.loads(written.read_text())
    best = BestTrial(trial=found["best"], step=found["step"], loss=found["metric"], parameters=found["parameters"])
    (exported,) = to.glob("step-*")
    step = int(exported.name.removeprefix("step-"))
    return best.model_copy(update={"checkpoint": step, "accuracy": accuracy(exported)})
