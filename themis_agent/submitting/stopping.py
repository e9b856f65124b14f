"""Suspending or ending a search by its agent, or killing its application by YARN.

The token of a search is sent to nobody but its agent: the folder must be the user's own, and the address in it the one
that the ResourceManager has of the application master. After an agent has died, somebody else may listen there.
"""

import contextlib
import os
import stat
from pathlib import Path
from urllib.parse import urlsplit

import requests
from pydantic import ValidationError

from themis_agent.local import stored_folder
from themis_agent.local.folder import Folder
from themis_agent.submitting import applications
from themis_agent.submitting.applications import Listed
from themis_agent.trial.wire import AgentAddress
from yarn_plugin.errors import BadInputError, ReportedError
from yarn_plugin.observe.resource_manager import ResourceManager

ANSWER_S = 30.0
"""How long the agent may take to answer."""

LOOPBACK = "127.0.0.1"
"""Where the agent of a search on this machine listens."""


class StopError(ReportedError):
    """The agent of a search was not reached, or refused."""


def stop(folder: Path, application: str | None, manager: ResourceManager | None, for_good: bool = False) -> None:
    """Ask the agent of a search to suspend it, or to end it. `application`: YARN's id; None: it runs on this machine.

    Raises:
        StopError: it was not reached, or refused.
        BadInputError: the folder holds no search that has begun, or is another user's.
        ManagerError: the ResourceManager refuses, or is away.
    """
    url, token = _agent_in(folder)
    if (ended := _end_of(folder)) is not None:
        raise StopError(f"{Folder(folder)}: its search has ended already: {ended}")
    where = _master(manager, application) if manager is not None and application is not None else LOOPBACK
    if where not in (urlsplit(url).netloc, urlsplit(url).hostname):
        said = f"YARN says that it is at {where}" if application is not None else f"one on this machine is at {where}"
        raise StopError(
            f"{Folder(folder)}/agent.json has the agent at {url}, but {said}; try again in a moment, or use --kill"
        )
    with requests.Session() as session:
        session.trust_env = False
        headers = {"Authorization": f"Bearer {token}"}
        what = "stop" if for_good else "suspend"
        try:
            answer = session.post(f"{url}/v1/{what}", headers=headers, timeout=ANSWER_S, allow_redirects=False)
        except requests.RequestException:
            advice = "use --kill" if application is not None else "`themis-agent resume DIR` goes on with the search"
            raise StopError(f"the agent at {url} does not answer; {advice}") from None
    if answer.status_code != 204:
        raise StopError(f"the agent at {url} refused ({answer.status_code}); use --kill")


def kill(manager: ResourceManager, application: str) -> bool:
    """Have YARN end an application; False: it had ended before.

    Raises:
        BadInputError: the ResourceManager does not know it.
        ManagerError: the ResourceManager refuses, or is away.
    """
    if known(manager, application).has_ended:
        return False
    applications.kill(manager, application)
    return True


def known(manager: ResourceManager, application: str) -> Listed:
    """An application as YARN lists it.

    Raises:
        BadInputError: the ResourceManager does not know it.
        ManagerError: the ResourceManager refuses, or is away.
    """
    found = applications.get(manager, application)
    if found is None:
        raise BadInputError(
            "APPLICATION", application, f"ResourceManager {manager.url} does not know it (any more); see `list --all`"
        )
    return found


def _agent_in(folder: Path) -> tuple[str, str]:
    """The address of the agent, and the token of the search."""
    search = Folder(folder)
    try:
        for path in (folder, search.address, search.token_file):
            _check_own(search, path)
        address = AgentAddress.model_validate_json(search.read(search.address))
        return address.url, search.read(search.token_file).decode()
    except FileNotFoundError:
        raise BadInputError(
            "SEARCH", str(search), "holds no search that has begun; --kill ends a submitted one"
        ) from None
    except PermissionError:
        raise _foreign(folder) from None
    except ValidationError:
        raise BadInputError("SEARCH", str(search), "its agent.json is damaged; use --kill") from None


def _end_of(folder: Path) -> str | None:
    """How the search has ended; None: it has not, as far as the journal can be read."""
    with contextlib.suppress(ReportedError, OSError):
        state = Folder(folder).state()
        return state.outcome.reason if state.finished and state.outcome is not None else None
    return None


def _check_own(folder: Folder, path: Path) -> None:
    if folder.store is not None:
        with stored_folder.as_os_errors():
            found = folder.store.status(folder.name_of(path))
        is_own, mode = found.owner == folder.store.user, found.mode
    else:
        status = path.stat()
        is_own, mode = status.st_uid == os.getuid(), status.st_mode
    if not is_own:
        raise _foreign(folder.root)
    if mode & stat.S_IWOTH:
        place = folder.place_of(path)
        raise BadInputError("SEARCH", str(folder), f"everybody can write {path.name or path}; chmod o-w {place}")


def _foreign(folder: Path) -> BadInputError:
    return BadInputError("SEARCH", str(Folder(folder)), "is another user's; a YARN administrator can use --kill")


def _master(manager: ResourceManager, application: str) -> str:
    """The address of an application master, as YARN has it."""
    found = known(manager, application)
    if found.has_ended:
        raise StopError(f"{application} has ended already: {found.diagnostics or found.final}")
    if found.state != "RUNNING":
        raise StopError(f"{application} is {found.state}, its master is being started; try again, or use --kill")
    return found.master
