"""The engines by their names on the command line; opened for one data set, closed together."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from tpcds.answers import Engine
from tpcds.data import DataSet
from tpcds.reference import CachingEngine, DuckDbEngine
from tpcds.spark_engine import QoopEngine, SparkEngine, spark_session
from tpcds.suite import NamedEngine
from yarn_plugin.errors import BadInputError
from yarn_plugin.validation import one_of


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The data set, Spark's master and properties, and whether qoop is forced to switch after every stage."""

    data: DataSet
    master: str = "local[*]"
    confs: Mapping[str, str] | None = None
    switch_every_stage: bool = False


class EngineFactory:
    """Opens engines over one data set; all that need Spark share one session."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    def measured(self, name: str) -> NamedEngine:
        """The engine to measure; it runs every query itself."""
        return NamedEngine(name, KINDS[name].dialect, KINDS[name].open(self))

    def reference(self, name: str) -> NamedEngine:
        """A reference engine to compare with; its answers may come from the cache."""
        return NamedEngine(name, KINDS[name].dialect, KINDS[name].open_as_reference(self))

    @cached_property
    def session(self) -> SparkSession:
        settings = self.settings
        return self._open.enter_context(spark_session(settings.data, settings.master, settings.confs or {}))

    @cached_property
    def duckdb(self) -> DuckDbEngine:
        engine = DuckDbEngine(self.settings.data)
        self._open.callback(engine.close)
        return engine


@dataclass(frozen=True, slots=True)
class EngineKind:
    """An engine's dialect, how it is opened, and its default references."""

    dialect: str
    open: Callable[[EngineFactory], Engine]
    open_as_reference: Callable[[EngineFactory], Engine]
    compared_with: tuple[str, ...]
    switches: bool = False


def _spark(factory: EngineFactory) -> Engine:
    return SparkEngine(factory.session)


def _duckdb(factory: EngineFactory) -> Engine:
    return factory.duckdb


def _cached_duckdb(factory: EngineFactory) -> Engine:
    data, duckdb = factory.settings.data, factory.duckdb
    return CachingEngine(duckdb, data.answers, f"duckdb {duckdb.version} {data.fingerprint()}")


def _qoop(factory: EngineFactory) -> Engine:
    return QoopEngine(factory.session, factory.settings.switch_every_stage)


KINDS: Mapping[str, EngineKind] = {
    "qoop": EngineKind("spark", _qoop, _qoop, ("spark", "duckdb"), switches=True),
    "spark": EngineKind("spark", _spark, _spark, ("duckdb",)),
    "duckdb": EngineKind("duckdb", _duckdb, _cached_duckdb, ()),
}
REFERENCES = ("spark", "duckdb")
"""Engines that others can be compared with."""


def check_engine(name: str, switch_every_stage: bool) -> None:
    """Raise `BadInputError` for an unknown engine, or a forced switch on an engine that does not switch plans."""
    if name not in KINDS:
        raise BadInputError("--engine", name, one_of(KINDS, name))
    if switch_every_stage and not KINDS[name].switches:
        raise BadInputError(
            "--engine", name, "must be qoop with --switch-every-stage; other engines do not switch plans"
        )


def parse_references(text: str | None, engine: str) -> tuple[str, ...]:
    """The reference engines of `--compare`: "spark,duckdb", "" for none, None for the engine's default.

    Raises:
        BadInputError: an engine is no reference, or is the measured engine itself.
    """
    if text is None:
        return KINDS[engine].compared_with
    possible = [name for name in REFERENCES if name != engine]
    chosen = tuple(dict.fromkeys(piece.strip() for piece in text.split(",") if piece.strip()))
    for name in chosen:
        if name not in possible:
            allowed = possible[0] if len(possible) == 1 else f"one or more of {', '.join(possible)}"
            raise BadInputError("--compare", text, f"must be {allowed} with --engine {engine}, or '' for none")
    return chosen
