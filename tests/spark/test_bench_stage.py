"""The benchmark of a stage's own time: it calls the engine's inner functions, which change without a caller knowing."""

import pytest

from tests.bench import stage
from tests.bench.stage import ITEMS, POLLING
from tests.spark.spark_sessions import local_session, small_data

pytestmark = [pytest.mark.integration, pytest.mark.matrix]


def test_each_stage_is_timed_on_both_and_each_item_is_met(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "ROUNDS", 1)
    with local_session(tmp_path, small_data()) as spark:
        # 0.01 is too little to compare times; it is enough to see that there are some.
        ours, alone, items = stage._query(spark, 17)
    assert len(ours) == len(alone) > 1
    assert min(*ours, *alone) > 0
    timed = {name for name, _, _ in ITEMS}
    # It looks at stages now and then, and may come too late for some as short as these.
    assert timed - {POLLING} <= items.keys()
    assert items.keys() <= timed | {"parse and analysis (Spark alone)"}
