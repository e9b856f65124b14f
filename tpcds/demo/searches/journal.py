"""What a search's own journal says of it."""

from collections import Counter
from pathlib import Path

from themis_agent.local.folder import Folder
from themis_agent.local.progress import status
from themis_agent.view.journal_reader import JournalReader
from tpcds.demo.cluster import DemoError
from tpcds.demo.searches.record import BestTrial, Search, TrialRun


def read_search(
    folder: Path, yarn_app: str, final: str, file: str, submitted_at: float, best: BestTrial | None
) -> Search:
    """The facts of a search whose application has ended.

    Raises:
        DemoError: it has not begun.
    """
    of_search = Folder(folder)
    app, _ = of_search.load()
    recorded = JournalReader(of_search.journal, app.metric)
    recorded.advance()
    state = recorded.state
    if state is None:
        raise DemoError(f"search {app.name} has not begun; see {folder}")
    # The journal's clock and the wall's differ by a constant.
    shift = recorded.wall - recorded.at
    runs = tuple(
        TrialRun(
            trial=run.trial,
            start=run.epoch,
            cells=run.cells,
            began=run.started + shift,
            ended=None if run.ended is None else run.ended + shift,
            reason=run.reason,
            first_step=run.first_step,
            last_step=run.last_step,
        )
        for run in recorded.history.runs
    )
    return Search(
        name=app.name,
        yarn_app=yarn_app,
        final=final,
        outcome="" if state.outcome is None else state.outcome.reason,
        file=file,
        submitted_at=submitted_at,
        ended_at=recorded.wall,
        trials=dict(sorted(Counter(map(status, state.trials.values())).items())),
        steps=sum(one.step for one in state.trials.values()),
        lost_steps=sum(one.lost_steps for one in state.trials.values()),
        rhos=tuple((at + shift, rho) for at, rho in recorded.history.rhos),
        runs=runs,
        best=best,
    )
