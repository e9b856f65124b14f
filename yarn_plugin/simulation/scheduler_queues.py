"""The queues of a CapacityScheduler, as its configuration has them: who is in which, what each is assured of, and its
limits. Read from capacity-scheduler.xml, or from a queue file (see `yarn_plugin.queues.file`)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite
from pathlib import Path

from yarn_plugin.errors import BadInputError
from yarn_plugin.hadoop_files import properties_in
from yarn_plugin.observe.scheduler_configuration import (
    CAPACITY,
    QUEUES,
    SchedulerConfiguration,
    property_name,
    weight_of,
)
from yarn_plugin.queues import file as queue_file
from yarn_plugin.queues.specification import DYNAMIC_LEAVES, LEAF_TEMPLATE, MAXIMUM_CAPACITY, ROOT, STATE
from yarn_plugin.toml_files import FileError, read_text
from yarn_plugin.validation import one_of

MAPPINGS = "queue-mappings"
DEFAULT = "default"
NO_LIMIT = -1.0


@dataclass(frozen=True, slots=True)
class Queue:
    """A leaf queue; fractions are of the cluster.

    `branch`: the queues from below the root down to itself, each with its part among its siblings. `capacity`: what it
    is assured of. `maxima`: the most that each of the branch may use. `user_limit`: the most for one user, as a
    multiple of the capacity; `min_user_limit`: the fraction of the queue that no user is pressed below. `masters`: the
    fraction of its maximum for application masters. `is_fair`: its applications are served in order of use, not of
    arrival.
    """

    path: str
    branch: tuple[tuple[str, float], ...]
    capacity: float
    maxima: tuple[float, ...]
    user_limit: float = 1.0
    min_user_limit: float = 1.0
    masters: float = 0.1
    is_fair: bool = False


class QueueTree:
    """All queues of a configuration. `where`: its file, for errors.

    Raises:
        BadInputError: a capacity cannot be simulated; names the queue.
    """

    def __init__(self, where: str, configuration: SchedulerConfiguration) -> None:
        self._where, self._configuration = where, configuration
        paths = list(self._below(ROOT))
        self._leaves = {path: self._leaf(path, path) for path in paths if not self._is_dynamic(path)}
        if not paths:
            raise FileError(f"{where}: has no queue below {ROOT}")

    def queue(self, name: str, user: str, given: str | None) -> Queue:
        """The queue of a user's application: the given one; that of the configuration's `queue-mappings`; the one that
        is called as the user; or the one that is called default.

        Raises:
            BadInputError: there is no such queue, or it takes no applications; names the application.
        """
        path = given or self._mapped(user) or user
        found = self._find(path, name) or (None if given else self._find(DEFAULT, name))
        if found is None:
            raise BadInputError(
                f"application {name}: queue", path, f"{one_of(self._leaves, path)}, the queues of {self._where}"
            )
        if self._get(found.path, STATE, "RUNNING").upper() != "RUNNING":
            raise BadInputError(
                f"application {name}: queue", found.path, f"must not be STOPPED, as it is in {self._where}"
            )
        return found

    def _find(self, path: str, name: str) -> Queue | None:
        """A leaf by its path or its last name; or a new one for this application below a parent that makes them."""
        if path in self._leaves:
            return self._leaves[path]
        named = [leaf for at, leaf in self._leaves.items() if at.rpartition(".")[2] == path]
        if len(named) == 1:
            return named[0]
        parent, _, leaf = (f"{path}.{name}" if self._is_dynamic(path) else path).rpartition(".")
        return self._dynamic(parent, leaf) if self._is_dynamic(parent) else None

    def _mapped(self, user: str) -> str | None:
        """By the property queue-mappings, such as u:alice:prod,u:%user:%user; those of groups are not known here."""
        for rule in (self._configuration.global_property(MAPPINGS) or "").split(","):
            kind, _, rest = rule.strip().partition(":")
            who, _, queue = rest.partition(":")
            if kind == "u" and who in (user, "%user"):
                return queue.replace("%user", user)
        return None

    def _below(self, path: str) -> Iterator[str]:
        """The queues without static children."""
        for child in self._configuration.children(path):
            if self._configuration.children(child):
                yield from self._below(child)
            else:
                yield child

    def _leaf(self, path: str, settings: str) -> Queue:
        """A queue as a leaf. `settings`: the path that has its own."""
        branch, capacity, maxima = self._way_to(path)
        factor = self._number(settings, "user-limit-factor", 1.0)
        return Queue(
            path,
            branch,
            capacity,
            maxima,
            inf if factor == NO_LIMIT else factor,
            self._number(settings, "minimum-user-limit-percent", 100.0) / 100,
            self._number(settings, "maximum-am-resource-percent", self._default_of_masters()),
            self._get(settings, "ordering-policy", "fifo").strip() == "fair",
        )

    def _dynamic(self, parent: str, name: str) -> Queue:
        """A leaf that is made when an application is submitted to it. What it is assured of depends on its siblings,
        so its parent's capacity limits it."""
        template = f"{parent}.{LEAF_TEMPLATE}"
        weight = weight_of(self._get(template, CAPACITY, "1w"))
        beside = self._leaf(parent, template)
        path = f"{parent}.{name}"
        branch = (*beside.branch, (path, 1.0 if weight is None else weight))
        return replace(beside, path=path, branch=branch, maxima=(*beside.maxima, beside.maxima[-1]))

    def _way_to(self, path: str) -> tuple[tuple[tuple[str, float], ...], float, tuple[float, ...]]:
        """The branch down to a queue, its capacity, and the maxima on the way."""
        branch = list[tuple[str, float]]()
        capacity, maxima, names = 1.0, list[float](), path.split(".")
        for depth in range(2, len(names) + 1):
            at, parent = ".".join(names[:depth]), ".".join(names[: depth - 1])
            part = self._parts(self._configuration.children(parent))[at]
            branch.append((at, part))
            capacity *= part
            most = self._number(at, MAXIMUM_CAPACITY, 100.0) / 100
            maxima.append((maxima[-1] if maxima else 1.0) * most)
        return tuple(branch), capacity, tuple(maxima)

    def _parts(self, siblings: tuple[str, ...]) -> dict[str, float]:
        """The part of each of their parent's capacity."""
        texts = {path: self._get(path, CAPACITY, "").strip() for path in siblings}
        weights = {path: weight_of(text) for path, text in texts.items()}
        if texts and all(weight is not None for weight in weights.values()):
            total = sum(weight or 0.0 for weight in weights.values()) or 1.0
            return {path: (weight or 0.0) / total for path, weight in weights.items()}
        return {path: self._percent(path, text) / 100 for path, text in texts.items()}

    def _percent(self, path: str, text: str) -> float:
        try:
            value = float(text.removesuffix("%"))
        except ValueError:
            value = -1.0
        if not 0 <= value <= 100:
            expected = "must be a percentage, or a weight such as 2w as all its siblings have; others are not simulated"
            raise BadInputError(f"{self._where}: queue {path}: capacity", text, expected)
        return value

    def _number(self, path: str, name: str, default: float) -> float:
        text = self._get(path, name, "").strip()
        if not text:
            return default
        try:
            value = float(text.removesuffix("%"))
        except ValueError:
            value = inf
        if not isfinite(value) or (value < 0 and value != NO_LIMIT):
            raise BadInputError(f"{self._where}: queue {path}: {name}", text, "must be a number, not negative")
        # YARN takes -1 as a maximum for none.
        return default if value == NO_LIMIT and name == MAXIMUM_CAPACITY else value

    def _default_of_masters(self) -> float:
        text = self._configuration.global_property("maximum-am-resource-percent")
        try:
            return float(text) if text else 0.1
        except ValueError:
            raise BadInputError(f"{self._where}: maximum-am-resource-percent", text, "must be a fraction") from None

    def _is_dynamic(self, path: str) -> bool:
        return self._get(path, DYNAMIC_LEAVES, "false").strip().lower() == "true"

    def _get(self, path: str, name: str, default: str) -> str:
        return self._configuration.get(path, name) or default


def load(path: Path) -> QueueTree:
    """The queues of a file: of capacity-scheduler.xml by its suffix, or a queue file (TOML).

    Raises:
        ReportedError: the file is invalid; names the file, and the queue or the line.
    """
    where = f"--queues {str(path)!r}"
    properties = _of_xml(where, path) if path.suffix.lower() == ".xml" else _of_queue_file(path)
    return QueueTree(where, SchedulerConfiguration(properties))


def _of_xml(where: str, path: Path) -> Mapping[str, str]:
    try:
        return properties_in(read_text(where, path))
    except ValueError as problem:
        raise FileError(f"{where}: {problem}") from None


def _of_queue_file(path: Path) -> Mapping[str, str]:
    specs = [spec for spec in queue_file.load(path) if not spec.remove]
    children: dict[str, list[str]] = {}
    for spec in specs:
        names = spec.path.split(".")
        for depth in range(1, len(names)):
            siblings = children.setdefault(".".join(names[:depth]), [])
            if names[depth] not in siblings:
                siblings.append(names[depth])
    lists = {property_name(parent, QUEUES): ",".join(names) for parent, names in children.items()}
    return lists | {property_name(spec.path, name): value for spec in specs for name, value in spec.properties}
