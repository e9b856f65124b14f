"""A script's statements: its text divided at semicolons, as Spark's own command line does."""

import re
from dataclasses import dataclass

PART = re.compile(
    r"""
    (?P<raw>[rR](?:'[^']*'?|"[^"]*"?))
  | (?P<quoted>'(?:\\.|[^'\\])*'?|"(?:\\.|[^"\\])*"?|`[^`]*`?)
  | (?P<line_comment>--[^\n]*)
  | (?P<opens>/\*)
  | (?P<word>\w+)
  | (?P<end>;)
  | (?P<space>\s+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
"""What a semicolon may be in, and what it may be; a quote that is not closed goes on to the end."""

BRACKET = re.compile(r"/\*|\*/")

OPENS_BLOCK = {"BEGIN", "CASE", "LOOP", "REPEAT", "DO"}
"""Words of a script block (BEGIN ... END) up to whose END semicolons belong to it. WHILE and FOR have a DO."""


@dataclass(frozen=True, slots=True)
class ScriptStatement:
    """A statement without the comments before it, and the line that it begins at, from 1."""

    text: str
    line: int


def statements_of(text: str) -> list[ScriptStatement]:
    """All statements of a script; the last one needs no semicolon."""
    statements, rest = divide(text)
    return [*statements, rest] if rest.text else statements


def divide(text: str) -> tuple[list[ScriptStatement], ScriptStatement]:
    """The statements that end with a semicolon, and what follows them."""
    statements: list[ScriptStatement] = []
    begins: int | None = None
    block = _Block()
    position = 0
    while position < len(text):
        part = PART.match(text, position)
        assert part is not None
        kind, position = part.lastgroup, part.end()
        if kind == "opens":
            position = _after_comment(text, position)
        elif kind == "end" and not block.is_open:
            statements += [] if begins is None else [_statement(text, begins, part.start())]
            begins, block = None, _Block()
        elif kind not in ("space", "line_comment"):
            begins = part.start() if begins is None else begins
            block.take(part[0].upper())
    end = ScriptStatement("", _line(text, len(text))) if begins is None else _statement(text, begins, len(text))
    return statements, end


class _Block:
    """How many blocks are open in a statement; none in one that does not begin with BEGIN."""

    def __init__(self) -> None:
        self._depth, self._before, self._is_script = 0, "", None

    _is_script: bool | None

    @property
    def is_open(self) -> bool:
        return self._depth > 0

    def take(self, word: str) -> None:
        """Take the next part of the statement, in upper case."""
        if self._is_script is None:
            self._is_script = word == "BEGIN"
        before, self._before = self._before, word
        if not self._is_script:
            return
        if word == "END":
            self._depth -= 1
        elif before != "END" and (
            word in OPENS_BLOCK or (word == "IF" and before in (";", "BEGIN", "THEN", "ELSE", "DO"))
        ):
            self._depth += 1
        elif word == "(" and before in ("IF", "REPEAT"):
            # The functions: IF(a, b, c), REPEAT('x', 3).
            self._depth -= before == "REPEAT"


def _after_comment(text: str, position: int) -> int:
    """Where a comment ends that opened before a position; comments may have others inside."""
    depth = 1
    while depth:
        bracket = BRACKET.search(text, position)
        if bracket is None:
            return len(text)
        depth += 1 if bracket[0] == "/*" else -1
        position = bracket.end()
    return position


def _statement(text: str, begin: int, end: int) -> ScriptStatement:
    return ScriptStatement(text[begin:end].rstrip(), _line(text, begin))


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
