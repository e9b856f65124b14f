"""Queries of a session that has joined follow its share."""

import pytest

import qoop
from qoop.replan.events import ShareChanged
from tests.spark.spark_sessions import local_session, small_data

pytestmark = pytest.mark.integration

TEXT = "SELECT count(*) FROM store_sales JOIN item ON ss_item_sk = i_item_sk JOIN store ON ss_store_sk = s_store_sk"


def shares_of_a_query(spark):
    told = []
    answer = qoop.collect(spark, TEXT, qoop.Options(watch=told.append, guard=None))
    assert answer.rows[0][0] > 0
    return [one.slots for one in told if isinstance(one, ShareChanged)]


def test_queries_of_a_session_that_has_joined_follow_its_share(tmp_path):
    (tmp_path / "profile").write_text("0,1\n3600,2\n")
    lines = []
    with local_session(tmp_path, small_data()) as spark:
        with qoop.join(spark, profile=tmp_path / "profile", tell=lines.append) as joined:
            assert shares_of_a_query(spark) == [1.0]
            assert joined.share == "share: 1 slot; the first share is 1 slot"
            assert lines[-1] == joined.share
        assert shares_of_a_query(spark) == [2.0]
