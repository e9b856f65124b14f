"""`qoop doctor`: looks up what queries need, and prints the findings."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from qoop.doctor import facts, findings
from qoop.doctor.findings import Finding, can_run
from qoop.submit.job import SparkFlags
from qoop.submit.registration import ArbiterAccess
from yarn_plugin import console
from yarn_plugin.api.client import ArbiterError
from yarn_plugin.quantities import plural


def examine(
    flags: SparkFlags,
    environment: Mapping[str, str],
    url: str | None,
    access: ArbiterAccess | None,
    problem: ArbiterError | None = None,
) -> list[Finding]:
    """The findings, in the order in which a query meets what they are about.

    Args:
        url: the arbiter's, if one was given. `problem`: why there is no access to it.
    """
    return [
        findings.java(facts.java(environment)),
        findings.spark(facts.spark(environment)),
        findings.resource_manager(facts.cluster(flags, environment)),
        findings.arbiter(facts.arbiter(url, access, problem)),
        findings.metastore(facts.metastore(flags, environment)),
        findings.server(facts.missing_for_server()),
    ]


def show(found: Sequence[Finding], json_file: Path | None) -> int:
    """Print the findings; returns the exit code."""
    rows = ((one.check, one.verdict, one.found, one.remedy) for one in found)
    console.out.print(console.checks(None, "remedy", rows))
    console.out.print()
    console.out.print(_summary(found))
    if json_file is not None:
        results = {"can_run": can_run(found), "findings": [dataclasses.asdict(one) for one in found]}
        console.write_json(json_file, results)
    return 0 if can_run(found) else 1


def _summary(found: Sequence[Finding]) -> str:
    stops = sum(one.verdict == "stops" for one in found)
    limits = sum(one.verdict == "limited" for one in found)
    if stops:
        return f"queries cannot run here; see the {plural(stops, 'line')} marked stops"
    if limits:
        return f"queries can run here; see the {plural(limits, 'line')} marked limited for what is missing"
    return "queries can run here"
