"""What a search that has not begun waits for, and whether anybody will go on with one that has."""

from pathlib import Path

from themis_agent.local.folder import Folder
from themis_agent.submitting import applications, client
from themis_agent.view.liveness import page_address
from themis_agent.yarn import submission
from yarn_plugin.errors import BadInputError
from yarn_plugin.observe.resource_manager import ManagerError


def waiting(folder: Path, verify: str | bool = True) -> str:
    """What a search waits for. `verify`: certificates to trust, if the ResourceManager has an https address.

    Raises:
        BadInputError: its application has ended, so it will not begin.
    """
    if not submission.is_in(folder):
        return "the search has not begun"
    submitted = client.submission_in(folder)
    app = submitted.yarn_app
    try:
        known = applications.get(client.manager(submitted.resource_manager, verify), app)
    except ManagerError as problem:
        return f"the search has not begun; {problem}"
    place = str(Folder(folder))
    resumed = f"`themis-agent resume {place}` submits it again"
    if known is None:
        raise BadInputError("DIR", place, f"has not begun, and YARN does not know {app} any more; {resumed}")
    if known.has_ended:
        why = known.diagnostics or known.final
        raise BadInputError("DIR", place, f"has not begun, and {app} has ended: {why}; {resumed}")
    why = f": {known.diagnostics}" if known.diagnostics else ""
    return f"the search has not begun; {app} is {known.state}{why}"


def is_abandoned(folder: Path, verify: str | bool = True) -> bool:
    """Whether no agent runs a search, and YARN will start none. `verify`: as in `waiting`."""
    if page_address(Folder(folder)) is not None:
        return False
    if not submission.is_in(folder):
        return True
    submitted = client.submission_in(folder)
    try:
        known = applications.get(client.manager(submitted.resource_manager, verify), submitted.yarn_app)
    except ManagerError:
        return False
    return known is None or known.has_ended
