"""`yarn-plugin doctor`: what a ResourceManager allows."""

import dataclasses
import getpass
from pathlib import Path

import click
from rich.text import Text

from yarn_plugin import console
from yarn_plugin.drive import config as configuration
from yarn_plugin.drive.registry import installed
from yarn_plugin.observe.capabilities import ManagerFacts, find_out
from yarn_plugin.observe.findings import Finding, can_run, diagnose
from yarn_plugin.observe.queue_tree import queue_tree
from yarn_plugin.observe.resource_manager import ResourceManager, addresses

_COLOURS = {"good": "green", "limited": "yellow", "stops": "red"}


@click.command(context_settings=console.CONTEXT)
@click.option("--rm", required=True, metavar="URL[,URL]", help="The ResourceManager's web address; both of an HA pair.")
@click.option("--config", type=click.Path(path_type=Path), help="The arbiter's pools (TOML).  [default: root.sql]")
@console.ca_option
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures here too."
)
def doctor(rm: str, config: Path | None, verify: str | bool, json_file: Path | None) -> int:
    """Say what a ResourceManager allows, and what follows for applications that are told their shares.

    Ends with 0 when the arbiter can run there, if only to tell shares; with 1 when it cannot.
    """
    pools = [section.pool() for section in configuration.load(config, installed()).pools]
    manager = ResourceManager(addresses(rm), getpass.getuser(), verify=verify)
    facts = find_out(manager)
    found = diagnose(facts, queue_tree(manager.get("/scheduler")), pools)
    _print(facts, found)
    if json_file is not None:
        console.write_json(json_file, _figures(facts, found))
    return 0 if can_run(found) else 1


def _print(facts: ManagerFacts, found: list[Finding]) -> None:
    out = console.out
    rows = [
        (finding.topic, Text(finding.verdict, style=_COLOURS[finding.verdict]), finding.found, finding.follows)
        for finding in found
    ]
    out.print(console.table(f"ResourceManager {facts.url}", ("what", "", "found", "what follows"), rows))
    out.print()
    out.print(_summary(found))


def _summary(found: list[Finding]) -> str:
    stops = sum(finding.verdict == "stops" for finding in found)
    limits = sum(finding.verdict == "limited" for finding in found)
    if stops:
        return f"the arbiter cannot run here: see {_lines(stops)}"
    if limits:
        return f"the arbiter can run here, within the {limits} limit{'' if limits == 1 else 's'} above"
    return "the arbiter can run here, and shares hold"


def _lines(stops: int) -> str:
    return "the line that says stops" if stops == 1 else f"the {stops} lines that say stops"


def _figures(facts: ManagerFacts, found: list[Finding]) -> dict[str, object]:
    return {
        "can_run": can_run(found),
        "manager": dataclasses.asdict(facts) | {"preempts": facts.preempts},
        "findings": [dataclasses.asdict(finding) for finding in found],
    }
