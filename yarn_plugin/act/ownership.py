"""Ownership of the pools' queues: a record on each of them prevents two arbiters from changing the same queues.

The record is a property that YARN stores and ignores: `arbiter-owner` of the pool's queue, with the value
`ID|URL|EPOCH`. An arbiter that takes over from a dead one writes a higher epoch. The previous owner reads the
configuration before and after each write; when it finds the higher epoch, it writes no more.

The ResourceManager has no compare-and-set, so the last write wins, and two arbiters that claim at the same time may
both find the queue free. Each reads the record again after `PAUSE` seconds, and yields if it finds the other's. If the
second one reads before the first one writes, and writes only after the first one's last read, both consider themselves
owners until the first one reads again: at its next write, or at the next comparison of the weights.

Whether the owner is live is probed at the address in its record. An owner that listens on the loopback interface of
another machine cannot be reached: it is taken over, and notices as above.
"""

import json
import logging
import re
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import requests
from urllib3.exceptions import InsecureRequestWarning

from yarn_plugin.errors import ReportedError
from yarn_plugin.files import write_private
from yarn_plugin.observe import bounded, scheduler_configuration
from yarn_plugin.observe.capabilities import is_read_only
from yarn_plugin.observe.resource_manager import ManagerError, ManagerRefusedError, ResourceManager
from yarn_plugin.observe.scheduler_configuration import SchedulerConfiguration, Settings

log = logging.getLogger("yarn_plugin.arbiter")

OWNER = "arbiter-owner"
PAUSE = 1.0
"""Seconds between writing a claim and reading it again."""

_RISK = "a second arbiter would not be detected, so make sure that only one uses these queues"
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_ADDRESS = r"https?://(?:[A-Za-z0-9._-]{1,200}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?"
_RECORD = re.compile(rf"([A-Za-z0-9_-]{{1,64}})\|({_ADDRESS})\|(\d{{1,15}})", re.ASCII)


def identity(state_dir: Path) -> str:
    """The random id of an arbiter, from the file `identity` of its state folder (mode 0600); created if it is missing.

    Raises:
        OSError: the file can be neither read nor written.
    """
    path = state_dir / "identity"
    try:
        stored = path.read_text(errors="replace").strip()
    except FileNotFoundError:
        stored = ""
    if _IDENTITY.fullmatch(stored):
        return stored
    created = uuid.uuid4().hex
    write_private(path, created + "\n")
    return created


class OwnedError(ReportedError):
    """Another live arbiter owns a pool's queue."""

    def __init__(self, queue: str, url: str) -> None:
        super().__init__(
            f"pool queue {queue!r}: another arbiter, {url}, already controls it; stop that one, or choose another "
            "queue in --config"
        )
        self.url = url


class SupersededError(ManagerError):
    """Another arbiter has taken over the pools' queues; `by`: its address."""

    def __init__(self, by: str) -> None:
        super().__init__(f"another arbiter, {by}, controls the pools' queues now")
        self.by = by


@dataclass(frozen=True, slots=True)
class Owner:
    """The record on a pool's queue."""

    id: str
    url: str
    epoch: int

    def __str__(self) -> str:
        return f"{self.id}|{self.url}|{self.epoch}"


@dataclass(frozen=True, slots=True)
class Ownership:
    """The right to change the child queues of these queues, until another arbiter's record is on them."""

    owner: Owner
    parents: tuple[str, ...]

    def successor(self, configuration: SchedulerConfiguration) -> str | None:
        """The address of the arbiter that has taken over; None if none has."""
        for parent in self.parents:
            found = owner_of(configuration, parent)
            if found is not None and found.id != self.owner.id and found.epoch >= self.owner.epoch:
                return found.url
        return None

    def require_owned(self, configuration: SchedulerConfiguration) -> None:
        """Check, and raise if another arbiter owns the queues.

        Raises:
            SupersededError: another arbiter has taken over.
        """
        by = self.successor(configuration)
        if by is not None:
            raise SupersededError(by)

    def renew(self, manager: ResourceManager, configuration: SchedulerConfiguration) -> None:
        """Restore the record on queues that have lost it.

        Raises:
            ManagerError: it could not be written.
        """
        missing = [parent for parent in self.parents if owner_of(configuration, parent) != self.owner]
        if missing:
            scheduler_configuration.write(manager, _record(missing, self.owner))


def owner_of(configuration: SchedulerConfiguration, parent: str) -> Owner | None:
    """The owner of a pool's queue; None if there is no valid record."""
    found = _RECORD.fullmatch(configuration.get(parent, OWNER) or "")
    return Owner(found[1], found[2], int(found[3])) if found else None


def claim(
    manager: ResourceManager,
    parents: Sequence[str],
    identity: str,
    url: str,
    is_live: Callable[[str, str], bool],
    pause: float = PAUSE,
) -> Ownership | None:
    """Become the owner of these queues. None if the ResourceManager does not store records: then there is no ownership.

    `identity`: see `identity`. `url`: this arbiter's address. `is_live(url, id)`: whether another arbiter is running.

    Raises:
        OwnedError: another arbiter owns one of them and is live, or claimed it at the same time.
        ManagerError: no ResourceManager answers.
    """
    try:
        found = scheduler_configuration.read(manager)
    except ManagerRefusedError as refusal:
        if is_read_only(refusal):
            return None
        raise
    owners = [owner for parent in parents if (owner := owner_of(found, parent)) is not None]
    for parent in parents:
        owner = owner_of(found, parent)
        if owner is not None and owner.id != identity and is_live(owner.url, owner.id):
            raise OwnedError(parent, owner.url)
    mine = Owner(identity, url, 1 + max((owner.epoch for owner in owners), default=0))
    try:
        scheduler_configuration.write(manager, _record(parents, mine))
    except ManagerRefusedError as refusal:
        log.warning(
            "pool queues %s: this arbiter could not be recorded there: %s; %s", ", ".join(parents), refusal, _RISK
        )
        return None
    for wait in (0.0, pause):
        time.sleep(wait)
        stored = scheduler_configuration.read(manager)
        for parent in parents:
            owner = owner_of(stored, parent)
            if owner is not None and owner.id != identity and owner.epoch >= mine.epoch:
                raise OwnedError(parent, owner.url)
            if owner != mine:
                log.warning(
                    "pool queue %s: the ResourceManager did not store the record of this arbiter; %s", parent, _RISK
                )
                return None
    return Ownership(mine, tuple(parents))


def is_arbiter_at(url: str, identity: str) -> bool:
    """Whether an arbiter with this id answers at an address.

    Certificates are not verified: nothing secret is sent, and an unrecognised owner would be taken over.
    """
    try:
        with bounded.bounded_session() as session, warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureRequestWarning)
            answer = session.get(
                f"{url}/v1/health", timeout=(2.0, 5.0), allow_redirects=False, stream=True, verify=False
            )
            health = json.loads(bounded.read_body(answer, 65536))
    except (requests.RequestException, bounded.TooLargeError, OSError, ValueError, RecursionError):
        return False
    return isinstance(health, dict) and health.get("id") == identity


def _record(parents: Sequence[str], owner: Owner) -> dict[str, Settings]:
    return {parent: {OWNER: str(owner)} for parent in parents}
