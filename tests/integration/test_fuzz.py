"""The fuzz on Spark: queries with a switch after every stage give the rows of Spark alone (see `tests.fuzz`)."""

from collections import Counter

import pytest

from tests.fuzz.compose import check_seed
from tests.fuzz.coverage import Coverage
from tests.fuzz.run import Lab, session
from tests.fuzz.shrink import shrink

pytestmark = pytest.mark.integration

FEW = 8
EXECUTED = 200
EXECUTED_MORE = 1_500
COMPOSED = 10_000
MAX_TRIES = 100
"""How many smaller cases are tried when one fails."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with session(tmp_path_factory.mktemp("fuzz").as_uri()) as spark:
        yield Lab(spark)


def executed(lab, seeds):
    """Run these seeds and print their coverage and the goals missed; a wrong one fails with a smaller case."""
    runs = []
    for seed in seeds:
        run = lab.run(seed)
        if run.difference is not None:
            case, _, _ = lab.case(seed)
            pytest.fail(f"seed {seed}: {run.difference}\n{shrink(lab, case, MAX_TRIES).golden()}")
        runs.append(run)
    coverage = Coverage.of(runs)
    print("\n".join([*coverage.lines(), *coverage.missed()]))


def test_a_few_random_queries_have_the_rows_of_spark_alone(lab):
    executed(lab, range(25, 25 + FEW))


@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_random_queries_have_the_rows_of_spark_alone(lab):
    executed(lab, range(EXECUTED))


@pytest.mark.matrix
@pytest.mark.timeout(7200)
def test_more_random_queries_have_the_rows_of_spark_alone(lab):
    executed(lab, range(EXECUTED, EXECUTED + EXECUTED_MORE))


@pytest.mark.matrix
@pytest.mark.timeout(7200)
def test_random_plans_are_equivalent_to_the_query_as_written(lab):
    """Where a plan is different, the query runs as written; why is printed. The planner itself never fails."""
    rejected = Counter()
    for seed in range(50_000, 50_000 + COMPOSED):
        _, reason, _ = check_seed(lab, seed)
        if reason is not None:
            rejected[reason[:100]] += 1
    print("\n".join(f"as written {times}: {reason}" for reason, times in rejected.most_common(20)))
