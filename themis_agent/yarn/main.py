"""The application master of a search: `python -m themis_agent.yarn.main FOLDER`, started by YARN.

Killed in whatever way, its next attempt goes on from the journal in the folder: launchers that still run are adopted,
and trials without one start from their checkpoints.
"""

import logging
import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from themis_agent import warm_start
from themis_agent.agent import commands, events
from themis_agent.agent.state import State
from themis_agent.app_file import AppFile
from themis_agent.arbiter_messages import Translation
from themis_agent.errors import StoreError
from themis_agent.live import LiveAgent
from themis_agent.local.driver import MIRROR_S, Result, result
from themis_agent.local.folder import Folder, folder_at
from themis_agent.local.progress import Changes
from themis_agent.optuna_study import StudyMirror
from themis_agent.parameter_draws import draw
from themis_agent.service import Launched, listening, service, serving
from themis_agent.trial_jobs import alternatives_of
from themis_agent.view.answers import AnswerTimes
from themis_agent.view.routes import View, add_view
from themis_agent.yarn import stored_journal
from themis_agent.yarn import submission as submissions
from themis_agent.yarn.application_master import ApplicationMaster
from themis_agent.yarn.arbiter_link import ArbiterLink
from themis_agent.yarn.driver import Driver
from themis_agent.yarn.gateway import launch
from themis_agent.yarn.launches import Launches
from themis_agent.yarn.recovery import Recovery
from themis_agent.yarn.stored_journal import StoredRecords
from themis_agent.yarn.submission import Submission
from themis_agent.yarn.takeover import Fence, SupersededAttemptError, take_over
from yarn_plugin.errors import BadInputError, ReportedError, os_reason
from yarn_plugin.journal.records import JournalError, JournalUnavailableError, RecordFile

log = logging.getLogger("themis_agent")

LEAVE_S = 30.0
"""How long the end of a search waits for an arbiter that is away."""


class Search:
    """An attempt to run the search of a folder. `attempt`: YARN's number of it. `waited_s`: since the submission."""

    def __init__(
        self, folder: Folder, app: AppFile, submission: Submission, attempt: int, host: str, waited_s: float
    ) -> None:
        self._folder, self._app, self._submission, self._waited_s = folder, app, submission, waited_s
        self._fence = Fence(folder, submission.attempts_before + attempt)
        self._host, self._listener = host, listening(host)
        self._port = self._listener.getsockname()[1]
        self._url = f"http://{host}:{self._port}"
        self._driver: Driver
        self._link: ArbiterLink

    def run(self, master: ApplicationMaster) -> None:
        """Run the search until it ends or is suspended, and the application with it.

        Raises:
            SupersededAttemptError: a later attempt runs it.
            JournalError: the journal cannot be used.
        """
        store = self._folder.store
        records: RecordFile = (
            take_over(self._folder, self._fence, self._url)
            if store is None
            else stored_journal.take_over(self._folder, store, self._fence, self._url)
        )
        self._agent = LiveAgent(records, self._carry_out, self._observe)
        if isinstance(records, StoredRecords):
            self._agent.group(records.defer())
        storage, app = self._app.storage, self._app
        self._mirror = StudyMirror(storage, app, self._folder.search_id()) if storage else None
        if self._mirror is not None:
            self._mirror.catch_up(self._folder.journal, self._agent.state)
        self._changes = Changes(self._agent.state)
        self._earlier = warm_start.kept(self._folder)
        answers = AnswerTimes()
        view = View(self._app, self._folder, self._agent.now, answers)
        previous = master.register(self._host, self._port, f"{self._url}/{view.key}/")
        launches = Launches(self._app, self._folder, self._submission, self._url)
        put, check = self._agent.put, self._fence.check
        self._driver = Driver(master, previous, self._submission, launches, put, lambda: self._agent.state, check)
        token = (self._folder.root / submissions.ARBITER_TOKEN).read_text().strip()
        translation = Translation(self._agent.journal_time, self._app.sharing is not None)
        wall = self._agent.wall
        recovery = Recovery(self._folder, self._app, self._submission, lambda: self._agent.state, wall)
        self._link = ArbiterLink(
            self._submission.arbiter,
            token,
            translation,
            put,
            check,
            answers,
            self._app.max_gpus,
            alternatives_of(self._app),
            recovery,
        )
        begun = self._begin(launches)
        launched = Launched(self._agent, self._fence.attempt, tells_ends=False, hosts=self._driver.hosted)
        served = service(launched, self._folder.token())
        add_view(served, view)
        with serving(served, self._listener):
            self._driver.start()
            self._link.start()
            self._agent.run(lambda state: begun.done() and state is not None and state.is_at_rest, self._idle)
            self._end()

    def _begin(self, launches: Launches) -> Future[None]:
        state, registered_as = self._agent.state, self._submission.arbiter.app
        if state is None:
            log.info("%s begins", self._app.name)
            return self._agent.put(events.Begun(self._app.settings(), registered_as, self._waited_s))
        launchers = launches.unfinished(state)
        log.info("%s goes on as attempt %d: %d launchers", self._app.name, self._fence.attempt, len(launchers))
        # Those that are gone end after this event, with what they had to say.
        running = tuple(events.Running(one.trial, one.epoch, one.number) for one in launchers)
        restarted = events.Restarted(running, registered_as=registered_as)
        if registered_as != state.registered_as:
            # A user has resumed it. YARN starts attempts again by itself, in the same application.
            restarted = replace(restarted, reopens=True, retry_failed=self._submission.retry_failed)
        begun = self._agent.put(restarted)
        self._driver.adopt(launchers, launches.shared_gpus(state))
        return begun

    def _carry_out(self, command: commands.Command) -> None:
        match command:
            case commands.SampleTrial():
                state = self._agent.state
                if state is not None:
                    self._agent.put(draw(self._app, command, state, self._earlier))
            case commands.StartTrial() | commands.StopTrial() | commands.KillTrial():
                self._driver.carry_out(command)
            case _:
                self._link.say(command)

    def _observe(self, event: events.Event, state: State) -> None:
        if self._mirror is not None:
            self._mirror.take(event, state)
        for line in self._changes.lines(state):
            log.info(line)

    def _idle(self) -> None:
        self._fence.check()
        self._driver.check()
        self._link.check()
        state = self._agent.state
        if state is not None:
            self._driver.progress = progress(state)

    def _end(self) -> None:
        state = self._agent.state
        assert state is not None
        found = result(state)
        if self._mirror is not None and not self._mirror.close(MIRROR_S):
            log.warning("storage: not all of the search could be written there")
        self._link.leave(LEAVE_S)
        self._fence.check()
        if state.finished:
            self._driver.finish(found.succeeded, sentence(self._app, found))
        else:
            self._driver.finish(None, f"suspended; `themis-agent resume {self._folder}` continues it")


def progress(state: State) -> float:
    """How much of a search is done, from 0 to 1, by the trials that have ended."""
    ended = sum(one.fate not in ("training", "paused") for one in state.trials.values())
    return ended / max(len(state.trials), 1)


def sentence(app: AppFile, found: Result) -> str:
    """What YARN shows of a search that has ended."""
    if found.best is None or found.metric is None:
        return found.reason
    values = ", ".join(f"{name}={value}" for name, value in found.parameters.items())
    return f"{found.reason}; best: {found.best}, {app.metric} {found.metric:.6g} at step {found.step:g} with {values}"


def attempt_of(container: str) -> int:
    """The attempt of an application master, by its container: container_[eEPOCH_]CLUSTER_APP_ATTEMPT_NUMBER."""
    return int(container.split("_")[-2])


def since_submission(environment: Mapping[str, str], now: float) -> float:
    """Seconds since YARN took the application. Its environment has the time, by the ResourceManager's clock."""
    submitted_ms = environment.get("APP_SUBMIT_TIME_ENV", "")
    return max(now - int(submitted_ms) / 1000, 0.0) if submitted_ms.isdecimal() else 0.0


def _read(folder: Folder) -> tuple[AppFile, Submission]:
    try:
        app, submission = folder.load()[0], submissions.read(folder.root)
    except OSError as problem:
        raise BadInputError("FOLDER", str(folder), os_reason(problem)) from problem
    except ValidationError as problem:
        raise BadInputError("FOLDER", str(folder), " ".join(str(problem).split())) from problem
    if folder.store is None or submission.arbiter.ca is None:
        return app, submission
    certificates = submission.arbiter.model_copy(update={"ca": str(folder.root / submissions.CERTIFICATES)})
    return app, submission.model_copy(update={"arbiter": certificates})


def main() -> int:
    """Run the search whose folder the command line names; 1: another attempt may go on."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        folder = folder_at(sys.argv[1], Path(submissions.LOCAL_COPY))
        app, submission = _read(folder)
        conf = os.environ.get("HADOOP_CONF_DIR")
        gateway = launch(Path(conf) if conf else None, class_path=submission.class_path, java=submission.java or None)
        master = ApplicationMaster(gateway)
        attempt = attempt_of(os.environ["CONTAINER_ID"])
        waited_s = since_submission(os.environ, time.time())
        search = Search(folder, app, submission, attempt, os.environ["NM_HOST"], waited_s)
    except ReportedError as problem:
        log.error("%s", problem)
        return problem.exit_code
    try:
        search.run(master)
    except (SupersededAttemptError, JournalUnavailableError, StoreError) as problem:
        log.error("%s", problem)
        return 1
    except JournalError as problem:
        # No other attempt would do better.
        log.error("%s", problem)
        master.register()
        master.finish(False, str(problem))
    return 0


if __name__ == "__main__":
    # Threads that wait for Java or the network must not keep a process from its end.
    code = 1
    try:
        code = main()
    except Exception:
        log.exception("the application master has failed; YARN may start another attempt")
    logging.shutdown()
    os._exit(code)
