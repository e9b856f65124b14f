"""What GetInfo answers."""

from qoop.server.errors import ServerError

MAX_NAME = 128
KEYWORDS = (
    "ANTI,ARCHIVE,BUCKET,BUCKETS,CACHE,CLUSTER,CODEGEN,COST,DATABASES,DBPROPERTIES,DISTRIBUTE,FUNCTIONS,INPATH,LATERAL,"
    "LIST,LOCATION,MACRO,MSCK,OPTIMIZE,OVERWRITE,PARTITIONED,PERCENTLIT,PIVOT,PURGE,QUALIFY,REFRESH,RENAME,REPAIR,"
    "SERDE,SERDEPROPERTIES,SHOW,SKEWED,SORTED,STORED,STRATIFY,TABLES,TBLPROPERTIES,TEMPORARY,TERMINATED,TOUCH,"
    "TRANSFORM,UNCACHE,UNSET,USE,VIEWS"
)
"""Spark's keywords that SQL:2003 lacks, as JDBC wants them."""

SERVER_NAME, DBMS_NAME, DBMS_VERSION, MAX_COLUMN, MAX_SCHEMA, MAX_CATALOG, MAX_TABLE = 13, 17, 18, 30, 32, 34, 35
QUOTE, MAX_STATEMENT, ODBC_KEYWORDS = 29, 105, 10006


def value(kind: int, version: str) -> str | int:
    """The answer for a `TGetInfoType`.

    Raises:
        ServerError: the type is not known.
    """
    known: dict[int, str | int] = {
        SERVER_NAME: "Spark SQL",
        DBMS_NAME: "Spark SQL",
        DBMS_VERSION: version,
        MAX_COLUMN: MAX_NAME,
        MAX_SCHEMA: MAX_NAME,
        MAX_CATALOG: MAX_NAME,
        MAX_TABLE: MAX_NAME,
        QUOTE: "`",
        MAX_STATEMENT: 0,
        ODBC_KEYWORDS: KEYWORDS,
    }
    if kind not in known:
        raise ServerError(f"GetInfo {kind}: not supported", "HYC00")
    return known[kind]
