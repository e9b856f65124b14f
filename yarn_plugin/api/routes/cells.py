"""Routes of virtual clusters: what runs on the cells of a pool, and another cells file for it."""

from typing import Annotated

from fastapi import APIRouter, Path

from yarn_plugin.api import cells, wire
from yarn_plugin.api.access import MAX_ID_LENGTH, Allowed
from yarn_plugin.api.backend import Shared
from yarn_plugin.api.refusals import Refused
from yarn_plugin.api.strict_route import StrictRoute
from yarn_plugin.decide.events import PoolReconfigured

router = APIRouter(prefix="/v1/pools", route_class=StrictRoute)

PoolName = Annotated[str, Path(max_length=MAX_ID_LENGTH)]


def _check_admin(access: Allowed) -> None:
    if not access.is_admin:
        raise Refused(403, "Authorization", None, "must be the administrator's token, since all jobs are concerned")


@router.get("/{pool}/cells")
async def get(pool: PoolName, access: Allowed, backend: Shared) -> wire.Cells:
    """The cells file of a pool, and what runs. Needs the administrator's token."""
    _check_admin(access)
    found = cells.find_pool(backend.arbiter.state, pool)
    return await backend.read(access.caller, lambda: cells.cells(found, backend.cells_files.get(pool)))


@router.put("/{pool}/cells")
async def put(pool: PoolName, request: wire.NewCells, access: Allowed, backend: Shared) -> wire.CellsChange:
    """Replace the cells file of a pool; it takes effect at once, or after the notice. Needs the administrator's token.

    The file is replaced before the arbiter decides. If the arbiter is killed in between, it uses the new file when it
    starts again.
    """
    _check_admin(access)
    found, file = cells.find_pool(backend.arbiter.state, pool), backend.cells_files.get(pool)
    if file is None:
        expected = "its cells are in no file of their own; change arbiter.toml, and restart the arbiter"
        raise Refused(409, "pool", pool, expected)
    with cells.draft(file, request.text) as draft:
        changed = await backend.read(access.caller, lambda: found.with_cells(file.name, draft.path))
        change = await backend.read(access.caller, lambda: cells.describe_change(found, changed))
        before = file.read_bytes() if file.exists() else None
        draft.replace()
        try:
            await backend.decide(PoolReconfigured(changed), "admin")
        except Refused:
            if before is not None:
                file.write_bytes(before)
            raise
    return change
