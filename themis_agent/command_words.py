"""The words of a search's command. `{rate}` in a word stands for the value of the parameter `rate`. Pure."""

import shlex
import string
from collections.abc import Iterator, Mapping, Sequence

_BRACES = "write braces that are not a parameter twice: {{ and }}"


def words_of(command: str | Sequence[str]) -> tuple[str, ...]:
    """The words of a command; text is split as by a shell.

    Raises:
        ValueError: quotes are not closed.
    """
    return tuple(shlex.split(command) if isinstance(command, str) else command)


def parameters_in(word: str) -> frozenset[str]:
    """The parameters whose values a word needs.

    Raises:
        ValueError: its braces are not those of parameters.
    """
    found: set[str] = set()
    for _, name, form, _ in string.Formatter().parse(word):
        if name is not None:
            found |= {name, *parameters_in(form or "")}
    return frozenset(found)


def problems(command: str | Sequence[str], space: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Why a command cannot be run with the parameters of a space. `space`: its fields as in the file."""
    try:
        words = words_of(command)
    except ValueError as problem:
        yield f"{problem}; words are split as by a shell"
        return
    if not words or not words[0].strip():
        yield "must name a program"
        return
    for word in words:
        yield from _problems_of(word, space)
    with_condition = sorted(name for name in _known_in(words[0], space) if space[name].get("when"))
    for name in with_condition:
        yield f"the program must not depend on {name}, which some trials do not have"


def _problems_of(word: str, space: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    try:
        names = parameters_in(word)
    except ValueError as problem:
        yield f"{problem}; {_BRACES}"
        return
    unknown = sorted(names - space.keys())
    for name in unknown:
        more = "" if name.isidentifier() else f"; {_BRACES}"
        yield f"{{{name}}} is not in [space]; it has {', '.join(sorted(space)) or 'nothing'}{more}"
    if not unknown:
        try:
            word.format_map({name: _value(space[name]) for name in names})
        except (ValueError, TypeError) as problem:
            yield f"{word!r} cannot be filled in: {problem}"


def _known_in(word: str, space: Mapping[str, object]) -> frozenset[str]:
    try:
        return parameters_in(word) & space.keys()
    except ValueError:
        return frozenset()


def _value(dimension: Mapping[str, object]) -> object:
    """A value of a dimension, which may be invalid."""
    match dimension:
        case {"choices": [first, *_]}:
            return first
        case {"type": "int", "low": int(low)}:
            return low
        case {"low": int(low) | float(low)}:
            return float(low)
    return ""
