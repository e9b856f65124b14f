"""Translate an analysed Spark plan into blocks."""

import re
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from qoop.equivalence.expression import (
    Expr,
    all_of,
    among,
    any_of,
    conjuncts,
    equal,
    floating_text,
    has_subquery,
    integer_sum,
    is_constant,
    is_not_null,
    is_number,
    is_plain_date,
    less,
    minus,
    negated,
    number_literal,
    type_of,
)
from qoop.equivalence.relation import Block, Relation, Side, Source
from qoop.equivalence.spark_tree import Node, UnverifiableError

PASSED_ON = {"Sort", "GlobalLimit", "LocalLimit", "Offset", "Tail", "Distinct", "Window", "Deduplicate"}
"""Operators that keep the columns of their input."""

WITHOUT_MEANING = {"exprId", "nullable"}
"""Fields of expressions that identify or follow from the others."""

AS_WRITTEN = {"GetStructField": {"name"}, "CaseWhen": {"branches", "elseValue"}}
"""Fields, by class, that say nothing more: a struct's field is found by its place, whatever the case of its name; the
conditions and values of CASE are its operands, in order, the ELSE being the last of an odd number."""

TIMES = {
    "CurrentDate", "CurrentTimestamp", "CurrentTimestampNanos", "Now", "LocalTimestamp", "LocalTimestampNanos",
    "CurrentTime",
}  # fmt: skip
"""Expressions that have one value in each job, which may not be the same in all stages."""

DATES_AND_TIMES = {"date", "timestamp", "timestamp_ntz"}

MOMENT = re.compile(r"\W*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
"""How a text starts that Spark takes for a moment; in a literal of a date or time it is evaluated by the parser."""

TIME_OF_DAY = re.compile(r"\s*T?\d{1,2}:", re.IGNORECASE)
"""How a text starts that Spark takes for a time of the current date, where a timestamp is expected."""

NO_TEXT = re.compile(r"^(?!.*(Format|From)).*(Date|Time|Day|Month|Micros|Millis|Seconds)")
"""Spark's functions whose result is no text, but a date, a time or a number."""

VOID = re.compile(r"^void$|: 'void'")
"""The type of `NULL` by itself, also as the type of a field, of items, keys or values."""

RANDOM = {
    "AesEncrypt": "aes_encrypt",
    "KllSketchMergeBigint": "kll_sketch_merge_bigint",
    "KllSketchMergeFloat": "kll_sketch_merge_float",
    "KllSketchMergeDouble": "kll_sketch_merge_double",
}
"""Expressions that Spark calls deterministic and that have another value each time, by class."""

MAKES_TIMES = re.compile(r"\btime\(|'(MakeTime|ToTime|TryToTime|CurrentTime|TimeAddInterval|TimeTrunc|TimeFrom\w+)'")
"""What is in an expression that may be a time of day: types, and classes of functions."""

GENERATORS = {"Explode", "PosExplode", "Inline", "Stack", "JsonTuple"}
"""Functions that make rows of values alone."""

OUTER = {"LeftOuter", "LeftSemi", "LeftAnti"}

NOT_WRITTEN = {
    ("Like", "escapeChar"),
    ("ILike", "escapeChar"),
    ("ScalaUDF", None),
    ("PythonUDF", None),
    ("StructsToJson", "options"),
    ("NamedLambdaVariable", "value"),
    (None, "evalMode"),
}
"""Arguments that Spark does not write, by class and name (None: any), and that no plan changes."""

SYNONYMS = {"Between", "Nvl"}
"""What the planner writes as that which Spark replaces it by. Others stay apart: `try_add` is a sum that may fail."""

WITHOUT_TYPE = "Spark finds no equal rows by a stored column of type void (NULL AS k)"
"""It does where it knows that the column is NULL: `a.k <=> b.k`, INTERSECT, EXCEPT; also of `a.s.k` and the like."""

MAX_SIZE = 20_000
"""The largest expression, in parts, with all that its columns stand for; each level of a query may double it."""


def translate(plan: Node, tables: Mapping[int, str], constants: Mapping[str, Expr] | None = None) -> Relation:
    """The relation that a plan computes.

    `tables`: the table that each leaf of the plan reads, by the id of the leaf's first column. `constants`: the values
    of expressions for the current date and time, by class and argument.

    Raises:
        UnverifiableError: the plan has an operator that blocks do not cover.
    """
    return _Translator(tables, constants or {}).relation(plan)


class _Translator:
    def __init__(self, tables: Mapping[int, str], constants: Mapping[str, Expr]) -> None:
        self._tables, self._constants = tables, constants
        self._columns: dict[int, Expr] = {}
        self._definitions: dict[int, Node] = {}
        self._common: list[Expr] = []
        self._sizes: dict[int, tuple[Any, int]] = {}
        self._numbers = count(1)

    def relation(self, plan: Node) -> Relation:
        """A plan's relation; the ids in it mean nothing outside, as Spark may give them again."""
        outside = dict(self._columns)
        block = self._block(plan)
        outputs = tuple(self._column(identity) for identity in self._output(plan))
        self._columns = outside
        return Relation(block, outputs)

    def _column(self, identity: int) -> Expr:
        try:
            return self._columns[identity]
        except KeyError:
            raise UnverifiableError("a column comes from an operator that cannot be followed") from None

    def _typed_column(self, attribute: Node) -> Expr:
        """A column, with the type that its readers know; Spark does not write that of an expression with a name."""
        column = self._column(_id(attribute))
        if column[0] == "column" and type_of(column) is None:
            column = self._columns[_id(attribute)] = (*column[:3], _type(attribute.fields.get("dataType")))
        return column

    # Operators

    def _block(self, plan: Node, alias: str = "") -> Block:
        match plan.kind:
            case "SubqueryAlias":
                return self._block(plan.children[0], alias or plan.fields["identifier"]["name"].lower())
            case "View":
                return self._block(plan.children[0], alias)
            case "Project":
                return self._project(plan)
            case "Filter":
                block = self._block(plan.children[0], alias)
                return Block(block.sources, block.conditions | self._conjuncts(plan.fields["condition"]), block.sides)
            case "Join":
                return self._join(plan)
            case "WithCTE":
                *definitions, query = plan.children
                self._definitions |= {node.fields["id"]: node.children[0] for node in definitions}
                return self._block(query, alias)
            case "CTERelationRef":
                return self._reference(plan, alias)
            case "Aggregate":
                return self._aggregate(plan, alias)
            case "Union" | "Intersect" | "Except":
                return self._set_operation(plan, alias)
            case "Expand":
                return self._expand(plan, alias)
            case "Generate":
                return self._generate(plan)
            case kind if kind in PASSED_ON and len(plan.children) == 1:
                return self._passed_on(plan, alias)
            case "OneRowRelation":
                return Block()
        if plan.children:
            raise UnverifiableError(f"operator {plan.kind} cannot be compared")
        return self._leaf(plan, alias)

    def _output(self, plan: Node) -> list[int]:
        """The ids of a plan's columns, in order."""
        match plan.kind:
            case "Project":
                return [_id(item) for item in plan.fields["projectList"]]
            case "Aggregate":
                return [_id(item) for item in plan.fields["aggregateExpressions"]]
            case "Window":
                new = [_id(item) for item in plan.fields["windowExpressions"]]
                return [*self._output(plan.children[0]), *new]
            case "Join":
                left, right = plan.children
                joined = _join_kind(plan) in ("LeftSemi", "LeftAnti")
                return self._output(left) if joined else [*self._output(left), *self._output(right)]
            case "WithCTE":
                return self._output(plan.children[-1])
            case "Union" | "Intersect" | "Except":
                return self._output(plan.children[0])
            case "Generate":
                new = [_id(item) for item in plan.fields["generatorOutput"]]
                return [*self._output(plan.children[0]), *new]
        if isinstance(plan.fields.get("output"), tuple):
            return [_id(item) for item in plan.fields["output"]]
        if len(plan.children) == 1:
            return self._output(plan.children[0])
        if plan.kind == "OneRowRelation":
            return []
        raise UnverifiableError(f"operator {plan.kind} cannot be compared")

    def _source(self, kind: str, key: tuple[Any, ...], inputs: tuple[Relation, ...], alias: str) -> Source:
        return Source(next(self._numbers), kind, key, inputs, alias)

    def _leaf(self, plan: Node, alias: str) -> Block:
        ids = self._output(plan)
        table = self._tables.get(ids[0]) if ids else None
        if table is None:
            raise UnverifiableError(f"relation {plan.kind} cannot be compared")
        source = self._source("table", (table,), (), alias)
        for place, item in enumerate(plan.fields["output"]):
            self._define(item, source, f"{place} {item.fields['name']}")
        return Block([source])

    def _define(self, attribute: Node, source: Source, key: Any) -> None:
        self._columns[_id(attribute)] = ("column", source.identity, key, _type(attribute.fields.get("dataType")))

    def _project(self, plan: Node) -> Block:
        block = self._block(plan.children[0])
        items = plan.fields["projectList"]
        # All are translated before any is defined: a column may keep its id and be read by its neighbours.
        translated = [(_id(item), self._bounded(self.expression(item))) for item in items]
        self._columns |= dict(translated)
        return block

    def _join(self, plan: Node) -> Block:
        left, right = plan.children
        kind = _join_kind(plan)
        condition = plan.fields.get("condition")
        if kind in ("Inner", "Cross"):
            block = self._block(left)
            columns = {identity: self._column(identity) for identity in self._output(left)}
            block = block.joined_with(self._block(right))
            self._columns |= columns
            return Block(block.sources, block.conditions | self._conjuncts(condition), block.sides)
        if kind == "FullOuter":
            return self._full_join(plan)
        if kind == "RightOuter":
            left, right, kind = right, left, "LeftOuter"
        if kind not in OUTER:
            raise UnverifiableError(f"a join of kind {kind} cannot be compared")
        block = self._block(left)
        joined = self.relation(right)
        side = Side(next(self._numbers), kind, joined, frozenset())
        for identity, expr in zip(self._output(right), joined.outputs, strict=True):
            self._columns[identity] = ("column", side.identity, ("joined", expr), type_of(expr))
        side.condition = self._conjuncts(condition)
        return Block(block.sources, block.conditions, [*block.sides, side])

    def _full_join(self, plan: Node) -> Block:
        inputs = tuple(self.relation(child) for child in plan.children)
        source = self._source("FullOuter", (), inputs, "")
        # What holds for the rows of the result does not hold for those that its condition reads.
        self._define_sides(plan, source, inputs, "read")
        source.key = (self._conjuncts(plan.fields.get("condition")),)
        self._define_sides(plan, source, inputs, "joined")
        return Block([source])

    def _define_sides(self, plan: Node, source: Source, inputs: tuple[Relation, ...], tag: str) -> None:
        for place, (child, relation) in enumerate(zip(plan.children, inputs, strict=True)):
            for identity, expr in zip(self._output(child), relation.outputs, strict=True):
                self._columns[identity] = ("column", source.identity, (tag, place, expr), type_of(expr))

    def _reference(self, plan: Node, alias: str) -> Block:
        definition = self._definitions.get(plan.fields["cteId"])
        if definition is None or plan.fields.get("recursive"):
            raise UnverifiableError("a recursive CTE cannot be compared")
        outside = dict(self._columns)
        block = self._block(definition, alias)
        given = [self._column(identity) for identity in self._output(definition)]
        self._columns = outside | dict(zip(self._output(plan), given, strict=True))
        return block

    def _aggregate(self, plan: Node, alias: str) -> Block:
        block = self._block(plan.children[0])
        grouping = [self.expression(item) for item in plan.fields["groupingExpressions"]]
        results = [(item, self._bounded(self.expression(item))) for item in plan.fields["aggregateExpressions"]]
        relation = Relation(block, tuple(grouping))
        source = self._source("aggregate", (frozenset(grouping),), (relation,), alias)
        keys = frozenset(grouping)
        source.functions = tuple(expr for _, expr in results if expr not in keys)
        for item, expr in results:
            if expr[0] == "literal":
                self._columns[_id(item)] = expr
                continue
            kind = _type(item.fields.get("dataType")) or type_of(expr)
            tag = "group" if expr in keys else "result"
            self._columns[_id(item)] = ("column", source.identity, (tag, expr), kind)
        return Block([source])

    def _set_operation(self, plan: Node, alias: str) -> Block:
        if plan.fields.get("byName"):
            raise UnverifiableError("UNION BY NAME cannot be compared")
        inputs = tuple(self.relation(child) for child in plan.children)
        key = (plan.fields.get("isAll"),)
        if plan.kind == "Union":
            inputs = tuple(branch for relation in inputs for branch in _branches(relation))
        source = self._source(plan.kind.lower(), key, inputs, alias)
        for place, identity in enumerate(self._output(plan)):
            kinds = {type_of(relation.outputs[place]) for relation in inputs}
            kind = kinds.pop() if len(kinds) == 1 else None
            if plan.kind != "Union" and _has_void(kind):
                raise UnverifiableError(WITHOUT_TYPE)
            self._columns[identity] = ("column", source.identity, ("place", place), kind)
        return Block([source])

    def _expand(self, plan: Node, alias: str) -> Block:
        projections = plan.fields.get("projections")
        if not isinstance(projections, tuple):
            raise UnverifiableError("the grouping sets cannot be read")
        block = self._block(plan.children[0])
        rows = [[self.expression(item) for item in projection] for projection in projections]
        used = Relation(block, ())
        source = self._source("expand", (len(rows),), (used,), alias)
        for place, item in enumerate(plan.fields["output"]):
            self._define(item, source, ("expanded", tuple(row[place] for row in rows)))
        return Block([source])

    def _generate(self, plan: Node) -> Block:
        """Rows joined to those that a generator makes of each (LATERAL VIEW), which are read as those of a side."""
        if plan.fields.get("unrequiredChildIndex"):
            raise UnverifiableError("a generator whose input is not passed on cannot be compared")
        block = self._block(plan.children[0])
        generator = plan.fields["generator"]
        if generator.kind not in GENERATORS:
            raise UnverifiableError(f"the generator {generator.kind} cannot be compared")
        makes = ("generator", self._bounded(self.expression(generator)))
        kind = "GenerateOuter" if plan.fields["outer"] else "Generate"
        side = Side(next(self._numbers), kind, Relation(Block(), ()), frozenset({makes}))
        for place, item in enumerate(plan.fields["generatorOutput"]):
            key = ("generated", place, makes[1])
            self._columns[_id(item)] = ("column", side.identity, key, _type(item.fields.get("dataType")))
        return Block(block.sources, block.conditions, [*block.sides, side])

    def _passed_on(self, plan: Node, alias: str) -> Block:
        """An operator over the rows of its input: sorts, limits, windows, DISTINCT."""
        child = plan.children[0]
        outside = dict(self._columns)
        inner = Relation(self._block(child), tuple(self._column(identity) for identity in self._output(child)))
        key = tuple(
            (name, self.expression_of_field(value))
            for name, value in sorted(plan.fields.items())
            if name not in ("child", "windowExpressions", *WITHOUT_MEANING)
        )
        new = [(_id(item), self.expression(item)) for item in plan.fields.get("windowExpressions", ())]
        is_distinct = plan.kind == "Distinct"
        seen = Relation(inner.block, inner.outputs if is_distinct else ())
        source = self._source(plan.kind, (*key, frozenset(inner.outputs)) if is_distinct else key, (seen,), alias)
        source.functions = tuple(expr for _, expr in new)
        self._columns = outside
        for identity, expr in zip(self._output(child), inner.outputs, strict=True):
            self._columns[identity] = ("column", source.identity, ("passed", expr), type_of(expr))
        for identity, expr in new:
            self._columns[identity] = ("column", source.identity, ("window", expr), None)
        return Block([source])

    # Expressions

    def _bounded(self, expr: Expr) -> Expr:
        if self._size(expr) > MAX_SIZE:
            raise UnverifiableError("an expression is too large to compare")
        return expr

    def _size(self, expr: Any) -> int:
        """The parts of an expression; shared parts are counted each time, and measured once."""
        if not isinstance(expr, tuple | frozenset):
            return 1
        known = self._sizes.get(id(expr))
        if known is None:
            # The expression is stored too, so that its id is not given to another one.
            known = self._sizes[id(expr)] = (expr, 1 + sum(map(self._size, expr)))
        return known[1]

    def _conjuncts(self, condition: Node | None) -> frozenset[Expr]:
        if not isinstance(condition, Node):
            return frozenset()
        return conjuncts(self.expression(condition))

    def expression(self, node: Node) -> Expr:
        """An expression in normal form."""
        if node.kind not in ("Alias", "Cast") and any(map(_is_void_column, node.children)):
            raise UnverifiableError(WITHOUT_TYPE)
        match node.kind:
            case "AttributeReference":
                return self._typed_column(node)
            case "OuterReference":
                return self.expression(node.fields["e"])
            case "Alias":
                return self.expression(node.children[0])
            case "Literal":
                return _literal(_type(node.fields["dataType"]), node.fields.get("value"))
            case "UnaryMinus":
                operand = self.expression(node.children[0])
                return minus(operand) or self._call(node, (operand,))
            case "Cast":
                return self._cast(node)
            case "And" | "Or":
                left, right = (self.expression(child) for child in node.children)
                return all_of((left, right)) if node.kind == "And" else any_of((left, right))
            case "IsNotNull":
                return is_not_null(self.expression(node.children[0]))
            case "Coalesce":
                return ("coalesce", tuple(self.expression(child) for child in node.children))
            case "Not":
                return negated(self.expression(node.children[0]))
            case "In":
                value, *options = (self.expression(child) for child in node.children)
                return among(value, options)
            case "With":
                return self._with(node)
            case "CommonExpressionRef" if self._common:
                return self._common[-1]
            case "ScalarSubquery" | "Exists" | "ListQuery":
                return self._subquery(node)
            case "VariableReference":
                return self.expression(node.fields["varDef"]["currentValue"])
        if node.kind in ("TruncTimestamp", "TruncDate"):
            return self._call(node, tuple(_lower_case(self.expression(child)) for child in node.children))
        if node.kind in TIMES:
            name = " ".join((node.kind, *(str(child.fields.get("value")) for child in node.children)))
            if name in self._constants:
                return self._constants[name]
            raise UnverifiableError("the current time is read in a view, so each stage would have its own")
        if node.kind in RANDOM:
            raise UnverifiableError(f"{RANDOM[node.kind]} has another value each time")
        if node.kind in COMPARISONS:
            left, right = (self.expression(child) for child in node.children)
            return COMPARISONS[node.kind](left, right)
        if node.kind in ("Add", "Subtract", "Multiply"):
            left, right = (self.expression(child) for child in node.children)
            return integer_sum(node.kind, left, right) or self._call(node, (left, right))
        if isinstance(node.fields.get("replacement"), int):
            # Its other fields are the arguments as first analysed; their columns may have other ids by now.
            replacement = self.expression(node.children[node.fields["replacement"]])
            return replacement if node.kind in SYNONYMS else ("call", node.kind, (), (replacement,))
        return self._call(node, tuple(self.expression(child) for child in node.children))

    def _call(self, node: Node, operands: tuple[Expr, ...]) -> Expr:
        for name, value in node.fields.items():
            hidden = value is None or (isinstance(value, tuple) and None in value)
            if hidden and not {(node.kind, name), (node.kind, None), (None, name)} & NOT_WRITTEN:
                raise UnverifiableError(f"the {name} of {node.kind} cannot be read")
        ignored = WITHOUT_MEANING | AS_WRITTEN.get(node.kind, set())
        details = tuple(
            (name, self.expression_of_field(_places(name, value, operands)))
            for name, value in sorted(node.fields.items())
            if name not in ignored
        )
        return ("call", node.kind, details, operands)

    def _cast(self, node: Node) -> Expr:
        operand, kind = self.expression(node.children[0]), _type(node.fields["dataType"])
        if type_of(operand) == kind:
            return operand
        if (literal := number_literal(kind, operand)) is not None:
            return literal
        if kind == "date" and operand[0] == "literal" and is_plain_date(operand[2]):
            return ("literal", "date", operand[2])
        if kind in DATES_AND_TIMES and _may_be_moment(operand, str(kind)):
            raise UnverifiableError(f"a text that may stand for the current {kind} has another value each time")
        if kind in ("timestamp", "timestamp_ntz") and _may_be_time_of_day(operand):
            raise UnverifiableError("a time of day as a timestamp has the current date, which each stage would read")
        numeric = is_number(kind) and is_number(type_of(operand))
        return ("cast", kind, operand, None if numeric else node.fields.get("timeZoneId"))

    def _with(self, node: Node) -> Expr:
        """An expression that names a part of itself; Spark does not write which name a reference has."""
        body, *definitions = node.children
        if len(definitions) != 1:
            raise UnverifiableError("an expression shares several parts")
        self._common.append(self.expression(definitions[0].children[0]))
        try:
            return self.expression(body)
        finally:
            self._common.pop()

    def _subquery(self, node: Node) -> Expr:
        relation = self.relation(node.fields["plan"])
        if node.kind == "Exists":
            relation = Relation(relation.block, ())
        elif node.kind == "ScalarSubquery" and relation.block.is_one_row:
            # As Spark does first (OptimizeOneRowRelationSubquery).
            return relation.outputs[0]
        return ("subquery", node.kind, relation)

    def expression_of_field(self, value: Any) -> Any:
        """A field's value: trees become expressions."""
        if isinstance(value, Node):
            return self.expression(value)
        if isinstance(value, tuple):
            return tuple(self.expression_of_field(item) for item in value)
        if isinstance(value, Mapping):
            return tuple((name, self.expression_of_field(item)) for name, item in sorted(value.items()))
        return value


def stands_for_moment(text: str, kind: str) -> bool:
    """Whether Spark takes a text, as a value of a type, for the current date or time: 'now', 'today UTC', '12:30'."""
    return MOMENT.match(text) is not None or (kind.startswith("timestamp") and TIME_OF_DAY.match(text) is not None)


def _may_be_moment(operand: Expr, kind: str) -> bool:
    """Whether Spark may take a text for the current date or time, where a value of a type is expected."""
    if operand[0] == "literal":
        return operand[1] == "string" and stands_for_moment(operand[2] or "", kind)
    if not is_constant(operand) or has_subquery(operand) or type_of(operand) not in (None, "string"):
        return False
    return operand[0] != "call" or NO_TEXT.search(operand[1]) is None


def _may_be_time_of_day(operand: Expr) -> bool:
    """Whether a value may be a time of day; of functions the type of the result is not known."""
    kind = type_of(operand)
    return kind.startswith("time(") if kind is not None else MAKES_TIMES.search(repr(operand)) is not None


COMPARISONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "EqualTo": equal,
    "LessThan": lambda left, right: less(left, right, or_equal=False),
    "LessThanOrEqual": lambda left, right: less(left, right, or_equal=True),
    "GreaterThan": lambda left, right: less(right, left, or_equal=False),
    "GreaterThanOrEqual": lambda left, right: less(right, left, or_equal=True),
}


def _id(node: Node) -> int:
    try:
        return int(node.fields["exprId"])
    except KeyError:
        raise UnverifiableError(f"an output column has no id ({node.kind})") from None


def _literal(kind: str | None, value: Any) -> Expr:
    if kind == "binary":
        raise UnverifiableError("Spark does not write the value of a binary literal")
    is_floating = kind in ("float", "double") and isinstance(value, str)
    return ("literal", kind, floating_text(value) if is_floating else value)


def _type(kind: Any) -> str | None:
    """A type's name; nested types as Spark writes them in JSON."""
    return kind if isinstance(kind, str) or kind is None else repr(kind)


def _is_void_column(node: Node) -> bool:
    """Whether an expression is a column of type void, or one of a type with a part that is."""
    return node.kind == "AttributeReference" and _has_void(_type(node.fields.get("dataType")))


def _has_void(kind: str | None) -> bool:
    """Whether a type, or a part of it, is void."""
    return kind is not None and VOID.search(kind) is not None


def _places(name: str, value: Any, operands: tuple[Expr, ...]) -> Any:
    """A field, with the places of equal children as one; it may be a place, or have several."""
    if name == "children" and isinstance(value, tuple):
        return tuple(_first_equal(place, operands) for place in value)
    return _first_equal(value, operands)


def _first_equal(value: Any, operands: tuple[Expr, ...]) -> Any:
    """The place of a child: that of the first equal one, as Spark writes it, which takes `x` and `X` for different."""
    if type(value) is int and 0 <= value < len(operands):
        return operands.index(operands[value])
    return value


def _lower_case(expr: Expr) -> Expr:
    """A text literal in lower case, where its case means nothing."""
    return ("literal", "string", str(expr[2]).lower()) if expr[:2] == ("literal", "string") else expr


def _join_kind(plan: Node) -> str:
    kind = plan.fields["joinType"]
    name = kind.get("object") or kind.get("product-class") or "" if isinstance(kind, Mapping) else str(kind)
    return str(name).rpartition(".")[2].rstrip("$")


def _branches(relation: Relation) -> tuple[Relation, ...]:
    """The branches of a union that is nothing but a branch of another one."""
    block = relation.block
    if len(block.sources) != 1 or block.conditions or block.sides:
        return (relation,)
    source = block.sources[0]
    in_order = [expr[0] == "column" and expr[2] == ("place", place) for place, expr in enumerate(relation.outputs)]
    if source.kind != "union" or not all(in_order) or len(source.inputs[0].outputs) != len(in_order):
        return (relation,)
    return source.inputs
