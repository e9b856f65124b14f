"""Names that were probably meant. Apart from what imports pydantic, so that `-h` is quick."""

import difflib
from collections.abc import Collection, Iterable


def near(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The end of an error about an unknown name, if a known one is like it; otherwise "". `likeness`: from 0 to 1."""
    found = difflib.get_close_matches(name, list(known), 1, likeness)
    return f"; did you mean {found[0]!r}?" if found else ""


def must_be_one_of(known: Collection[str], name: str) -> str:
    """The error for a name that is not among known ones, which are listed in their order."""
    return f"must be one of {', '.join(known)}{near(name, known)}"
