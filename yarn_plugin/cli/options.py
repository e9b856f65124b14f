"""Options that several commands share: the ResourceManager, the arbiter, results as JSON."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from yarn_plugin import console
from yarn_plugin.api.client import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE

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
        help="Also write the result to FILE as JSON.",
    )(command)


def arbiter_options(command: Command) -> Command:
    """`--arbiter`, `--token-file` and `--ca-file`: which arbiter, as which user, and the trusted certificates."""
    url = click.option(
        "--arbiter",
        envvar=URL_VARIABLE,
        default=DEFAULT_URL,
        show_default=True,
        metavar="URL",
        show_envvar=True,
        help="URL of the arbiter.",
    )
    token = click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"File with your token.  [default: the token in the env var {TOKEN_VARIABLE}]",
    )
    return url(token(console.ca_option(command)))
