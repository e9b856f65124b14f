"""Composition checks: plans of a query, each as one text, compared with the query as written; nothing is executed.

`python -m tests.fuzz.compose` checks a range of seeds and prints why queries would run as written.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random

from pyspark.errors import PySparkException

from qoop.engine.catalogue import SparkCatalogue
from qoop.engine.session import QueryAsWritten, current_moment, query_session, syntax_of
from qoop.engine.snapshot import files_read, pin_tables
from qoop.engine.verification import DifferentPlanError, Verification
from qoop.errors import QoopError
from qoop.estimate.cost import CostModel
from qoop.parsing.render import plan_query
from qoop.parsing.statement import ParsedText
from qoop.planner import PlannedQuery, plan
from qoop.plans.candidates import CutPolicy
from tests.fuzz.case import Case, make
from tests.fuzz.run import MAX_ATTEMPTS, Lab, session


def planned(lab: Lab, case: Case) -> PlannedQuery:
    """The plans of a case, made under its settings, which must be in effect.

    Raises:
        QoopError: it is not planned.
    """
    parsed = ParsedText(case.text, lambda: syntax_of(lab.spark))
    if parsed.statement is None:
        raise QoopError(parsed.reason or "")
    catalogue = SparkCatalogue(lab.spark)
    cut, now = CutPolicy(everywhere=True), partial(current_moment, lab.spark)
    return plan(parsed.statement, catalogue, catalogue.statistics, cut, CostModel(), now)


def check(lab: Lab, case: Case, plans: int = 3) -> str | None:
    """Why some plan of a case is not certain to compute it; None if all are. The first, the last and random ones.

    Raises:
        PySparkException: Spark rejects the query.
        QoopError: it is not planned.
    """
    lab.prepare(case.tables)
    with lab.under(case.settings):
        written = QueryAsWritten(lab.spark, case.text).analysed
        made = planned(lab, case)
        stages = query_session(lab.spark)
        verification = Verification(written, stages, made.moment, pin_tables(files_read(written), stages, {}))
        for text in _texts(made, case.seed, plans):
            try:
                verification.check(text)
            except DifferentPlanError as problem:
                return str(problem)
    return None


def check_seed(lab: Lab, seed: int, plans: int = 3) -> tuple[Case, str | None, bool]:
    """The first case of a seed that Spark accepts, why it runs as written if it does, and whether it was planned."""
    for attempt in range(MAX_ATTEMPTS):
        case = make(seed, attempt)
        try:
            return case, check(lab, case, plans), True
        except PySparkException:
            continue
        except QoopError as problem:
            return case, str(problem), False
    raise AssertionError(f"seed {seed}: Spark rejects every query")


def _texts(made: PlannedQuery, seed: int, count: int) -> Iterator[str]:
    plans = made.plans
    chosen = [0, len(plans) - 1, *Random(seed).choices(range(len(plans)), k=max(count - 2, 0))]
    for number in dict.fromkeys(chosen[:count]):
        yield plan_query(made.text, plans[number])


def main() -> None:
    """Check the seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.compose", description=__doc__)
    parser.add_argument("--seeds", default="50000-59999", help="the first and the last seed (default: %(default)s)")
    first, last = (int(part) for part in parser.parse_args().seeds.split("-"))
    why: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, session(folder) as spark:
        lab = Lab(spark)
        for seed in range(first, last + 1):
            _, reason, _ = check_seed(lab, seed)
            why[(reason or "equivalent")[:100]] += 1
    for reason, times in why.most_common():
        print(f"{times:6} {reason}")


if __name__ == "__main__":
    main()
