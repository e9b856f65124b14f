"""Numbers as programs print them: 1e-3, 1,234.5, 91.5%, nan, -inf, tensor(0.5)."""

import math
import re

_FINITE = re.compile(r"[-+]?(?:\d[\d.,_]*|\.\d+)(?:[eE][-+]?\d+)?")
_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}([,_])\d{3}(?:\1\d{3})*(?:\.\d*)?(?:[eE][-+]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[-+]?(?:0|\d{1,3}(?:\.\d{3})+|\d+),\d+(?:[eE][-+]?\d+)?")
_SPECIAL = re.compile(
    r"([-+]?)(?:(nan(?:\((?:ind|snan|q)\))?|1\.#(?:QNAN|SNAN|IND)\d*)|(inf(?:inity)?|1\.#INF\d*))(?![\w.(])",
    re.IGNORECASE,
)
_WRAPPER = re.compile(r"['\"]|\[\s*|(?:tf\.Tensor|tensor|Array|array|(?:np|numpy|jnp)\.\w+)\(\s*\[?\s*")
_AFTER_LIST = re.compile(r"\s*\]")
_OF = re.compile(r"/(\d[\d,]*)(?![\w./])")
_NOT_AFTER = re.compile(r"\w|[-/:.]\w|\s*(?:->|=>|→)")
"""Of a file's name, a time of day, a date, a unit, or an old value with the new one after it."""


def value_at(text: str, start: int) -> float | None:
    """The number that begins there; None: there is none, or not a certain one. `9823/10000` is a part of one."""
    wrapper = _WRAPPER.match(text, start)
    found = _number_at(text, wrapper.end() if wrapper else start)
    if found is None:
        return None
    value, end = found
    if wrapper and "[" in wrapper[0]:
        # A list of several is a history, say.
        return value if _AFTER_LIST.match(text, end) else None
    if share := _OF.match(text, end):
        return _share(text[end - 1], value, float(share[1].replace(",", "")))
    return None if _NOT_AFTER.match(text, end) else value


def parsed(text: str) -> float | None:
    """The number that a whole text is."""
    found = _number_at(text.strip(), 0)
    return found[0] if found is not None and text.strip()[found[1] :] in ("", "%") else None


def whole(text: str) -> int | None:
    """The whole number, not negative, that a text is: `1,000` and `3.0` too."""
    value = parsed(text)
    return int(value) if value is not None and value >= 0 and value.is_integer() else None


def has_decimal_comma(text: str, start: int) -> bool:
    """Whether the number that begins there is written as 0,512 or 1.234,5."""
    token = _FINITE.match(text.replace("\N{MINUS SIGN}", "-"), start)
    written = token[0].rstrip(".,_") if token else ""
    return _DECIMAL_COMMA.fullmatch(written) is not None and _GROUPED.fullmatch(written) is None


def _number_at(text: str, start: int) -> tuple[float, int] | None:
    """The number, and where it ends."""
    if text.startswith("\N{MINUS SIGN}", start):
        text = f"{text[:start]}-{text[start + 1 :]}"
    if special := _SPECIAL.match(text, start):
        return math.nan if special[2] else -math.inf if special[1] == "-" else math.inf, special.end()
    token = _FINITE.match(text, start)
    if token is None or text[token.end() : token.end() + 1].isalnum():
        return None
    written = token[0].rstrip(",_.")
    if not (_PLAIN.fullmatch(written) or _GROUPED.fullmatch(written)):
        return None
    return float(written.replace(",", "").replace("_", "")), start + len(written)


def _share(last: str, part: float, whole_: float) -> float | None:
    is_share = last.isdigit() and part.is_integer() and 0 <= part <= whole_ and whole_ > 0
    return part / whole_ if is_share else None
