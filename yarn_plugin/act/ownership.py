"""Who writes the pools' queues: a record on each of them, so that two arbiters do not write against each other.

The record is a property that YARN keeps and does not look at: `arbiter-owner` of the pool's queue, with the value
`ID|URL|EPOCH`. Who takes over from one that is no longer live writes a higher epoch; the older one finds that when it
next reads the configuration, which is before and after all that it writes, and writes nothing more.

The ResourceManager has no compare-and-set: the last one to write wins. Two that claim at the same time may both find
the queue free. Each reads back once more after a pause, and whoever finds the other's record gives way; but if the
second one reads before the first one wrote, and writes after the first one's last reading (a pause of more than
`PAUSE` between its reading and its writing), both believe to own it until the first one reads again: at its next
write, or the next comparison of the weights. Until then both may write.

Whether the owner is live is asked at the address in its record. Of one that listens on another machine's loopback that
cannot be seen: it is taken over, and finds that as above.
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
"""Seconds after which a claim is read back once more."""

_IDENTITY = re.compile(r"[0-9a-f]{32}")
_ADDRESS = r"https?://(?:[A-Za-z0-9._-]{1,200}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?"
_RECORD = re.compile(rf"([A-Za-z0-9_-]{{1,64}})\|({_ADDRESS})\|(\d{{1,15}})", re.ASCII)


def identity(state_dir: Path) -> str:
    """The identity in a state folder's file `identity` (readable by its owner alone); made if there is none.

    Raises:
        OSError: the file can be neither read nor written.
    """
    path = state_dir / "identity"
    try:
        known = path.read_text(errors="replace").strip()
    except FileNotFoundError:
        known = ""
    if _IDENTITY.fullmatch(known):
        return known
    made = uuid.uuid4().hex
    write_private(path, made + "\n")
    return made


class OwnedError(ReportedError):
    """Another arbiter, which is live, owns a pool's queue."""

    def __init__(self, queue: str, url: str) -> None:
        super().__init__(
            f"pool queue {queue}: another arbiter, {url}, owns it; stop that one, or name another queue in --config"
        )
        self.url = url


class SupersededError(ManagerError):
    """Another arbiter has taken the pools' queues over; `by` is its address."""

    def __init__(self, by: str) -> None:
        super().__init__(f"another arbiter, {by}, owns the pools' queues now")
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
    """The right to write what lies below these queues, as long as nobody else's record is on them."""

    owner: Owner
    parents: tuple[str, ...]

    def check(self, configuration: SchedulerConfiguration) -> str | None:
        """The address of who has taken over; None as long as nobody has."""
        for parent in self.parents:
            found = owner_of(configuration, parent)
            if found is not None and found.id != self.owner.id and found.epoch >= self.owner.epoch:
                return found.url
        return None

    def require(self, configuration: SchedulerConfiguration) -> None:
        """Check.

        Raises:
            SupersededError: somebody has taken over.
        """
        by = self.check(configuration)
        if by is not None:
            raise SupersededError(by)

    def renew(self, manager: ResourceManager, configuration: SchedulerConfiguration) -> None:
        """Put the record back where somebody took it away.

        Raises:
            ManagerError: it could not be written.
        """
        missing = [parent for parent in self.parents if owner_of(configuration, parent) != self.owner]
        if missing:
            scheduler_configuration.write(manager, _record(missing, self.owner))


def owner_of(configuration: SchedulerConfiguration, parent: str) -> Owner | None:
    """Who owns a pool's queue; None where there is no record, or none that can be read."""
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
    """Become the owner of these queues. None where the ResourceManager keeps no records: there is no ownership then.

    `identity`: see `identity`. `url`: this arbiter's address. `is_live(url, id)`: whether another arbiter answers.

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
        said = "pool queues %s could not be marked with their owner, so that a second arbiter would go unnoticed: %s"
        log.warning(said, ", ".join(parents), refusal)
        return None
    for wait in (0.0, pause):
        time.sleep(wait)
        kept = scheduler_configuration.read(manager)
        for parent in parents:
            owner = owner_of(kept, parent)
            if owner is not None and owner.id != identity and owner.epoch >= mine.epoch:
                raise OwnedError(parent, owner.url)
            if owner != mine:
                log.warning("pool queue %s: the ResourceManager does not keep the record of its owner", parent)
                return None
    return Ownership(mine, tuple(parents))


def answers_as(url: str, identity: str) -> bool:
    """Whether an arbiter of this identity answers at an address.

    Whoever signed its certificate: nothing secret is sent, and an owner that is not recognised would be taken over.
    """
    try:
        with bounded.bounded_session() as session, warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureRequestWarning)
            answer = session.get(
                f"{url}/v1/health", timeout=(2.0, 5.0), allow_redirects=False, stream=True, verify=False
            )
            said = json.loads(bounded.read_body(answer, 65536))
    except (requests.RequestException, bounded.TooLargeError, OSError, ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("id") == identity


def _record(parents: Sequence[str], owner: Owner) -> dict[str, Settings]:
    return {parent: {OWNER: str(owner)} for parent in parents}
