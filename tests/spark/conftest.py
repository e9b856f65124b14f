"""The options of the Java processes that tests start."""

import os

from tests.spark.spark_sessions import JAVA_OPTIONS

os.environ["SPARK_SUBMIT_OPTS"] = JAVA_OPTIONS
