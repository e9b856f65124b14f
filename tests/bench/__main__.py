"""`python -m tests.bench [NAME ...] [--json FILE]`: measure, and hold the figures against `spec.toml`."""

import argparse
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

from yarn_plugin.console import out, table, write_json

NAMES = ("planner", "feedback", "switching_cost", "arbiter")
SPEC = Path(__file__).with_name("spec.toml")


def main() -> int:
    """Run the named benchmarks (all without a name) and show what they found."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], default=list(NAMES), help="which ones")
    parser.add_argument("--json", type=Path, help="write the figures to a file too")
    options = parser.parse_args()
    spec = tomllib.loads(SPEC.read_text())
    figures: dict[str, Any] = {}
    reached = True
    for name in options.names:
        out.print(f"[bold]{name}[/bold]")
        figures[name] = import_module(f"tests.bench.{name}").measure()
        reached &= _show(figures[name], spec.get(name, {}))
    if options.json:
        write_json(options.json, figures)
    return 0 if reached else 1


def _show(found: dict[str, Any], expected: dict[str, float]) -> bool:
    measured = {name: limit for name, limit in expected.items() if name in found}
    rows = [(name, _number(found[name]), limit, _verdict(found[name], limit)) for name, limit in measured.items()]
    rows += [(name, "not measured", limit, "") for name, limit in expected.items() if name not in measured]
    rows += [(name, _number(value), "", "") for name, value in found.items() if name not in expected and _plain(value)]
    out.print(table(None, ("figure", "#found", "#at most", ""), rows))
    return all(found[name] <= limit for name, limit in measured.items())


def _verdict(value: float, limit: float) -> str:
    return "reached" if value <= limit else "NOT reached"


def _plain(value: object) -> bool:
    return isinstance(value, int | float | str)


def _number(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
