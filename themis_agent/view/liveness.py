"""Whether an agent runs a search now, and where its page is."""

import requests
from pydantic import ValidationError

from themis_agent.local.folder import Folder
from themis_agent.trial.wire import AgentAddress
from themis_agent.view.routes import read_key

TIMEOUT_S = (2.0, 10.0)
"""To connect, and to read: the first request of all reads the whole journal."""


def page_address(folder: Folder) -> str | None:
    """The address of the page that the agent serves; None if none answers."""
    try:
        address = AgentAddress.model_validate_json(folder.read(folder.address))
        key = read_key(folder.read(folder.token_file).decode())
    except (OSError, ValidationError):
        return None
    with requests.Session() as session:
        session.trust_env = False
        try:
            # 503: it runs, and the search has not begun.
            answer = session.get(f"{address.url}/{key}/metrics", timeout=TIMEOUT_S)
        except requests.RequestException:
            return None
    return f"{address.url}/{key}/" if answer.status_code in (200, 503) else None
