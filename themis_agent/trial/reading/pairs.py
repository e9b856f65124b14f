"""Lines that are JSON, Python's dictionaries, or rows of a table, as `name=value` separated by tabs."""

import ast
import json
import re
from collections.abc import Callable, Iterator

from themis_agent.trial.reading.numbers import parsed

_MAX_DEPTH = 6
_PARTS = ("mode", "split", "phase", "stage")
"""Names under which a line says whether it is of the training or of an evaluation."""

_CELLS = re.compile(r"\s*[|│┃]\s*|\t+|\s{2,}|\s*,\s*")
_BEGINS_WITH_LETTER = re.compile(r"[A-Za-z]")


def of_mapping(line: str) -> str | None:
    """A line of JSON or a Python dictionary; nested names are joined: `val/loss=0.5`. `[val]` before them: its mode."""
    text = line.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            mapping = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if not isinstance(mapping, dict):
            return None
        parts = [f"[{part}]" for name in _PARTS if isinstance(part := mapping.get(name), str) and part.isalpha()]
        return " ".join([*parts, "\t".join(_flat(mapping, "", 0))])
    return None


def _flat(mapping: dict[object, object], prefix: str, depth: int) -> Iterator[str]:
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if isinstance(value, dict):
            if depth < _MAX_DEPTH:
                yield from _flat(value, f"{name}/", depth + 1)
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            yield f"{name}={value if isinstance(value, str) else repr(value)}"


class Table:
    """Columns under a header, as of fastai and scikit-learn: what is under a name belongs to it.

    `is_wanted`: whether a name is one for which the table is read.
    """

    def __init__(self, is_wanted: Callable[[str], bool]) -> None:
        self._is_wanted = is_wanted
        self._header: list[str] = []

    def row(self, line: str) -> str | None:
        """A row, as names with values; None: it is none."""
        cells = [cell for cell in _CELLS.split(line.strip()) if cell]
        if len(cells) < 2:
            return None
        if all(_BEGINS_WITH_LETTER.match(cell) for cell in cells):
            if any(map(self._is_wanted, cells)):
                self._header = cells
            return None
        if len(cells) != len(self._header) or parsed(cells[0]) is None:
            return None
        return "\t".join(f"{name}={cell}" for name, cell in zip(self._header, cells, strict=True))
