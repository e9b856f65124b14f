"""Where `yarn-plugin cells` gets a cluster and its work from: files, or an arbiter that runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, find_token
from yarn_plugin.cells.file import parse_cells, read_cells
from yarn_plugin.cells.running import RunningFile, read_running
from yarn_plugin.cli.apps import arbiter_options
from yarn_plugin.decide.mechanisms.buddy_cells.errors import CellFileError
from yarn_plugin.decide.mechanisms.buddy_cells.reconfiguration import Reconfigured, reconfigure
from yarn_plugin.decide.mechanisms.buddy_cells.specification import ClusterSpec
from yarn_plugin.errors import BadInputError
from yarn_plugin.toml_files import FileError
from yarn_plugin.validation import one_of

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class AskedPool:
    """A pool of a running arbiter, by the options `--arbiter`, `--token-file`, `--ca-file` and `--pool`."""

    arbiter: str
    token_file: Path | None
    verify: str | bool
    name: str | None

    def client(self) -> ArbiterClient:
        """A client of the arbiter."""
        return ArbiterClient(self.arbiter, find_token(self.token_file), self.verify)

    def name_at(self, client: ArbiterClient) -> str:
        """The pool that is meant: of those that lease cells, the only one."""
        if self.name is not None:
            return self.name
        pools = [pool.name for pool in client.get_cluster().pools if pool.controller == "ledger"]
        if len(pools) != 1:
            expected = f"required: {one_of(pools)}" if pools else "the arbiter has no pool of cells"
            raise BadInputError("--pool", "", expected)
        return pools[0]

    def cells(self) -> wire.Cells:
        """The pool's cells, and what runs."""
        client = self.client()
        return client.get_cells(self.name_at(client))


def pool_options(command: Command) -> Command:
    """`--arbiter`, `--token-file`, `--ca-file` and `--pool`, as `pool`."""

    @wraps(command)
    def call(
        *arguments: Any, arbiter: str, token_file: Path | None, verify: str | bool, pool: str | None, **more: Any
    ) -> Any:
        return command(*arguments, pool=AskedPool(arbiter, token_file, verify, pool), **more)

    name = click.option("--pool", metavar="NAME", help="The pool.  [default: the only one that has virtual clusters]")
    return arbiter_options(name(call))  # type: ignore[return-value]


def running_option(default: str) -> Callable[[Command], Command]:
    """`--running`, as `running_file`."""
    return click.option(
        "--running",
        "running_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Running gangs and bad nodes, as JSON (`show --json` and `running` write such files).  "
        f"[default: {default}]",
    )


@dataclass(frozen=True, slots=True)
class Source:
    """A cluster of cells, and what runs on it. `where`: names its cells file in errors."""

    where: str
    spec: ClusterSpec
    work: RunningFile

    def build(self) -> Reconfigured:
        """The cluster, with what runs.

        Raises:
            FileError: the quotas cannot be served, or the cells are contradictory.
        """
        with naming(self.where):
            return reconfigure(self.spec, self.work.running(), self.work.bad_nodes)


def read_source(file: Path | None, running_file: Path | None, pool: AskedPool) -> Source:
    """The cluster of a file, with nothing running if no other file says so; or that of an arbiter, with what runs.

    Raises:
        ReportedError: a file is invalid, the arbiter cannot be asked, or its cells are in no file.
    """
    if file is not None:
        where = f"file {str(file)!r}"
        work = RunningFile() if running_file is None else _read_work(running_file)
        return Source(where, read_cells(where, file), work)
    asked = pool.cells()
    if asked.file is None or asked.text is None:
        raise BadInputError("FILE", "", f"required: the cells of pool {asked.pool} are in no file of their own")
    where = f"the arbiter's file {asked.file!r}"
    work = _work_of(asked) if running_file is None else _read_work(running_file)
    return Source(where, parse_cells(where, Path(asked.file), asked.text), work)


def read_work(running_file: Path | None, pool: AskedPool) -> RunningFile:
    """What runs, by a file or an arbiter.

    Raises:
        ReportedError: the file is invalid, or the arbiter cannot be asked.
    """
    return _work_of(pool.cells()) if running_file is None else _read_work(running_file)


def _read_work(file: Path) -> RunningFile:
    return read_running(f"--running {str(file)!r}", file)


def _work_of(asked: wire.Cells) -> RunningFile:
    return RunningFile.model_validate(asked.model_dump(include={"gangs", "bad_nodes"}))


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Name the file in errors about what it describes."""
    try:
        yield
    except CellFileError as problem:
        raise FileError(f"{where}: {problem}") from None
