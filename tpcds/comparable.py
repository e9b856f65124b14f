"""One meaning for a query on every engine, so that answers can be compared exactly.

The published texts leave open what engines answer differently: rows that the ORDER BY does not tell apart (and which
of them a LIMIT keeps), the type of a quotient and of an average. Each function here closes one such gap, in the
syntax tree of the query; both engines' texts are then written from the same tree. After that all sums are of
decimals or integers, therefore exact in any order of addition; all quotients are one IEEE operation on exact
operands. What is left to differ by the order of evaluation is `stddev_samp` and sums over quotients.
"""

from sqlglot import exp

# Digits kept before a quotient is rounded: a double holds them exactly up to 10^7, more than any ratio here.
ROUNDING = "DECIMAL(28, 8)"


def comparable(query: exp.Query, width: int) -> exp.Query:
    """The query with its order made total and its arithmetic made explicit; `width` is its number of columns."""
    tree = query.copy()
    order_totally(tree, width)
    divide_after_summing(tree)
    divide_as_doubles(tree)
    average_as_quotient(tree)
    round_decimals(tree)
    return tree


def order_totally(query: exp.Query, width: int) -> None:
    """Append every output column that is not yet a sort key to the ORDER BY, by its position."""
    order = query.args.get("order") or exp.Order(expressions=[])
    ordered = _ordered_positions(query, order)
    for position in range(1, width + 1):
        if position not in ordered:
            key = exp.Ordered(this=exp.Literal.number(position), nulls_first=False)
            order.append("expressions", key)
    query.set("order", order)


def divide_after_summing(query: exp.Query) -> None:
    """SUM(x / 2) becomes SUM(x) / 2: the sum is then one of decimals, not of doubles."""
    for total in list(query.find_all(exp.Sum)):
        summed = total.this.unnest()
        if isinstance(summed, exp.Div) and isinstance(summed.expression, exp.Literal):
            total.replace(exp.Div(this=exp.Sum(this=summed.this.unnest()), expression=summed.expression))


def divide_as_doubles(query: exp.Query) -> None:
    """a / b becomes CAST(a AS DOUBLE) / b, as DuckDB means it; Spark would divide decimals as decimals."""
    for quotient in query.find_all(exp.Div):
        if not isinstance(quotient.this.unnest(), exp.Div):
            quotient.set("this", exp.cast(quotient.this.unnest(), "DOUBLE"))


def average_as_quotient(query: exp.Query) -> None:
    """AVG(x) becomes (CAST(SUM(x) AS DOUBLE) / COUNT(x)); Spark would round averages of decimals to six digits."""
    for average in list(query.find_all(exp.Avg)):
        whole = average.parent if isinstance(average.parent, exp.Window) else average
        total = _in_place_of(average, whole, exp.Sum(this=average.this.copy()))
        number = _in_place_of(average, whole, exp.Count(this=average.this.copy()))
        whole.replace(exp.paren(exp.Div(this=exp.cast(total, "DOUBLE"), expression=number), copy=False))


def round_decimals(query: exp.Query) -> None:
    """ROUND(x, n) becomes ROUND(CAST(x AS DECIMAL), n): engines disagree on doubles such as 1.025 only."""
    for rounded in query.find_all(exp.Round):
        rounded.set("this", exp.cast(rounded.this, ROUNDING))


def _in_place_of(average: exp.Avg, whole: exp.Expression, function: exp.Expression) -> exp.Expression:
    if whole is average:
        return function
    window = whole.copy()
    window.set("this", function)
    return window


def _ordered_positions(query: exp.Query, order: exp.Order) -> set[int]:
    keys = [key.this for key in order.expressions]
    positions = {int(key.name) for key in keys if isinstance(key, exp.Literal)}
    if query.is_star:
        return positions
    written = {key.sql() for key in keys}
    for position, column in enumerate(query.selects, 1):
        if column.alias_or_name in written or column.unalias().sql() in written:
            positions.add(position)
    return positions
