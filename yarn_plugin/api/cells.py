"""The virtual clusters of a pool: what runs on its cells, and another cells file for it."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from yarn_plugin.api import wire
from yarn_plugin.api.refusals import Refused
from yarn_plugin.cells.file import read_cells
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings
from yarn_plugin.decide.allocators.cells_report import CellsReport
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.mechanisms.buddy_cells.reconfiguration import Reconfigured, reconfigure
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import RunningGang
from yarn_plugin.decide.state import State
from yarn_plugin.errors import BadInputError, os_reason
from yarn_plugin.files import write
from yarn_plugin.model.share import Pool
from yarn_plugin.toml_files import FileError
from yarn_plugin.validation import one_of

CellsFiles = Mapping[str, Path]
"""The cells files of pools, by the pool's name."""


@dataclass(frozen=True, slots=True)
class CellsPool:
    """A pool of virtual clusters, with what runs on its cells."""

    pool: Pool
    settings: BuddyCellsSettings
    report: CellsReport

    @property
    def running(self) -> list[RunningGang]:
        """The gangs, in the order in which they keep their cells."""
        gangs = sorted(self.report.gangs, key=lambda gang: (-gang.held_priority, gang.number))
        return [gang.running for gang in gangs]

    def with_cells(self, where: str, path: Path) -> Pool:
        """The pool with the cells of another file.

        Raises:
            Refused: 422, if it is invalid.
        """
        try:
            settings = replace(self.settings, cells=read_cells(where, path))
        except FileError as problem:
            raise Refused(422, "text", None, str(problem)) from None
        except BadInputError as problem:
            raise Refused(422, "text", None, f"{where}: {problem}") from None
        assert isinstance(self.pool.parameters, LedgerSettings)
        return replace(self.pool, parameters=replace(self.pool.parameters, settings=settings))


def find_pool(state: State, name: str) -> CellsPool:
    """The pool of this name.

    Raises:
        Refused: 404, if there is none, or it has no cells; 503, if it has not begun.
    """
    known = {pool.name: pool for pool in state.pools if _settings(pool) is not None}
    pool = known.get(name)
    if pool is None:
        expected = one_of(known, name) if known else 'no pool has virtual clusters (allocator = "cells")'
        raise Refused(404, "pool", name, expected)
    settings, kept = _settings(pool), state.pool_states.get(name)
    if settings is None or kept is None or not isinstance(kept.report, CellsReport):
        raise Refused(503, "pool", name, "has not begun yet; retry later")
    return CellsPool(pool, settings, kept.report)


def _settings(pool: Pool) -> BuddyCellsSettings | None:
    settings = pool.parameters.settings if isinstance(pool.parameters, LedgerSettings) else None
    return settings if isinstance(settings, BuddyCellsSettings) else None


def cells(found: CellsPool, file: Path | None) -> wire.Cells:
    """What an administrator sees of a pool's cells."""
    try:
        text = None if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = None
    gangs = [
        wire.RunningGang(
            gang=one.request.gang,
            virtual_cluster=one.request.cluster,
            priority=one.request.priority,
            chain=one.chain,
            pods=[
                wire.RunningPod(node=pod.node, leaves=list(pod.leaves), quota_types=list(pod.quota_types))
                for pod in one.pods
                if pod.leaves
            ],
            leaf_type=one.request.leaf_type,
            pinned=one.request.pinned,
            lazy=one.request.lazy,
        )
        for one in found.running
    ]
    name = None if file is None else file.name
    return wire.Cells(pool=found.pool.name, file=name, text=text, gangs=gangs, bad_nodes=list(found.report.bad_nodes))


def change(found: CellsPool, changed: Pool) -> wire.CellsChange:
    """What the changed pool means for what runs."""
    settings = _settings(changed)
    assert settings is not None
    after: Reconfigured = reconfigure(settings.cells, found.running, found.report.bad_nodes)
    lost = {*after.downgraded, *after.unleased}
    return wire.CellsChange(
        downgraded=list(after.downgraded),
        outside=list(after.unleased),
        unchanged=sum(1 for gang in found.running if gang.request.gang not in lost),
        in_s=settings.notice_s if after.downgraded else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Draft:
    """A new cells file beside the one that it may replace, in the same format."""

    path: Path
    file: Path

    def replace(self) -> None:
        """Replace the file: from now on, a restart uses it."""
        self.path.replace(self.file)


@contextmanager
def draft(file: Path, text: str) -> Iterator[Draft]:
    """Write a draft, which is gone afterwards.

    Raises:
        Refused: 503, if it cannot be written.
    """
    path = file.with_name(f".{file.stem}.{secrets.token_hex(4)}{file.suffix}")
    try:
        write(path, text, mode=file.stat().st_mode & 0o777 if file.exists() else 0o666, durable=True)
        yield Draft(path, file)
    except OSError as problem:
        raise Refused(503, "file", str(file), f"cannot be written by the arbiter ({os_reason(problem)})") from None
    finally:
        with suppress(OSError):
            path.unlink()
