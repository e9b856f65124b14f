"""The checkpoints of a trial in a store: committed whole, in the order of epochs, the newest found again.

    TRIAL/epochs/000004.json               epoch 4 has begun, and from which checkpoint
    TRIAL/000003/000000000120/...          the files of a checkpoint
    TRIAL/000003/000000000120.json         its manifest, with sizes and checksums: by it the checkpoint exists

A manifest is written under another name and renamed, so that a checkpoint is there or not. An epoch continues from the
newest checkpoint of the epoch before, and says so in its record. Thus the newest checkpoint is found along the records:
what an earlier epoch's launcher, not aware that it is superseded, commits after that is never read. Only if a record is
damaged is the epoch before it taken with all its checkpoints: better one of those than none. A trial with a parent
begins with a copy of the newest checkpoint of that one.
"""

import contextlib
import functools
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from themis_agent.errors import StoreError, SupersededError
from themis_agent.trial import script
from themis_agent.trial.store import Store
from yarn_plugin.errors import os_reason

_T = TypeVar("_T")

MAX_EPOCH = 999_999
"""From there, all epochs of a trial are earlier ones."""

LogPosition = Mapping[str, int | None]
"""Where the reading of the trial's log was: `reading.numbering.Numbering.save`."""


@dataclass(frozen=True, slots=True, order=True)
class Checkpoint:
    """A checkpoint in the store."""

    epoch: int
    step: int


class _Written(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _File(_Written):
    name: str
    size: int
    sha256: str


class _Manifest(_Written):
    files: list[_File]
    log: LogPosition = {}


class _Origin(_Written):
    epoch: int
    step: int


class _EpochRecord(_Written):
    resumed: _Origin | None = None


class DamagedError(StoreError):
    """A file of a checkpoint is missing, cannot be read, or is not what its manifest says."""


class UnstorableError(StoreError):
    """A local checkpoint that no store takes. Trying again does not help."""


class Checkpoints:
    """The checkpoints of a trial as one epoch sees them. `keep`: how many to keep. `parent`: the trial from
    whose newest one it begins. All methods raise `StoreError`.

    `damaged`: what `begin` has passed over, and why. `damaged_records`: the same of epochs' records, by epoch. `log`:
    with the checkpoint that was restored.
    """

    def __init__(self, store: Store, trial: str, epoch: int, keep: int, parent: str = "") -> None:
        self.damaged: dict[Checkpoint, str] = {}
        self.damaged_records: dict[int, str] = {}
        self.log: LogPosition = {}
        self._store, self._trial, self._epoch, self._keep = store, trial, epoch, keep
        self._parent = parent

    def begin(self, directory: Path) -> Checkpoint | None:
        """Begin this epoch: restore the newest checkpoint into a local directory, as `step-N`. None: there is none.

        Raises:
            SupersededError: a later epoch has begun.
        """
        self._check_newest()
        resumed = self.export(directory)
        if resumed is None and self._parent:
            resumed = self._copy_of_parent(directory)
        record = _EpochRecord(resumed=_Origin(epoch=resumed.epoch, step=resumed.step) if resumed else None)
        self._write_whole(f"epochs/{self._epoch:06}.json", record)
        self._check_newest()
        return resumed

    def export(self, directory: Path) -> Checkpoint | None:
        """Restore the newest checkpoint of earlier epochs, as `step-N`, without beginning this one."""
        for candidate in self._newest_first():
            try:
                self._restore(candidate, directory)
            except DamagedError as problem:
                self.damaged[candidate] = str(problem)
                continue
            return candidate
        return None

    def _copy_of_parent(self, directory: Path) -> Checkpoint | None:
        parent = Checkpoints(self._store, self._parent, MAX_EPOCH, self._keep)
        found = parent.export(directory)
        self.damaged = {**self.damaged, **parent.damaged}
        if found is None:
            return None
        self.log = parent.log
        self._add(found.step, directory / script.checkpoint_name(found.step), self.log)
        return Checkpoint(self._epoch, found.step)

    def join(self, directory: Path) -> tuple[bool, Checkpoint | None]:
        """As `begin`, for the other launchers of the gang: whether the epoch has begun, and the same checkpoint.

        Raises:
            DamagedError: its record or that checkpoint is damaged: no launcher can join this epoch.
        """
        record = self._record(self._epoch)
        if record is None or record.resumed is None:
            return record is not None, None
        resumed = Checkpoint(record.resumed.epoch, record.resumed.step)
        self._restore(resumed, directory)
        return True, resumed

    def commit(self, step: int, source: Path, log: LogPosition = MappingProxyType({})) -> None:
        """Store a complete local checkpoint, once for each step; then remove those beyond the newest `keep`.

        Raises:
            FileNotFoundError: the script has removed it, or a part of it, meanwhile.
            UnstorableError: the name of a file is not UTF-8.
            SupersededError: a later epoch has begun.
        """
        self._check_newest()
        if step not in self._steps(self._epoch):
            self._add(step, source, log)
            self._check_newest()
            self._prune()

    def _add(self, step: int, source: Path, log: LogPosition) -> None:
        folder, files, sizes = f"{self._epoch:06}/{step:012}", [], _sizes(source)
        try:
            for name, size in sorted(sizes.items()):
                files.append(_File(name=name, size=size, sha256=_checksum(source / name)))
                self._store.put(source / name, self._name(f"{folder}/{name}"))
            if _sizes(source) != sizes:
                raise FileNotFoundError(source)
            self._check_newest()
            self._write_whole(f"{folder}.json", _Manifest(files=files, log=log))
        except (StoreError, OSError):
            self._take_back(folder)
            raise

    def _take_back(self, folder: str) -> None:
        """Remove what there is of a checkpoint that could not be stored: a store that is full would stay so."""
        with contextlib.suppress(StoreError):
            if f"{folder.rpartition('/')[2]}.json" not in self._store.names(self._name(f"{self._epoch:06}")):
                self._store.remove(self._name(folder))

    def _prune(self) -> None:
        """Remove what is no longer needed. Only the newest epoch may: an earlier one could remove what a later one
        reads.
        """
        kept = set(list(self._newest_first(self._epoch + 1))[: self._keep])
        for epoch in self._epochs_with_files():
            names = self._store.names(self._name(f"{epoch:06}")) if epoch <= self._epoch else []
            # Manifests first: what has a manifest is whole.
            for name in sorted(names, key=lambda name: not name.endswith(".json")):
                if not name[:12].isdigit():
                    continue
                leftover = name.endswith(".tmp") and epoch < self._epoch
                if leftover or Checkpoint(epoch, int(name[:12])) not in kept:
                    self._check_newest()
                    self._store.remove(self._name(f"{epoch:06}/{name}"))

    def _newest_first(self, before: int | None = None) -> Iterator[Checkpoint]:
        """The committed checkpoints of earlier epochs (or of those before another one), in the order to try them."""
        before = self._epoch if before is None else before
        epoch = max((one for one in self._epochs() if one < before), default=None)
        until: int | None = None
        while epoch is not None:
            steps = self._steps(epoch)
            sooner = [step for step in steps if until is None or step <= until]
            yield from (Checkpoint(epoch, step) for step in sorted(sooner, reverse=True))
            epoch, until = self._origin(epoch)

    def _origin(self, epoch: int) -> tuple[int | None, int | None]:
        """The epoch before one of the chain, and the step from which that one continued; None: there is no limit."""
        try:
            record = self._record(epoch)
        except DamagedError as problem:
            self.damaged_records[epoch] = str(problem)
            return max((one for one in self._epochs() if one < epoch), default=None), None
        origin = record.resumed if record else None
        return (origin.epoch, origin.step) if origin and origin.epoch < epoch else (None, None)

    def _restore(self, checkpoint: Checkpoint, directory: Path) -> None:
        folder = f"{checkpoint.epoch:06}/{checkpoint.step:012}"
        try:
            written = self._read(folder, functools.partial(self._store.read, self._name(f"{folder}.json")))
            manifest = _Manifest.model_validate_json(written)
        except ValidationError as problem:
            raise DamagedError(f"checkpoint {self._name(folder)}: its manifest is damaged") from problem
        complete = directory / script.checkpoint_name(checkpoint.step)
        partial = directory / f"{complete.name}.restoring"
        for leftover in (partial, complete):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            partial.mkdir(parents=True)
            for file in manifest.files:
                self._fetch(folder, file, partial)
            partial.rename(complete)
            self.log = manifest.log
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _fetch(self, folder: str, file: _File, directory: Path) -> None:
        target = directory / file.name
        if not target.resolve().is_relative_to(directory.resolve()):
            raise DamagedError(f"checkpoint {self._name(folder)}: {file.name!r} is no name within it")
        if file.name not in self._read(folder, functools.partial(self._files, folder, file.name)):
            raise DamagedError(f"checkpoint {self._name(folder)}: {file.name} is missing")
        try:
            self._read(folder, functools.partial(self._store.fetch, self._name(f"{folder}/{file.name}"), target))
        except OSError as problem:
            # It may work later: for a full disk, no checkpoint is passed over.
            raise StoreError(f"{target}: {os_reason(problem)}") from problem
        if target.stat().st_size != file.size or _checksum(target) != file.sha256:
            raise DamagedError(f"checkpoint {self._name(folder)}: {file.name} is damaged")

    def _read(self, folder: str, read: Callable[[], _T], what: str = "checkpoint") -> _T:
        """Read a part of a checkpoint, or a record. Damaged: that fails twice while the store itself answers."""
        try:
            return read()
        except StoreError:
            self._store.names("")
        try:
            return read()
        except StoreError as problem:
            self._store.names("")
            raise DamagedError(f"{what} {self._name(folder)}: {problem}") from problem

    def _files(self, folder: str, name: str) -> set[str]:
        inner, _, _ = name.rpartition("/")
        listed = self._store.names(self._name(f"{folder}/{inner}" if inner else folder))
        return {f"{inner}/{one}" if inner else one for one in listed}

    def _check_newest(self) -> None:
        newest = max(self._epochs(), default=0)
        if newest > self._epoch:
            raise SupersededError(f"trial {self._trial}: epoch {newest} has begun, this is epoch {self._epoch}")

    def _epochs(self) -> list[int]:
        names = self._store.names(self._name("epochs"))
        return [int(name[:6]) for name in names if name[:6].isdigit() and name[6:] == ".json"]

    def _epochs_with_files(self) -> list[int]:
        return [int(name) for name in self._store.names(self._trial) if name.isdigit()]

    def _steps(self, epoch: int) -> list[int]:
        names = self._store.names(self._name(f"{epoch:06}"))
        return [int(name[:12]) for name in names if name[:12].isdigit() and name[12:] == ".json"]

    def _record(self, epoch: int) -> _EpochRecord | None:
        if epoch not in self._epochs():
            return None
        try:
            read = functools.partial(self._store.read, self._name(f"epochs/{epoch:06}.json"))
            return _EpochRecord.model_validate_json(self._read("epochs", read, f"record of epoch {epoch}"))
        except ValidationError as problem:
            raise DamagedError(f"record of epoch {epoch} of trial {self._trial}: damaged") from problem

    def _write_whole(self, name: str, content: BaseModel) -> None:
        partial = f"{name}.{time.time_ns()}.tmp"
        try:
            self._store.write(self._name(partial), content.model_dump_json().encode())
            self._store.rename(self._name(partial), self._name(name))
        except StoreError:
            with contextlib.suppress(StoreError):
                self._store.remove(self._name(partial))
            raise

    def _name(self, name: str) -> str:
        return f"{self._trial}/{name}"


def _sizes(directory: Path) -> dict[str, int]:
    """The files of a local checkpoint.

    Raises:
        FileNotFoundError: the script removes it.
        UnstorableError: the name of a file is not UTF-8.
    """
    if not directory.is_dir():
        raise FileNotFoundError(directory)
    sizes = {}
    for path in directory.rglob("*"):
        if path.is_file():
            name = path.relative_to(directory).as_posix()
            try:
                name.encode()
            except UnicodeEncodeError:
                raise UnstorableError(f"checkpoint {directory.name}: file name {name!r} is not UTF-8") from None
            sizes[name] = path.stat().st_size
    return sizes


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
