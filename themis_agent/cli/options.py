"""Options and arguments that several commands share."""

from pathlib import Path

import click

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
    help="Also write the result to FILE as JSON.",
)
DIRECTORY = click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="APP.toml")
