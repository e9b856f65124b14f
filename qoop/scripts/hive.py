"""Hive's dialect: the settings that give its answers, what is rewritten for Spark's parser, and what is refused.

Meanings are those of Hive's language manual (SELECT, DDL, DML, operators and functions).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from qoop.scripts.statements import PART

SETTINGS = {"spark.sql.ansi.enabled": "false", "spark.sql.storeAssignmentPolicy": "LEGACY"}
"""Casts, divisions and overflows return NULL or wrap around, as in Hive, and INSERT converts values without checks."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A statement as Spark reads it; `changes`: what was written otherwise, in words."""

    text: str
    changes: tuple[str, ...] = ()


def rewritten(text: str) -> Rewritten:
    """A statement with what Spark's parser refuses, and what surely means the same, in its place."""
    changes: list[str] = []
    words = list(_words(text))
    for place in range(len(words) - 1, -1, -1):
        after = [word for word, _, _ in words[place : place + 4]]
        begin, end = words[place][1], words[min(place + 3, len(words) - 1)][2]
        if (
            len(after) == 4
            and after[0] == "LIMIT"
            and after[1].isdecimal()
            and after[2] == ","
            and after[3].isdecimal()
        ):
            clause = f"LIMIT {after[3]} OFFSET {after[1]}"
            changes.append(f"{' '.join(text[begin:end].split())} as {clause}")
            text = text[:begin] + clause + text[end:]
    plain = " ".join(word for word, _, _ in words)
    if re.fullmatch(r"ANALYZE TABLE (?!.*\bPARTITION\b).* FOR COLUMNS", plain):
        changes.append("FOR COLUMNS as FOR ALL COLUMNS")
        text = f"{text[: words[-2][1]]}FOR ALL COLUMNS{text[words[-1][2] :]}"
    return Rewritten(text, tuple(changes))


@dataclass(frozen=True, slots=True)
class HiveOnly:
    """A construct of Hive's that Spark lacks: how it is recognised, its name, and what to write instead."""

    pattern: str
    name: str
    instead: str

    def __str__(self) -> str:
        return f"{self.name} is Hive's alone; {self.instead}"


HIVE_ONLY = (
    HiveOnly(
        r"CREATE TEMPORARY MACRO|DROP TEMPORARY MACRO",
        "MACRO",
        "write CREATE TEMPORARY FUNCTION name(x INT) RETURNS INT RETURN ...",
    ),
    HiveOnly(
        r".*\bTABLESAMPLE \( BUCKET .* ON\b",
        "TABLESAMPLE (BUCKET .. ON ..)",
        "write TABLESAMPLE (BUCKET x OUT OF y), or a condition such as pmod(hash(column), y) = x - 1",
    ),
    HiveOnly(
        r".*\bINSERT .*\bPARTITION \(.*\) IF NOT EXISTS\b",
        "INSERT .. PARTITION (..) IF NOT EXISTS",
        "write INSERT OVERWRITE TABLE .. PARTITION with a value for each column, and SHOW PARTITIONS before it",
    ),
    HiveOnly(r"CREATE .*\bSKEWED BY\b", "SKEWED BY", "leave it out; Spark splits skewed partitions while it joins"),
    HiveOnly(r"CREATE .*\bSTORED BY\b", "STORED BY", "write USING with Spark's own source, such as USING jdbc"),
    HiveOnly(
        r"ALTER TABLE .*\bEXCHANGE PARTITION\b",
        "EXCHANGE PARTITION",
        "write ALTER TABLE .. ADD PARTITION (..) LOCATION '..', or INSERT OVERWRITE",
    ),
    HiveOnly(
        r"ALTER TABLE .*\bCONCATENATE\b",
        "CONCATENATE",
        "write INSERT OVERWRITE TABLE t SELECT /*+ REPARTITION(1) */ * FROM a copy of t",
    ),
    HiveOnly(
        r"ANALYZE TABLE .*\bPARTITION \(.*\) COMPUTE STATISTICS FOR\b",
        "FOR COLUMNS of a partition",
        "write ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS, of the whole table",
    ),
    HiveOnly(
        r"EXPLAIN (DEPENDENCY|AUTHORIZATION|LOCKS|VECTORIZATION|AST)\b",
        "this kind of EXPLAIN",
        "write EXPLAIN EXTENDED, or ask qoop explain",
    ),
    HiveOnly(
        r"(CREATE|DROP|ALTER) INDEX\b",
        "INDEX",
        "store the table as ORC or Parquet, sorted by the column, and Spark skips parts of its files",
    ),
    HiveOnly(r"EXPORT TABLE\b", "EXPORT TABLE", "write CREATE TABLE .. LOCATION '..' AS SELECT"),
    HiveOnly(r"IMPORT\b", "IMPORT TABLE", "write CREATE TABLE .. LOCATION '..' and MSCK REPAIR TABLE"),
    HiveOnly(r"(UN)?LOCK (TABLE|DATABASE)\b", "LOCK", "leave it out; Spark takes no locks"),
    HiveOnly(
        r"(GRANT|REVOKE|SHOW GRANT|CREATE ROLE|DROP ROLE|SET ROLE|SHOW ROLES|SHOW CURRENT ROLES)\b",
        "GRANT",
        "set the permissions of the table's folder in HDFS, or in Hive itself",
    ),
    HiveOnly(
        r"MERGE INTO .*\bINSERT VALUES\b",
        "MERGE .. INSERT VALUES without columns",
        "name them: WHEN NOT MATCHED THEN INSERT (a, b) VALUES (..); the table must be of Delta Lake or Iceberg",
    ),
    HiveOnly(
        r"ALTER TABLE .*\bCHANGE (?:COLUMN )?(?!COLUMN )(\S+) (?!\1 )\S+ \w+",
        "CHANGE COLUMN with another name and a type",
        "write ALTER TABLE .. RENAME COLUMN a TO b; the type stays",
    ),
    HiveOnly(
        r"CREATE TEMPORARY TABLE\b",
        "CREATE TEMPORARY TABLE",
        "write CREATE TEMPORARY VIEW v AS SELECT .. and CACHE TABLE v",
    ),
    HiveOnly(
        r"ALTER TABLE .*\b(ARCHIVE|UNARCHIVE|TOUCH|COMPACT|(ENABLE|DISABLE) (NO_DROP|OFFLINE))\b",
        "ARCHIVE, TOUCH, COMPACT or protection of a table",
        "leave it out, or do it in Hive itself",
    ),
    HiveOnly(r"(SHOW COMPACTIONS|SHOW TRANSACTIONS|ABORT TRANSACTIONS)\b", "transactions", "do it in Hive itself"),
    HiveOnly(r"RELOAD (FUNCTION|FUNCTIONS)\b", "RELOAD FUNCTION", "write REFRESH FUNCTION name"),
    HiveOnly(r"CREATE SCHEDULED QUERY\b", "SCHEDULED QUERY", "let cron or a workflow tool run qoop run"),
    HiveOnly(r"CREATE MATERIALIZED VIEW\b", "MATERIALIZED VIEW", "write CREATE TABLE .. AS SELECT, and run it again"),
)
"""What Hive's manual has and Spark's parser refuses, with what to write instead. Order matters: the first counts."""


def hive_only(text: str) -> HiveOnly | None:
    """The construct of Hive's that is in a statement which Spark's parser has refused; None if none is known."""
    plain = " ".join(word for word, _, _ in _words(text))
    return next((one for one in HIVE_ONLY if re.match(one.pattern, plain)), None)


def _words(text: str) -> Iterator[tuple[str, int, int]]:
    """The words and signs of a statement, in upper case, with their places; without comments, quotes as they are."""
    position = 0
    while position < len(text):
        part = PART.match(text, position)
        assert part is not None
        position = part.end()
        if part.lastgroup == "opens":
            position = text.find("*/", position) + 2 if "*/" in text[position:] else len(text)
        elif part.lastgroup not in ("space", "line_comment"):
            is_quoted = part.lastgroup in ("quoted", "raw")
            yield ("'...'" if is_quoted and part[0][:1] != "`" else part[0].upper()), part.start(), part.end()
