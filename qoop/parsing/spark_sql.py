"""Spark SQL as the planner knows it: the dialect, its types, and the catalogue of tables."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, UnsupportedError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from qoop.as_written.causes import Construct, Unsupported
from qoop.errors import CannotSplitError


class Named(exp.Expression, exp.Func):
    """A function of Spark by its own name; sqlglot would write another one, which Spark reads as another expression."""

    arg_types = {"this": True, "expressions": False}  # noqa: RUF012 - as its base class has it
    is_var_len_args = True


KEPT = (
    "COLLATE", "DATE", "DATE_SUB", "FROM_UTC_TIMESTAMP", "INSTR", "LOG10", "LOG2", "TO_CHAR", "TO_TIMESTAMP",
    "TO_UNIX_TIMESTAMP", "TO_UTC_TIMESTAMP", "UNIX_DATE",
)  # fmt: skip
"""The functions that are kept as they are named."""


def _named(name: str) -> Callable[[list[exp.Expr]], Named]:
    return lambda operands: Named(this=exp.var(name), expressions=operands)


class SparkSQL(Spark):
    """Spark 4: a doubled quote inside a string is a quote ('it''s'), and DATE '...' is no cast, which may be NULL."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokenizer with that escape."""

        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 - as its base class has it

    class Parser(SparkParser):
        """Keeps the comma of `FROM a, b`: sqlglot would write CROSS JOIN, for which Spark does not prune partitions.

        Keeps the names of some functions.
        """

        JOINS_HAVE_EQUAL_PRECEDENCE = False
        FUNCTIONS = {**SparkParser.FUNCTIONS, **{name: _named(name) for name in KEPT}}  # noqa: RUF012 - as above

    class Generator(SparkGenerator):
        """Spark's generator with literals of dates and times, which sqlglot reads as casts that cannot fail."""

        TRANSFORMS = {  # noqa: RUF012 - as above
            **SparkGenerator.TRANSFORMS,
            Named: lambda self, function: self.func(function.name, *function.expressions),
        }
        TYPE_MAPPING = {**SparkGenerator.TYPE_MAPPING, exp.DType.TIME: "TIME"}  # noqa: RUF012 - as above

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """CAST(...), or the literal."""
            is_literal = type(expression) is exp.Cast and expression.this.is_string and safe_prefix is None
            if is_literal and expression.to.this in LITERAL_TYPES:
                return f"{self.sql(expression.to)} {self.sql(expression.this)}"
            return str(super().cast_sql(expression, safe_prefix))


LITERAL_TYPES = {
    exp.DType.DATE,
    exp.DType.TIME,
    exp.DType.TIMESTAMPTZ,
    exp.DType.TIMESTAMPNTZ,
    exp.DType.TIMESTAMPLTZ,
}

DIALECT = SparkSQL


@dataclass(frozen=True, slots=True)
class Syntax:
    """The session's settings that decide how a text is read.

    Generated SQL has names in backquotes and literals with escapes, which mean the same under all but `raw_strings`.

    `case_sensitive`: names that differ in case are different names (spark.sql.caseSensitive). `quoted_names`: "x" is a
    name, not a text (spark.sql.ansi.doubleQuotedIdentifiers). `raw_strings`: a backslash in a literal is just that
    (spark.sql.parser.escapedStringLiterals).
    """

    case_sensitive: bool = False
    quoted_names: bool = False
    raw_strings: bool = False

    @property
    def dialect(self) -> SparkSQL:
        """The dialect in which names are compared."""
        return SparkSQL(normalization_strategy="case_sensitive" if self.case_sensitive else "case_insensitive")

    def folded(self, name: str) -> str:
        """A name in the form that all of its spellings share."""
        return name if self.case_sensitive else name.lower()

    def parse(self, text: str) -> list[exp.Expr]:
        """The statements in a text.

        Raises:
            sqlglot.errors.SqlglotError: the text is not SQL.
        """
        dialect = self.dialect
        tokens = list(self._reread(dialect.tokenize(text), text))
        trees = dialect.parser().parse(tokens, text)
        # A comment after the last semicolon is no statement.
        return [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]

    def _reread(self, tokens: Iterable[Token], text: str) -> Iterator[Token]:
        """Quoted tokens as this syntax reads them; Spark finds where they end in the same way under all settings."""
        for token in tokens:
            written = text[token.start : token.end + 1]
            if token.token_type == TokenType.STRING and written.startswith('"') and self.quoted_names:
                yield _token_like(token, TokenType.IDENTIFIER, written[1:-1].replace('""', '"'))
            elif token.token_type == TokenType.STRING and self.raw_strings:
                yield _token_like(token, TokenType.STRING, written[1:-1])
            else:
                yield token


def _token_like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, token.comments)


USUAL = Syntax()
"""How Spark reads a text by default."""

REWRITTEN_DIFFERENTLY = (exp.PercentileCont, exp.PercentileDisc)
"""sqlglot writes these as approximate percentiles, and in the wrong order."""


def check_can_be_written(tree: exp.Expr) -> None:
    """Check that the SQL generated from a tree means the same as the text it was parsed from.

    Raises:
        CannotSplitError: it does not, or that is not certain.
    """
    for node in tree.walk():
        if isinstance(node, REWRITTEN_DIFFERENTLY):
            raise CannotSplitError(Unsupported(Construct.NOT_REPRODUCED, f"{node.sql_name()} exactly"))
        if isinstance(node, exp.HexString):
            raise CannotSplitError(Unsupported(Construct.BINARY_LITERAL))
        if isinstance(node, exp.Star) and isinstance(node.parent, exp.Func) and not isinstance(node.parent, exp.Count):
            raise CannotSplitError(Unsupported(Construct.WHOLE_ROW, f"{node.parent.sql_name()}(*)"))
    try:
        tree.sql(DIALECT, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as problem:
        raise CannotSplitError(Unsupported(Construct.NOT_REPRODUCED, f"the query exactly: {problem}")) from None


Types = dict[str, str]
"""Column name (lower case unless the session is case-sensitive) to the engine's type name, such as `bigint` or
`decimal(7,2)`."""


class Catalogue(Protocol):
    """Table metadata: Spark's catalogue, or a folder of files."""

    def columns(self, table: str) -> Types | None:
        """The columns, in order, of a table named as the user wrote it (`db.name`); None if it does not exist."""
        ...


FAMILIES = {
    "exact": ("tinyint", "smallint", "int", "integer", "bigint", "long", "decimal", "numeric", "byte", "short"),
    # Not char: trailing blanks count or not depending on the type that it is compared with.
    "text": ("string", "varchar", "text"),
    "date": ("date",),
    # Separate from timestamp_ntz: two wall-clock times can be one instant.
    "time": ("timestamp", "timestamp_ltz"),
    "wall time": ("timestamp_ntz",),
    "truth": ("boolean", "bool"),
}


def type_family(type_name: str | None) -> str | None:
    """The family of types between which equality is transitive, so that one column can stand for another; else None.

    Across families it is not: '01' = 1 and 1 = '1' do not imply '01' = '1'. Equal floating-point numbers may be
    different ones: 0.0 and -0.0.
    """
    base = (type_name or "").lower().partition("(")[0].strip()
    return next((name for name, types in FAMILIES.items() if base in types), None)
