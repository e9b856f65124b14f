"""Settings of the session under which a query is generated and run."""

from random import Random

AS_TEXT, PADDED = "spark.sql.legacy.charVarcharAsString", "spark.sql.readSideCharPadding"
OF_TABLES = frozenset({AS_TEXT, PADDED})
"""Settings by which Spark resolves tables, besides expressions."""

FILES = "outputs as files"
"""Stages write their outputs to files, in a session whose own files have rounded times."""

QUOTED, CASED, ESCAPED = "double-quoted names", "case-sensitive", "escaped literals"

_SHUFFLED = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.shuffle.partitions": "5"}
"""Without it, each table is small enough to be broadcast."""

_SMALL_PARTITIONS = {
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1b",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "300b",
}

_SKEWED = {
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1b",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.0",
}

SETTINGS: dict[str, dict[str, str]] = {
    "ansi off": {"spark.sql.ansi.enabled": "false"},
    QUOTED: {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"},
    CASED: {"spark.sql.caseSensitive": "true"},
    ESCAPED: {"spark.sql.parser.escapedStringLiterals": "true"},
    "zone west": {"spark.sql.session.timeZone": "America/Los_Angeles"},
    "zone east": {"spark.sql.session.timeZone": "Asia/Kolkata"},
    "size of null": {"spark.sql.ansi.enabled": "false", "spark.sql.legacy.sizeOfNull": "true"},
    "set operations in order": {"spark.sql.legacy.setopsPrecedence.enabled": "true"},
    "no ordinals": {"spark.sql.groupByOrdinal": "false", "spark.sql.orderByOrdinal": "false"},
    "exact decimals": {"spark.sql.decimalOperations.allowPrecisionLoss": "false"},
    "null in empty list": {"spark.sql.legacy.nullInEmptyListBehavior": "true"},
    "chars as text": {AS_TEXT: "true"},
    "no padding": {PADDED: "false"},
    "two partitions": {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"},
    "shuffled joins": {**_SHUFFLED, "spark.sql.adaptive.coalescePartitions.enabled": "false"},
    "coalesced shuffles": {**_SHUFFLED, **_SMALL_PARTITIONS},
    "split shuffles": {**_SHUFFLED, **_SMALL_PARTITIONS, **_SKEWED},
    "integer grouping": {"spark.sql.legacy.integerGroupingId": "true"},
    FILES: {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"},
    "statistics": {"spark.sql.cbo.enabled": "true", "spark.sql.cbo.joinReorder.enabled": "true"},
}

CONFLICTS = (
    {"ansi off", QUOTED, "size of null"},
    {"zone west", "zone east"},
    {"two partitions", "shuffled joins", "coalesced shuffles", "split shuffles"},
)
"""At most one of each."""


def draw(random: Random) -> tuple[str, ...]:
    """Names of settings: none, one or two."""
    chosen: list[str] = []
    for name in random.sample(sorted(SETTINGS), random.choice((0, 1, 1, 2, 2))):
        if not any(name in group and group & {*chosen} for group in CONFLICTS):
            chosen.append(name)
    return tuple(chosen)


def values(names: tuple[str, ...]) -> dict[str, str]:
    """The values of Spark's settings."""
    return {key: value for name in names for key, value in SETTINGS[name].items()}
