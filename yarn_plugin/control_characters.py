"""Characters that could end a line, control a terminal, or reorder the text after them. Pure."""

import unicodedata

_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}
"""Unicode's categories of control characters, lone surrogates, and separators of lines and paragraphs."""

_BIDIRECTIONAL = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that change the direction of the rest of a line."""


def is_control(character: str) -> bool:
    """Whether a character is one of these."""
    return character in _BIDIRECTIONAL or unicodedata.category(character) in _CATEGORIES


def escape_controls(text: str) -> str:
    """Text with these characters as escapes, such as `\\n` or `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(_escape(character) if is_control(character) else character for character in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", errors="backslashreplace").decode()
