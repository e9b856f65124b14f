"""Registering a search again with an arbiter that has lost its journal: its jobs, and its leases that are in use."""

from collections.abc import Callable

from themis_agent.agent import trial_leases
from themis_agent.agent.cell_names import is_slot, job_of
from themis_agent.agent.state import State
from themis_agent.app_file import AppFile
from themis_agent.local.folder import Folder
from themis_agent.trial_jobs import alternatives_of, jobs
from themis_agent.yarn import submission as submissions
from themis_agent.yarn.submission import ArbiterAccess, Submission
from yarn_plugin.api.jobs import Job
from yarn_plugin.api.records import Record, Recover
from yarn_plugin.api.wire import Registered
from yarn_plugin.model.resources import GPU


class Recovery:
    """See the module. `state`: returns the agent's. `wall`: converts times of its journal to those since the epoch."""

    def __init__(
        self,
        folder: Folder,
        app: AppFile,
        submission: Submission,
        state: Callable[[], State | None],
        wall: Callable[[float], float],
    ) -> None:
        self._folder, self._app, self._submission = folder, app, submission
        self._state, self._wall = state, wall

    def request(self) -> Recover:
        """The request. Idempotent."""
        state, app, yarn_app = self._state(), self._app, self._submission.yarn_app
        by_trial = bool(alternatives_of(app))
        return Recover(
            name=app.name,
            request_id=yarn_app,
            pool=self._submission.arbiter.pool or None,
            yarn_app=yarn_app,
            demand=None if by_trial else [{GPU: app.max_gpus}],
            jobs=self._jobs(state),
            leases=[] if state is None else list(self._records(state)),
        )

    def _jobs(self, state: State | None) -> list[Job]:
        if self._app.declared_jobs or state is None:
            return self._app.declared_jobs
        alternatives = alternatives_of(self._app)
        return [job for declared in trial_leases.declared(None, state) for job in jobs(alternatives, declared)]

    def _records(self, state: State) -> list[Record]:
        """The leases of GPUs that trials run on. Left out are slots of cores and parts of GPUs, which lists of
        containers do not show, and samples, which are taken anew."""
        busy = {cell for cell in state.busy if not is_slot(cell) and not job_of(cell)}
        found = []
        for name, lease in state.leases.items():
            gpus = [gpu.cell for gpu in lease.gpus if gpu.cell in busy and gpu.cell not in lease.revoked]
            if gpus and not lease.is_sample:
                until = None if lease.until is None else self._wall(lease.until)
                found.append(Record(id=name, gpus=gpus, job=lease.trial, until=until))
        return found

    def note(self, registered: Registered) -> ArbiterAccess:
        """Keep the new id and the new tokens, for later attempts too."""
        known = {"app": registered.app, "recovery_token": registered.recovery_token}
        access = self._submission.arbiter.model_copy(update=known)
        self._folder.write(self._folder.root / submissions.ARBITER_TOKEN, registered.token)
        self._submission = self._submission.model_copy(update={"arbiter": access})
        submissions.write(self._folder.root, self._submission)
        return access
