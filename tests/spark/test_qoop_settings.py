"""Settings of Spark SQL changed one by one: queries give Spark's rows, or run as written with a reason.

Spark analyses every query and its last plan, as one text, under each setting. Where an analysed plan differs from that
under the usual settings, the query is run with a switch after every stage and its rows are compared with Spark's; the
others are analysed as the tests of rewriting have compared them already.
"""

import logging
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import qoop
from qoop.engine.catalogue import SparkCatalogue
from qoop.engine.failures import java_message
from qoop.engine.session import query_session, syntax_of
from qoop.engine.verification import DifferentPlanError, Verification
from qoop.errors import CannotSplitError, UnknownNameError
from qoop.estimate.cost import CostModel
from qoop.parsing.render import plan_query
from qoop.parsing.statement import ParsedText
from qoop.planner import plan
from qoop.plans.candidates import CutPolicy
from qoop.replan.decision import Rules
from tests.spark.spark_sessions import changed
from tests.spark.test_qoop_equivalence import NOT_OF_SPARK
from tests.unit.test_qoop_rewriting import CASES

pytestmark = pytest.mark.integration

TABLES = {
    "a": "SELECT CAST(id AS int) AS id, CAST(x AS int) AS x, y, CAST(d AS date) AS d FROM VALUES"
    " (1, 1, 'p', '2000-01-01'), (2, 2, 'q', '2000-01-05'), (3, NULL, 'r', NULL), (4, 1, NULL, '2000-02-01'),"
    " (1, 2, 'p', '2000-03-01'), (NULL, 5, 'p', '2000-01-01') AS v(id, x, y, d)",
    "b": "SELECT CAST(id AS int) AS id, CAST(x AS int) AS x, z, CAST(amt AS decimal(7, 2)) AS amt FROM VALUES"
    " (1, 1, 'p', 1.5), (1, 2, 'q', 2.5), (2, NULL, 'r', NULL), (NULL, 1, 's', 4.5), (3, 3, 'p', 5.5), (4, 1, NULL, 3)"
    " AS v(id, x, z, amt)",
    "c": "SELECT CAST(id AS int) AS id, y, CAST(w AS double) AS w FROM VALUES"
    " (1, 'p', 1.0), (2, 'q', 2.0), (2, 'q', 2.0), (NULL, 'r', 4.0), (4, 'p', 9.0) AS v(id, y, w)",
    "t": "SELECT CAST(x AS int) AS x FROM VALUES (1), (2), (3), (NULL) AS v(x)",
    "e": "SELECT CAST(NULL AS int) AS id, CAST(NULL AS int) AS x",
    "underscored": "SELECT CAST(x AS int) AS x, CAST(y AS int) AS g__id FROM VALUES (1, 7), (7, 1) AS v(x, y)",
    "k": "SELECT id, CAST(s AS string COLLATE UTF8_LCASE) AS s FROM VALUES (1, 'P'), (1, 'p'), (2, 'Q'), (3, 'R')"
    " AS v(id, s)",
}

JOINED = "FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id"

EXPRESSIONS = [
    '"y"', "'p' 'q'", r"'a\nb'", r"r'\n'", "a.y || 'p'", "a.x / b.x", "a.x DIV b.x", "a.x % 2", "b.amt * b.amt / 3",
    "b.amt * 1.10", "1e3 * b.amt", "1.0E2 + a.x", "CAST(a.y AS int)", "CAST(a.x AS string) = '1'", "a.x = '1'",
    "CAST(c.w AS decimal(3, 1))", "try_cast(a.y AS int)", "try_divide(a.x, b.x - 1)", "int(a.x) + 2147483646",
    "a.x + b.x * 2147483647", "abs(-2147483648 + a.x - a.x)", "array(1, 2)[5]", "array()", "map()",
    "element_at(array(1), 1)", "map('a', 1)['b']", "size(NULL)", "cardinality(array(a.x))", "concat(X'41', X'42')",
    "elt(1, X'41', X'42')", "substring(a.y, 0, 1)", "locate('p', a.y, 0)", "instr(a.y, '')", "lpad(X'41', 3)",
    "rtrim('p', a.y)", "trim(a.y)", "format_string('%0$s', a.y)", "concat_ws(',', a.y, b.z)",
    "translate(a.y, 'p', 'x')", "a.y RLIKE 'p|q'", r"a.y RLIKE '\\w'", r"b.z LIKE '\\p'", "a.y LIKE ANY ('p%', 'q%')",
    "a.y IN ('p', 'q')", "a.x BETWEEN 1 AND b.x", "a.x NOT BETWEEN b.x AND 3", "a.x IS DISTINCT FROM b.x",
    "NOT a.x <=> b.x", "! (a.x = 1)", "a.x == b.x", "CAST(a.d AS timestamp)", "date_trunc('month', a.d)",
    "trunc(a.d, 'MM')", "to_timestamp('2000-01-01')", "to_date('2000-1-1', 'yyyy-M-d')",
    "date_format(a.d, 'yyyy-MM-dd HH:mm z')", "unix_timestamp(a.d)", "from_unixtime(0)",
    "TIMESTAMP '2000-01-01 00:00:00'", "timestamp_ntz'2000-01-01 00:00:00'", "a.d + INTERVAL 1 DAY",
    "a.d - DATE '1999-12-31'", "INTERVAL '1' MONTH", "a.d + 1", "datediff(a.d, '2000-01-01')",
    "months_between(a.d, '2000-01-31')", "hour(CAST(a.d AS timestamp))", "CAST(CAST(a.d AS timestamp) AS bigint)",
    "make_timestamp(2000, 1, 1, 0, 0, 0)", "struct(a.X AS Big, b.z)", "to_json(struct(a.X AS Big, b.z))",
    "named_struct('A', a.x, 'b', b.x).A", "struct(a.x, a.x).col1", "CAST(struct(a.x, NULL) AS string)",
    "CAST(array(a.x, NULL) AS string)", "CAST(map('k', a.x) AS string)", "to_json(map('k', CAST(NULL AS int)))",
    "from_json('{\"A\": 1}', 'a int')", "get_json_object('{\"a\": 1}', '$.a')", "from_csv('1,x', 'a int, b string')",
    "schema_of_json('{\"a\": 1}')", "str_to_map('a:1')", "map_concat(map(1, 2), map(a.x + 9, 4))",
    "sort_array(array(b.x, a.x))", "array_contains(array(1, 2), a.x)", "arrays_zip(array(a.x), array(b.x))",
    "transform(array(1, 2), v -> v + a.x)", "aggregate(array(1, 2), 0, (s, v) -> s + v)",
    "filter(array(1, 2), (v, i) -> i > 0)", "round(b.amt, 1)", "round(a.x, -1)", "bround(2.5)", "ceil(b.amt)",
    "floor(b.amt, 1)", "-a.x", "+a.x", "~a.x", "a.x & 1", "a.x | 2", "a.x ^ 1", "shiftleft(a.x, 1)", "a.x << 1",
    "bit_count(a.x)", "conv(a.x, 10, 2)", "hex(a.x)", "log(a.x)", "pow(a.x, 2)", "greatest(a.x, b.x, 1L)",
    "coalesce(a.x, 'none')", "nvl(a.y, 1)", "if(a.x = 1, 1, 'one')", "CASE a.x WHEN 1 THEN 1 ELSE 2.5 END",
    "nullif(a.x, 1)", "hash(a.y)", "md5(a.y)", "base64(CAST(repeat(a.y, 99) AS binary))",
    "decode(a.x, 1, 'one', 'other')", "encode(a.y, 'UTF-8')", "char_length(a.y)", "length(a.y || ' ')",
    "CAST('p ' AS char(3)) || '|'", "a.y COLLATE UTF8_LCASE = 'P'", "collation(a.y)", "typeof(a.x / 2)", "typeof(1.5)",
    "CAST('NaN' AS double)", "c.w = 'NaN'", "0.0 = -0.0", "CAST(c.w AS string)", "1 AS `a b`", "a.y AS Mixed",
    "`a`.`x` + 0", "a.`(x)?+.+`", "array(a.x)[0]", "date'2000-01-01' = '2000-01-01'", "CAST(a.x AS boolean)",
    "a.x = true", "TRUE AND a.x = 1", "a.x > 1.5", "a.x > '1.5'", "'${limit}'", "current_database()",
]  # fmt: skip

CLAUSES = [
    f"SELECT count(*) AS n, sum(b.amt) AS s, avg(b.amt) AS m {JOINED} GROUP BY 1 = 1",
    f"SELECT a.y, count(*) AS n {JOINED} GROUP BY 1 ORDER BY 2 DESC, 1",
    f"SELECT a.y AS g, count(*) AS n {JOINED} GROUP BY g HAVING n > 0",
    f"SELECT a.y, count(*) {JOINED} GROUP BY ALL",
    f"SELECT a.x + 1 AS x, x + 1 AS lateral {JOINED}",
    f"SELECT a.y, b.z, grouping_id() AS g, sum(b.x) AS s {JOINED} GROUP BY CUBE (a.y, b.z)",
    f"SELECT a.y, grouping(a.y) AS g, sum(b.x) {JOINED} GROUP BY a.y WITH ROLLUP",
    f"SELECT max(b.x) AS m {JOINED} HAVING max(b.x) > 1",
    f"SELECT sum(a.x / 2), avg(a.x), stddev(a.x), var_pop(b.x), corr(a.x, b.x) {JOINED}",
    f"SELECT sum(b.amt) * 1.5, avg(b.amt * b.amt), sum(c.w) {JOINED}",
    f"SELECT count(a.x, b.x), count(DISTINCT a.x, b.x), approx_count_distinct(a.x) {JOINED}",
    f"SELECT a.y, sort_array(collect_list(b.x)) AS l {JOINED} GROUP BY a.y",
    f"SELECT a.id {JOINED} WHERE a.x IN (SELECT x FROM t)",
    f"SELECT a.id {JOINED} WHERE a.x NOT IN (SELECT x FROM t WHERE x IS NOT NULL)",
    f"SELECT a.id {JOINED} WHERE EXISTS (SELECT 1 FROM t WHERE t.x = a.x)",
    f"SELECT a.id, (SELECT max(x) FROM t WHERE t.x = a.x) AS m {JOINED}",
    f"SELECT a.id, (SELECT count(*) FROM t WHERE t.x = a.x) AS m {JOINED}",
    f"SELECT a.id {JOINED} WHERE a.x > ${{limit}}",
    f"SELECT a.id {JOINED} WHERE a.x IN ()",
    f"SELECT a.id, b.x {JOINED} ORDER BY 1, b.x LIMIT 3",
    f"SELECT a.id, b.x {JOINED} ORDER BY a.x, a.d, b.x, c.w",
    f"SELECT a.id, rank() OVER (PARTITION BY a.y ORDER BY b.x) AS r {JOINED}",
    "SELECT * FROM a JOIN b USING (id) JOIN c USING (id)",
    "SELECT * FROM c, a JOIN b USING (id) WHERE c.id = a.id",
    "SELECT * FROM a NATURAL JOIN b JOIN c ON c.id = id",
    "SELECT a.id FROM c, a JOIN b ON a.id = b.id WHERE c.id = b.id",
    "SELECT a.id, b.x FROM a CROSS JOIN b JOIN c ON c.id = b.id",
    "SELECT a.id, b.id FROM a FULL OUTER JOIN b ON a.id = b.id JOIN c ON c.id = a.id",
    "SELECT A.ID, B.Z FROM A JOIN B ON A.ID = B.ID JOIN C ON C.ID = B.ID WHERE A.Y = 'p'",
    "WITH v AS (SELECT 1 AS id) SELECT a.id FROM a JOIN b ON a.id = b.id,"
    " (WITH v AS (SELECT 2 AS id) SELECT v.id FROM v) q WHERE q.id = a.id",
    f"SELECT a.id {JOINED} UNION SELECT b.x {JOINED}",
    f"SELECT a.id {JOINED} UNION ALL SELECT '7' {JOINED}",
    f"SELECT a.id {JOINED} INTERSECT SELECT x FROM t EXCEPT SELECT 3",
    f"SELECT a.id {JOINED} |> WHERE id > 1",
    "SELECT l.s, r.s, b.x FROM k AS l JOIN k AS r ON l.s = r.s JOIN b ON b.id = l.id",
    "SELECT l.s, b.z FROM k AS l JOIN b ON l.id = b.id JOIN a ON a.id = b.id"
    " WHERE l.s = 'p' AND l.s = b.z COLLATE UTF8_LCASE",
    "SELECT l.s, count(*) AS n FROM k AS l JOIN b ON l.id = b.id JOIN a ON a.id = b.id GROUP BY l.s HAVING n > 99",
]  # fmt: skip

TEXTS = [
    *(case.text for case in CASES if not any(part in case.text for part in (*NOT_OF_SPARK, "localtimestamp"))),
    *(f"SELECT a.id, {one} {JOINED}" for one in EXPRESSIONS),
    *CLAUSES,
]

OTHER_VALUES = {
    "spark.sql.session.timeZone": "America/Los_Angeles",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.ctePrecedencePolicy": "LEGACY",
    "spark.sql.functionResolution.sessionOrder": "last",
    "spark.sql.legacy.nullInEmptyListBehavior": "true",
    "limit": "2",
}
"""Settings that are not true or false, and the other value to try; `limit` is read by ${limit}."""

OF_EXECUTION = {
    "adaptive", "artifact", "avro", "bucketing", "cbo", "cli", "codegen", "connect", "csv", "exchange", "execution",
    "experimental", "files", "fileSource", "hive", "inMemoryColumnarStorage", "inMemoryTableScanStatistics", "join",
    "json", "jsonGenerator", "lightweightPlanChangeValidation", "optimizer", "orc", "parquet", "planChangeValidation",
    "pyspark", "python", "repl", "requireAllClusterKeysForCoPartition", "requireAllClusterKeysForDistribution",
    "shuffle", "shuffleDependency", "sort", "sources", "statistics", "streaming", "subexpressionElimination",
    "thriftServer", "thriftserver", "truncateTable", "unionOutputPartitioning", "xml",
}  # fmt: skip
"""Groups of settings that Spark reads only after the analysis, or for sources and statements that are not queries."""

SWITCH_OTHERS_OFF = {"spark.sql.ansi.enabled"}
"""Settings without which others mean nothing, so that these are not changed together with them."""

GROUPS = 12

SAMPLED = {
    "spark.sql.ansi.enabled": f"SELECT a.id, a.x / b.x {JOINED}",
    "spark.sql.ansi.doubleQuotedIdentifiers": f'SELECT a.id, "z" {JOINED}',
    "spark.sql.parser.escapedStringLiterals": rf"SELECT a.id, a.y RLIKE '\\w' {JOINED}",
    "spark.sql.caseSensitive": f"SELECT a.id, a.X {JOINED}",
    "spark.sql.session.timeZone": f"SELECT a.id, hour(CAST(a.d AS timestamp)) {JOINED}",
    "spark.sql.decimalOperations.allowPrecisionLoss": f"SELECT a.id, b.amt * b.amt / 3 {JOINED}",
    "spark.sql.timestampType": f"SELECT a.id, TIMESTAMP '2000-01-01 00:00:00' {JOINED}",
    "spark.sql.groupByOrdinal": f"SELECT a.y, count(*) AS n {JOINED} GROUP BY 1",
}
"""Settings of the sample, each with a text that it changes."""

OPTIONS = qoop.Options(cut_policy=CutPolicy(everywhere=True), rules=Rules(force=True))


@pytest.fixture(scope="module")
def spark():
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    # PySpark logs a page for each text that Spark rejects.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("limit", "1")
    for name, text in TABLES.items():
        session.sql(text).createOrReplaceTempView(name)
    yield session
    session.stop()
    logging.getLogger("SQLQueryContextLogger").disabled = False


@dataclass(frozen=True)
class Usual:
    """A query under the usual settings: its analysed plan, and the text and analysed plan of its last plan, if any."""

    written: object
    text: str | None
    composed: object


class UsualByText(dict[str, Usual]):
    """Queries under the usual settings, analysed when they are first asked for."""

    def __init__(self, spark):
        super().__init__()
        self._spark = spark

    def __missing__(self, text):
        composed = composition(self._spark, text)
        self[text] = Usual(analysed(self._spark, text), composed, composed and analysed(self._spark, composed))
        return self[text]

    def prepare(self, texts):
        """Analyse texts now, under the usual settings."""
        for text in texts:
            assert self[text] is not None


@pytest.fixture(scope="module")
def usual(spark):
    return UsualByText(spark)


def composition(spark, text):
    """The last plan of a query as one text; None if it runs as written."""
    statement = ParsedText(text, lambda: syntax_of(spark)).statement
    if statement is None or statement.query is None:
        return None
    catalogue = SparkCatalogue(spark)
    try:
        planned = plan(statement, catalogue, catalogue.statistics, CutPolicy(everywhere=True), CostModel())
    except (CannotSplitError, UnknownNameError):
        return None
    return plan_query(planned.text, planned.plans[-1])


def analysed(spark, text):
    """What identifies the analysed plan of a text, with names, types and nullability; or Spark's objection."""
    catalyst = spark._jvm.org.apache.spark.sql.catalyst.plans
    try:
        frame = spark.sql(text)
    except PySparkException as problem:
        return problem.getCondition()
    except Py4JJavaError as problem:
        # Some settings make Spark's own analysis fail.
        return java_message(problem)
    normal = getattr(catalyst, "NormalizePlan$").__getattr__("MODULE$")
    made = normal.apply(frame._jdf.queryExecution().analyzed())
    return made.canonicalized().hashCode(), frame._jdf.schema().json()


def settings(spark):
    """The settings to change, with the other value of each."""
    entries = getattr(spark._jvm.org.apache.spark.sql.internal, "SQLConf$").__getattr__("MODULE$").getConfigEntries()
    conf = spark._jsparkSession.sessionState().conf()
    found = dict(OTHER_VALUES)
    for entry in entries.toArray():
        name, default = entry.key(), entry.defaultValueString()
        if default not in ("true", "false") or name.split(".")[2] in OF_EXECUTION or not spark.conf.isModifiable(name):
            continue
        found[name] = "false" if conf.getConfString(name, default) == "true" else "true"
    return found


def outcome_of(run):
    """The rows, in any order; None if the query fails."""
    try:
        return sorted(map(repr, run()))
    except Exception:  # noqa: BLE001 - whatever Spark raises
        return None


def columns(frame):
    """Names, types and nullability, without the note that a name was made by Spark."""
    return frame._jdf.schema().json().replace('"__autoGeneratedAlias":"true"', "")


def check_changed(spark, text):
    """Run a query with a switch after every stage; returns how it was run, or what is wrong."""
    try:
        expected_columns = columns(spark.sql(text))
    except (PySparkException, Py4JJavaError) as problem:
        with pytest.raises(type(problem)):
            qoop.collect(spark, text, OPTIONS)
        return "rejected", None
    expected = outcome_of(spark.sql(text).collect)
    answers, warned = [], []

    def run():
        options = qoop.Options(cut_policy=OPTIONS.cut_policy, rules=OPTIONS.rules, warn=warned.append)
        frame = qoop.sql(spark, text, options)
        answers.append(columns(frame))
        return frame.collect()

    found = outcome_of(run)
    as_written = any("as written" in line for line in warned)
    if found != expected and as_written and is_open(spark, text, found):
        return "as written, and Spark has several answers", None
    if found != expected or (answers and answers[0] != expected_columns):
        return "wrong", (expected, found, expected_columns, answers)
    if found is None:
        return "fails as in Spark", None
    return ("as written", warned) if as_written else ("equal", None)


def is_open(spark, text, found):
    """Whether Spark itself has this answer now and then, as with a LIMIT over rows that are alike for its order."""
    return any(outcome_of(spark.sql(text).collect) == found for _ in range(20))


@dataclass(frozen=True)
class Effect:
    """A text that is analysed otherwise under a setting: the query as written, or only its composition."""

    name: str
    value: str
    text: str
    of_written: bool


def effects(spark, usual, changing, texts):
    """The texts that each of these settings, changed alone, changes.

    All are changed at once, and the halves only for the texts that this changes: most settings change none.
    """
    with ExitStack() as stack:
        for name, value in changing:
            stack.enter_context(changed(spark, name, value))
        found = [text for text in texts if analysed(spark, text) != usual[text].written]
        composed = [
            text
            for text in texts
            if text not in found and usual[text].text and analysed(spark, usual[text].text) != usual[text].composed
        ]
    touched = [*found, *composed]
    if not touched:
        return
    if len(changing) == 1:
        yield from (Effect(*changing[0], text, text in found) for text in touched)
        return
    half = len(changing) // 2
    yield from effects(spark, usual, changing[:half], touched)
    yield from effects(spark, usual, changing[half:], touched)


def how_run(spark, usual, effect):
    """How a query is run under a changed setting; and what is wrong, if anything."""
    if effect.of_written:
        return check_changed(spark, effect.text)
    try:
        Verification(spark.sql(effect.text), query_session(spark)).check(usual[effect.text].text)
    except DifferentPlanError:
        return "another composition, as written", None
    except (PySparkException, Py4JJavaError):
        return check_changed(spark, effect.text)
    return "another composition, equal", None


def check_settings(spark, usual, changing, texts):
    """Run what these settings, changed alone, change; nothing may be wrong. Returns how often what was found."""
    usual.prepare(texts)
    counts, wrong = {}, []
    alone = [[one] for one in changing if one[0] in SWITCH_OTHERS_OFF]
    together = [one for one in changing if one[0] not in SWITCH_OTHERS_OFF]
    for effect in (effect for part in (*alone, together) for effect in effects(spark, usual, part, texts)):
        with changed(spark, effect.name, effect.value):
            kind, detail = how_run(spark, usual, effect)
        counts.setdefault(effect.name, Counter())[kind] += 1
        if kind == "wrong":
            wrong.append((effect, *detail))
            print("wrong:", *wrong[-1], sep="\n    ")
    compositions = sum(usual[text].text is not None for text in texts)
    print(f"{len(changing)} settings, {len(texts)} texts, {compositions} compositions", flush=True)
    for name, kinds in counts.items():
        print("   ", name, dict(kinds), flush=True)
    assert wrong == []
    return counts


@pytest.mark.matrix
@pytest.mark.parametrize("group", range(GROUPS))
def test_settings_changed_one_by_one(spark, usual, group):
    everything = sorted(settings(spark).items())
    assert len(everything) > 200 and len(TEXTS) >= 300
    check_settings(spark, usual, everything[group::GROUPS], TEXTS)


def test_some_settings_changed_one_by_one(spark, usual):
    """A sample of the matrix."""
    every = settings(spark)
    counts = check_settings(spark, usual, [(name, every[name]) for name in SAMPLED], list(SAMPLED.values()))
    assert set(counts) == set(SAMPLED), "each changes something"
    assert sum(kinds["equal"] for kinds in counts.values()) >= len(SAMPLED) / 2
