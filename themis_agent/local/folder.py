"""The folder of a search, local or on YARN: all that a killed one needs to go on. It may be a copy of one in HDFS.

app.json      the search, and the directory of its file      journal       every event
agent.json    where the agent is now                          token         for its launchers
checkpoints/  of all trials                                   logs/         of all ranks and epochs
function/     the function that trials call, if it is one
trials/TRIAL/epoch-N/  what a launcher was started with, its local checkpoints and its own output
"""

import contextlib
import hashlib
import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from themis_agent.agent.state import State, TrialState
from themis_agent.app_file import AppFile
from themis_agent.errors import StoreError
from themis_agent.live import recorded
from themis_agent.local import stored_folder
from themis_agent.trial.checkpoints import Checkpoints
from themis_agent.trial.store import store_at
from themis_agent.trial.webhdfs import HdfsStore, MissingError
from themis_agent.trial.wire import AgentAddress
from yarn_plugin import files
from yarn_plugin.errors import BadInputError, describe
from yarn_plugin.validation import expectation

_EPOCH = re.compile(r"(?P<trial>[^/]+)/epoch-(?P<epoch>\d+)/spec\.json")


@dataclass(frozen=True)
class Folder:
    """See the module."""

    root: Path

    @cached_property
    def store(self) -> HdfsStore | None:
        """Where the folder is of which this is a copy; None: it is none."""
        return stored_folder.origin(self.root)

    def __str__(self) -> str:
        return str(self.root) if self.store is None else self.store.url

    def name_of(self, path: Path) -> str:
        """The name of a file of this folder in the store; "" of the folder itself."""
        return path.relative_to(self.root).as_posix() if path != self.root else ""

    def url_of(self, path: Path) -> str:
        """The URL of a file of this folder, for other machines."""
        return path.as_uri() if self.store is None else self.store.url_of(self.name_of(path))

    def place_of(self, path: Path) -> str:
        """The same, as a path where it has one."""
        return str(path) if self.store is None else self.url_of(path)

    def write(self, path: Path, content: str) -> None:
        """Write a file durably that only its owner can read.

        Raises:
            OSError: it could not be written.
        """
        files.write_private(path, content)
        if self.store is not None:
            with stored_folder.as_os_errors():
                self.store.write(self.name_of(path), content.encode())

    def read(self, path: Path) -> bytes:
        """Read a file as it is now.

        Raises:
            OSError: it cannot be read.
        """
        if self.store is None:
            return path.read_bytes()
        with stored_folder.as_os_errors():
            return self.store.read(self.name_of(path))

    def pull(self, *names: str) -> None:
        """Have these files in the copy, those that there are.

        Raises:
            StoreError: the store cannot be read.
        """
        for name in names if self.store is not None else ():
            with contextlib.suppress(MissingError):
                assert self.store is not None
                files.write_private(self.root / name, self.store.read(name).decode())

    def refresh(self) -> None:
        """Have what is new of the journal in the copy.

        Raises:
            StoreError: the store cannot be read.
        """
        if self.store is not None:
            stored_folder.pull_journal(self.store, self.root)

    def refresh_log(self, trial: str, rank: int) -> None:
        """Have what is new of a log in the copy.

        Raises:
            StoreError: the store cannot be read.
        """
        if self.store is not None:
            folder = self.name_of(self.logs / trial)
            stored_folder.pull_log(self.store, self.root, folder, f"rank-{rank}.log")

    @property
    def journal(self) -> Path:
        """The journal of the agent."""
        return self.root / "journal"

    @property
    def address(self) -> Path:
        """Where launchers find a restarted agent."""
        return self.root / "agent.json"

    @property
    def token_file(self) -> Path:
        """What launchers authenticate themselves with."""
        return self.root / "token"

    @property
    def checkpoints(self) -> Path:
        """The checkpoints of all trials."""
        return self.root / "checkpoints"

    @property
    def function(self) -> Path:
        """Where the function is that trials call."""
        return self.root / "function"

    @property
    def logs(self) -> Path:
        """The logs of all trials."""
        return self.root / "logs"

    def epoch(self, trial: str, epoch: int) -> Path:
        """The folder of an attempt."""
        return self.root / "trials" / trial / f"epoch-{epoch}"

    def spec(self, trial: str, epoch: int) -> Path:
        """What the launcher of an attempt was started with."""
        return self.epoch(trial, epoch) / "spec.json"

    def attempt_of(self, spec: str) -> tuple[str, int] | None:
        """The trial and the epoch of such a file; None if it is none of this folder."""
        path, trials = Path(spec), self.root / "trials"
        found = _EPOCH.fullmatch(str(path.relative_to(trials))) if path.is_relative_to(trials) else None
        return (found["trial"], int(found["epoch"])) if found else None

    @property
    def exists(self) -> bool:
        """Whether it holds a search."""
        return (self.root / "app.json").exists()

    def begin(self, app: AppFile, directory: Path) -> None:
        """Create the folder for a search."""
        written = {"directory": str(directory), "app": app.in_words().model_dump(mode="json")}
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.checkpoints.mkdir(exist_ok=True)
        files.write_private(self.root / "app.json", json.dumps(written, indent=2) + "\n")

    def load(self) -> tuple[AppFile, Path]:
        """The search that the folder holds, and the directory of its file.

        Raises:
            BadInputError: it holds none, or its file is damaged.
        """
        try:
            return self._read()
        except FileNotFoundError:
            raise BadInputError("DIR", str(self), "holds no search; `themis-agent run` begins one") from None
        except ValidationError as problem:
            first = problem.errors()[0]
            reason = f"{'.'.join(map(str, first['loc'])) or 'app'}: {expectation(dict(first), 'object')}"
        except (ValueError, KeyError, TypeError) as problem:
            reason = describe(problem)
        expected = f"its app.json is damaged ({reason}); restore it, or begin the search in a folder of its own"
        raise BadInputError("DIR", str(self), expected)

    def _read(self) -> tuple[AppFile, Path]:
        written = json.loads((self.root / "app.json").read_text())
        fields = written["app"]
        if isinstance(fields["command"], str):
            # Earlier versions kept the text, and split it at blanks.
            fields["command"] = fields["command"].split()
        return AppFile.model_validate(fields), Path(written["directory"])

    def state(self) -> State:
        """How the search stands, by its journal.

        Raises:
            BadInputError: the folder holds no search that has begun.
        """
        self.refresh()
        state = recorded(self.journal) if self.journal.exists() else None
        if state is None:
            raise BadInputError("DIR", str(self), "holds no search that has begun")
        return state

    def export(self, app: AppFile, trial: TrialState, directory: Path) -> int:
        """Copy the newest checkpoint of a trial into a directory as `step-N`; returns N.

        Raises:
            StoreError: there is none, or the store cannot be read.
        """
        store = store_at(app.checkpoint or self.url_of(self.checkpoints))
        directory.mkdir(parents=True, exist_ok=True)
        found = Checkpoints(store, trial.id, trial.epoch + 1, app.keep_checkpoints).export(directory)
        if found is None:
            raise StoreError(f"{trial.id} has stored no checkpoint")
        return found.step

    def log(self, trial: str, rank: int) -> Iterator[tuple[int, Path]]:
        """The logs of a rank of a trial, by epoch."""
        for path in sorted((self.logs / trial).glob(f"epoch-*/rank-{rank}.log")):
            yield int(path.parent.name.removeprefix("epoch-")), path

    def token(self) -> str:
        """The token of the search's launchers."""
        if not self.token_file.exists():
            self.write(self.token_file, secrets.token_urlsafe(32))
        return self.token_file.read_text()

    def search_id(self) -> str:
        """An id of the search that no other one has. It does not reveal the token."""
        return hashlib.sha256(f"search {self.token()}".encode()).hexdigest()[:16]

    def last_attempt(self) -> int:
        """The number of the last agent's attempt; 0: there was none.

        Raises:
            OSError, ValueError: it cannot be read.
        """
        if self.store is not None:
            with stored_folder.as_os_errors():
                return max(stored_folder.attempts(self.store), default=0)
        return AgentAddress.model_validate_json(self.address.read_text()).attempt if self.address.exists() else 0

    def publish(self, url: str, attempt: int) -> None:
        """Say where the agent is now.

        Raises:
            OSError: that cannot be written.
        """
        said = AgentAddress(url=url, attempt=attempt).model_dump_json()
        if self.store is None:
            files.write(self.address, said, durable=True)
            return
        with stored_folder.as_os_errors():
            self.store.make_folder(f"{stored_folder.JOURNAL}/{attempt:06}")
        self.write(self.address, said)


SMALL = ("app.json", "submission.json", "agent.json", "token", "arbiter-token", "arbiter-ca.pem")
"""The small files of a folder, which a copy has from the start."""


def folder_at(where: str | Path, root: Path | None = None) -> Folder:
    """The folder at a path, or a copy of the one at a URL, with its small files. `root`: see `copy_at`.

    Raises:
        BadInputError: the URL is malformed.
        StoreError: the store cannot be read.
    """
    if not stored_folder.is_url(where):
        return Folder(Path(where).resolve())
    folder = Folder(stored_folder.copy_at(str(where), root))
    folder.pull(*SMALL)
    return folder
