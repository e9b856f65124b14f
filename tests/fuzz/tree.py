"""The tree of a generated query: what the generator makes, a text is written from, and shrinking takes parts from."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any


@dataclass(frozen=True)
class Expr:
    """An expression: text with queries inside."""

    parts: tuple["str | Query", ...]

    def __str__(self) -> str:
        return "".join(part if isinstance(part, str) else f"({part})" for part in self.parts)


def expr(*parts: "str | Expr | Query") -> Expr:
    """An expression of texts, expressions and queries; queries are put into parentheses."""
    flat: list[str | Query] = []
    for part in parts:
        flat += part.parts if isinstance(part, Expr) else [part]
    return Expr(tuple(flat))


def joined(separator: str, parts: Iterable[Any]) -> str:
    return separator.join(str(part) for part in parts)


@dataclass(frozen=True)
class Item:
    """A column of a SELECT. `alias`: as written, with its quotes."""

    expr: Expr
    alias: str

    def __str__(self) -> str:
        return f"{self.expr} AS {self.alias}"


@dataclass(frozen=True)
class Source:
    """What FROM reads: a name, or a query; `view`: what follows, such as a LATERAL VIEW."""

    read: "str | Query"
    alias: str

    def __str__(self) -> str:
        read = self.read if isinstance(self.read, str) else f"({self.read})"
        return f"{read} AS {self.alias}"


@dataclass(frozen=True)
class Join:
    """A further source. `kind`: ",", "JOIN", "LEFT JOIN", ..."""

    kind: str
    source: Source
    on: tuple[Expr, ...] = ()
    using: str | None = None

    def __str__(self) -> str:
        if self.kind == ",":
            return f", {self.source}"
        text = f" {self.kind if self.on or self.using or self.kind != 'JOIN' else 'CROSS JOIN'} {self.source}"
        if self.using:
            return f"{text} USING ({self.using})"
        return text + (f" ON {joined(' AND ', self.on)}" if self.on else "")


@dataclass(frozen=True)
class Select:
    """A SELECT. `grouping`: "" or ROLLUP, CUBE, GROUPING SETS (then `group` has the sets, in parentheses)."""

    items: tuple[Item, ...]
    first: Source
    joins: tuple[Join, ...] = ()
    where: tuple[Expr, ...] = ()
    group: tuple[Expr, ...] = ()
    grouping: str = ""
    having: tuple[Expr, ...] = ()
    distinct: bool = False
    lateral: str | None = None

    def __str__(self) -> str:
        text = f"SELECT {'DISTINCT ' if self.distinct else ''}{joined(', ', self.items)} FROM {self.first}"
        text += joined("", self.joins)
        if self.lateral:
            text += f" LATERAL VIEW {self.lateral}"
        if self.where:
            text += f" WHERE {joined(' AND ', self.where)}"
        if self.group:
            keys = joined(", ", self.group)
            text += f" GROUP BY {self.grouping} ({keys})" if self.grouping else f" GROUP BY {keys}"
        if self.having:
            text += f" HAVING {joined(' AND ', self.having)}"
        return text


@dataclass(frozen=True)
class SetOperation:
    """Two bodies and the word between them; `bare`: without parentheses."""

    word: str
    left: "Body"
    right: "Body"

    def __str__(self) -> str:
        return f"{self.left} {self.word} {self.right}"


Body = Select | SetOperation


@dataclass(frozen=True)
class Cte:
    """A common table expression."""

    name: str
    query: "Query"


@dataclass(frozen=True)
class Order:
    """One key of ORDER BY. `place`: that of the column in the result."""

    text: str
    place: int


@dataclass(frozen=True)
class Query:
    """A query with its WITH and ORDER BY."""

    body: Body
    ctes: tuple[Cte, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        text = str(self.body)
        if self.ctes:
            text = "WITH " + ", ".join(f"{cte.name} AS ({cte.query})" for cte in self.ctes) + " " + text
        if self.order:
            text += " ORDER BY " + ", ".join(key.text for key in self.order)
        if self.limit is not None:
            text += f" LIMIT {self.limit}"
        if self.offset is not None:
            text += f" OFFSET {self.offset}"
        return text


def nodes(tree: Any) -> Iterator[Any]:
    """All nodes of a tree, from the top."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from nodes(part)
    elif is_dataclass(tree):
        yield tree
        for field in fields(tree):
            yield from nodes(getattr(tree, field.name))
