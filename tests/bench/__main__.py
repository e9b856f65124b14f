"""`python -m tests.bench [NAME ...] [--json FILE]`: run benchmarks and compare the results with `spec.toml`."""

import argparse
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.text import Text

from yarn_plugin.console import out, table, write_json

NAMES = (
    "planner", "estimates", "seconds", "feedback", "overhead", "switching_cost", "beliefs", "stage", "bad_estimates",
    "resumed_stage", "arbiter", "bid_table", "matching", "matching_live", "packing", "colocation", "auction",
    "auction_properties", "liar", "lease_simulator", "live_fairness", "allocation_change", "cells", "private_clusters",
    "step", "leases", "communication", "tour",
)  # fmt: skip
SPEC = Path(__file__).with_name("spec.toml")


def main() -> int:
    """Run the named benchmarks, or all, and print their results; exit with 1 unless all goals were reached."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Run benchmarks and compare the results with tests/bench/spec.toml."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to FILE as JSON")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"{', '.join(sorted(unknown))}: must be one of {', '.join(NAMES)}")
    spec = tomllib.loads(SPEC.read_text())
    results: dict[str, Any] = {}
    all_reached = True
    for name in options.names or NAMES:
        out.print(Text(name, style="bold"))
        results[name] = import_module(f"tests.bench.{name}").measure()
        all_reached &= _show(results[name], spec.get(name, {}))
    if options.json:
        write_json(options.json, results)
    return 0 if all_reached else 1


COLUMN = 40
"""Longer texts are printed below the table."""


def _show(results: dict[str, Any], goals: dict[str, Any]) -> bool:
    """Print a table of results, those with a goal first; whether all goals were measured and reached.

    Of goals in a table of their own one must be measured, such as that of the scale of the data.
    """
    groups = [goal if isinstance(goal, dict) else {name: goal} for name, goal in goals.items()]
    limits = {name: limit for group in groups for name, limit in group.items()}
    measured = {name: limit for name, limit in limits.items() if name in results}
    rows: list[tuple[object, ...]] = [
        (name, _number(results[name]), limit, _verdict(results[name], limit)) for name, limit in measured.items()
    ]
    missing = {name: limit for group in groups if not measured.keys() & group for name, limit in group.items()}
    rows += [(name, "not measured", limit, "NOT reached") for name, limit in missing.items()]
    others = [(name, _number(value)) for name, value in results.items() if name not in limits and _is_scalar(value)]
    rows += [(name, value, "", "") for name, value in others if len(value) <= COLUMN]
    out.print(table(None, ("result", "#measured", "#goal: at most", ""), rows))
    for name, value in others:
        if len(value) > COLUMN:
            out.print(f"{name}: {value}")
    return not missing and all(results[name] <= limit for name, limit in measured.items())


def _verdict(value: float, limit: float) -> str:
    return "reached" if value <= limit else "NOT reached"


def _is_scalar(value: object) -> bool:
    return isinstance(value, int | float | str)


def _number(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
