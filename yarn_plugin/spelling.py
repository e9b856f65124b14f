"""Names that were probably meant. Apart from what imports pydantic, so that `-h` is quick."""

import difflib
from collections.abc import Iterable


def near(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name, if a known one is like it; otherwise ""."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]!r}?" if found else ""
