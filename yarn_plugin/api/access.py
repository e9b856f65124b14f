"""Access control: who is calling, and which applications this caller may see and change."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Security
from fastapi.security import HTTPBearer

from yarn_plugin.api import registration, translate
from yarn_plugin.api.backend import Shared
from yarn_plugin.api.refusals import Refused
from yarn_plugin.api.registration import Users
from yarn_plugin.api.tokens import ADMIN, SCRAPE, Principal
from yarn_plugin.decide.state import State
from yarn_plugin.model.cluster import YarnApp
from yarn_plugin.model.share import Registration

MAX_ID_LENGTH = 200
"""Characters of an application's id in a path."""

AppId = Annotated[str, Path(max_length=MAX_ID_LENGTH)]

Documented = Annotated[
    Any,
    Security(
        HTTPBearer(
            auto_error=False,
            description="Token issued by this arbiter (`yarn-plugin token`). Checked on every request.",
        )
    ),
]
"""Has OpenAPI show that a route needs a token. The authentication middleware has checked it by then."""


async def _recoverer(request: Request, documented: Documented) -> Principal:
    caller: Principal = request.state.principal
    if caller == SCRAPE:
        raise Refused(403, "Authorization", None, "this token is for /metrics only; use another")
    return caller


Recoverer = Annotated[Principal, Depends(_recoverer)]
"""Who sent a request to register an application again, as a parameter of a route."""


async def _caller(caller: Recoverer) -> Principal:
    if caller.kind == "recovery":
        raise Refused(403, "Authorization", None, "this token is for POST /v1/apps/recovered only; use another")
    return caller


Caller = Annotated[Principal, Depends(_caller)]
"""Who sent any other request, as a parameter of a route."""


@dataclass(frozen=True, slots=True)
class Access:
    """What one caller may see and change. `users`: see `registration.Users`."""

    caller: Principal
    users: Users

    @property
    def is_admin(self) -> bool:
        """Whether the caller is the administrator."""
        return self.caller == ADMIN

    def can_see(self, known: Registration | YarnApp) -> bool:
        """Whether an application is the caller's, or the caller's user's."""
        match self.caller.kind:
            case "admin":
                return True
            case "user" if isinstance(known, Registration):
                return known.user == self.caller.name
            case "user":
                return known.user in registration.yarn_users(self.users, self.caller.name)
            case _:
                return known.id == self.caller.name

    def can_see_ended(self, state: State, app: str) -> bool:
        """Whether an application that is no longer known was the caller's."""
        ended = state.dismissed.get(app)
        return self.caller == Principal("app", app) or (ended is not None and self.can_see(ended.registration))

    def find_app(self, state: State, app: str) -> Registration | YarnApp:
        """The application with this id.

        Raises:
            Refused: 404 where there is none, 403 where it is not the caller's.
        """
        known = translate.find_known(state, app)
        if known is None:
            raise Refused(404, "app", app, "no such application (it may have ended); see GET /v1/apps")
        if not self.can_see(known):
            raise Refused(403, "app", app, "belongs to another user or application; use a token of its user")
        return known

    def find_registration(self, state: State, app: str) -> Registration:
        """The registered application with this id.

        Raises:
            Refused: as `find_app`, and 404 where it is not registered.
        """
        known = self.find_app(state, app)
        if not isinstance(known, Registration):
            raise Refused(404, "app", app, "not registered; POST /v1/apps with its yarn_app first")
        return known


async def _access(caller: Caller, backend: Shared) -> Access:
    return Access(caller, backend.users)


Allowed = Annotated[Access, Depends(_access)]
"""What the caller may do, as a parameter of a route."""
