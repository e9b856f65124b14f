"""Attack an arbiter and the service of a search: `python -m tests.adversary [OPTIONS]`; `--help` lists them.

Starts a ResourceManager and a node behind a hostile proxy, then runs all checks (or the named ones) and N random
operations on the arbiter and the commands of a checkout, by default this one. Exits with 0 if all checks pass.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.adversary import api, commands, files, liars, limits, manager  # noqa: F401 - their checks
from tests.adversary.checks import CHECKS, run_check
from tests.adversary.fuzz import fuzz
from tests.adversary.lab import Lab, lab_on_a_cluster

HERE = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run the attacks and print what was observed."""
    parser = argparse.ArgumentParser(prog="python -m tests.adversary", description=__doc__)
    parser.add_argument(
        "--checkout",
        type=Path,
        default=HERE,
        metavar="DIR",
        help="checkout of the arbiter and commands  [default: this one]",
    )
    parser.add_argument(
        "--operations", type=int, default=300, metavar="N", help="random operations; 0 for none  [default: 300]"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the random operations  [default: 1]")
    parser.add_argument(
        "--strategies",
        type=int,
        default=Lab.strategies,
        metavar="N",
        help=f"strategies of a liar; 200 take minutes  [default: {Lab.strategies}]",
    )
    parser.add_argument("--rows", nargs="*", metavar="NAME", help="only these checks; without a name, no checks")
    parser.add_argument("--list", action="store_true", help="list the checks and exit")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to FILE as JSON")
    options = parser.parse_args()
    if options.list:
        for check in CHECKS.values():
            print(f"{check.name}\n    {check.text}")
        return 0
    unknown = sorted(set(options.rows or ()) - set(CHECKS))
    if unknown:
        parser.error(f"--rows {unknown[0]}: no such check; --list prints their names")
    # On SIGTERM, stop the cluster too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = list(CHECKS) if options.rows is None else options.rows
    with lab_on_a_cluster(options.checkout.resolve()) as lab:
        lab.strategies = options.strategies
        results = {"checkout": str(options.checkout), "rows": _check_all(lab, names)}
        if options.operations:
            results["fuzz"] = _fuzz(lab, options.operations, options.seed)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    failed = [row["name"] for row in results["rows"] if not row["holds"]]
    failed += [] if results.get("fuzz", {}).get("holds", True) else ["fuzz"]
    passed = sum(row["holds"] for row in results["rows"])
    print(f"\n{passed} of {len(results['rows'])} checks passed")
    print("all passed" if not failed else f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def _check_all(lab: Lab, names: list[str]) -> list[dict[str, Any]]:
    rows = []
    for name in names:
        started = time.monotonic()
        holds, observed = run_check(CHECKS[name], lab)
        took = time.monotonic() - started
        text = CHECKS[name].text
        print(f"{'ok    ' if holds else 'FAILED'} {name} ({took:.0f} s)\n  must:  {text}\n  found: {observed}")
        sys.stdout.flush()
        rows.append({"name": name, "holds": holds, "text": text, "observed": observed, "seconds": round(took, 1)})
    return rows


def _fuzz(lab: Lab, operations: int, seed: int) -> dict[str, Any]:
    with lab.clean():
        report = fuzz(lab, operations, seed)
    print(f"\nfuzz: {operations} operations, seed {seed}")
    for line in report.lines():
        print(f"  {line}")
    return report.as_dict()


if __name__ == "__main__":
    sys.exit(main())
