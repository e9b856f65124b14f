"""The engines by their names on the command line, opened for one data set and closed together."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from tpcds.answers import Engine
from tpcds.data import DataSet
from tpcds.reference import DuckDbEngine, Remembering
from tpcds.spark_engine import QoopEngine, SparkEngine, spark_session
from tpcds.suite import Contender
from yarn_plugin.errors import BadInputError


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run is made with."""

    data: DataSet
    master: str = "local[*]"
    confs: Mapping[str, str] | None = None
    switch_every_stage: bool = False


class Contenders:
    """Opens engines over one data set; all that need Spark share one session."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    def measured(self, name: str) -> Contender:
        """The engine whose times count: it answers every query itself."""
        return Contender(name, KINDS[name].dialect, KINDS[name].open(self))

    def reference(self, name: str) -> Contender:
        """An engine to compare with."""
        return Contender(name, KINDS[name].dialect, KINDS[name].open_as_reference(self))

    @cached_property
    def session(self) -> SparkSession:
        setting = self.setting
        return self._open.enter_context(spark_session(setting.data, setting.master, setting.confs or {}))

    @cached_property
    def duckdb(self) -> DuckDbEngine:
        engine = DuckDbEngine(self.setting.data)
        self._open.callback(engine.close)
        return engine


@dataclass(frozen=True, slots=True)
class Kind:
    """An engine's name stands for this: its dialect, how it is opened, what it is compared with if nothing is said."""

    dialect: str
    open: Callable[[Contenders], Engine]
    open_as_reference: Callable[[Contenders], Engine]
    compared_with: tuple[str, ...]
    switches: bool = False


def _spark(contenders: Contenders) -> Engine:
    return SparkEngine(contenders.session)


def _duckdb(contenders: Contenders) -> Engine:
    return contenders.duckdb


def _remembered_duckdb(contenders: Contenders) -> Engine:
    data, duckdb = contenders.setting.data, contenders.duckdb
    return Remembering(duckdb, data.answers, f"duckdb {duckdb.version} {data.fingerprint()}")


def _qoop(contenders: Contenders) -> Engine:
    return QoopEngine(contenders.session, contenders.setting.switch_every_stage)


KINDS: Mapping[str, Kind] = {
    "qoop": Kind("spark", _qoop, _qoop, ("spark", "duckdb"), switches=True),
    "spark": Kind("spark", _spark, _spark, ("duckdb",)),
    "duckdb": Kind("duckdb", _duckdb, _remembered_duckdb, ()),
}
# The engines whose answers others can be compared with.
REFERENCES = ("spark", "duckdb")


def check_engine(name: str, switch_every_stage: bool) -> None:
    """Raises BadInputError for an engine that there is not, or a switch forced on one that has no plans to switch."""
    if name not in KINDS:
        raise BadInputError("--engine", name, f"must be one of {', '.join(KINDS)}")
    if switch_every_stage and not KINDS[name].switches:
        raise BadInputError("--switch-every-stage", name, "this engine does not switch plans; leave the option out")


def parse_references(text: str | None, engine: str) -> tuple[str, ...]:
    """The engines to compare with, as a person writes them: "spark,duckdb", "" for none, None for what is usual.

    Raises:
        BadInputError: not an engine that can be compared with, or the measured engine itself.
    """
    if text is None:
        return KINDS[engine].compared_with
    possible = [name for name in REFERENCES if name != engine]
    chosen = tuple(dict.fromkeys(piece.strip() for piece in text.split(",") if piece.strip()))
    for name in chosen:
        if name not in possible:
            raise BadInputError("--compare", text, f"with --engine {engine} must be of {', '.join(possible)}")
    return chosen
