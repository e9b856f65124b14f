"""`python -m tests.fuzz`: run a range of seeds; what has run already is read from the results and not run again.

After 10,000 seeds, those beyond them follow whose queries have constructs under settings that were run too rarely. A
case that fails is shrunk and printed as SQL.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from queue import SimpleQueue

from tests.fuzz.case import by_world
from tests.fuzz.coverage import Coverage
from tests.fuzz.results import Results
from tests.fuzz.run import Lab, Run, session
from tests.fuzz.shrink import shrink

MANY = 10_000
"""From how many seeds on each construct must have been run under each setting."""

SEARCHED = 100_000
"""How many further seeds are searched for rare constructs."""

EACH_REPORTED = 50
"""After how many cases it is printed how long they take."""


def main() -> int:
    """Run the cases; return 1 if any has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seeds", default="0-9999", help="the first and the last seed (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=Path("out/fuzz.jsonl"), help="default: %(default)s")
    parser.add_argument("--minutes", type=float, default=0, help="stop after this time, to be resumed; 0: never")
    parser.add_argument(
        "--at-once", type=int, default=os.cpu_count() or 1, help="how many cases run at a time (default: as many cores)"
    )
    parser.add_argument("--no-shrink", action="store_true", help="print failed cases as they are")
    options = parser.parse_args()
    first, last = (int(part) for part in options.seeds.split("-"))
    results = Results(options.results)
    deadline = time.monotonic() + options.minutes * 60 if options.minutes else None
    done = {run.seed for run in results.runs()}
    fuzz = Fuzz(results, deadline, not options.no_shrink)
    fuzz.run([seed for seed in range(first, last + 1) if seed not in done], options.at_once)
    runs = [run for run in results.runs() if first <= run.seed <= last]
    if len(runs) >= MANY:
        further = range(last + 1, last + 1 + SEARCHED)

        def with_further() -> list[Run]:
            return [*runs, *(run for run in results.runs() if run.seed in further)]

        while seeds := Coverage.of(with_further()).filling(seed for seed in further if seed not in done):
            fuzz.run(seeds, options.at_once)
            done |= {*seeds}
            if deadline is not None and time.monotonic() > deadline:
                break
        runs = with_further()
    coverage = Coverage.of(runs)
    print("\n".join(coverage.lines()))
    wrong = [run for run in runs if run.difference]
    for run in wrong:
        print(f"seed {run.seed}: {run.difference}")
    if len(runs) < last + 1 - first:
        print(f"{len(runs)} of {last + 1 - first} run; the same command goes on")
        return 1 if wrong else 0
    missed = coverage.missed()
    if len(runs) >= MANY:
        missed += [f"{cell}: run {times} times" for cell, times in coverage.sparse().items()]
    print("\n".join(missed))
    return 1 if wrong or missed else 0


@dataclass(frozen=True)
class Fuzz:
    """Runs seeds in one Spark: most time goes into code that the JVM runs for the first time.

    `deadline`: time.monotonic() at which it stops; None: never.
    """

    results: Results
    deadline: float | None
    shrinking: bool

    def run(self, seeds: Sequence[int], at_once: int) -> None:
        """Run seeds in several threads, each with a session of its own; they take those of one world together."""
        worlds = by_world(seeds)
        waiting: SimpleQueue[list[int] | None] = SimpleQueue()
        for world in [*worlds, *(None for _ in range(at_once))]:
            waiting.put(world)
        started, numbers = time.monotonic(), count(1)
        with tempfile.TemporaryDirectory() as folder, session(folder) as spark:

            def take(lab: Lab) -> None:
                for seed in chain.from_iterable(iter(waiting.get, None)):
                    if self.deadline is not None and time.monotonic() > self.deadline:
                        return
                    self._run(lab, seed)
                    ran = next(numbers)
                    if ran % EACH_REPORTED == 0:
                        print(f"{ran} run, {(time.monotonic() - started) / ran:.2f} s each", flush=True)

            with ThreadPoolExecutor(at_once) as threads:
                labs = [Lab(spark.newSession(), f"lab{number}") for number in range(min(at_once, len(worlds)))]
                for ended in [threads.submit(take, lab) for lab in labs]:
                    ended.result()

    def _run(self, lab: Lab, seed: int) -> None:
        run = lab.run(seed)
        self.results.add(run)
        if run.difference:
            print(f"seed {seed}: {run.difference}", flush=True)
            case, _, _ = lab.case(seed)
            print((shrink(lab, case) if self.shrinking else case).golden(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
