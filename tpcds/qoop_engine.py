"""Queries with replanning, in the same Spark session as plain Spark's."""

import time

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import qoop
from qoop.errors import QoopError
from qoop.plans.candidates import Cutting
from qoop.replan.decision import Rules
from tpcds.engines import Answer, PlanFacts
from tpcds.errors import EngineError


class QoopEngine:
    """Runs each text with replanning.

    `switch_every_stage`: cut a stage at every join, and after each stage switch to another join tree of what is
    unfinished, whatever it costs: for testing that no switch changes an answer.
    """

    def __init__(self, session: SparkSession, switch_every_stage: bool = False) -> None:
        self._session = session
        self._options = (
            qoop.Options(rules=Rules(force=True), cutting=Cutting(every=True)) if switch_every_stage else qoop.Options()
        )

    def run(self, sql: str) -> Answer:
        began = time.perf_counter()
        try:
            answer = qoop.collect(self._session, sql, self._options)
        except (QoopError, PySparkException, Py4JError) as wrong:
            raise EngineError(f"qoop: {str(wrong).splitlines()[0][:300]}") from wrong
        outcome, tally = answer.outcome, answer.outcome.tally
        facts = PlanFacts(
            join_trees=outcome.join_trees,
            stages=tally.stages,
            switches=tally.switches,
            reused=tally.reused,
            cancelled=tally.cancelled,
            backtracked=tally.backtracked,
            one_stage_reason=outcome.one_stage_reason,
        )
        columns = tuple(name for name, _ in answer.columns)
        return Answer(columns, [tuple(row) for row in answer.rows], time.perf_counter() - began, facts)
