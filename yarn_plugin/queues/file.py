"""The queue file (TOML): a [[queue]] table per queue.

    [[queue]]
    path = "root.sql"
    weight = 8
    dynamic_leaves = true       # an application submitted to root.sql.NAME gets a queue of its own

    [queue.leaf_template]
    weight = 1
    user_limit_factor = 1000

    [[queue]]
    path = "root.old"
    remove = true               # must be STOPPED and empty

Queues and properties that the file does not mention are left unchanged in the ResourceManager.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from yarn_plugin.observe.scheduler_configuration import CAPACITY
from yarn_plugin.queues.specification import (
    DYNAMIC_LEAVES,
    LEAF_TEMPLATE,
    MAXIMUM_CAPACITY,
    ROOT,
    STATE,
    Problem,
    QueueFileError,
    QueueSpec,
    number,
)
from yarn_plugin.toml_files import read_toml
from yarn_plugin.validation import expectation

_PATH = re.compile(r"^root(\.[A-Za-z0-9_-]+)*$")


def _limit_factor(value: float) -> float:
    if value <= 0 and value != -1:
        raise ValueError("must be above 0, or -1 for no limit")
    return value


Weight = Annotated[float, Field(ge=0, le=10_000)]
Percent = Annotated[float, Field(ge=0, le=100)]
LimitFactor = Annotated[float, AfterValidator(_limit_factor)]
MasterFraction = Annotated[float, Field(ge=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Capacities(_Section):
    """Settings common to queues and leaf templates.

    `weight`: relative to siblings. `capacity`: percent of the parent's. `maximum_am_resource_percent`: the fraction
    that application masters may use; in spite of its YARN name, 0.1 is a tenth. `maximum_applications`: how many
    applications it accepts at a time; by default its fraction of the cluster times 10,000.
    """

    weight: Weight | None = None
    capacity: Percent | None = None
    maximum_capacity: Percent | None = None
    user_limit_factor: LimitFactor | None = None
    maximum_am_resource_percent: MasterFraction | None = None
    maximum_applications: Annotated[int, Field(ge=1)] | None = None

    def properties(self) -> dict[str, str]:
        """The settings as YARN properties."""
        given = {
            CAPACITY: self.capacity,
            MAXIMUM_CAPACITY: self.maximum_capacity,
            "user-limit-factor": self.user_limit_factor,
            "maximum-am-resource-percent": self.maximum_am_resource_percent,
            "maximum-applications": self.maximum_applications,
        }
        properties = {name: number(value) for name, value in given.items() if value is not None}
        return properties if self.weight is None else {CAPACITY: f"{number(self.weight)}w", **properties}


class LeafTemplate(_Capacities):
    """The initial settings of a dynamic leaf queue."""


class QueueSection(_Capacities):
    """One queue."""

    path: str
    remove: bool = False
    state: Literal["RUNNING", "STOPPED"] | None = None
    dynamic_leaves: bool | None = None
    disable_preemption: bool | None = None
    acl_submit_applications: str | None = None
    acl_administer_queue: str | None = None
    leaf_template: LeafTemplate | None = None

    def spec(self) -> QueueSpec:
        """The specification of the queue."""
        switches = {DYNAMIC_LEAVES: self.dynamic_leaves, "disable_preemption": self.disable_preemption}
        texts = {
            STATE: self.state,
            "acl_submit_applications": self.acl_submit_applications,
            "acl_administer_queue": self.acl_administer_queue,
        }
        template = self.leaf_template.properties() if self.leaf_template else {}
        return QueueSpec(
            path=self.path,
            remove=self.remove,
            properties=(
                *self.properties().items(),
                *((name, str(value).lower()) for name, value in switches.items() if value is not None),
                *((name, value) for name, value in texts.items() if value is not None),
                *((f"{LEAF_TEMPLATE}.{name}", value) for name, value in template.items()),
            ),
        )

    def problems(self) -> list[Problem]:
        """Problems of this queue that do not depend on the ResourceManager."""
        found: list[Problem] = []
        if not _PATH.match(self.path):
            expected = "must be a path from the root, such as root.sql; names may contain letters, digits, - and _"
            found.append(Problem("path", self.path, expected))
        for where, part in ((f"queue {self.path}:", self), (f"queue {self.path}: leaf_template", self.leaf_template)):
            if part is not None and part.weight is not None and part.capacity is not None:
                found.append(Problem(f"{where} capacity", part.capacity, "must not be set beside weight"))
        if self.path == ROOT:
            fixed = {"weight", "capacity", "maximum_capacity", "state", "remove"} & self.model_fields_set
            found += [
                Problem(f"queue root: {name}", getattr(self, name), "cannot be set on the root queue") for name in fixed
            ]
        others = self.model_fields_set - {"path", "remove"}
        if self.remove and others:
            expected = f"must be the only setting; delete {', '.join(sorted(others))}"
            found.append(Problem(f"queue {self.path}: remove", None, expected))
        if self.leaf_template is not None and self.leaf_template.capacity is not None:
            expected = "must be a weight; dynamic queues have no capacity in percent"
            found.append(Problem(f"queue {self.path}: leaf_template capacity", self.leaf_template.capacity, expected))
        return found


class QueueFile(_Section):
    """A queue file."""

    queue: list[QueueSection] = Field(min_length=1)
    """Singular, as in [[queue]]."""


def load(path: Path) -> tuple[QueueSpec, ...]:
    """Read a queue file.

    Raises:
        FileError: the file cannot be read.
        QueueFileError: it is invalid; names file, queue, field and value.
    """
    where = f"FILE {str(path)!r}"
    raw = read_toml(where, path)
    try:
        file = QueueFile.model_validate(raw)
    except ValidationError as problem:
        raise QueueFileError(_located(where, [_problem(raw, dict(error)) for error in problem.errors()])) from None
    found = [problem for section in file.queue for problem in section.problems()] + _duplicates(file)
    if found:
        raise QueueFileError(_located(where, found))
    return tuple(section.spec() for section in file.queue)


def _duplicates(file: QueueFile) -> list[Problem]:
    paths = [section.path for section in file.queue]
    return [Problem("path", path, "listed twice") for path in sorted(set(paths)) if paths.count(path) > 1]


def _located(where: str, problems: list[Problem]) -> list[Problem]:
    return [Problem(f"{where}: {problem.field}", problem.value, problem.expected) for problem in problems]


def _problem(raw: Any, error: dict[str, Any]) -> Problem:
    """A pydantic error as a problem, with the queue's path instead of its index."""
    field = " ".join(str(step) for step in error["loc"])
    if len(error["loc"]) > 2 and error["loc"][0] == "queue":
        _, index, *steps = error["loc"]
        field = f"queue {_name(raw['queue'], int(index))}: {' '.join(map(str, steps))}"
    value = error.get("input")
    shown = value if isinstance(value, str | int | float | bool) else None
    return Problem(field, shown, _expected(error))


def _expected(error: dict[str, Any]) -> str:
    is_unknown = error["type"] == "extra_forbidden"
    return "unknown setting; `yarn-plugin queues -h` lists all settings" if is_unknown else expectation(error)


def _name(sections: list[Any], index: int) -> str:
    path = sections[index].get("path") if isinstance(sections[index], dict) else None
    return path if isinstance(path, str) else f"#{index + 1}"
