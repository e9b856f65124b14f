"""Options that several commands share: the ResourceManager, results as JSON."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from yarn_plugin import console

FILE = click.Path(dir_okay=False, path_type=Path)

Command = TypeVar("Command", bound=Callable[..., Any])


def option_group(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator, in this order in the help."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


def rm_option(command: Command) -> Command:
    """`--rm`: the ResourceManager, as text for `observe.resource_manager.addresses`."""
    return click.option(
        "--rm",
        required=True,
        metavar="URL[,URL]",
        help="URL of the ResourceManager, such as http://rm:8088; for an HA pair, both.",
    )(command)


def json_option(command: Command) -> Command:
    """`--json`, as `json_file`."""
    return click.option(
        "--json",
        "json_file",
        type=FILE,
        callback=console.json_path,
        help="Also write the result to FILE as JSON; - is stdout.",
    )(command)
