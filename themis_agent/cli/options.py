"""Options and arguments that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from yarn_plugin import console
from yarn_plugin.api.environment import TOKEN_VARIABLE, URL_VARIABLE

Command = TypeVar("Command", bound=Callable[..., Any])

GPUS = click.option(
    "--gpus",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="GPUs of this machine; trials share them, and see them as CUDA_VISIBLE_DEVICES.  [default: the NVIDIA GPUs "
    "found, or else as many as there are cores]",
)
JSON = click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    callback=console.json_path,
    help="Also write the result to FILE as JSON; - is stdout.",
)


class _Folder(click.Path):
    """An existing directory, or the URL of a folder in a store, as it is given."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if "://" in str(value) else super().convert(value, param, ctx)


REPLACE = click.option(
    "--replace",
    is_flag=True,
    help="Remove the earlier search in the same folder, with its checkpoints and logs, and begin this one there.",
)
DIRECTORY = click.argument("directory", type=_Folder(exists=True, file_okay=False, path_type=Path), metavar="DIR")
FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="APP.toml")


def rm(required: bool, more: str = "") -> Callable[[Command], Command]:
    """`--rm`: the ResourceManager, as text. `more`: at the end of its help."""
    return click.option(
        "--rm",
        required=required,
        metavar="URL[,URL]",
        help=f"URL of the ResourceManager, such as http://rm:8088; for an HA pair, both.{more}",
    )


def arbiter(more: str = "", default: str | None = None) -> Callable[[Command], Command]:
    """`--arbiter`: its URL. `more`: at the end of its help."""
    return click.option(
        "--arbiter",
        envvar=URL_VARIABLE,
        default=default,
        show_default=default is not None,
        metavar="URL",
        help=f"Arbiter that leases the GPUs.{more}  [env var: {URL_VARIABLE}]",
    )


TOKEN_FILE = click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"File with your token for the arbiter.  [default: the token in {TOKEN_VARIABLE}]",
)
QUEUE = click.option(
    "--queue",
    metavar="QUEUE",
    help="Queue in a pool of leased GPUs.  [default: that of the arbiter's pool; where YARN creates queues, one below "
    "it with the name of the search]",
)
MASTER_MEMORY = click.option(
    "--master-memory-mb",
    type=click.IntRange(256),
    default=1024,
    show_default=True,
    metavar="MB",
    help="Memory of the application master's container.",
)
CLASS_PATH = click.option(
    "--class-path",
    metavar="PATH[:PATH]",
    help="Hadoop's client jars on the nodes, such as /opt/hadoop/share/hadoop/client/*.  [default: those of this "
    "Python's pyspark, copied to the store once]",
)
