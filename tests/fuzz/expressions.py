"""Random expressions and conditions over the columns in scope, whose values depend on nothing but those columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from tests.fuzz.schema import COMPUTED, KINDS
from tests.fuzz.settings import CASED, ESCAPED, QUOTED
from tests.fuzz.tree import Expr, expr

KEYLIKE = ("int", "long", "decimal", "wide")
"""Kinds of numbers from 1 to 4."""

NUMBERS = (*KEYLIKE, "whole", "amount")
WHOLE = {"int", "long", "whole"}
TEXTS = ("text", "number", "char", "varchar", "phrase")
MOSTLY_NOT = ("NOT ",) * 4


@dataclass(frozen=True)
class Scope:
    """A source in scope: its alias, and the kinds of its columns by name."""

    alias: str
    columns: tuple[tuple[str, str], ...]


class Expressions:
    """Writes expressions under settings. `tags`: the constructs written so far."""

    def __init__(self, random: Random, settings: Iterable[str]) -> None:
        self.random, self.settings = random, frozenset(settings)
        self.tags: set[str] = set()

    def chance(self, percent: float) -> bool:
        return self.random.random() * 100 < percent

    def pick(self, choices):
        return self.random.choice(list(choices))

    def name(self, name: str) -> str:
        """A name as written: in quotes or other case where that means the same."""
        if name.startswith("`"):
            return name
        if QUOTED in self.settings and self.chance(30):
            self.tags.add('"name"')
            name = f'"{name}"'
        elif self.chance(10):
            return f"`{name}`"
        if CASED not in self.settings and self.chance(15):
            name = name.upper() if self.chance(50) else name.lower()
        return name

    def column(self, scopes: Sequence[Scope], kinds: Iterable[str] = ()) -> tuple[str, str] | None:
        """A column of these kinds and its kind; None if there is none."""
        wanted = set(kinds) or set(KINDS)
        found = [(one.alias, name, kind) for one in scopes for name, kind in one.columns if kind in wanted]
        if not found:
            return None
        alias, name, kind = self.pick(found)
        return f"{self.name(alias)}.{self.name(name)}", kind

    def any_column(self, scopes: Sequence[Scope]) -> tuple[str, str]:
        found = self.column(scopes)
        assert found is not None
        return found

    def literal(self, kind: str) -> str:
        text = self.pick(KINDS[kind].values)
        if text.startswith("'") and QUOTED not in self.settings and self.chance(20):
            self.tags.add('"text"')
            return f'"{text[1:-1]}"'
        return text

    def pattern(self, pattern: str) -> str:
        """A literal with backslashes."""
        self.tags.add("backslash")
        return "'" + (pattern if ESCAPED in self.settings else pattern.replace("\\", "\\\\")) + "'"

    # Values.

    def value(self, scopes: Sequence[Scope], kind: str | None = None) -> tuple[Expr, str]:
        """An expression and its kind, of the kind wanted if there is one."""
        if kind is not None:
            return self._of_kind(scopes, kind), kind
        if self.chance(45):
            text, kind = self.any_column(scopes)
            return expr(text), kind
        maker = self.pick(
            (self.number, self.fraction, self.text, self.truth, self.day, self.nested, self.json, self.either)
        )
        made = maker(scopes)
        if made is None:
            text, kind = self.any_column(scopes)
            return expr(text), kind
        return made

    def _of_kind(self, scopes: Sequence[Scope], kind: str) -> Expr:
        found = self.column(scopes, (kind,))
        if found is not None:
            if self.chance(15) and kind not in ("map", "char", "varchar"):
                return expr("coalesce(", found[0], ", ", self.literal(kind), ")")
            return expr(found[0])
        return expr(f"CAST({self.literal(kind)} AS {KINDS[kind].sql})" if kind not in TEXTS else self.literal(kind))

    def number(self, scopes):
        one, other = self.column(scopes, NUMBERS), self.column(scopes, NUMBERS)
        if one is None or other is None:
            return None
        self.tags.add("arithmetic")
        whole = {one[1], other[1]} <= WHOLE
        match self.random.randrange(7):
            case 0:
                return expr(f"{one[0]} + {other[0]}"), "whole" if whole else "amount"
            case 1:
                return expr(f"{one[0]} * {other[0]} - 1"), "whole" if whole else "amount"
            case 2:
                return expr(f"{one[0]} % 3"), "long" if one[1] in WHOLE else "wide"
            case 3:
                self.tags.add("division")
                return expr(f"{one[0]} / 4"), "ratio" if one[1] in WHOLE else "amount"
            case 4:
                return expr(f"abs(-{one[0]})"), one[1]
            case 5:
                return expr(f"CAST({one[0]} AS STRING)"), "number" if one[1] in ("int", "long") else "phrase"
            case _:
                return expr(f"round({one[0]}, 1)"), "long" if one[1] in WHOLE else "wide"

    def fraction(self, scopes):
        """A floating-point number: NaN and both zeros are among them."""
        found = self.column(scopes, ("double", "ratio"))
        number = self.column(scopes, NUMBERS)
        if found is None and number is None:
            return None
        self.tags.add("fraction")
        if found is None or (number is not None and self.chance(40)):
            assert number is not None
            one, nan = f"CAST({number[0]} AS DOUBLE)", "CAST('NaN' AS DOUBLE)"
            forms: tuple[str, ...] = (
                f"{one} / 2",
                f"({one} - 2) * -0.0D",
                f"CASE WHEN {one} > 2 THEN {nan} ELSE {one} - 1 END",
            )
        else:
            forms = (
                f"{found[0]} / 2",
                f"-{found[0]}",
                f"{found[0]} * 0",
                f"nanvl({found[0]}, -0.0D)",
                f"{found[0]} - 1",
            )
        return expr(self.pick(forms)), "ratio"

    def text(self, scopes):
        one, other = self.column(scopes, TEXTS), self.column(scopes, (*TEXTS, "int", "decimal"))
        if one is None or other is None:
            return None
        self.tags.add("text function")
        match self.random.randrange(7):
            case 0:
                return expr(f"upper({one[0]})"), "phrase"
            case 1:
                return expr(f"{one[0]} || '-' || {other[0]}"), "phrase"
            case 2:
                return expr(f"substring({one[0]}, 1, 1)"), "text"
            case 3:
                return expr(f"length({one[0]})"), "int"
            case 4:
                return expr(f"concat_ws({self.literal('text')}, {one[0]}, {other[0]})"), "phrase"
            case 5:
                return expr(f"regexp_replace({one[0]}, {self.pattern(chr(92) + 'd')}, '#')"), "phrase"
            case _:
                return expr(f"nvl(trim({one[0]}), 'none')"), "text"

    def truth(self, scopes):
        return expr("(", self.simple_condition(scopes), ")"), "truth"

    def day(self, scopes):
        day, time = self.column(scopes, ("date",)), self.column(scopes, ("time", "wall"))
        if day is None and time is None:
            return None
        self.tags.add("date or time")
        if time is not None and (day is None or self.chance(50)):
            return self.pick(
                (
                    (expr(f"CAST({time[0]} AS DATE)"), "date"),
                    (expr(f"hour({time[0]})"), "whole"),
                    (expr(f"date_format({time[0]}, 'yyyy-MM-dd HH')"), "phrase"),
                    (expr(f"date_trunc('DAY', {time[0]})"), time[1]),
                    (expr(f"CAST({time[0]} AS STRING)"), "phrase"),
                    (expr(f"{time[0]} + INTERVAL '90' MINUTE"), time[1]),
                )
            )
        assert day is not None
        return self.pick(
            (
                (expr(f"date_add({day[0]}, 1)"), "date"),
                (expr(f"year({day[0]})"), "whole"),
                (expr(f"trunc({day[0]}, 'MM')"), "date"),
                (expr(f"CAST({day[0]} AS TIMESTAMP)"), "time"),
                (expr(f"datediff({day[0]}, DATE '2000-01-01')"), "whole"),
                (expr(f"current_date() > {day[0]}"), "truth"),
            )
        )

    def nested(self, scopes):
        found = self.column(scopes, ("struct", "array", "map"))
        if found is None:
            return None
        text, kind = found
        self.tags.add(f"nested {kind}")
        if kind == "struct":
            field = "orderQty" if CASED in self.settings else self.pick(("orderQty", "ORDERQTY"))
            return self.pick(
                (
                    (expr(f"{text}.{field}"), "int"),
                    (expr(f"to_json({text})"), "phrase"),
                    (expr(f"{text}.Tag"), "text"),
                )
            )
        if kind == "array":
            return self.pick(
                (
                    (expr(f"get({text}, 0)"), "int"),
                    (expr(f"size({text})"), "whole"),
                    (expr(f"transform({text}, x -> x + 1)"), "array"),
                    (expr(f"filter({text}, x -> x > 1)"), "array"),
                    (expr(f"array_contains({text}, 2)"), "truth"),
                )
            )
        return self.pick(
            (
                (expr(f"try_element_at({text}, 'x')"), "int"),
                (expr(f"map_contains_key({text}, 'Y')"), "truth"),
                (expr(f"size({text})"), "whole"),
            )
        )

    def json(self, scopes):
        one, other = self.column(scopes, ("int", "long", "text")), self.column(scopes, ("int", "text", "decimal"))
        if one is None or other is None:
            return None
        self.tags.add("json")
        return self.pick(
            (
                (expr(f"to_json(struct({one[0]} AS orderId, {other[0]} AS Inner_One))"), "phrase"),
                (expr(f"to_json(named_struct('lineNo', {one[0]}, 'line', {other[0]}))"), "phrase"),
                (expr(f"named_struct('Qty', {one[0]}).qty" if CASED not in self.settings else one[0]), one[1]),
            )
        )

    def either(self, scopes):
        kind = self.pick(("int", "text", "decimal", "date"))
        self.tags.add("case")
        one, other = self._of_kind(scopes, kind), self._of_kind(scopes, kind)
        condition = self.simple_condition(scopes)
        if self.chance(50):
            return expr("CASE WHEN ", condition, " THEN ", one, " ELSE ", other, " END"), kind
        return expr("coalesce(", one, ", ", other, ")"), kind

    # Conditions.

    def equality(self, new: Scope, others: Sequence[Scope]) -> Expr:
        """A condition that joins a new source to the others."""
        if self.chance(62):
            mine, other = self.column([new], ("int",)), self.column(others, ("int",))
            if mine is not None and other is not None:
                return expr(f"{mine[0]} = {other[0]}")
        pair = self.alike(others, new)
        if pair is None:
            return self.weak_condition([new, *others])
        other, mine, kind = pair
        self.tags.add(f"join on {KINDS[kind].family}")
        word = "<=>" if self.chance(10) else "="
        if word == "<=>":
            self.tags.add("<=>")
        sides = (mine, other) if self.chance(50) else (other, mine)
        return expr(f"{sides[0]} {word} {sides[1]}")

    def alike(
        self, scopes: Sequence[Scope], new: Scope, kinds: Iterable[str] = tuple(KINDS)
    ) -> tuple[str, str, str] | None:
        """A column of the scopes, one of a new source that may be equal, and the kind of that; None if there is none.

        Most are of one kind and not computed, so that some of their values are equal.
        """
        possible = [kind for kind in kinds if self.chance(10) or kind not in COMPUTED]
        there = {kind for _, kind in new.columns}
        for kind in self.random.sample(possible, len(possible)):
            if kind not in there or not KINDS[kind].family:
                continue
            family = [other for other in possible if KINDS[other].family == KINDS[kind].family]
            other = (self.column(scopes, (kind,)) if self.chance(60) else None) or self.column(scopes, family)
            mine = self.column([new], (kind,))
            if other is not None and mine is not None:
                return other[0], mine[0], kind
        return None

    def strict_condition(self, scopes: Sequence[Scope]) -> Expr:
        """A condition that few rows meet."""
        found = self.column(scopes, [kind for kind, one in KINDS.items() if one.family and len(one.values) > 2])
        if found is None or self.chance(15):
            return expr(f"{(found or self.any_column(scopes))[0]} IS NULL")
        return expr(f"{found[0]} = {self.literal(found[1])}")

    def weak_condition(self, scopes: Sequence[Scope]) -> Expr:
        """A condition that most rows meet."""
        text, kind = self.any_column(scopes)
        if not KINDS[kind].sorts or kind in ("struct", "array"):
            return expr(f"{text} IS NOT NULL")
        number = self.column(scopes, KEYLIKE)
        match self.random.randrange(7):
            case 0 if len(KINDS[kind].values) > 2:
                return expr(f"{text} <> {self.literal(kind)}")
            case 1:
                return expr(f"{text} >= {min(KINDS[kind].values)}")
            case 2:
                return expr(f"({text} IN ({', '.join(sorted(KINDS[kind].values)[:4])}) OR {text} IS NULL)")
            case 3:
                return expr(f"coalesce({text}, {self.literal(kind)}) IS NOT NULL")
            case 4 if number is not None:
                return expr(f"{number[0]} BETWEEN 1 AND 4")
            case 5 if number is not None:
                return expr(f"{number[0]} < 5")
            case _:
                return expr(f"{text} IS NOT NULL")

    def fraction_condition(self, text: str) -> Expr:
        """A condition on a floating-point column: NaN is larger than all other numbers, and both zeros are equal."""
        self.tags.add("filter on a fraction")
        forms = (">= 2.5D", "> 2.25D", "= CAST('NaN' AS DOUBLE)", "= 0.0D", "<= 0", "IN (0.0D, 2.0D)", "> -0.0D")
        return expr(f"{text} {self.pick(forms)}")

    def simple_condition(self, scopes: Sequence[Scope]) -> Expr:
        """A condition without subqueries that many rows meet."""
        text, kind = self.any_column(scopes)
        family = KINDS[kind].family
        same = self.column(scopes, [name for name, one in KINDS.items() if family and one.family == family])
        if kind in ("struct", "array", "map"):
            made = self.nested(scopes)
            if made is not None and made[1] == "truth":
                return made[0]
            return expr(f"{text} IS {self.pick(('', *MOSTLY_NOT))}NULL")
        if kind in ("double", "ratio") and self.chance(60):
            return self.fraction_condition(text)
        if kind == "folded" and self.chance(40):
            return expr(self.pick((f"startswith({text}, 'A')", f"{text} LIKE 'a%'", f"{text} <= 'B'")))
        match self.random.randrange(12):
            case 0 | 1:
                return expr(f"{text} {self.pick(('=', '<>', '<>', '<', '>=', '>='))} {self.literal(kind)}")
            case 2:
                return expr(f"{text} {self.pick(('', 'NOT '))}IN ({self.literal(kind)}, {self.literal(kind)})")
            case 3:
                return expr(f"{text} IS {self.pick(('', *MOSTLY_NOT))}NULL")
            case 4 if same is not None:
                return expr(f"{text} {self.pick(('<=>', '<=', '<=', '<>', '<>', '='))} {same[0]}")
            case 5:
                text, _ = self.column(scopes, ("text", "char", "varchar", "number")) or ("'a'", "text")
                self.tags.add("pattern")
                digit, escaped, letter = map(self.pattern, (r"\d", r"\_%", r"[a-z]\w?"))
                how = self.pick(
                    ("LIKE 'a%'", "NOT LIKE '%1'", f"NOT RLIKE {digit}", f"NOT LIKE {escaped}", f"RLIKE {letter}")
                )
                return expr(f"{text} {how}")
            case 6:
                one, other = self.column(scopes, NUMBERS), self.column(scopes, NUMBERS)
                if one and other:
                    return expr(f"{one[0]} + {other[0]} {self.pick(('< 6', '> 2', '<> 4'))}")
                return expr(f"{text} IS NOT NULL")
            case 7:
                return expr("NOT (", self.weak_condition(scopes), " AND ", self.simple_condition(scopes), ")")
            case 8:
                return expr("(", self.weak_condition(scopes), " OR ", self.simple_condition(scopes), ")")
            case 9 if self.chance(50):
                self.tags.add("OR of pairs")
                one, other = scopes[0], scopes[-1]
                arms = [expr(self.weak_condition([one]), " AND ", self.weak_condition([other])) for _ in range(2)]
                return expr("((", arms[0], ") OR (", arms[1], "))")
            case 9:
                common = self.weak_condition(scopes)
                self.tags.add("OR with a common part")
                first, second = (expr("(", common, " AND ", self.simple_condition(scopes), ")") for _ in range(2))
                return expr("(", first, " OR ", second, ")")
            case 10 if "ansi off" in self.settings or "size of null" in self.settings:
                number, code = self.column(scopes, ("int", "decimal")), self.column(scopes, ("number", "char"))
                if number and code:
                    self.tags.add("text against number")
                    return expr(f"{number[0]} = {code[0]}")
                return self.weak_condition(scopes)
            case 10:
                number, code = self.column(scopes, ("int", "decimal")), self.column(scopes, ("number",))
                if number and code:
                    self.tags.add("text against number")
                    return expr(f"{number[0]} <> {code[0]}")
                return self.weak_condition(scopes)
            case _:
                return expr(self.pick(("1 = 1", "TRUE", "2 > 1", "NULL IS NULL")))
