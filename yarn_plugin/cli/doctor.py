"""`yarn-plugin doctor`: checks what a ResourceManager supports."""

import dataclasses
import getpass
from pathlib import Path

import click

from yarn_plugin import console
from yarn_plugin.cli.options import json_option, rm_option
from yarn_plugin.drive import config as configuration
from yarn_plugin.drive.registry import installed
from yarn_plugin.observe import partitions
from yarn_plugin.observe.capabilities import ManagerFacts, probe
from yarn_plugin.observe.findings import Finding, can_run, diagnose
from yarn_plugin.observe.queue_tree import queue_tree
from yarn_plugin.observe.resource_manager import ResourceManager, addresses
from yarn_plugin.quantities import count, plural


@click.command(context_settings=console.CONTEXT)
@rm_option
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration of the arbiter (TOML), whose pools are checked.  [default: one pool, root.sql]",
)
@console.ca_option
@json_option
def doctor(rm: str, config: Path | None, verify: str | bool, json_file: Path | None) -> int:
    """Check what a ResourceManager supports, and which settings would enable more. Changes nothing.

    Each line of the table is one check. Its result is good; limited (the arbiter runs, with the drawback in the column
    `consequence`); or stops (the arbiter cannot run until this is changed). Exits with 0 if the arbiter can run, even
    if shares are not enforced; with 1 if it cannot.

    \b
    Example:
      yarn-plugin doctor --rm http://rm1:8088,http://rm2:8088 --config arbiter.toml
    """
    pools = [section.pool() for section in configuration.load(config, installed()).pools]
    manager = ResourceManager(addresses(rm), getpass.getuser(), verify=verify)
    facts = probe(manager)
    labelled = partitions.read_with_nodes(manager) if facts.has_partitions else {}
    found = diagnose(facts, queue_tree(manager.get("/scheduler")), pools, labelled)
    _print(facts, found)
    if json_file is not None:
        console.write_json(json_file, _figures(facts, found))
    return 0 if can_run(found) else 1


def _print(facts: ManagerFacts, found: list[Finding]) -> None:
    out = console.out
    rows = ((finding.topic, finding.verdict, finding.found, finding.follows) for finding in found)
    out.print(console.checks(f"ResourceManager {facts.url}", "consequence", rows))
    out.print()
    out.print(_summary(found))


def _summary(found: list[Finding]) -> str:
    stops = sum(finding.verdict == "stops" for finding in found)
    limits = sum(finding.verdict == "limited" for finding in found)
    if stops:
        return f"the arbiter cannot run here; see the {plural(stops, 'line')} marked stops"
    if limits:
        lines = plural(limits, "line")
        return f"the arbiter can run here, with {count(limits, 'limitation')}; see the {lines} marked limited"
    return "the arbiter can run here and enforce shares"


def _figures(facts: ManagerFacts, found: list[Finding]) -> dict[str, object]:
    return {
        "can_run": can_run(found),
        "manager": dataclasses.asdict(facts) | {"preempts": facts.preempts},
        "findings": [dataclasses.asdict(finding) for finding in found],
    }
