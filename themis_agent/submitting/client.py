"""What commands and programs call to check, submit and resume a search; a cluster is named by its addresses."""

import getpass
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from pydantic import ValidationError

from themis_agent.agent.reopening import can_reopen
from themis_agent.app_file import AppFile
from themis_agent.local.driver import result
from themis_agent.local.folder import Folder
from themis_agent.submitting import applications, transaction
from themis_agent.submitting.request import MASTER_MEMORY_MB, Checked, Request, SubmissionError, check
from themis_agent.submitting.search import Search, state_of
from themis_agent.yarn import submission
from themis_agent.yarn.submission import Submission
from yarn_plugin.api.client import ArbiterClient, find_token
from yarn_plugin.errors import BadInputError
from yarn_plugin.observe.resource_manager import ResourceManager, addresses


@dataclass(frozen=True)
class Access:
    """A cluster, as on the command line. `verify`: certificates to trust for https, or True for Python's own."""

    rm: str
    arbiter: str | None
    token_file: Path | None = None
    verify: str | bool = True
    queue: str | None = None
    class_path: str | None = None
    master_memory_mb: int = MASTER_MEMORY_MB


def manager(rm: str, verify: str | bool = True) -> ResourceManager:
    """A client of the ResourceManager, for the current user.

    Raises:
        BadInputError: an address is malformed.
    """
    return ResourceManager(addresses(rm), getpass.getuser(), verify)


def checked(app: AppFile, directory: Path, access: Access) -> Checked | None:
    """See `request.check`."""
    return check(_request(app, directory, access))


def submit(
    app: AppFile, directory: Path, access: Access, note: Callable[[str], object], replaces: bool = False
) -> Search:
    """Check a search and submit it. `directory`: of its file. `note`: called with what is worth knowing. `replaces`: an
    earlier one of its name, which has ended.

    Raises:
        SubmissionError: something is wrong; nothing is left behind.
        ManagerError, NotAcceptedError, ArbiterError: YARN or the arbiter refuses, or is away.
    """
    request = replace(_request(app, directory, access), replaces=replaces)
    found = check(request)
    assert found is not None
    for line in found.notes:
        note(line)
    done = transaction.submit(found)
    return Search(request.manager, done.yarn_app, found.folder)


def submission_in(folder: Path) -> Submission:
    """How the search of a folder was submitted.

    Raises:
        BadInputError: it was not.
    """
    try:
        return submission.read(folder)
    except FileNotFoundError:
        raise BadInputError("DIR", str(Folder(folder)), "holds no search that was submitted to YARN") from None
    except ValidationError:
        raise BadInputError("DIR", str(Folder(folder)), f"its {submission.FILE} is damaged") from None


def resume(folder: Path, access: Access, note: Callable[[str], object], retry_failed: bool = False) -> Search:
    """Go on with a submitted search whose application has ended, in a new application. `retry_failed`: trials that
    have failed are tried again.

    Raises:
        SubmissionError: it still runs, or has ended, or something is wrong.
        BadInputError: the folder holds no submitted search.
        ManagerError, NotAcceptedError, ArbiterError: YARN or the arbiter refuses, or is away.
    """
    earlier = submission_in(folder)
    app, directory = Folder(folder).load()
    above, _, name = Folder(folder).url_of(folder).rpartition("/")
    app = app.model_copy(update={"checkpoint": above, "name": unquote(name)})
    known = applications.get(manager(access.rm, access.verify), earlier.yarn_app)
    if known is not None and not known.has_ended:
        raise SubmissionError([f"{Folder(folder)}: {earlier.yarn_app} still runs this search"])
    state = state_of(folder)
    if state is not None and state.finished and not can_reopen(state, retry_failed):
        advice = "; --retry-failed tries those again that failed" if can_reopen(state, True) else ""
        advice += "; `themis-agent submit --replace` begins a new one in its place"
        raise SubmissionError([f"{Folder(folder)}: its search has ended: {result(state).reason}{advice}"])
    own = ":".join(entry for entry in earlier.class_path if not entry.startswith(f"{submission.JARS}/"))
    queue = known.queue if known is not None else None
    request = _request(app, directory, replace(access, queue=queue or None, class_path=own or None))
    request = replace(request, retry_failed=retry_failed)
    found = check(request, goes_on=True)
    assert found is not None
    for line in found.notes:
        note(line)
    done = transaction.resubmit(found, earlier)
    return Search(request.manager, done.yarn_app, folder)


def _request(app: AppFile, directory: Path, access: Access) -> Request:
    """The request, with clients.

    Raises:
        BadInputError, ArbiterError: an address or the token is malformed.
    """
    arbiter = None
    if access.arbiter is not None:
        arbiter = ArbiterClient(access.arbiter, find_token(access.token_file), access.verify)
    return Request(
        app,
        directory,
        manager(access.rm, access.verify),
        arbiter,
        access.queue,
        access.class_path,
        access.master_memory_mb,
    )
