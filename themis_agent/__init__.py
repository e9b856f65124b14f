"""The training side: hyperparameter searches that bid for GPUs by finish-time fairness (Themis).

`run` and `submit` search from a program or a notebook, as the commands `themis-agent run --local` and `submit` do, with
a training command or a Python function; a training script imports `themis_agent.trial`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from themis_agent.functions import Packed
    from themis_agent.study import Study
    from themis_agent.submitting.search import Search

__all__ = ["run", "submit"]

Train = Callable[[dict[str, Any]], object]
"""A function that trains with the parameters of a trial. It may call `themis_agent.trial.report` and save checkpoints;
a number that it returns is the metric of the last step."""


def run(
    command: str | Sequence[str] | Train,
    *,
    space: Mapping[str, Any],
    directory: str | Path = ".",
    state: str | Path | None = None,
    gpus: int | None = None,
    replace: bool = False,
    **fields: Any,
) -> "Study | None":
    """Search the parameters of a training command or function on this machine, and wait for the result.

    Progress goes to stderr; in a notebook, a table shows it. A function is called in a process of its own for each
    trial. `space` and `fields`: as in the file (docs/training.md), such as `max_steps=27`. `name` is "search" by
    default, or that of the function. A function without `max_steps` and `algorithm` trains to its end in each of
    `trials`. `directory`: where trials run. `state`: of the journal, checkpoints and logs, by default NAME.themis; a
    search that it holds goes on. `replace`: it is removed instead, with its checkpoints. `gpus`: of this machine.
    Returns None if it was suspended by Ctrl-C.

    Raises:
        FileError: a field is invalid.
        BadInputError: a trial does not fit on this machine, `state` holds another search, or the function cannot be
            called in another process.
    """
    # A training script imports this package too, and needs none of this.
    from themis_agent import notebooks, study, validation
    from themis_agent.app_file import read
    from themis_agent.local import driver
    from themis_agent.local.folder import Folder
    from yarn_plugin import console

    given, function = _given(command, fields)
    root = Path(state or f"{given['name']}.themis").resolve()
    folder = Folder(root)
    if function is not None:
        given["command"] = _calls(folder.function / function.file)
    app = read({"space": space, **given}, "themis_agent.run")
    if function is not None and not function.saves and (costs := validation.retraining(app, function.name)):
        console.err.print(f"warning: {costs}")
    result = driver.run(
        app,
        Path(directory).resolve(),
        folder,
        gpus or driver.local_gpus(),
        replace=replace,
        function=function,
        show=notebooks.live_table(app.name, app.metric),
    )
    return None if result is None else study.read(folder)


def submit(
    command: str | Sequence[str] | Train,
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
    """Submit a search of the parameters of a training command or function to YARN; returns a handle.

    `space`, `checkpoint` and `fields`: as in the file (docs/training.md); `name` and functions: as of `run`. `rm`,
    `arbiter`: URLs. `token_file`: with your token for the arbiter, by default the one in YARN_ARBITER_TOKEN.
    `directory`: where [environment] finds files. `queue`: in a pool of leased GPUs. `verify`: certificates to trust.
    `replace`: an earlier search of this name in `checkpoint`, which has ended, is removed with its checkpoints.

    Raises:
        FileError: a field is invalid.
        BadInputError: the function cannot be called in another process.
        SubmissionError: the search does not fit, or the store cannot be written; it has all problems.
        ManagerError, NotAcceptedError, ArbiterError: YARN or the arbiter refuses, or is away.
    """
    from themis_agent.app_file import read
    from themis_agent.submitting import client, recent
    from yarn_plugin import console

    given, function = _given(command, fields)
    if function is not None:
        environment = dict(given.get("environment") or {})
        archive = function.write(recent.functions())
        environment["files"] = [*environment.get("files", ()), str(archive)]
        given |= {"command": _calls(Path(function.file)), "environment": environment}
    app = read({"space": space, "checkpoint": checkpoint, **given}, "themis_agent.submit")
    tokens = Path(token_file) if token_file is not None else None
    access = client.Access(rm, arbiter, tokens, verify, queue)
    return client.submit(app, Path(directory).resolve(), access, console.err.print, replace)


def _given(command: str | Sequence[str] | Train, fields: Mapping[str, Any]) -> tuple[dict[str, Any], "Packed | None"]:
    """The fields of a search with its defaults, and its function, if it has one."""
    if not callable(command):
        words = command if isinstance(command, str) else list(command)
        return {"name": "search", "command": words, **fields}, None
    from themis_agent.functions import pack

    function = pack(command)
    to_its_end = {} if {"algorithm", "max_steps"} & fields.keys() else {"algorithm": "plain", "max_steps": 1}
    return {"name": function.name, **to_its_end, **fields}, function


def _calls(archive: Path) -> list[str]:
    """The command that calls a packed function. Braces would be those of parameters."""
    return ["python", str(archive).replace("{", "{{").replace("}", "}}")]
