"""Options that several commands share: the ResourceManager, results as JSON."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from yarn_plugin import console

Command = TypeVar("Command", bound=Callable[..., Any])


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
        type=click.Path(dir_okay=False, path_type=Path),
        callback=console.json_path,
        help="Also write the result to FILE as JSON; - is stdout.",
    )(command)
