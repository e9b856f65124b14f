"""`qoop.install`: a session whose own `spark.sql` replans. Frames stay lazy: nothing runs before an action."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, partial
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from qoop.api import execute, frame_of_query
from qoop.engine.session import is_command, is_script, plain_sql, require_classic_session, syntax_of, with_substitutions
from qoop.options import Options
from qoop.parsing.parameters import with_arguments
from qoop.parsing.statement import ParsedText
from qoop.session_query import SessionQuery

ALL_ROWS = ("collect", "toPandas", "toArrow", "toLocalIterator", "count", "tail", "foreach", "foreachPartition")
"""The actions of a frame that are replanned, and may need all rows."""

FIRST_ROWS = {"show": 20, "head": 1, "take": 1, "first": 1, "isEmpty": 1}
"""Those that need the first rows alone, and of how many if they are not told."""

SAVES = ("save", "saveAsTable", "insertInto", "json", "parquet", "text", "csv", "orc", "xml", "jdbc")
"""The methods of a frame's writer that write."""


def install(spark: SparkSession, options: Options | None = None) -> None:
    """Have `spark.sql` of this session replan its queries from now on.

    It returns Spark's own frame of the text, so errors in the text come at once, as in Spark. The frame's actions
    (`collect`, `show`, `write.parquet(...)`, and so on) replan the query and run it; each runs it anew. Statements that
    store rows run at once, as in Spark, replanned. Frames made from it (`filter`, `join`, temporary views) run as Spark
    runs them, as do texts with `{frame}` in them. `SET spark.qoop.plan=never` switches replanning off.

    Args:
        options: how the queries are run.

    Raises:
        QoopError: the session is not one of this process.
    """
    require_classic_session(spark)
    uninstall(spark)
    vars(spark)["sql"] = _Sql(spark, options or Options())


def uninstall(spark: SparkSession) -> None:
    """Have `spark.sql` be Spark's own again, also for the frames that it has made. Idempotent."""
    if isinstance(vars(spark).get("sql"), _Sql):
        before = vars(spark).pop("sql").before
        if before is not None:
            vars(spark)["sql"] = before


class _Sql:
    """What takes the place of `spark.sql`. `before`: what the session itself had there."""

    def __init__(self, spark: SparkSession, options: Options) -> None:
        self._spark, self.options, self.before = spark, options, vars(spark).get("sql")

    def __call__(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803 - Spark's name
        spark = self._spark
        if kwargs:
            return SparkSession.sql(spark, sqlQuery, args, **kwargs)
        parsed = self._parsed(sqlQuery)
        if not args and parsed.stores_rows:
            execute(spark, parsed, self.options)
            return spark.range(0).select()
        frame = plain_sql(spark, sqlQuery, args)
        if is_command(frame) or is_script(spark, sqlQuery):
            return frame
        made: Any = frame
        made._qoop_sql, made._qoop_text = self, sqlQuery if not args else with_arguments(sqlQuery, args)
        made.__class__ = _replanned(cast(Hashable, type(frame)))
        return frame

    def _parsed(self, text: str) -> ParsedText:
        return ParsedText(with_substitutions(self._spark, text), partial(syntax_of, self._spark))

    def computed(self, frame: DataFrame, text: str | None, first: int | None = None) -> DataFrame:
        """A frame with the rows of one that this has made, replanned; all stages but the last have run."""
        if vars(self._spark).get("sql") is not self or text is None:
            return DataFrame(frame._jdf, frame.sparkSession)
        logical = frame._jdf.queryExecution().logical()
        return frame_of_query(SessionQuery(self._spark, self._parsed(text), self.options, logical, first=first))


@cache
def _replanned(kind: Any) -> type[DataFrame]:
    """The class of frames whose actions are replanned."""
    methods: dict[str, Any] = {name: _action(name) for name in (*ALL_ROWS, *FIRST_ROWS)}
    write = property(lambda frame: _Writer(frame, kind.write.fget(frame)))
    return cast("type[DataFrame]", type(kind.__name__, (kind,), {**methods, "write": write}))


def _action(name: str) -> Callable[..., Any]:
    usual = FIRST_ROWS.get(name)

    def act(frame: Any, *args: Any, **kwargs: Any) -> Any:
        given = next((one for one in (*args, *kwargs.values()) if type(one) is int), usual)
        return getattr(_computed(frame, given if usual is not None else None), name)(*args, **kwargs)

    act.__name__, act.__doc__ = name, getattr(DataFrame, name).__doc__
    return act


def _computed(frame: Any, first: int | None = None) -> DataFrame:
    return cast(_Sql, frame._qoop_sql).computed(frame, frame._qoop_text, first)


class _Writer:
    """A frame's writer, which keeps what it is told until it is to write, and then tells Spark's writer.

    Args:
        usual: Spark's writer of the frame, which has the same methods.
    """

    def __init__(self, frame: DataFrame, usual: Any) -> None:
        self._frame, self._usual = frame, usual
        self._told: list[tuple[str, Sequence[Any], Mapping[str, Any]]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not hasattr(self._usual, name):
            raise AttributeError(f"'DataFrameWriter' object has no attribute {name!r}")

        def tell(*args: Any, **kwargs: Any) -> Any:
            if name not in SAVES:
                self._told.append((name, args, kwargs))
                return self
            writer: Any = _computed(self._frame).write
            for told, given, named in self._told:
                writer = getattr(writer, told)(*given, **named)
            return getattr(writer, name)(*args, **kwargs)

        return tell
