"""`themis-agent doctor`: what this machine has and lacks for trials on its GPUs."""

import dataclasses
from pathlib import Path

import click

from themis_agent import machine
from themis_agent.cli import options
from yarn_plugin import console


@click.command(context_settings=console.CONTEXT)
@options.JSON
def doctor(json_file: Path | None) -> int:
    """Check what this machine lacks for trials on its GPUs, and for several on one. Changes nothing.

    Run it on the nodes. Each line of the table is one check. Its result is good; limited, with the drawback in the last
    column; or stops: trials that share a GPU fail. Exits with 1 if something stops them.
    """
    found = machine.diagnose(machine.probe())
    rows = ((one.topic, one.verdict, one.found, one.follows) for one in found)
    console.out.print(console.checks("this machine", "consequence", rows))
    if json_file is not None:
        console.write_json(json_file, [dataclasses.asdict(one) for one in found])
    return int(any(one.verdict == "stops" for one in found))
