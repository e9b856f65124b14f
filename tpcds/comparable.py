"""Give a query the same meaning on every engine, so that answers can be compared exactly.

The published texts leave open the order of rows that tie in the ORDER BY (and which of them a LIMIT returns), and the
types of quotients and averages. Each function here closes one such gap in the syntax tree, from which both engines'
texts are rendered. Sums are then over decimals or integers and so exact in any order; each quotient is one IEEE
operation on exact operands. Only `stddev_samp` and sums of quotients still depend on the order of evaluation.
"""

from sqlglot import exp

# Digits before rounding a quotient: a double represents them exactly up to 10^7, more than any ratio here.
ROUNDING = "DECIMAL(28, 8)"


def comparable(query: exp.Query, width: int) -> exp.Query:
    """The query with a total order and explicit arithmetic; `width` is its number of columns."""
    tree = query.copy()
    order_totally(tree, width)
    divide_after_summing(tree)
    divide_as_doubles(tree)
    average_as_quotient(tree)
    round_decimals(tree)
    return tree


def order_totally(query: exp.Query, width: int) -> None:
    """Append every output column that is not yet a sort key to the ORDER BY, by position."""
    order = query.args.get("order") or exp.Order(expressions=[])
    ordered = _ordered_positions(query, order)
    for position in range(1, width + 1):
        if position not in ordered:
            key = exp.Ordered(this=exp.Literal.number(position), nulls_first=False)
            order.append("expressions", key)
    query.set("order", order)


def divide_after_summing(query: exp.Query) -> None:
    """Rewrite SUM(x / 2) as SUM(x) / 2, which sums decimals instead of doubles."""
    for total in list(query.find_all(exp.Sum)):
        summed = total.this.unnest()
        if isinstance(summed, exp.Div) and isinstance(summed.expression, exp.Literal):
            total.replace(exp.Div(this=exp.Sum(this=summed.this.unnest()), expression=summed.expression))


def divide_as_doubles(query: exp.Query) -> None:
    """Rewrite a / b as CAST(a AS DOUBLE) / b, DuckDB's semantics; Spark divides decimals as decimals."""
    for quotient in query.find_all(exp.Div):
        if not isinstance(quotient.this.unnest(), exp.Div):
            quotient.set("this", exp.cast(quotient.this.unnest(), "DOUBLE"))


def average_as_quotient(query: exp.Query) -> None:
    """Rewrite AVG(x) as (CAST(SUM(x) AS DOUBLE) / COUNT(x)); Spark rounds averages of decimals to six digits."""
    for average in list(query.find_all(exp.Avg)):
        term = average.parent if isinstance(average.parent, exp.Window) else average
        total = _in_place_of(average, term, exp.Sum(this=average.this.copy()))
        number = _in_place_of(average, term, exp.Count(this=average.this.copy()))
        term.replace(exp.paren(exp.Div(this=exp.cast(total, "DOUBLE"), expression=number), copy=False))


def round_decimals(query: exp.Query) -> None:
    """Rewrite ROUND(x, n) as ROUND(CAST(x AS DECIMAL), n): engines round doubles such as 1.025 differently."""
    for rounded in query.find_all(exp.Round):
        rounded.set("this", exp.cast(rounded.this, ROUNDING))


def _in_place_of(average: exp.Avg, term: exp.Expression, function: exp.Expression) -> exp.Expression:
    if term is average:
        return function
    window = term.copy()
    window.set("this", function)
    return window


def _ordered_positions(query: exp.Query, order: exp.Order) -> set[int]:
    keys = [key.this for key in order.expressions]
    positions = {int(key.name) for key in keys if isinstance(key, exp.Literal)}
    if query.is_star:
        return positions
    key_texts = {key.sql() for key in keys}
    for position, column in enumerate(query.selects, 1):
        if column.alias_or_name in key_texts or column.unalias().sql() in key_texts:
            positions.add(position)
    return positions
