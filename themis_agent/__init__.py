"""The training side: hyperparameter searches that bid for GPUs by finish-time fairness (Themis).

So far they bid in the simulator and in tests; searches with real training run on one machine.

`run` searches from a program or a notebook, as `themis-agent run --local` does; a training script imports
`themis_agent.trial`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from themis_agent.local.driver import Result

__all__ = ["run"]


def run(
    command: str | Sequence[str],
    *,
    space: Mapping[str, Any],
    directory: str | Path = ".",
    state: str | Path | None = None,
    gpus: int | None = None,
    **fields: Any,
) -> "Result | None":
    """Search the parameters of a training command on this machine, and wait for the result; progress goes to stderr.

    `space` and `fields`: as in the file (docs/training.md), such as `max_steps=27`; `name` is "search" by default.
    `directory`: where the command runs. `state`: of the journal, checkpoints and logs, by default NAME.themis; a search
    that it holds goes on. `gpus`: of this machine. Returns None if it was suspended by Ctrl-C.

    Raises:
        FileError: a field is invalid.
        BadInputError: a trial does not fit on this machine, or `state` holds another search.
    """
    # A training script imports this package too, and needs none of this.
    from themis_agent.app_file import read
    from themis_agent.local import driver
    from themis_agent.local.folder import Folder

    words = command if isinstance(command, str) else list(command)
    app = read({"name": "search", "command": words, "space": space, **fields}, "themis_agent.run")
    folder = Folder(Path(state or f"{app.name}.themis").resolve())
    return driver.run(app, Path(directory).resolve(), folder, gpus or driver.local_gpus())
