"""The training side: hyperparameter searches that bid for GPUs by finish-time fairness (Themis).

`run` and `submit` search from a program or a notebook, as the commands `themis-agent run --local` and `submit` do; a
training script imports `themis_agent.trial`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from themis_agent.local.driver import Result
    from themis_agent.submitting.search import Search

__all__ = ["run", "submit"]


def run(
    command: str | Sequence[str],
    *,
    space: Mapping[str, Any],
    directory: str | Path = ".",
    state: str | Path | None = None,
    gpus: int | None = None,
    replace: bool = False,
    **fields: Any,
) -> "Result | None":
    """Search the parameters of a training command on this machine, and wait for the result; progress goes to stderr.

    `space` and `fields`: as in the file (docs/training.md), such as `max_steps=27`; `name` is "search" by default.
    `directory`: where the command runs. `state`: of the journal, checkpoints and logs, by default NAME.themis; a search
    that it holds goes on. `replace`: it is removed instead, with its checkpoints. `gpus`: of this machine. Returns None
    if it was suspended by Ctrl-C.

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
    return driver.run(app, Path(directory).resolve(), folder, gpus or driver.local_gpus(), replace=replace)


def submit(
    command: str | Sequence[str],
    *,
    space: Mapping[str, Any],
    checkpoint: str,
    rm: str,
    arbiter: str,
    token_file: str | Path | None = None,
    directory: str | Path = ".",
    queue: str | None = None,
    verify: str | bool = True,
    replace: bool = False,
    **fields: Any,
) -> "Search":
    """Submit a search of the parameters of a training command to YARN; returns a handle.

    `space`, `checkpoint` and `fields`: as in the file (docs/training.md); `name` is "search" by default. `rm`,
    `arbiter`: URLs. `token_file`: with your token for the arbiter, by default the one in YARN_ARBITER_TOKEN.
    `directory`: where [environment] finds files. `queue`: in a pool of leased GPUs. `verify`: certificates to trust.
    `replace`: an earlier search of this name in `checkpoint`, which has ended, is removed with its checkpoints.

    Raises:
        FileError: a field is invalid.
        SubmissionError: the search does not fit, or the store cannot be written; it has all problems.
        ManagerError, NotAcceptedError, ArbiterError: YARN or the arbiter refuses, or is away.
    """
    from themis_agent.app_file import read
    from themis_agent.submitting import client
    from yarn_plugin import console

    words = command if isinstance(command, str) else list(command)
    given = {"name": "search", "command": words, "space": space, "checkpoint": checkpoint, **fields}
    app = read(given, "themis_agent.submit")
    tokens = Path(token_file) if token_file is not None else None
    access = client.Access(rm, arbiter, tokens, verify, queue)
    return client.submit(app, Path(directory).resolve(), access, console.err.print, replace)
