"""Random tables, and random queries over them whose answer does not depend on how they are run."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

NUMBER, TEXT = "integer", "varchar"
COLUMNS = {"k": NUMBER, "m": NUMBER, "s": TEXT}
TABLES = ("r", "q", "p", "o")

_numbers = st.sampled_from(["1", "2", "1", "2", "3", "NULL"])
_texts = st.sampled_from(["'a'", "'a'", "'b'", "NULL"])
_some = st.lists(st.tuples(_numbers, _numbers, _texts), min_size=3, max_size=7)
_rows = st.one_of(_some, _some, _some, _some, st.just([]))


@dataclass
class Source:
    """Something to read from: its text in FROM, its alias, and its columns with their types."""

    text: str
    alias: str
    columns: dict[str, str]


@dataclass
class Writer:
    """Writes a query, drawing every choice."""

    draw: object
    named: list[Source] = field(default_factory=list)
    count: int = 0

    def chance(self, percent):
        return self.draw(st.integers(0, 99)) < percent

    def pick(self, choices):
        return self.draw(st.sampled_from(list(choices)))

    def fresh(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def statement(self):
        clauses = []
        for _ in range(self.pick((0, 0, 1, 2))):
            # Now and then it has the name of a table, or of an earlier one's alias.
            name = self.pick((self.fresh("c"), *TABLES)) if self.chance(30) else self.fresh("c")
            text, columns = self.query(1)
            clauses.append(f"{name} AS ({text})")
            self.named = [source for source in self.named if source.text != name]
            self.named.append(Source(name, name, columns))
            if len({clause.split()[0] for clause in clauses}) < len(clauses):
                clauses.pop()
        text, _ = self.query(0)
        return f"WITH {', '.join(clauses)} {text}" if clauses else text

    def query(self, depth):
        """A query and its columns; deeper ones are smaller."""
        if self.chance(20):
            return self.united(depth)
        return self.select(depth, None)

    def united(self, depth):
        left, columns = self.select(depth, None, plain=True)
        right, _ = self.select(depth, list(columns.values()), plain=True)
        word = self.pick(("UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT"))
        return f"{left} {word} {right}", columns

    def select(self, depth, types, plain=False):
        sources, tail = self.sources(depth), []
        seen, read = list(sources), list(sources)
        conditions = self.joining(sources)
        for _ in range(self.pick((0, 0, 0, 1, 2))):
            other = self.source(depth, read)
            read.append(other)
            kind = self.pick(("LEFT JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"))
            tail.append(f"{kind} {other.text} {other.alias} ON {self.equality([*seen, other], other)}")
            if kind == "LEFT JOIN":
                seen.append(other)
        conditions += [self.condition(seen, depth) for _ in range(self.pick((0, 0, 1, 1, 2)))]
        text = self.joined(sources, conditions, tail)
        return self.selected(text, seen, types, plain)

    def sources(self, depth):
        found = []
        for _ in range(self.pick((2, 3, 3, 4) if depth else (2, 3, 4, 5))):
            found.append(self.source(depth, found))
        return found

    def source(self, depth, others):
        if depth < 2 and self.chance(15):
            text, columns = self.query(depth + 1)
            return Source(f"({text})", self.fresh("d"), columns)
        known = [source for source in self.named for _ in (1, 2)]
        tables = [Source(name, name, COLUMNS) for name in TABLES if all(name != one.text for one in self.named)]
        base = self.pick([*known, *tables])
        # Aliases may be those of other tables.
        taken = {one.alias for one in others}
        free = [name for name in (base.alias, *TABLES) if name not in taken]
        alias = self.pick(free) if free and self.chance(60) else self.fresh("t")
        return Source(base.text, alias, base.columns)

    def column(self, sources, kind=None):
        """A column of these sources, of a type if there is one."""
        found = [
            (f"{source.alias}.{name}", has)
            for source in sources
            for name, has in source.columns.items()
            if kind in (None, has)
        ]
        return self.pick(found) if found else ("1" if kind == NUMBER else "'a'", kind)

    def literal(self, kind):
        return self.draw(_numbers if kind == NUMBER else _texts)

    def equality(self, sources, new):
        """A condition that joins a new source to the others."""
        mine, kind = self.column([new])
        other, _ = self.column([source for source in sources if source is not new] or sources, kind)
        return f"{mine} = {other}"

    def joining(self, sources):
        return [
            self.equality(sources[: place + 1], source)
            for place, source in enumerate(sources)
            if place and self.chance(85)
        ]

    def condition(self, sources, depth):
        column, kind = self.column(sources)
        other, _ = self.column(sources, kind)
        value = self.literal(kind)
        match self.draw(st.integers(0, 15)):
            case 0 | 1 | 2:
                return f"{column} {self.pick(('=', '<>', '<', '>='))} {value}"
            case 3:
                return f"{column} IN ({value}, {self.literal(kind)})"
            case 4:
                return f"{column} IS {self.pick(('', 'NOT '))}NULL"
            case 5:
                return f"{column} = {other}"
            case 6:
                return f"{column} {self.pick(('<=>', '<', '<>'))} {other}"
            case 7:
                third, _ = self.column(sources, NUMBER)
                fourth, _ = self.column(sources, NUMBER)
                return f"{third} + {fourth} {self.pick(('=', '<', '>'))} {self.pick('123')}"
            case 8 | 9:
                common = self.condition(sources, 2)
                arms = [f"({common} AND {self.condition(sources, 2)})" for _ in range(self.pick((2, 3)))]
                return f"({' OR '.join(arms)})"
            case 10:
                return f"NOT ({self.condition(sources, 2)} AND {self.condition(sources, 2)})"
            case 11:
                return f"({self.condition(sources, 2)} OR {self.condition(sources, 2)})"
            case 12:
                return f"coalesce({column}, {value}) = {value}"
            case 13:
                return self.pick(("1 = 1", "1 = 1", "TRUE", "1 <= 2", "1 = 0", "NULL"))
            case _:
                return f"{column} = {other}" if depth > 1 else self.subquery(sources, column, kind)

    def subquery(self, sources, column, kind):
        name = self.pick(TABLES)
        if any(one.text == name for one in self.named):
            return f"{column} IS NULL"
        inner = Source(name, self.pick((name, self.fresh("i"))), COLUMNS)
        outer, outer_kind = self.column([source for source in sources if source.alias != inner.alias] or sources)
        mine, _ = self.column([inner], outer_kind)
        if outer.startswith(f"{inner.alias}."):
            outer = self.literal(outer_kind)
        around = (
            f"FROM {name} {inner.alias} WHERE {mine} = {outer}" if self.chance(60) else f"FROM {name} {inner.alias}"
        )
        result, _ = self.column([inner], kind)
        match self.draw(st.integers(0, 2)):
            case 0:
                return f"{self.pick(('', 'NOT '))}EXISTS (SELECT 1 {around})"
            case 1:
                return f"{column} {self.pick(('', 'NOT '))}IN (SELECT {result} {around})"
            case _:
                return f"{column} = (SELECT max({result}) {around})"

    def joined(self, sources, conditions, tail):
        """FROM and WHERE, in one of several forms."""
        texts = [f"{source.text} {source.alias}" for source in sources]
        if self.chance(50):
            text = ", ".join(texts)
            text = f"{text} {' '.join(tail)}" if not tail or len(sources) == 1 else None
            if text is not None:
                return f"FROM {text}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
        parts, seen, left = [texts[0]], {sources[0].alias}, list(conditions)
        for source, text in zip(sources[1:], texts[1:], strict=True):
            seen.add(source.alias)
            here = [one for one in left if self.reads_only(one, sources, seen) and self.chance(80)]
            left = [one for one in left if one not in here]
            parts.append(f"JOIN {text} ON {' AND '.join(here)}" if here else f"CROSS JOIN {text}")
        return f"FROM {' '.join([*parts, *tail])}" + (f" WHERE {' AND '.join(left)}" if left else "")

    @staticmethod
    def reads_only(condition, sources, seen):
        """Whether a condition may stand in ON here: no subquery, and no source (or outer join's) that comes later."""
        known = {f"{alias}." for alias in seen}
        words = condition.replace("(", " ").replace(")", " ").replace(",", " ").split()
        dotted = [word.split(".")[0] + "." for word in words if "." in word]
        return "SELECT" not in condition and all(word in known for word in dotted)

    def selected(self, text, sources, types, plain):
        kinds = types or [self.pick((NUMBER, TEXT)) for _ in range(self.pick((1, 2, 2, 3)))]
        columns = [self.column(sources, kind)[0] for kind in kinds]
        names = [self.pick((self.fresh("x"), f"k{place}", f"m{place}")) for place in range(len(kinds))]
        result = dict(zip(names, kinds, strict=True))
        form = self.draw(st.integers(0, 9))
        if form < 3:
            columns, after = self.grouped(columns, kinds, sources)
        elif form == 3:
            columns, after = [f"{self.pick(('max', 'min'))}({column})" for column in columns], ""
        elif form == 4:
            partition, _ = self.column(sources)
            columns = [f"max({column}) OVER (PARTITION BY {partition})" for column in columns]
            after = ""
        else:
            after = ""
        distinct = "DISTINCT " if form in (5, 6) else ""
        shown = ", ".join(f"{column} AS {name}" for column, name in zip(columns, names, strict=True))
        order = ""
        if not plain and self.chance(20):
            order = " ORDER BY " + ", ".join(f"{name} NULLS FIRST" for name in names) + f" LIMIT {self.pick((1, 3, 9))}"
        return f"SELECT {distinct}{shown} {text}{after}{order}", result

    def grouped(self, columns, kinds, sources):
        keys = columns[: self.draw(st.integers(0, len(columns) - 1))]
        shown = list(keys)
        for column, kind in zip(columns[len(keys) :], kinds[len(keys) :], strict=True):
            functions = ("count(*)", f"count(DISTINCT {column})", f"sum({column})") if kind == NUMBER else ()
            shown.append(self.pick((*functions, f"max({column})")))
        group = f" GROUP BY {', '.join(dict.fromkeys(keys))}" if keys else ""
        having = f" HAVING count(*) > {self.pick('01')}" if self.chance(30) else ""
        return shown, group + having


@st.composite
def tables(draw):
    """Statements that make the tables."""
    made = [f"CREATE TABLE {name} ({', '.join(f'{c} {kind}' for c, kind in COLUMNS.items())})" for name in TABLES]
    for name in TABLES:
        rows = draw(_rows)
        if rows:
            made.append(f"INSERT INTO {name} VALUES " + ", ".join(f"({', '.join(row)})" for row in rows))
    return made


@st.composite
def queries(draw):
    """A query over the tables."""
    return Writer(draw).statement()
