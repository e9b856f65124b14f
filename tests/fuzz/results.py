"""The results of runs, a line each in a file, so that a long fuzz can be stopped and resumed."""

import json
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.run import Run


class Results:
    """A file of results; the latest of a seed counts."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, run: Run) -> None:
        """Append a result."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as file:
            file.write(json.dumps(asdict(run)) + "\n")

    def runs(self) -> list[Run]:
        """All results, by seed. A line cut short when the program was killed is left out."""
        if not self._file.exists():
            return []
        found = {}
        for line in self._file.read_text().splitlines():
            try:
                read = json.loads(line)
            except json.JSONDecodeError:
                continue
            lists = {name: tuple(value) for name, value in read.items() if isinstance(value, list)}
            found[read["seed"]] = Run(**{**read, **lists})
        return [found[seed] for seed in sorted(found)]
