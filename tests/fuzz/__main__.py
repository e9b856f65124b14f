"""`python -m tests.fuzz`: run a range of seeds; what has run already is read from the results and not run again.

A case that fails is shrunk and printed as SQL.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.coverage import Coverage
from tests.fuzz.results import Results
from tests.fuzz.run import Lab, session
from tests.fuzz.shrink import shrink


def main() -> int:
    """Run the cases; return 1 if any has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seeds", default="0-9999", help="the first and the last seed (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=Path("out/fuzz.jsonl"), help="default: %(default)s")
    parser.add_argument("--minutes", type=float, default=0, help="stop after this time, to be resumed; 0: never")
    parser.add_argument("--no-shrink", action="store_true", help="print failed cases as they are")
    options = parser.parse_args()
    first, last = (int(part) for part in options.seeds.split("-"))
    results = Results(options.results)
    deadline = time.monotonic() + options.minutes * 60 if options.minutes else None
    with tempfile.TemporaryDirectory() as folder, session(folder) as spark:
        lab = Lab(spark)
        _run(lab, range(first, last + 1), results, deadline, not options.no_shrink)
    runs = [run for run in results.runs() if first <= run.seed <= last]
    coverage = Coverage.of(runs)
    print("\n".join(coverage.lines()))
    wrong = [run for run in runs if run.difference]
    for run in wrong:
        print(f"seed {run.seed}: {run.difference}")
    if len(runs) < last + 1 - first:
        print(f"{len(runs)} of {last + 1 - first} run; the same command goes on")
        return 1 if wrong else 0
    missed = coverage.missed()
    if len(runs) >= 10_000:
        missed += [f"{cell}: run {times} times" for cell, times in coverage.sparse().items()]
    print("\n".join(missed))
    return 1 if wrong or missed else 0


def _run(lab: Lab, seeds: range, results: Results, deadline: float | None, shrinking: bool) -> None:
    done = {run.seed for run in results.runs()}
    started = time.monotonic()
    ran = 0
    for seed in seeds:
        if seed in done:
            continue
        if deadline is not None and time.monotonic() > deadline:
            return
        run = lab.run(seed)
        results.add(run)
        ran += 1
        if run.difference:
            print(f"seed {seed}: {run.difference}", flush=True)
            case, _, _ = lab.case(seed)
            print((shrink(lab, case) if shrinking else case).golden(), flush=True)
        if ran % 50 == 0:
            each = (time.monotonic() - started) / ran
            print(f"seed {seed}: {ran} run, {each:.2f} s each", flush=True)


if __name__ == "__main__":
    sys.exit(main())
