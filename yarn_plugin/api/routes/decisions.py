"""Routes of past decisions: those about one application, and all that the caller may see."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import TypeAdapter

from yarn_plugin.api import translate, wire
from yarn_plugin.api.access import MAX_ID_LENGTH, Allowed, AppId
from yarn_plugin.api.backend import Backend, Shared
from yarn_plugin.api.cells_why import explained
from yarn_plugin.api.refusals import Refused
from yarn_plugin.api.strict_route import StrictRoute

router = APIRouter(prefix="/v1", route_class=StrictRoute)

MAX_DECISIONS = 10_000
"""Decisions in one answer."""

_DECISIONS = TypeAdapter(list[wire.Decision])


@router.get("/apps/{app}/why")
async def why(
    app: AppId, access: Allowed, backend: Shared, limit: Annotated[int, Query(ge=1, le=1000)] = 20
) -> wire.Why:
    """Why an application has what it has: the last decisions about it."""
    state, arbiter = backend.arbiter.state, backend.arbiter
    known = translate.find_known(state, app)
    unknown = Refused(404, "app", app, "no such application, and no stored decision about it")
    if known is not None:
        access.find_app(state, app)
    elif not access.is_admin and not access.can_see_ended(state, app):
        raise unknown
    app_id = known.id if known else app
    # The record of a round names everyone's finish-time fairness and bids.
    rounds_with = app_id if access.is_admin else None
    decisions = await backend.read(
        access.caller,
        lambda: translate.last_decisions(arbiter.history(), lambda about: about == app_id, limit, rounds_with),
    )
    if known is None and not decisions:
        raise unknown
    shown = translate.app(state, known, arbiter.now(), arbiter.wall_offset()) if known else None
    about_cells: list[str] = []
    if known is not None and (found := explained(state, app_id)) is not None:
        about_cells = await backend.read(access.caller, found)
    return wire.Why(app=shown, decisions=decisions, manager_says=await _explain(backend, shown), cells=about_cells)


@router.get("/decisions", response_model=list[wire.Decision])
async def decisions(
    access: Allowed,
    backend: Shared,
    app: Annotated[str | None, Query(max_length=MAX_ID_LENGTH)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_DECISIONS)] = 100,
) -> Response:
    """The last decisions, oldest first; only the administrator sees those about other users' applications."""
    arbiter = backend.arbiter

    def render() -> bytes:
        visible = {known.id for known in translate.known_apps(arbiter.state) if access.can_see(known)}

        def is_shown(about: str | None) -> bool:
            return (access.is_admin or about in visible) and app in (None, about)

        return _DECISIONS.dump_json(translate.last_decisions(arbiter.history(), is_shown, limit))

    return await backend.respond(access.caller, render)


async def _explain(backend: Backend, app: wire.App | None) -> list[str]:
    """What the ResourceManager says about an application that waits for containers."""
    if app is None or app.yarn_app is None or not (app.pending or app.state == "waiting"):
        return []
    return await backend.explain_waiting(app.yarn_app, app.user)
