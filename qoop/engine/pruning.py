"""Stage outputs by which Spark prunes partitions of the tables that it joins with them.

At run time Spark skips the partitions of a table that no row of a small join input matches. It tries that only if the
input is filtered, or if its rows are in the plan: rows that it has cached, or reads from files, count as unfiltered.
"""

import math
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import octet_length
from pyspark.sql.functions import sum as sum_of
from pyspark.sql.types import AtomicType, BinaryType, StringType

from qoop.engine.connection import java_class
from qoop.engine.scala import leaves
from qoop.engine.session import frame_of


def reads_partitions(written: DataFrame) -> bool:
    """Whether a query reads a table that is partitioned by columns."""
    return any(_partition_columns(leaf) for leaf in leaves(written._jdf.queryExecution().analyzed()))


def _partition_columns(leaf: Any) -> int:
    try:
        return int(leaf.relation().partitionSchema().size())
    except Py4JError:
        # Not a table of files.
        return 0


def bytes_of_texts(stored: DataFrame) -> float:
    """How many bytes the texts of a stored frame have, which files may hold in far fewer; infinite if it is nested."""
    kinds = [field.dataType for field in stored.schema.fields]
    if not all(isinstance(kind, AtomicType) and kind.typeName() != "variant" for kind in kinds):
        return math.inf
    numbered = stored.toDF(*map(str, range(len(kinds))))
    texts = [numbered[str(place)] for place, kind in enumerate(kinds) if isinstance(kind, StringType | BinaryType)]
    if not texts:
        return 0.0
    found = numbered.select(*(sum_of(octet_length(text)) for text in texts)).first()
    return float(sum(size or 0 for size in found or ()))


def with_rows_in_plan(session: SparkSession, stored: DataFrame) -> DataFrame:
    """A stored frame whose rows are a part of its plan, in the session that reads it. Fetches them."""
    jvm: Any = session._jvm
    plan = stored._jdf.queryExecution().analyzed()
    rows = frame_of(session, plan)._jdf.queryExecution().executedPlan().executeCollect()
    wrapped = java_class(jvm, "scala.collection.immutable.ArraySeq").unsafeWrapArray(rows)
    local = java_class(jvm, "org.apache.spark.sql.catalyst.plans.logical.LocalRelation")
    return frame_of(session, local(plan.output(), wrapped, False, java_class(jvm, "scala.Option").empty()))
