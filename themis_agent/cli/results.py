"""How the result of a search is printed."""

from pathlib import Path
from typing import TYPE_CHECKING

from yarn_plugin import console
from yarn_plugin.control_characters import escape_controls
from yarn_plugin.quantities import count

if TYPE_CHECKING:
    from themis_agent.local.driver import Result
    from themis_agent.submitting.search import Search


def print_problems(problems: list[str]) -> int:
    """Print what is wrong with a submission, a line each; returns the exit code."""
    for problem in problems:
        console.err.print(f"themis-agent: {escape_controls(' '.join(problem.split()))}")
    return 2


def print_submitted(search: "Search", json_file: Path | None) -> None:
    """Print where a search is that YARN runs now, and what can be done with it."""
    console.out.print(f"{search.application}, in {search.place}")
    console.out.print(f"watch it: themis-agent status {search.place}")
    console.out.print(f"stop it:  themis-agent stop {search.application}")
    if json_file is not None:
        console.write_json(json_file, {"application": search.application, "folder": search.place})


def print_result(metric: str, result: "Result") -> None:
    """Print how a search ended, and its best trial."""
    console.out.print(result.reason)
    if result.failed:
        console.out.print(f"{count(result.failed, 'trial')} failed")
    if result.best is None or result.metric is None:
        return
    console.out.print(f"best: {result.best}, {metric} {result.metric:.6g} at step {result.step:g}")
    for name, value in result.parameters.items():
        console.out.print(f"    {name} = {value}")
