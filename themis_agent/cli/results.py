"""How the result of a search is printed."""

from typing import TYPE_CHECKING

from yarn_plugin import console
from yarn_plugin.quantities import count

if TYPE_CHECKING:
    from themis_agent.local.driver import Result


def print_problems(problems: list[str]) -> int:
    """Print what is wrong with a submission, a line each; returns the exit code."""
    for problem in problems:
        console.err.print(f"themis-agent: {' '.join(problem.split())}")
    return 2


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
