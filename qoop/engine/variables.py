"""The session variables that a query reads, with the values that Spark has read them with."""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from qoop.as_written.causes import Construct, Unsupported
from qoop.engine.scala import is_cut, objects_in, printed
from qoop.errors import CannotSplitError

REFERENCE = "variablereference("
"""How Spark prints one."""

SUFFIXES = {"integer": "", "long": "L", "short": "S", "byte": "Y"}
"""How a literal of a type of integers ends."""

Variables = Mapping[tuple[str, ...], str]
"""The literals of variables, by the parts of their names as the query has them, in lower case."""


def variables_read(written: DataFrame) -> Variables:
    """The variables that a query reads, each as a literal of the same type.

    Raises:
        CannotSplitError: one has a type of which no literals are written here.
    """
    plan = written._jdf.queryExecution().analyzed()
    text = printed(plan)
    if REFERENCE not in text and not is_cut(text):
        return {}
    found: dict[tuple[str, ...], str] = {}
    for node in objects_in(json.loads(plan.toJSON())):
        if str(node.get("class", "")).endswith(".VariableReference"):
            name = str(node["originalNameParts"]).strip("[]")
            found[tuple(part.strip().lower() for part in name.split(","))] = _literal(name, node["varDef"])
    return found


def _literal(name: str, definition: Any) -> str:
    (current,) = definition["currentValue"]
    kind, value = current["dataType"], current.get("value")
    match kind:
        case _ if value is None:
            pass
        case "string":
            return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
        case "boolean":
            return str(value).upper()
        case "date":
            return f"DATE '{value}'"
        case _ if kind in SUFFIXES:
            return f"{value}{SUFFIXES[kind]}"
    raise CannotSplitError(Unsupported(Construct.VARIABLE, name))
