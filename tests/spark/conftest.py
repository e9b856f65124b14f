"""The options of the Java processes that tests start, and the session of tests of the server."""

import os

import pytest

from tests.spark.spark_sessions import JAVA_OPTIONS, local_session, small_data

os.environ["SPARK_SUBMIT_OPTS"] = JAVA_OPTIONS


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """With the small tables as `qoop server --tables` shows them; other modules have a session of their own."""
    from qoop.server.start import show_tables

    with local_session(tmp_path_factory.mktemp("spark"), small_data()) as session:
        show_tables(session, small_data().path)
        yield session
