"""The ResourceManager over REST: one address, or the addresses of an HA pair."""

from typing import Any
from urllib.parse import urlsplit

import requests

from yarn_plugin.errors import BadInputError, ReportedError

TIMEOUT = (3.0, 20.0)
PREFIX = "/ws/v1/cluster"
EXPECTED = "give the RM's web address such as http://host:8088; of an HA pair both, separated by a comma"
NO_MANAGER = f"what answers there is not a ResourceManager; {EXPECTED}"


class ManagerError(ReportedError):
    """The ResourceManager cannot be used."""


class ManagerAwayError(ManagerError):
    """No ResourceManager answers, now."""


class NotAManagerError(ManagerError):
    """Something answers at this address, and it is not a ResourceManager."""


class ManagerRefusedError(ManagerError):
    """The ResourceManager refused a request; `status` is the HTTP status."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"the ResourceManager refused ({status}): {said}")
        self.status = status


class SecuredManagerError(ManagerError):
    """The ResourceManager asks for Kerberos, which is not supported."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"--rm {url}: the ResourceManager asks for Kerberos (SPNEGO); only simple authentication is supported. "
            "Put a gateway that authenticates (such as Apache Knox) between them and give its address"
        )


def addresses(text: str) -> list[str]:
    """The addresses in `--rm`: one, or several (an HA pair) separated by commas.

    Raises:
        BadInputError: one is not an address.
    """
    found = [part.strip().rstrip("/") for part in text.split(",") if part.strip()]
    wrong = next((url for url in found if not _is_address(url)), None)
    if wrong is not None or not found:
        raise BadInputError("--rm", wrong or text, EXPECTED)
    return found


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class ResourceManager:
    """Asks the active ResourceManager; of an HA pair, whichever is active. Not shared between threads.

    `url` is the address that answered last. `user`: who writes (simple authentication).
    """

    def __init__(self, urls: list[str], user: str) -> None:
        self._urls, self._user = list(urls), user
        self._session = requests.Session()
        self._session.headers["Accept"] = "application/json"
        self._session.trust_env = False
        self.url = self._urls[0]

    def get(self, path: str, **params: str) -> Any:
        """The JSON at a path below /ws/v1/cluster.

        Raises:
            ManagerError: nobody answers, or not as a ResourceManager does.
        """
        return self._json(self._send("GET", path, params=params))

    def put(self, path: str, body: Any) -> Any:
        """Write JSON to a path below /ws/v1/cluster, as `user`."""
        return self._send("PUT", path, json=body, params={"user.name": self._user}).text

    def post(self, path: str, body: Any = None) -> Any:
        """Post JSON to a path below /ws/v1/cluster, as `user`."""
        return self._send("POST", path, json=body, params={"user.name": self._user}).text

    def configuration(self) -> dict[str, str]:
        """The RM's own configuration, by property (its /conf page); empty where it is not shown."""
        try:
            answer = self._session.get(f"{self.url}/conf", timeout=TIMEOUT)
            entries = answer.json()["properties"] if answer.ok else []
        except (requests.RequestException, ValueError, KeyError):
            return {}
        return {entry["key"]: entry["value"] for entry in entries}

    def _send(self, method: str, path: str, **request: Any) -> requests.Response:
        problems: list[str] = []
        for url in [self.url, *(other for other in self._urls if other != self.url)]:
            try:
                answer = self._send_to(url, method, path, **request)
            except ManagerAwayError as away:
                problems.append(str(away))
                continue
            self.url = url
            return answer
        raise ManagerAwayError("; ".join(problems))

    def _send_to(self, url: str, method: str, path: str, **request: Any) -> requests.Response:
        try:
            answer = self._session.request(
                method, url + PREFIX + path, timeout=TIMEOUT, allow_redirects=False, **request
            )
        except requests.RequestException as problem:
            cause = "no answer in time" if isinstance(problem, requests.Timeout) else "no connection"
            raise ManagerAwayError(f"ResourceManager {url}: {cause}; is it running there?") from None
        if answer.status_code == 401 and "Negotiate" in answer.headers.get("WWW-Authenticate", ""):
            raise SecuredManagerError(url)
        if answer.status_code == 307 or "This is standby RM" in answer.text[:500]:
            raise ManagerAwayError(f"ResourceManager {url}: it is on standby")
        if 300 <= answer.status_code < 400:
            raise NotAManagerError(f"--rm {url}: it sends us on to {answer.headers.get('Location')!r}; {EXPECTED}")
        if answer.status_code in (502, 503):
            raise ManagerAwayError(f"ResourceManager {url}: not ready ({answer.status_code})")
        if not answer.ok:
            raise ManagerRefusedError(answer.status_code, _message(answer))
        return answer

    def _json(self, answer: requests.Response) -> Any:
        try:
            said = answer.json()
        except ValueError:
            said = None
        # A ResourceManager always answers with an object; a web server of another kind may answer with anything.
        if not isinstance(said, dict):
            raise NotAManagerError(f"--rm {self.url}: {NO_MANAGER}")
        return said


def _message(answer: requests.Response) -> str:
    """What the RM says is wrong, in one line."""
    try:
        said = answer.json()
        text = said.get("RemoteException", said).get("message", answer.text)
    except (ValueError, AttributeError):
        text = answer.text
    return " ".join(str(text).split())[:300] or answer.reason
