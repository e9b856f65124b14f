"""The virtual clusters of a pool: what runs on its cells, and another cells file for it."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from yarn_plugin.api import wire
from yarn_plugin.api.refusals import Refused
from yarn_plugin.cells.changes import change_of
from yarn_plugin.cells.file import read_cells
from yarn_plugin.decide.allocators.buddy_cells import BuddyCellsSettings, lent_gang
from yarn_plugin.decide.allocators.cells_report import CellsReport
from yarn_plugin.decide.allocators.happenings import name_of
from yarn_plugin.decide.leases.settings import LedgerSettings
from yarn_plugin.decide.leases.state import Entry
from yarn_plugin.decide.mechanisms.buddy_cells.reconfiguration import reconfigure
from yarn_plugin.decide.mechanisms.buddy_cells.recovery import RunningGang
from yarn_plugin.decide.pools.ledger import LedgerState
from yarn_plugin.decide.state import State
from yarn_plugin.errors import BadInputError, os_reason
from yarn_plugin.files import write
from yarn_plugin.model.share import Pool
from yarn_plugin.toml_files import FileError
from yarn_plugin.validation import one_of

CellsFiles = Mapping[str, Path]
"""The cells files of pools, by the pool's name."""


@dataclass(frozen=True)
class CellsPool:
    """A pool of virtual clusters, with what runs on its cells. `leases`: of its ledger."""

    pool: Pool
    settings: BuddyCellsSettings
    report: CellsReport
    leases: Mapping[str, Entry]

    @property
    def running(self) -> list[RunningGang]:
        """The gangs, in the order in which they keep their cells, by names that users know."""
        gangs = sorted(self.report.gangs, key=lambda gang: (-gang.held_priority, gang.number))
        return [self._named(gang.running) for gang in gangs]

    @cached_property
    def jobs(self) -> dict[str, str]:
        """The jobs of gangs in `running` that are parts of one, by gang."""
        named = ((gang.running, self._owners.get(gang.name)) for gang in self.report.gangs)
        return {_lent_name(gang, owner): owner for gang, owner in named if owner is not None}

    @cached_property
    def _owners(self) -> dict[str, str]:
        """The job of each GPU that the scheduler inside a virtual cluster leases, by the gang's name in the report."""
        names = {gang.name for gang in self.report.gangs}
        leased = ((entry.leased, gpu) for entry in self.leases.values() for gpu in entry.leased.cells)
        gangs = ((lent_gang(lease.key, gpu), lease.claim) for lease, gpu in leased)
        return {gang: name_of(claim) for gang, claim in gangs if gang in names}

    def _named(self, gang: RunningGang) -> RunningGang:
        owner = self._owners.get(gang.request.gang)
        return gang if owner is None else replace(gang, request=replace(gang.request, gang=_lent_name(gang, owner)))

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
    assert isinstance(kept.state, LedgerState), "the controller of a pool with cells is a ledger"
    return CellsPool(pool, settings, kept.report, kept.state.ledger.leases)


def _lent_name(gang: RunningGang, owner: str) -> str:
    (pod,) = gang.pods
    return f"{owner} on {pod.node}[{','.join(pod.leaves)}]"


def _settings(pool: Pool) -> BuddyCellsSettings | None:
    settings = pool.parameters.settings if isinstance(pool.parameters, LedgerSettings) else None
    return settings if isinstance(settings, BuddyCellsSettings) else None


def cells(pool: CellsPool, file: Path | None) -> wire.Cells:
    """What an administrator sees of a pool's cells."""
    try:
        text = None if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = None
    gangs = [
        wire.RunningGang(
            gang=gang.request.gang,
            virtual_cluster=gang.request.cluster,
            priority=gang.request.priority,
            chain=gang.chain,
            pods=[
                wire.RunningPod(node=pod.node, leaves=list(pod.leaves), quota_types=list(pod.quota_types))
                for pod in gang.pods
                if pod.leaves
            ],
            leaf_type=gang.request.leaf_type,
            pinned=gang.request.pinned,
            lazy=gang.request.lazy,
            job=pool.jobs.get(gang.request.gang, ""),
        )
        for gang in pool.running
    ]
    name = None if file is None else file.name
    return wire.Cells(pool=pool.pool.name, file=name, text=text, gangs=gangs, bad_nodes=list(pool.report.bad_nodes))


def describe_change(found: CellsPool, changed: Pool) -> wire.CellsChange:
    """What the changed pool means for what runs."""
    settings = _settings(changed)
    assert settings is not None
    after = reconfigure(settings.cells, found.running, found.report.bad_nodes)
    change = change_of(after, [gang.request.gang for gang in found.running], found.jobs)
    return wire.CellsChange(
        downgraded=list(change.downgraded),
        outside=list(change.outside),
        restarted=list(change.restarted),
        unchanged=change.unchanged,
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
