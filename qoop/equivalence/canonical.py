"""A relation's canonical text: equal texts are equal relations, whatever the order of joins and conditions."""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from qoop.equivalence.conditions import Conditions, settle
from qoop.equivalence.expression import FALSE, Expr, columns
from qoop.equivalence.relation import Block, Relation, Side, Source
from qoop.equivalence.translate import PASSED_ON

LONG = 120
"""Texts of columns longer than this are given by their hash: expressions over expressions grow fast."""


def canonical_text(relation: Relation) -> str:
    """The canonical text of a relation."""
    return _Writer(settle(relation), _uses(relation)).relation(relation, 0)


NO_ROWS_FROM_NONE = {"aggregate", "union", "expand", *PASSED_ON}
"""Operators without rows if their inputs have none."""


class _Writer:
    """Names the sources of each block, inner blocks first, and writes expressions with these names."""

    def __init__(self, conditions: dict[int, Conditions], uses: dict[int, list[Expr]]) -> None:
        self._conditions = conditions
        self._uses = uses
        self._names: dict[int, str] = {}
        self._same: dict[Expr, frozenset[Expr]] = {}

    def relation(self, relation: Relation, depth: int, uses: Iterable[Expr] = ()) -> str:
        """The text of a relation. `uses`: what is made of its columns outside, which tells equal sources apart."""
        block = relation.block
        if self._is_empty(block):
            return "(empty)"
        conditions = self._conditions[id(block)]
        for members in conditions.classes:
            for member in members:
                self._same[member] = conditions.same(member)
        closed = {one.identity: self._closed(one, depth) for one in block.parts()}
        self._name(relation, uses, closed, depth)
        names = self._names
        parts = [
            *sorted(f"{names[one.identity]}={closed[one.identity]}" for one in block.parts()),
            "equal " + " ".join(sorted(self.write(("class", members), depth) for members in conditions.classes)),
            "where " + " and ".join(sorted(self._all(conditions.others, depth))),
            *sorted(
                f"on {names[side.identity]}: " + " and ".join(sorted(self._all(side.condition, depth)))
                for side in block.sides
            ),
            "select " + ", ".join(self._all(relation.outputs, depth)),
        ]
        return "(" + "; ".join(parts) + ")"

    def _closed(self, source: Source | Side, depth: int) -> str:
        """The text of a source or side by itself, without what relates it to others in its block."""
        if isinstance(source, Side):
            # Which of its columns could be read says nothing: those that are read are written where that is.
            rows = Relation(source.relation.block, ())
            return f"{source.kind}{self.relation(rows, depth + 1, self._uses.get(source.identity, ()))}"
        self._names[source.identity] = "itself"
        uses = (source.key, *self._uses.get(source.identity, ()))
        inner = [relation for relation in source.inputs if source.kind != "union" or not self._is_empty(relation.block)]
        if source.kind == "FullOuter":
            inner = [Relation(relation.block, ()) for relation in inner]
        inputs = " ".join(self.relation(relation, depth + 1, uses) for relation in inner)
        return f"{source.kind}[{self.write(source.key, depth + 1)}]{inputs}"

    def _is_empty(self, block: Block) -> bool:
        """Whether a block certainly has no rows. An aggregate without groups has one, whatever it reads."""
        if FALSE in self._conditions[id(block)].others:
            return True
        return any(
            source.inputs
            and source.key != (frozenset(),)
            and source.kind in NO_ROWS_FROM_NONE
            and all(self._is_empty(relation.block) for relation in source.inputs)
            for source in block.sources
        )

    def _all(self, exprs: Iterable[Expr], depth: int) -> list[str]:
        return [self.write(expr, depth) for expr in exprs]

    def _name(self, relation: Relation, uses: Iterable[Expr], closed: dict[int, str], depth: int) -> None:
        """Name sources and sides by what they are; equal ones by how they are used, then by their alias."""
        block, conditions = relation.block, self._conditions[id(relation.block)]
        colours = {identity: _hash(text) for identity, text in closed.items()}
        exprs = [*conditions.others, *(("class", members) for members in conditions.classes)]
        exprs += [("output", place, output) for place, output in enumerate(relation.outputs)]
        exprs += [("on", side.identity, side.condition) for side in block.sides]
        exprs += [use for use in uses if any(columns(use))]
        for _ in range(len(colours)):
            tied = {identity for identity, times in _times(colours).items() if times > 1}
            if not tied:
                break
            refined = {one: self._used(one, exprs, colours, depth) for one in tied}
            if len(set(refined.values())) == len({colours[one] for one in tied}):
                break
            colours |= refined
        aliases = {source.identity: source.alias for source in block.sources}
        ordered = sorted(colours, key=lambda identity: (colours[identity], aliases.get(identity, ""), identity))
        self._names |= {identity: f"{chr(ord('a') + depth)}{place}" for place, identity in enumerate(ordered)}

    def _used(self, identity: int, exprs: list[Expr], colours: dict[int, str], depth: int) -> str:
        names, self._names = self._names, self._names | colours | {identity: "*"}
        try:
            used = [
                self.write(expr, depth)
                for expr in exprs
                if any(column[1] == identity for column in columns(expr)) or (expr[0] == "on" and expr[1] == identity)
            ]
        finally:
            self._names = names
        return _hash(colours[identity] + "|".join(sorted(set(used))))

    def write(self, expr: Any, depth: int) -> str:
        """The text of an expression."""
        if isinstance(expr, Relation):
            # Its names are of use only inside it.
            names = dict(self._names)
            text = self.relation(expr, depth + 1)
            self._names = names
            return text
        if isinstance(expr, frozenset):
            return "{" + ",".join(sorted(self.write(part, depth) for part in expr)) + "}"
        if not isinstance(expr, tuple):
            return repr(expr)
        if expr and expr[0] in ("column", "cast"):
            return min(self._member(member, depth) for member in self._same.get(expr, (expr,)))
        if expr and expr[0] == "one of":
            return min(self._member(member, depth) for member in expr[1])
        if expr and expr[0] == "coalesce":
            return self._coalesce(expr[1], depth)
        if expr and expr[0] == "class":
            return "{" + ",".join(sorted(self._member(member, depth) for member in expr[1])) + "}"
        if expr and expr[0] == "on":
            return f"on {self._names[expr[1]]} {self.write(expr[2], depth)}"
        return self._parts(expr, depth)

    def _parts(self, expr: Expr, depth: int) -> str:
        return "(" + " ".join(self.write(part, depth) for part in expr) + ")"

    def _member(self, member: Expr, depth: int) -> str:
        """The text of a member of an equality class."""
        return self._column(member, depth) if member[0] == "column" else self._parts(member, depth)

    def _coalesce(self, operands: tuple[Expr, ...], depth: int) -> str:
        """COALESCE up to the first operand that is not NULL, as a column of an equality class."""
        texts: list[str] = []
        for operand in operands:
            texts.append(self.write(operand, depth))
            if operand in self._same or operand[0] == "one of":
                break
        distinct = list(dict.fromkeys(texts))
        return distinct[0] if len(distinct) == 1 else f"(coalesce {' '.join(distinct)})"

    def _column(self, column: Expr, depth: int) -> str:
        key = self.write(column[2], depth)
        return f"{self._names.get(column[1], 'nothing')}.{key if len(key) <= LONG else _hash(key)}"


def _uses(relation: Relation) -> dict[int, list[Expr]]:
    """What is read of each source and side anywhere: the keys of its columns, by the identity."""
    keys_of: dict[int, list[Expr]] = {}
    # By id, as expressions share their parts, and all are kept by the relation.
    seen: set[int] = set()
    pending: list[Any] = [relation]
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        match part:
            case Relation(block, outputs):
                pending += [outputs, *block.conditions]
                pending += [one for source in block.sources for one in (source.key, *source.inputs)]
                pending += [one for side in block.sides for one in (side.condition, side.relation)]
            case ("column", identity, key, _):
                keys_of.setdefault(identity, []).append(key)
                pending.append(key)
            case tuple() | frozenset():
                pending += part
    return keys_of


def _times(colours: dict[int, str]) -> dict[int, int]:
    times = Counter(colours.values())
    return {identity: times[colour] for identity, colour in colours.items()}


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=12).hexdigest()
