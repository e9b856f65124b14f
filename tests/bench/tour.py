"""README's tour, several times on one cluster, and in turns with it the same with query 72 as written.

Both ways a second query takes half of the cluster as soon as query 72 runs. Times are those of query 72 itself, as
`qoop submit` prints them. `TOUR_ROUNDS` (10): how often.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.integration.test_readme import README, on_free_ports, processes_of, script, steps_of
from yarn_plugin.console import out

FIRST, LAST = "qoop submit", "wait $B"
"""The first and the last line of the tour in which queries run."""

WAYS: dict[str, tuple[tuple[str, str], ...]] = {
    "tour": (),
    "as written": (("--plan always", "--no-replanning"), ("chose plan", "running as written")),
}
"""What is otherwise in the lines of the tour."""

TOOK = re.compile(r"^took (.+): .*done in ([\d.]+) s")


def measure() -> dict[str, Any]:
    """The median times of both, how often the tour was slower, and the medians' ratio."""
    rounds = int(os.environ.get("TOUR_ROUNDS", "10"))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ".venv").symlink_to(sys.prefix)
        environment = {**os.environ, "XDG_STATE_HOME": folder, "TMPDIR": folder}
        tours = ["bash", "-c", script(_lines(rounds))]
        running = subprocess.Popen(tours, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        assert running.stdout is not None
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        try:
            for line in running.stdout:
                if took := TOOK.match(line):
                    seconds[took[1]].append(float(took[2]))
                    out.print(f"  {took[1]} {took[2]} s")
            assert running.wait() == 0, "the tour failed"
        finally:
            for process in processes_of(folder):
                process.kill()
    pairs = list(zip(seconds["tour"], seconds["as written"], strict=True))
    tour, written = (statistics.median(seconds[way]) for way in WAYS)
    return {
        "rounds": len(pairs),
        "tour_s": tour,
        "as_written_s": written,
        "ratio": tour / written,
        "slower": sum(one >= other for one, other in pairs),
    }


def _lines(rounds: int) -> list[str]:
    """The tour with its queries so many times, in both ways."""
    lines = on_free_ports(steps_of(README, "Step by step"))
    first = next(number for number, line in enumerate(lines) if line.startswith(FIRST))
    last = lines.index(LAST)
    every = []
    for number in range(rounds):
        for way, changes in WAYS.items():
            text = "\n".join(lines[first : last + 1])
            for old, new in changes:
                assert old in text, f"README's tour has no {old!r}"
                text = text.replace(old, new)
            # Applications of earlier rounds are still listed.
            name = f"{number}{'w' if changes else 't'}"
            for query in ("first", "second"):
                text = text.replace(query, f"{query}{name}")
            every += [*text.splitlines(), f"echo \"took {way}: $(grep 'done in' q72.log)\""]
    ending = next(number for number, line in enumerate(lines) if line.startswith("kill $ARBITER"))
    return [*lines[:first], *every, *lines[ending:]]
