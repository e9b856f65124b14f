"""A group of commands of which each is imported when it is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that imports a command when it is used, so that `-h` is quick.

    `commands_at`: for each command, where it is defined (`module:attribute`) and its line in the help.
    """

    def __init__(self, *args: Any, commands_at: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = {name: place for name, (place, _) in commands_at.items()}
        self._lines = {name: line for name, (_, line) in commands_at.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order given."""
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self._places:
            return None
        module, attribute = self._places[cmd_name].split(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._lines.items()))
