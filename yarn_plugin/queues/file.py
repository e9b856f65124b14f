"""The queue file (TOML): a [[queue]] table per queue.

    [[queue]]
    path = "root.sql"
    weight = 8
    dynamic_leaves = true       # an application submitted to root.sql.NAME gets a queue of its own

    [queue.leaf_template]
    weight = 1
    user_limit_factor = 1000

    [[queue]]
    path = "root.gpu"
    weight = 1
    default_partition = "gpu"   # of containers whose request names neither a node nor a label

    [queue.partition.gpu]       # its part of the nodes with label gpu; its parents need a part too
    weight = 1

    [[queue]]
    path = "root.old"
    remove = true               # must be STOPPED and empty

Queues and properties that the file does not mention are left unchanged in the ResourceManager.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from yarn_plugin.field_problems import keys_at
from yarn_plugin.observe.scheduler_configuration import CAPACITY
from yarn_plugin.queues.specification import (
    DEFAULT_PARTITION,
    DYNAMIC_LEAVES,
    LEAF_TEMPLATE,
    MAXIMUM_CAPACITY,
    PARTITIONS,
    ROOT,
    STATE,
    Problem,
    QueueFileError,
    QueueSpec,
    number,
)
from yarn_plugin.spelling import near
from yarn_plugin.toml_files import read_toml
from yarn_plugin.validation import expectation

_PATH = re.compile(r"^root(\.[A-Za-z0-9_-]+)*$")
_PARTITION = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]*$")


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
    """Settings common to queues, their partitions and leaf templates.

    `weight`: relative to siblings. `capacity`: percent of the parent's. `maximum_am_resource_percent`: the fraction
    that application masters may use; in spite of its YARN name, 0.1 is a tenth.
    """

    weight: Weight | None = None
    capacity: Percent | None = None
    maximum_capacity: Percent | None = None
    maximum_am_resource_percent: MasterFraction | None = None

    def properties(self) -> dict[str, str]:
        """The settings as YARN properties."""
        properties = {name: number(value) for name, value in self._numbers().items() if value is not None}
        return properties if self.weight is None else {CAPACITY: f"{number(self.weight)}w", **properties}

    def _numbers(self) -> dict[str, float | None]:
        return {
            CAPACITY: self.capacity,
            MAXIMUM_CAPACITY: self.maximum_capacity,
            "maximum-am-resource-percent": self.maximum_am_resource_percent,
        }


class PartitionSection(_Capacities):
    """A queue's part of the nodes with one label."""


class LeafTemplate(_Capacities):
    """The initial settings of a dynamic leaf queue. `maximum_applications`: how many applications it accepts at a time;
    by default its fraction of the cluster times 10,000."""

    user_limit_factor: LimitFactor | None = None
    maximum_applications: Annotated[int, Field(ge=1)] | None = None

    def _numbers(self) -> dict[str, float | None]:
        own = {"user-limit-factor": self.user_limit_factor, "maximum-applications": self.maximum_applications}
        return {**super()._numbers(), **own}


class QueueSection(LeafTemplate):
    """One queue. `partition`: by node label, which must exist. `default_partition`: of requests that name neither a
    node nor a label."""

    path: str
    remove: bool = False
    state: Literal["RUNNING", "STOPPED"] | None = None
    dynamic_leaves: bool | None = None
    disable_preemption: bool | None = None
    acl_submit_applications: str | None = None
    acl_administer_queue: str | None = None
    leaf_template: LeafTemplate | None = None
    partition: dict[str, PartitionSection] = Field(default_factory=dict)
    default_partition: str | None = None

    def spec(self) -> QueueSpec:
        """The specification of the queue."""
        switches = {DYNAMIC_LEAVES: self.dynamic_leaves, "disable_preemption": self.disable_preemption}
        texts = {
            STATE: self.state,
            "acl_submit_applications": self.acl_submit_applications,
            "acl_administer_queue": self.acl_administer_queue,
            PARTITIONS: ",".join(self.partition) or None,
            DEFAULT_PARTITION: self.default_partition,
        }
        parts = {name: part.properties() for name, part in self.partition.items()}
        template = self.leaf_template.properties() if self.leaf_template else {}
        return QueueSpec(
            path=self.path,
            remove=self.remove,
            properties=(
                *self.properties().items(),
                *((name, str(value).lower()) for name, value in switches.items() if value is not None),
                *((name, value) for name, value in texts.items() if value is not None),
                *((f"{PARTITIONS}.{label}.{name}", value) for label in parts for name, value in parts[label].items()),
                *((f"{LEAF_TEMPLATE}.{name}", value) for name, value in template.items()),
            ),
        )

    def problems(self) -> list[Problem]:
        """Problems of this queue that do not depend on the ResourceManager."""
        problems: list[Problem] = []
        if not _PATH.match(self.path):
            expected = "must be a path from the root, such as root.sql; names may contain letters, digits, - and _"
            problems.append(Problem("path", self.path, expected))
        parts: list[tuple[str, _Capacities | None]] = [(f"queue {self.path}:", self)]
        parts.append((f"queue {self.path}: leaf_template", self.leaf_template))
        parts += [(f"queue {self.path}: partition {name}", part) for name, part in self.partition.items()]
        for where, part in parts:
            if part is not None and part.weight is not None and part.capacity is not None:
                problems.append(Problem(f"{where} capacity", part.capacity, "must not be set beside weight"))
        if self.path == ROOT:
            fixed = {"weight", "capacity", "maximum_capacity", "state", "remove"} & self.model_fields_set
            problems += [
                Problem(f"queue root: {name}", getattr(self, name), "cannot be set on the root queue") for name in fixed
            ]
        problems += self._problems_of_partitions()
        others = self.model_fields_set - {"path", "remove"}
        if self.remove and others:
            expected = f"must be the only setting; delete {', '.join(sorted(others))}"
            problems.append(Problem(f"queue {self.path}: remove", None, expected))
        if self.leaf_template is not None and self.leaf_template.capacity is not None:
            expected = "must be a weight; dynamic queues have no capacity in percent"
            problems.append(
                Problem(f"queue {self.path}: leaf_template capacity", self.leaf_template.capacity, expected)
            )
        return problems

    def _problems_of_partitions(self) -> Iterator[Problem]:
        for name, part in self.partition.items():
            if not _PARTITION.match(name):
                expected = "must be a node label, such as gpu: letters, digits, - and _"
                yield Problem(f"queue {self.path}: partition", name, expected)
            if part.weight is None and part.capacity is None:
                yield Problem(f"queue {self.path}: partition {name} weight", None, "required, or a capacity in percent")
        if self.default_partition is not None and self.partition and self.default_partition not in self.partition:
            expected = f"must be one of its partitions, {', '.join(self.partition)}"
            yield Problem(f"queue {self.path}: default_partition", self.default_partition, expected)


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
    if error["type"] != "extra_forbidden":
        return expectation(error)
    meant = near(str(error["loc"][-1]), keys_at(QueueFile, error["loc"]))
    return f"unknown setting{meant or '; `yarn-plugin queues -h` lists all settings'}"


def _name(sections: list[Any], index: int) -> str:
    path = sections[index].get("path") if isinstance(sections[index], dict) else None
    return path if isinstance(path, str) else f"#{index + 1}"
