"""Click's errors about a command line, in the form of all other errors: option, value, and what would be right."""

import re

import click

from yarn_plugin.spelling import near
from yarn_plugin.validation import one_of

_WRONG_VALUE = re.compile(r"(?P<value>'.*'|\S+) is not (?:a valid |in the range |one of |').*")
_NAMES_VALUE = re.compile(r"(?:'[^']*'|-?nan|-?inf): ")
_WRONG_PATH = re.compile(r"(?:file|directory|path) (?P<value>'.*') (?P<problem>does not exist|is .*)")


def usage_error(error: click.ClickException) -> str:
    """The message of an error, with the command whose help describes what would be right."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{_message(error)} (see {context.command_path} -h)" if context else _message(error)


def _message(error: click.ClickException) -> str:
    match error:
        case click.MissingParameter(param=click.Parameter() as parameter):
            return f"{_name(parameter)}: required"
        case click.BadParameter(param=click.Parameter() as parameter):
            return f"{_name(parameter)}{_invalid_value(parameter, _plain(error.message))}"
        case click.exceptions.NoSuchCommand(ctx=click.Context(command=click.Group() as group) as context):
            return f"{_plain(error.message)}{near(error.command_name, group.list_commands(context))}"
        case click.NoSuchOption():
            return f"{_plain(error.message)}{near(error.option_name, error.possibilities or ())}"
        case _:
            return _plain(error.format_message())


def _invalid_value(parameter: click.Parameter, message: str) -> str:
    if found := _WRONG_PATH.fullmatch(message):
        return f" {found['value']}: {found['problem']}"
    found = _WRONG_VALUE.fullmatch(message)
    expected = _expectation(parameter, found["value"].strip("'")) if found else None
    if found and expected:
        return f" {found['value']}: {expected}"
    return f" {message}" if _NAMES_VALUE.match(message) else f": {message}"


def _name(parameter: click.Parameter) -> str:
    return parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name


def _expectation(parameter: click.Parameter, given: str) -> str | None:
    match parameter.type:
        case click.IntRange() as kind:
            return f"must be an integer {_range(kind)}"
        case click.FloatRange() as kind:
            return f"must be a number {_range(kind)}"
        case click.Choice() as kind:
            return one_of(map(str, kind.choices), given)
    return {"integer": "must be an integer", "float": "must be a number"}.get(parameter.type.name)


def _range(kind: click.IntRange | click.FloatRange) -> str:
    if kind.min is not None and kind.max is not None and not (kind.min_open or kind.max_open):
        return f"from {kind.min:,} to {kind.max:,}"
    lowest = [] if kind.min is None else [f"{'above' if kind.min_open else 'of at least'} {kind.min:,}"]
    highest = [] if kind.max is None else [f"{'below' if kind.max_open else 'at most'} {kind.max:,}"]
    return " and ".join(lowest + highest)


def _plain(message: str) -> str:
    """A message on one line, without capital and final period."""
    line = " ".join(message.split()).removesuffix(".")
    return f"{line[:1].lower()}{line[1:]}"
