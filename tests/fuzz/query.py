"""Writes a random query: joins of all kinds, subqueries, CTEs, set operations, windows and groups.

Its rows, and their order where it has one, do not depend on how it is run: LIMIT and row numbers only with an order by
all columns, no aggregate that depends on the order of rows, no groups of values that are equal but different.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.fuzz.expressions import KEYLIKE, NUMBERS, WHOLE, Expressions, Scope
from tests.fuzz.schema import KINDS, Table
from tests.fuzz.settings import CASED
from tests.fuzz.tree import Body, Cte, Expr, Item, Join, Order, Query, Select, SetOperation, Source, expr

Columns = tuple[tuple[str, str], ...]
"""Names and kinds of the columns of a result."""

PLAIN = ("int", "long", "decimal", "wide", "text", "number", "date", "time", "truth", "double")
"""Kinds of columns of branches of set operations."""


def write(random: Random, tables: Sequence[Table], settings: Sequence[str]) -> tuple[Query, frozenset[str]]:
    """A query over the tables and the constructs in it."""
    writer = _Writer(random, tables, settings)
    query = writer.statement()
    return query, frozenset(writer.tags)


class _Writer(Expressions):
    def __init__(self, random: Random, tables: Sequence[Table], settings: Sequence[str]) -> None:
        super().__init__(random, settings)
        self._tables = {
            table.name: tuple((column.name, column.kind) for column in table.columns)
            for table in tables
            if not table.cased or CASED in self.settings
        }
        self._named: dict[str, Columns] = {}
        self._bodies: dict[str, Body] = {}
        self._of_all_rows: set[Body] = set()
        self._number = 0

    def fresh(self, letter: str) -> str:
        self._number += 1
        return f"{letter}{self._number}"

    # Queries.

    def statement(self) -> Query:
        ctes = []
        for _ in range(self.pick((0, 1, 1, 1, 2))):
            self.tags.add("CTE")
            name = self.fresh("cte")
            if self.chance(8):
                name = self.pick([one for one in self._tables if one not in self._named])
                self.tags.add("CTE named as a table")
            body, columns = self.body(1)
            ctes.append(Cte(name, Query(body)))
            self._named[name], self._bodies[name] = columns, body
        body, columns = self.body(0)
        return self.ordered(Query(body, tuple(ctes)), columns, self.chance(30))

    def ordered(self, query: Query, columns: Columns, wanted: bool, limited: bool | None = None) -> Query:
        """The query with an order; by all columns if it has a limit.

        Not by columns of which different values are equal, since it would leave theirs open.
        """
        places = [place for place, (_, kind) in enumerate(columns) if KINDS[kind].sorts and KINDS[kind].groups]
        if not wanted or not places:
            return query
        limited = self.chance(50) if limited is None else limited
        if limited and len(places) < len(columns):
            return query
        self.random.shuffle(places)
        if not limited:
            places = places[: self.random.randint(1, len(places))]
        ordinals = "no ordinals" not in self.settings and self.chance(15)
        keys = []
        for place in places:
            key = str(place + 1) if ordinals else columns[place][0]
            keys.append(Order(f"{key}{self.pick(('', ' DESC', ' ASC NULLS LAST', ' DESC NULLS FIRST'))}", place))
        self.tags.add("ORDER BY LIMIT" if limited else "ORDER BY")
        offset = self.pick((None, None, 1)) if limited else None
        return Query(query.body, query.ctes, tuple(keys), self.pick((3, 5, 10, 40)) if limited else None, offset)

    def body(self, depth: int) -> tuple[Body, Columns]:
        if self.chance(14):
            return self.united(depth)
        return self.select(depth)

    def united(self, depth: int) -> tuple[Body, Columns]:
        words = [self.pick(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL"))]
        # Short rows of few values have others equal to them, long ones have not.
        few, many = words[0].startswith("INTERSECT"), words[0].startswith("EXCEPT")
        count = 1 if few and self.chance(70) else 3 if many else self.pick((1, 2, 2, 3))
        kinds = [self.pick(KEYLIKE if few and self.chance(70) else PLAIN) for _ in range(count)]
        if self.chance(20):
            words.append(self.pick(("UNION ALL", "INTERSECT", "UNION")))
        body, columns = self.select(depth, kinds)
        made: Body = body
        for word in words:
            self.tags.add(word)
            other, _ = self.select(max(depth, 1), kinds)
            made = SetOperation(word, made, other)
        return made, columns

    def select(self, depth: int, kinds: Sequence[str] = ()) -> tuple[Select, Columns]:
        sources, scopes = self.sources(depth)
        joins: list[Join] = []
        if depth == 0 or self.chance(30):
            joins, scopes = self.outer_joins(depth, scopes)
        first, *rest = sources
        inner, where = self.joining(first, rest, scopes)
        joins = inner + joins
        where += [self.weak_condition(scopes) for _ in range(self.pick((0, 0, 1)))]
        where += self.conditions_on_blocks(sources, scopes)
        if self.chance(20 if depth == 0 else 10):
            where.append(self.simple_condition(scopes))
        if self.chance(32 if depth == 0 else 10):
            where.append(self.subquery_condition(scopes))
        lateral = None
        arrays = self.column(scopes, ("array",))
        if depth == 1 and arrays is not None and self.chance(3) and all(one.kind != "," for one in joins):
            alias = self.fresh("e")
            lateral = f"explode({arrays[0]}) {alias} AS {alias}c"
            scopes = [*scopes, Scope(alias, ((f"{alias}c", "int"),))]
            self.tags.add("LATERAL VIEW")
        made = Select((), first, tuple(joins), tuple(where), lateral=lateral)
        return self.selected(made, scopes, kinds, depth)

    # Sources.

    def sources(self, depth: int) -> tuple[list[Source], list[Scope]]:
        """The sources of the inner joins."""
        counts = (2, 3, 3, 3, 4) if depth == 0 else (1, 2, 2, 3) if depth == 1 else (1, 2)
        sources, scopes = [], []
        for _ in range(self.pick(counts)):
            source, scope = self.source(depth, [one.alias for one in scopes])
            sources.append(source)
            scopes.append(scope)
        return sources, scopes

    def source(self, depth: int, taken: Sequence[str]) -> tuple[Source, Scope]:
        alias = self.fresh("t")
        if depth < 2 and self.chance(16):
            self.tags.add("derived table")
            body, columns = self.body(depth + 1)
            query = self.ordered(Query(body), columns, self.chance(4), limited=True)
            return Source(query, alias), Scope(alias, columns)
        names = [name for name in self._tables if name not in self._named] + [*self._named] * 3
        name = self.pick(names)
        if self.chance(20) and name not in taken:
            alias = name
        columns = self._named.get(name) or self._tables[name]
        return Source(self.name(name) if name in self._tables else name, alias), Scope(alias, columns)

    def is_one_row(self, source: Source) -> bool:
        """Whether a source is an aggregate of all rows."""
        body = source.read.body if isinstance(source.read, Query) else self._bodies.get(source.read)
        return body in self._of_all_rows

    def conditions_on_blocks(self, sources: Sequence[Source], scopes: Sequence[Scope]) -> list[Expr]:
        """Conditions on single queries among the sources: often on one of several readers of a CTE."""
        known = {one.alias: one for one in scopes}
        found = []
        for source in sources:
            if source.alias in known and (isinstance(source.read, Query) or source.read in self._named):
                scope = [known[source.alias]]
                fraction = self.column(scope, ("double", "ratio"))
                if fraction is not None and self.chance(40):
                    found.append(self.fraction_condition(fraction[0]))
                elif self.chance(45):
                    found.append(self.weak_condition(scope) if self.chance(35) else self.simple_condition(scope))
        return found

    def joining(self, first: Source, rest: Sequence[Source], scopes: Sequence[Scope]) -> tuple[list[Join], list[Expr]]:
        """The inner joins of these sources, in one of several forms, and their conditions that belong in WHERE."""
        known = {one.alias: one for one in scopes}
        seen = [known[first.alias]]
        made, conditions = [], []
        for source in rest:
            scope = known[source.alias]
            on = [self.equality(scope, seen)] if self.chance(30 if self.is_one_row(source) else 94) else []
            if on and self.chance(15):
                on.append(self.equality(scope, seen))
            if on and self.chance(8):
                on.append(self.simple_condition([scope, *seen]))
            seen.append(scope)
            conditions += on
            made.append(Join("JOIN", source, tuple(on)))
        if self.chance(25) and made:
            self.tags.add("comma join")
            return [Join(",", one.source) for one in made], conditions
        if made and len(made) < 3 and self.chance(6):
            source = made[0].source
            if "k" in dict(known[first.alias].columns) and "k" in dict(known[source.alias].columns):
                self.tags.add("USING")
                made[0] = Join("JOIN", source, (), "k")
        if made:
            self.tags.add("inner join")
        return made, []

    def outer_joins(self, depth: int, scopes: list[Scope]) -> tuple[list[Join], list[Scope]]:
        """Joins of other kinds, after the inner ones."""
        joins: list[Join] = []
        for _ in range(self.pick((0, 0, 1, 1, 2))):
            rare = ("RIGHT JOIN", "FULL JOIN") if depth or self.chance(8) else ("LEFT JOIN",)
            kind = self.pick(("LEFT JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", *rare))
            if kind == "LEFT ANTI JOIN" and self.chance(50):
                kind = "LEFT JOIN"
            source, scope = self.source(max(depth, 1), [one.alias for one in scopes])
            on = [self.equality(scope, scopes)]
            if kind == "LEFT ANTI JOIN":
                on.append(self.strict_condition([scope]))
            elif self.chance(25):
                on.append(self.simple_condition([scope]))
            self.tags.add(kind)
            joins.append(Join(kind, source, tuple(on)))
            if "SEMI" not in kind and "ANTI" not in kind:
                scopes = [*scopes, scope]
        return joins, scopes

    # Conditions with subqueries.

    def subquery_condition(self, scopes: Sequence[Scope]) -> Expr:
        form = self.pick(("exists", "in", "in", "not in", "not in", "not exists", "scalar", "correlated scalar"))
        self.tags.add(form.upper() if "scalar" not in form else f"{form} subquery")
        source, scope = self.source(2, [one.alias for one in scopes])
        where: tuple[Expr, ...] = ()
        if self.chance(60):
            where = (self.weak_condition([scope]),)
        if form in ("exists", "not exists"):
            narrowed = self.strict_condition([scope])
            on = (self.equality(scope, scopes), *((narrowed,) if form == "not exists" else where))
            inner = Select((Item(expr("1"), "one"),), source, (), on)
            return expr("NOT EXISTS " if form == "not exists" else "EXISTS ", Query(inner))
        if form in ("in", "not in"):
            pair = self.alike(scopes, scope, (*KEYLIKE, "text", "number", "date", "folded"))
            if pair is None:
                return self.weak_condition(scopes)
            outer, mine, _ = pair
            # With a NULL among them NOT IN is never true.
            nullable = form == "not in" and self.chance(60)
            if form == "not in":
                # Of few values, so that others are not among them.
                few = self.strict_condition([scope])
                or_null = expr("(", few, f" OR {mine} IS NULL)") if self.chance(60) else few
                where = (or_null,) if nullable else (expr(f"{mine} IS NOT NULL"), few)
            inner = Select((Item(expr(mine), "one"),), source, (), where)
            both = expr(outer, " IN " if form == "in" else " NOT IN ", Query(inner))
            either = self.chance(70 if nullable else 12)
            return expr("(", both, " OR ", self.simple_condition(scopes), ")") if either else both
        pair = self.alike(scopes, scope, (*KEYLIKE, "text", "date", "time"))
        if pair is None:
            return self.weak_condition(scopes)
        outer, mine, _ = pair
        if form == "correlated scalar":
            where = (*where, self.equality(scope, scopes))
        function, word = self.pick(
            (("max", "<="), ("max", "<="), ("min", ">="), ("min", ">="), ("max", "<>"), ("max", "="))
        )
        inner = Select((Item(expr(f"{function}({mine})"), "one"),), source, (), where)
        return expr(outer, f" {word} ", Query(inner))

    # Columns.

    def alias(self, number: int) -> str:
        name = self.pick((f"o{number}", f"o{number}", f"Out{number}", f"k{number}"))
        return f"`{name} {number}`" if self.chance(3) else name

    def selected(
        self, made: Select, scopes: Sequence[Scope], kinds: Sequence[str], depth: int
    ) -> tuple[Select, Columns]:
        """The select with its columns."""
        form = self.random.randrange(100)
        if form < 28:
            return self.grouped(made, scopes, kinds, depth)
        count = len(kinds) or self.pick((2, 3, 3, 4))
        wanted = kinds or [None] * count
        values = [self.value(scopes, kind) for kind in wanted]
        if depth and not kinds:
            values = [self._joinable(scopes), *values[1:]]
        distinct = 28 <= form < 38 and all(KINDS[kind].groups for _, kind in values)
        if not kinds and not distinct and form < 52 and form >= 38:
            values = [*values, self.window(scopes)]
        elif not kinds and not distinct and form < 60:
            values = [*values, self.scalar(scopes)]
        if distinct:
            self.tags.add("DISTINCT")
        items, columns = self.named(values)
        return replace(made, items=items, distinct=distinct), columns

    def _joinable(self, scopes: Sequence[Scope]) -> tuple[Expr, str]:
        found = self.column(scopes, ("int",)) or self.any_column(scopes)
        return expr(found[0]), found[1]

    def named(self, values: Sequence[tuple[Expr, str]]) -> tuple[tuple[Item, ...], Columns]:
        items, columns = [], []
        for place, (value, kind) in enumerate(values):
            alias = self.alias(place)
            items.append(Item(value, alias))
            columns.append((alias.strip("`") if re.fullmatch(r"`\w+`", alias) else alias, kind))
        return tuple(items), tuple(columns)

    def scalar(self, scopes: Sequence[Scope]) -> tuple[Expr, str]:
        self.tags.add("scalar subquery in SELECT")
        source, scope = self.source(2, [one.alias for one in scopes])
        where: tuple[Expr, ...] = (self.equality(scope, scopes),) if self.chance(60) else ()
        mine = self.column([scope], ("int", "decimal"))
        function = f"max({mine[0]})" if mine and self.chance(60) else "count(*)"
        return expr(Query(Select((Item(expr(function), "one"),), source, (), where))), mine[1] if mine else "long"

    def window(self, scopes: Sequence[Scope]) -> tuple[Expr, str]:
        self.tags.add("window")
        groups = [kind for kind in PLAIN if kind != "double"]
        by, order = self.column(scopes, groups), self.column(scopes, groups)
        partition = f"PARTITION BY {by[0]}" if by else ""
        over = f"({partition} ORDER BY {order[0]}{self.pick(('', ' DESC'))})" if order else f"({partition})"
        number = self.column(scopes, NUMBERS)
        shown = number or ("1", "int")
        if order is None:
            return expr(f"count(*) OVER {over}"), "whole"
        return self.pick(
            (
                (expr(f"rank() OVER {over}"), "int"),
                (expr(f"dense_rank() OVER {over}"), "int"),
                (expr(f"max({shown[0]}) OVER ({partition})"), shown[1]),
                (expr(f"count(*) OVER {over}"), "whole"),
                (expr(f"sum({shown[0]}) OVER {over}"), "whole" if shown[1] in WHOLE else "amount"),
            )
        )

    def grouped(
        self, made: Select, scopes: Sequence[Scope], kinds: Sequence[str], depth: int
    ) -> tuple[Select, Columns]:
        """Groups: the first columns are keys, the others aggregates."""
        count = len(kinds) or self.pick((2, 3, 3))
        keys = self.random.randint(0 if depth == 0 else 1, count - (0 if kinds and count == 1 else 1))
        if depth and not kinds and self.chance(12):
            keys = 0
        grouping = "" if kinds or not self.chance(35) else self.pick(("ROLLUP", "CUBE", "GROUPING SETS"))
        if grouping:
            keys = self.pick((2, 2, 3))
            count = keys + 1
        values: list[tuple[Expr, str]] = []
        for place in range(keys):
            value, kind = self.value(scopes, kinds[place] if kinds else None)
            if not KINDS[kind].groups or kind == "map":
                value, kind = self._joinable(scopes)
                value = expr(value, " + 0") if kind == "folded" else value
            if not KINDS[kind].groups:
                value, kind = expr("1"), "int"
            values.append((value, kind))
        if depth and not kinds and values:
            found = self.column(scopes, ("int",))
            values[0] = (expr(found[0]), "int") if found else values[0]
        group = tuple(dict.fromkeys(value for value, _ in values))
        if len(group) < 2 or len(group) < len(values):
            grouping = ""
        if grouping:
            self.tags.add(grouping)
        if not group and not kinds and self.chance(40):
            values.append((expr(self.literal("text")), "text"))
        for place in range(keys, count):
            values.append(self.aggregate(scopes, kinds[place] if kinds else None))
        if grouping and self.chance(60):
            values.append((expr("grouping_id()"), "long"))
        having = ()
        if self.chance(25):
            self.tags.add("HAVING")
            number = self.column(scopes, NUMBERS)
            shown = number[0] if number else "1"
            forms = ("count(*) > 0", "count(*) >= 1", "count(*) > 1", f"max({shown}) > 1", f"min({shown}) IS NOT NULL")
            having = (expr(self.pick(forms)),)
        self.tags.add("GROUP BY" if group else "aggregate of all rows")
        items, columns = self.named(values)
        if group and not grouping and "no ordinals" not in self.settings and self.chance(15):
            self.tags.add("ordinal")
            group = tuple(expr(str(place + 1)) for place in range(keys))
        if grouping == "GROUPING SETS":
            sets = [expr("(", *_listed(group), ")"), expr("(", group[0], ")"), expr("()")]
            group = tuple(self.random.sample(sets, self.random.randint(2, 3)))
        made = replace(made, items=items, group=group, grouping=grouping, having=having)
        if not group:
            self._of_all_rows.add(made)
        return made, columns

    def aggregate(self, scopes: Sequence[Scope], kind: str | None) -> tuple[Expr, str]:
        if kind is not None:
            found = self.column(scopes, (kind,))
            return expr(f"max({found[0] if found else self.literal(kind)})"), kind
        number, any_one = self.column(scopes, NUMBERS), self.any_column(scopes)
        choices = [("count(*)", "whole")]
        if number:
            whole = number[1] in WHOLE
            choices += [
                (f"sum({number[0]})", "whole" if whole else "amount"),
                (f"avg({number[0]})", "ratio" if whole else "amount"),
                (f"sum(DISTINCT {number[0]})", "whole" if whole else "amount"),
                (f"count(*) FILTER (WHERE {number[0]} > 1)", "whole"),
                (f"sum(CASE WHEN {number[0]} > 1 THEN 1 ELSE 0 END)", "whole"),
            ]
        if KINDS[any_one[1]].groups and any_one[1] not in ("struct", "array"):
            choices += [
                (f"count(DISTINCT {any_one[0]})", "whole"),
                (f"min({any_one[0]})", any_one[1] if any_one[1] not in ("char", "varchar") else "text"),
                (f"max({any_one[0]})", any_one[1] if any_one[1] not in ("char", "varchar") else "text"),
            ]
        text, kind = self.pick(choices)
        if "DISTINCT" in text:
            self.tags.add("aggregate of DISTINCT")
        if "FILTER" in text:
            self.tags.add("FILTER")
        return expr(text), kind


def _listed(group: Sequence[Expr]) -> list[str | Expr]:
    found: list[str | Expr] = []
    for one in group:
        found += [", ", one] if found else [one]
    return found
