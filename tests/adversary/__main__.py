"""Attacks an arbiter: `python -m tests.adversary [--checkout DIR] [--operations N] [--rows NAME ...] [--json FILE]`.

Brings up a ResourceManager and a node, puts a hostile proxy before it, and carries out every check (or the named ones)
on the arbiter and the commands of a checkout: this one, or another one's, to show what it does. Then so many random
operations. Ends with 0 when everything holds.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.adversary import api, commands, files, manager  # noqa: F401 - their checks
from tests.adversary.checks import CHECKS, carry_out
from tests.adversary.fuzz import fuzz
from tests.adversary.lab import Lab, on_a_cluster

HERE = Path(__file__).resolve().parents[2]


def main() -> int:
    """Attack, and show what was seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.adversary", description=__doc__)
    parser.add_argument("--checkout", type=Path, default=HERE, help="whose arbiter and commands  [this one's]")
    parser.add_argument("--operations", type=int, default=300, help="how many random operations  [300]; 0: none")
    parser.add_argument("--seed", type=int, default=1, help="of the random operations  [1]")
    parser.add_argument("--rows", nargs="*", metavar="NAME", help="only these checks; none: no checks")
    parser.add_argument("--list", action="store_true", help="list the checks, and do nothing")
    parser.add_argument("--json", type=Path, help="write what was seen to a file too")
    options = parser.parse_args()
    if options.list:
        for one in CHECKS.values():
            print(f"{one.name}\n    {one.text}")
        return 0
    unknown = sorted(set(options.rows or ()) - set(CHECKS))
    if unknown:
        parser.error(f"--rows {unknown[0]}: no such check; --list names them")
    # Ended from outside, it ends its cluster too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = list(CHECKS) if options.rows is None else options.rows
    with on_a_cluster(options.checkout.resolve()) as lab:
        found = {"checkout": str(options.checkout), "rows": _check_all(lab, names)}
        if options.operations:
            found["fuzz"] = _fuzz(lab, options.operations, options.seed)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    failed = [row["name"] for row in found["rows"] if not row["holds"]]
    failed += [] if found.get("fuzz", {}).get("holds", True) else ["fuzz"]
    print(f"\n{len(found['rows']) - len([one for one in failed if one != 'fuzz'])} of {len(found['rows'])} checks hold")
    print("all holds" if not failed else f"does not hold: {', '.join(failed)}")
    return 1 if failed else 0


def _check_all(lab: Lab, names: list[str]) -> list[dict[str, Any]]:
    rows = []
    for name in names:
        began = time.monotonic()
        holds, seen = carry_out(CHECKS[name], lab)
        took = time.monotonic() - began
        print(f"{'ok    ' if holds else 'FAILED'} {name} ({took:.0f} s)\n         {seen}", flush=True)
        rows.append({"name": name, "holds": holds, "seen": seen, "seconds": round(took, 1)})
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
